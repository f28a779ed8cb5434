#!/usr/bin/env bash
# Each rule of tools/check finds a planted fault, and is silent without one.
#
#   check_test.sh ROOT CHECK       CHECK: the name of a check, or "complete": every check has a case here
set -uo pipefail
root=$1 check=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# plant CONTENT FILE: adds a file to the scratch repository.
plant() {
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$1" >"$2"
  git add "$2"
}

# finds PATTERN: the check fails and one line of what it prints matches.
finds() {
  local output
  if output=$("$root/tools/check/$check" 2>&1); then
    echo "$check passed in spite of a planted fault; expected: $1" >&2
    exit 1
  fi
  printf '%s\n' "$output" | grep -qE "$1" || { printf '%s did not say "%s" but:\n%s\n' "$check" "$1" "$output" >&2; exit 1; }
  git rm -rqf --cached . && find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +
  clean_tree
}

passes() {
  local output
  output=$("$root/tools/check/$check" 2>&1) || { printf '%s failed on a clean tree:\n%s\n' "$check" "$output" >&2; exit 1; }
}

clean_tree() {
  cp "$root/.clang-format" .
  plant '# scratch, see [the code](db)' README.md
  plant '#include "engine/base/status.h"' db/store.cpp
  plant '#include <sqlite3.h>' db/sqlite.cpp
  plant '// Emits vectors.' jit/codegen.cpp
}

lines() { local i; for ((i = 0; i < $1; ++i)); do echo '//'; done; }

case_layers() {
  plant $'\n#include "jit/codegen.h"' kernels/a.cpp
  finds '^kernels/a.cpp:2: kernels may not include jit .*engine/base'
  plant '#include "autotune/measure.h"' engine/plan/a.cpp
  finds '^engine/plan/a.cpp:1: engine may not include autotune'
  plant '#include "engine/runtime/schedule.h"' engine/base/a.h
  finds '^engine/base/a.h:1: engine/base may not include engine/runtime'
  plant '#include <tbb/task_arena.h>' jit/a.cpp
  finds '^jit/a.cpp:1: <tbb/task_arena.h> has its home in engine/runtime'
  plant '#include <asmjit/x86.h>' jit/llvm/a.cpp
  finds '^jit/llvm/a.cpp:1: .*jit/asmjit'
  plant '#include <sqlite3.h>' tests/jit/a.cpp
  finds '^tests/jit/a.cpp:1: .*home in db'
  plant '#include "status.h"' engine/base/a.cpp
  finds '^engine/base/a.cpp:1: .*repository root'
  plant '#include "engine/base/status.h"' newfolder/a.cpp
  finds '^newfolder/a.cpp:1: .*in no unit'
}

case_format() {
  plant 'int  a ;' db/a.cpp
  finds '^db/a.cpp:1:.*clang-format -i'
}

case_no_ops_in_jit() {
  plant $'//\n// for a Matmul' jit/asmjit/a.cpp
  finds '^jit/asmjit/a.cpp:2: names an op'
  plant 'int epilogue_count;' jit/a.h
  finds '^jit/a.h:1:'
  plant 'const int kc = 256;' jit/llvm/a.cpp
  finds '^jit/llvm/a.cpp:1:'
  plant 'int number, encoder, mrs;' jit/b.cpp
  passes
}

case_file_sizes() {
  plant "$(lines 701)" db/long.cpp
  finds '^db/long.cpp:701: 701 lines'
  plant "$(lines 301)" db/long.h
  finds '^db/long.h:301: 301 lines'
  plant "$(lines 900)" db/table.inc
  plant "$(lines 700)" db/most.cpp
  passes
}

case_words() {
  local word
  for word in TO''DO FIX''ME X''XX; do
    plant "// $word: later" db/a.cpp
    finds '^db/a.cpp:1: work left undone'
  done
  plant $'int a;\n#i''f 0' db/a.cpp
  finds '^db/a.cpp:2: code parked'
  plant "see /wo""rk/main" docs/a.md
  finds '^docs/a.md:1: a path of one machine'
  plant "cd /tm""p/build-x" a.sh
  finds '^a.sh:1: a path of one machine'
  plant "curl https://py""pi.org/simple" a.sh
  finds '^a.sh:1: the host of a package registry'
  plant 'network/of/work/items and XX''XXXX' a.sh
  passes
}

case_readme() {
  plant $'\n[gone](db/gone.md)' db/README.md
  finds "^db/README.md:2: the link to 'db/gone.md' leads nowhere"
  plant '    tools/quickstart --fast' README.md
  finds "^README.md:1: 'tools/quickstart' is not an executable"
  git rm -qf README.md
  finds '^README.md:1: is missing'
}

case_run() {
  cp -r "$root/tools" .
  git add tools
  plant 'int  a ;' db/a.cpp
  check=run
  finds 'check format: FAILED'
}

if [ "$check" = complete ]; then
  for script in "$root"/tools/check/*; do
    declare -F "case_$(basename "$script")" >/dev/null || { echo "no planted fault for $script" >&2; exit 1; }
  done
  exit 0
fi

cd "$scratch" && git init -q . && clean_tree
passes
"case_$check"
passes
