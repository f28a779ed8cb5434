// May a file have that many bytes? Writing beyond RLIMIT_FSIZE (ulimit -f) ends a process that does not ignore SIGXFSZ,
// and a library must not end the process that it is in.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace hone::jit {

inline bool file_may_have(size_t bytes) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace hone::jit
