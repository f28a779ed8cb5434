#!/usr/bin/env bash
# tools/lib/deps.sh on systems that are not at hand: stand-ins for dpkg-query, apt-get and id decide what it sees.
#
#   deps_test.sh ROOT
set -uo pipefail
root=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A copy, as the script makes build/ beside itself; and a PATH with only the tools that it uses.
mkdir -p "$scratch/tree/tools/lib" "$scratch/bin"
cp "$root/tools/lib/deps.sh" "$scratch/tree/tools/lib/"
for tool in bash basename dirname mkdir mktemp rm grep cat env; do ln -s "$(command -v "$tool")" "$scratch/bin/$tool"; done

stand_in() { printf '#!/usr/bin/env bash\n%s\n' "$2" >"$scratch/bin/$1"; chmod +x "$scratch/bin/$1"; }
fail() { echo "$1: $output" >&2; exit 1; }
run() { output=$(PATH="$scratch/bin" bash "$scratch/tree/tools/lib/deps.sh" 2>&1); status=$?; }

run
[ "$status" -eq 1 ] && [[ "$output" == *"not a Debian system"* ]] || fail "no dpkg must be refused"
[ "$(printf '%s\n' "$output" | grep -c .)" -eq 1 ] || fail "one line expected"

stand_in dpkg-query 'echo installed'
stand_in apt-get "touch '$scratch/called'; exit 100"
stand_in id 'echo 0'
run
[ "$status" -eq 0 ] && [ ! -e "$scratch/called" ] || fail "with everything installed nothing may be run"

stand_in dpkg-query '[ "${@: -1}" = libtbb-dev ] || echo installed'
run
[ "$status" -eq 1 ] && [[ "$output" == *"cannot install libtbb-dev: is there a network"* ]] || fail "no network"

stand_in id 'echo 1000'
run
[ "$status" -eq 1 ] && [[ "$output" == *"run as root once to install: libtbb-dev"* ]] || fail "not root"

stand_in dpkg-query '[ "${@: -1}" = ccache ] || echo installed'
run
[ "$status" -eq 0 ] || fail "an optional package must not be needed"
