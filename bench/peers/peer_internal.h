// What the peers share: argument checks, empty problems, and the choice between ways to call a library.
//
// A peer gives a list of ways to compute the problem (gemm or gemv, one blocking or another). Where there is more than
// one, the fastest on this machine for this problem is kept: a comparison is worth something only when the other side
// is at its best. A way sees neither empty problems nor bad arguments.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/peer.h"

namespace hone::peers {

class Way {
 public:
  virtual ~Way() = default;
  virtual int run(const float* a, const float* b, float* c) = 0;
  virtual const void* packed(size_t* bytes) {
    *bytes = 0;
    return nullptr;
  }
};

// Makes a way, throwing std::exception with the reason when it cannot.
using MakeWay = std::function<std::unique_ptr<Way>()>;

// m, n, k > 0. May throw.
using ListWays = std::vector<MakeWay> (*)(const HonePeerProblem& problem, const float* b);

struct Handle {
  HonePeerProblem problem;
  std::unique_ptr<Way> way;  // null when the sum or the result is empty
};

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Floats = std::unique_ptr<float[], FreeMemory>;

// Zeros, 64-byte aligned; from 2 MiB on in huge pages where the system has them, as hone's weights are: 4 KiB pages
// would make a packed matrix lose to one that is not. Throws std::bad_alloc.
inline Floats zeros(int64_t count) {
  constexpr size_t kHuge = size_t{2} << 20;
  size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(float);
  const size_t align = bytes >= kHuge ? kHuge : 64;
  bytes = (bytes + align - 1) / align * align;
  void* memory = std::aligned_alloc(align, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (align == kHuge) (void)madvise(memory, bytes, MADV_HUGEPAGE);  // advice: small pages work too
  std::fill_n(static_cast<float*>(memory), bytes / sizeof(float), 0.0F);
  return Floats(static_cast<float*>(memory));
}

// Why a problem is refused; null when it is not. Sizes are limited to what a 32-bit BLAS interface can take.
inline const char* refusal(const HonePeerProblem& p, const float* b) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (p.m < 0 || p.n < 0 || p.k < 0) return "m, n and k must not be negative";
  if (p.lda < p.k) return "lda is smaller than a row of A";
  if (p.ldb < (p.b_transposed ? p.k : p.n)) return "ldb is smaller than a row of B";
  if (p.ldc < p.n) return "ldc is smaller than a row of C";
  if (std::max({p.m, p.n, p.k, p.lda, p.ldb, p.ldc}) > kMost) return "sizes beyond 2^31 are too large for this library";
  if (p.threads < 1 || p.threads > 4096) return "threads must be 1 to 4096";
  if (p.b_constant && b == nullptr && p.n > 0 && p.k > 0) return "a constant B must be given";
  return nullptr;
}

// Nanoseconds per call: the best of three samples of at least a millisecond, after one call to warm up.
inline double time_way(Way& way, const float* a, const float* b, float* c) {
  using Clock = std::chrono::steady_clock;
  if (way.run(a, b, c) != 0) return std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  for (int sample = 0; sample < 3; ++sample) {
    const Clock::time_point begin = Clock::now();
    double ns = 0;
    int calls = 0;
    while (ns < 1e6) {
      if (way.run(a, b, c) != 0) return std::numeric_limits<double>::infinity();
      ++calls;
      ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    }
    best = std::min(best, ns / calls);
  }
  return best;
}

// The fastest way. At most two live at a time, as each may own a packed copy of B.
inline std::unique_ptr<Way> fastest(const std::vector<MakeWay>& makers, const HonePeerProblem& p, const float* b) {
  if (makers.size() == 1) return makers[0]();
  const Floats a = zeros(p.m * p.lda), c = zeros(p.m * p.ldc);
  Floats own_b;
  if (b == nullptr) {
    own_b = zeros((p.b_transposed ? p.n : p.k) * p.ldb);
    b = own_b.get();
  }
  std::unique_ptr<Way> best;
  double best_ns = std::numeric_limits<double>::infinity();
  std::string why = "the library offers no way to compute this";
  for (const MakeWay& make : makers) {
    try {
      std::unique_ptr<Way> way = make();
      const double ns = time_way(*way, a.get(), b, c.get());
      if (ns < best_ns) {
        best = std::move(way);
        best_ns = ns;
      }
    } catch (const std::exception& e) {
      why = e.what();  // another way may still work
    }
  }
  if (best == nullptr) throw std::runtime_error(why);
  return best;
}

template <ListWays kList>
void* prepare(const HonePeerProblem* problem, const float* b, char* error, size_t error_size) {
  auto refuse = [&](const char* why) -> void* {
    if (error != nullptr && error_size > 0) std::snprintf(error, error_size, "%s", why);
    return nullptr;
  };
  if (problem == nullptr) return refuse("no problem was given");
  if (const char* why = refusal(*problem, b)) return refuse(why);
  try {
    auto handle = std::make_unique<Handle>(Handle{*problem, nullptr});
    if (problem->m > 0 && problem->n > 0 && problem->k > 0) {
      std::vector<MakeWay> makers = kList(*problem, b);
      if (problem->threads > 1) {  // hone's plans may leave threads asleep, too
        HonePeerProblem alone = *problem;
        alone.threads = 1;
        for (MakeWay& make : kList(alone, b)) makers.push_back(std::move(make));
      }
      handle->way = fastest(makers, *problem, b);
    }
    return handle.release();
  } catch (const std::exception& e) {
    return refuse(e.what());
  }
}

inline int run(void* handle, const float* a, const float* b, float* c) {
  if (handle == nullptr) return 1;
  const Handle& h = *static_cast<Handle*>(handle);
  const HonePeerProblem& p = h.problem;
  if (p.m == 0 || p.n == 0) return 0;
  if (c == nullptr) return 1;
  if (h.way == nullptr) {
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(c + i * p.ldc, p.n, 0.0F);
    return 0;
  }
  if (a == nullptr || (b == nullptr && !p.b_constant)) return 1;
  try {
    return h.way->run(a, b, c);
  } catch (const std::exception&) {
    return 1;
  }
}

inline const void* packed(void* handle, size_t* bytes) {
  size_t ignored;
  if (bytes == nullptr) bytes = &ignored;
  *bytes = 0;
  const auto* h = static_cast<Handle*>(handle);
  return h == nullptr || h->way == nullptr ? nullptr : h->way->packed(bytes);
}

inline void release(void* handle) { delete static_cast<Handle*>(handle); }

template <ListWays kList>
HonePeer make_peer(const char* name, const char* (*describe)()) {
  return {HONE_PEER_ABI, name, describe, prepare<kList>, run, packed, release};
}

}  // namespace hone::peers

#define HONE_PEER_EXPORT extern "C" __attribute__((visibility("default")))
