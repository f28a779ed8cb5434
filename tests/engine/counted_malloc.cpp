#include "tests/engine/counted_malloc.h"

#include <cstdlib>

namespace hone::testing_api {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

}  // namespace hone::testing_api

#if HONE_COUNTS_MALLOC

namespace {
void count() {
  using namespace hone::testing_api;
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count();
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  count();
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t align, size_t size) {
  count();
  return __libc_memalign(align, size);
}
int posix_memalign(void** out, size_t align, size_t size) {
  count();
  *out = __libc_memalign(align, size);
  return *out == nullptr ? 12 : 0;
}
}
#endif
