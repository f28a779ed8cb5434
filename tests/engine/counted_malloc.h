// Counts what malloc and operator new (which ends there) are asked for, by every thread of the process: link
// counted_malloc.cpp, which replaces malloc.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HONE_COUNTS_MALLOC 1
#endif

namespace hone::testing_api {

extern std::atomic<bool> counting;
extern std::atomic<int64_t> allocations;  // while counting

}  // namespace hone::testing_api
