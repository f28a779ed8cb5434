// The one source of the shared library itself; the rest of it is hone_engine_core.
//
// Debian's libasmjit.a is position independent except for one thing: it reads libc's variable `stderr` directly (to
// print failed assertions), which a shared library may not do. The link wraps the name (--wrap=stderr), so that asmjit
// finds this variable instead, which is at a fixed distance.
#include <cstdio>

extern "C" {
[[gnu::visibility("hidden")]] FILE* __wrap_stderr = nullptr;
extern FILE* __real_stderr;
}

namespace {
// Before any static constructor of ours, so that nobody sees the null.
[[gnu::constructor(101)]] void copy_stderr() { __wrap_stderr = __real_stderr; }
}  // namespace
