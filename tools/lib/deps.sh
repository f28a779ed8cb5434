# Installs what hone is built from. Sourced by tools/quickstart and tools/test; run alone it does the same.
#
# Only what is missing is installed, so a machine that has everything needs neither root nor a network. Optional packages
# (peers for `hone bench --compare`, ccache, libxgboost for `hone db learn`, a cross compiler and an emulator for tests of AArch64
# code) are asked for together with the rest and missed without an error.

hone_packages=(
  build-essential cmake ninja-build pkg-config git ca-certificates python3
  llvm-19-dev lld-19 libasmjit-dev libzstd-dev zlib1g-dev libxml2-dev
  libsqlite3-dev libsqlitecpp-dev
  libtbb-dev libhwloc-dev libpcre2-dev libutf8proc-dev
  libfmt-dev nlohmann-json3-dev libcli11-dev
)
hone_test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang-format)
hone_optional_packages=(ccache libxgboost-dev)
hone_emulated_packages=(qemu-user g++-aarch64-linux-gnu)  # with the test packages only; without them those tests are skipped
hone_fuzz_packages=(clang-19 libclang-rt-19-dev)  # of the same LLVM as llvm-19-dev
hone_peer_packages=(libopenblas-dev libdnnl-dev libblis-dev libeigen3-dev libxsmm-dev)  # with the test packages only

hone_die() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

hone_missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed' || printf '%s\n' "$package"
  done
}

# hone_install_deps [test|fuzz]: everything to build; with `test` also what the tests and checks need, with `fuzz` what
# tools/fuzz needs.
hone_install_deps() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    hone_die "this is not a Debian system: install the packages listed in tools/lib/deps.sh by hand, then use the presets of CMakePresets.json"
  local wanted=("${hone_packages[@]}") extras=("${hone_optional_packages[@]}") missing optional package
  if [ "${1:-}" = test ]; then
    wanted+=("${hone_test_packages[@]}")
    extras+=("${hone_peer_packages[@]}" "${hone_emulated_packages[@]}")
    hone_with_tests=ON
  fi
  if [ "${1:-}" = fuzz ]; then
    wanted+=("${hone_test_packages[@]}" "${hone_fuzz_packages[@]}")
    hone_with_tests=ON
  fi
  mapfile -t missing < <(hone_missing "${wanted[@]}")
  mapfile -t optional < <(hone_missing "${extras[@]}")
  [ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    [ ${#missing[@]} -eq 0 ] && return 0
    hone_die "run as root once to install: ${missing[*]}"
  fi
  export DEBIAN_FRONTEND=noninteractive
  local log
  log=$(mktemp)
  echo "installing ${missing[*]} ${optional[*]}" >&2
  if ! apt-get update -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 >"$log" 2>&1; then
    echo "apt-get update failed; trying with the package lists at hand" >&2
  fi
  if [ ${#missing[@]} -gt 0 ] && ! apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    hone_die "cannot install ${missing[*]}: is there a network, and is this Debian 12? (log: $log)"
  fi
  if [ ${#optional[@]} -gt 0 ] && ! apt-get install -y -qq --no-install-recommends "${optional[@]}" >"$log" 2>&1; then
    for package in "${optional[@]}"; do  # one that this system lacks must not cost the others
      apt-get install -y -qq --no-install-recommends "$package" >"$log" 2>&1 || echo "optional package is not available: $package" >&2
    done
  fi
  rm -f "$log"
}

# hone_build PRESET [TARGET...]: configures build/PRESET and builds the targets (default: all). Tests and benchmarks are part of
# it exactly when their packages were asked for: their absence must not keep the tools from being built.
hone_with_tests=OFF
hone_build() {
  local preset=$1
  shift
  local bench=OFF
  [ "$preset" = release ] && bench=$hone_with_tests
  cmake --preset "$preset" -DHONE_BUILD_TESTS=$hone_with_tests -DHONE_BUILD_BENCH=$bench >"$HONE_ROOT/build/$preset.configure.log" 2>&1 || {
    grep -A8 'CMake Error' "$HONE_ROOT/build/$preset.configure.log" | head -20 >&2
    hone_die "cannot configure; the log is build/$preset.configure.log"
  }
  local targets=()
  [ $# -gt 0 ] && targets=(--target "$@")
  cmake --build "$HONE_ROOT/build/$preset" "${targets[@]}"
}

HONE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$HONE_ROOT/build"
cd "$HONE_ROOT" || exit 1
if [ "${BASH_SOURCE[0]}" = "$0" ]; then hone_install_deps test; fi
