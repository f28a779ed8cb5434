// What the peers share: argument checks, empty problems, and the choice between ways to call a library.
//
// A peer gives a list of ways to compute the problem (gemm or gemv, one blocking or another). Where there is more than
// one, the fastest on this machine for this problem is kept: a comparison is worth something only when the other side
// is at its best. A way sees neither empty problems nor bad arguments.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/peers/memory_internal.h"
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

// The same of attention.
class AttentionWay {
 public:
  virtual ~AttentionWay() = default;
  virtual int run(const float* q, const float* k, const float* v, float* o) = 0;
};

// One way and what the plan column calls it. `make` throws std::exception with the reason when it cannot.
template <typename Kind>
struct Named {
  std::string name;
  std::function<std::unique_ptr<Kind>()> make;
};
using NamedWay = Named<Way>;

// m, n, k > 0. May throw.
using ListWays = std::vector<NamedWay> (*)(const HonePeerProblem& problem, const float* b);

// A problem large enough for every library to use all its threads, and small enough to take microseconds.
struct Waker {
  static constexpr int64_t kSize = 128;
  std::unique_ptr<Way> way;
  Floats a, b, c;
};

// The way that was kept, what the plan column says of it and the threads it uses.
template <typename Kind>
struct Chosen {
  std::unique_ptr<Kind> way;
  std::string setting;
  int threads = 1;
};

struct Handle {
  HonePeerProblem problem{};
  Chosen<Way> matmul{};  // without a way when the sum or the result is empty
  Chosen<AttentionWay> attention{};
  Waker waker{};  // without a way for one thread
};

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

// Nanoseconds per call: the best of three samples of at least a millisecond, after one call to warm up. A call that
// takes long is a sample by itself.
inline double time_way(const std::function<int()>& call) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLongNs = 50e6;
  auto ns_since = [](Clock::time_point begin) {
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  };
  const Clock::time_point start = Clock::now();
  if (call() != 0) return std::numeric_limits<double>::infinity();
  double best = ns_since(start);
  for (int sample = 0; sample < 3 && best < kLongNs; ++sample) {
    const Clock::time_point begin = Clock::now();
    double ns = 0;
    int calls = 0;
    while (ns < 1e6) {
      if (call() != 0) return std::numeric_limits<double>::infinity();
      ++calls;
      ns = ns_since(begin);
    }
    best = std::min(best, ns / calls);
  }
  return best;
}

inline std::string setting_of(const std::string& name, int threads) {
  return name + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

// A call that takes longer with all threads is not tried with one.
constexpr double kWorthAllThreadsNs = 50e6;

// The fastest of the ways that `list` has for so many threads, and for one: hone's plans may leave threads asleep, too.
// At most two live at a time, as each may own much memory. `call` runs a way on operands of the caller's.
template <typename Kind>
Chosen<Kind> fastest(int threads, const std::function<std::vector<Named<Kind>>(int)>& list,
                     const std::function<int(Kind&)>& call) {
  const SpareBlocks spare;
  Chosen<Kind> best;
  double best_ns = std::numeric_limits<double>::infinity();
  std::string why = "the library offers no way to compute this";
  auto consider = [&](int on) {
    for (const Named<Kind>& candidate : list(on)) {
      try {
        std::unique_ptr<Kind> way = candidate.make();
        const double ns = time_way([&] { return call(*way); });
        if (ns >= best_ns) continue;
        best = {std::move(way), setting_of(candidate.name, on), on};
        best_ns = ns;
      } catch (const std::exception& e) {
        why = e.what();  // another way may still work
      }
    }
  };
  consider(threads);
  if (threads > 1 && best_ns < kWorthAllThreadsNs) consider(1);
  if (best.way == nullptr) throw std::runtime_error(why);
  return best;
}

template <ListWays kList>
Chosen<Way> choose(const HonePeerProblem& p, const float* b) {
  const std::vector<NamedWay> ways = kList(p, b);
  if (ways.size() == 1 && p.threads == 1) return {ways[0].make(), setting_of(ways[0].name, 1), 1};
  const Floats a = zeros(p.m * p.lda), c = zeros(p.m * p.ldc);
  const Floats own_b = b != nullptr ? Floats() : zeros((p.b_transposed ? p.n : p.k) * p.ldb);
  const float* const weights = b != nullptr ? b : own_b.get();
  return fastest<Way>(
      p.threads,
      [&](int threads) {
        HonePeerProblem on = p;
        on.threads = threads;
        return kList(on, b);
      },
      [&](Way& way) { return way.run(a.get(), weights, c.get()); });
}

// `threads` as chosen: whoever computes alone must not have its other threads spinning beside it.
template <ListWays kList>
Waker make_waker(int threads) {
  constexpr int64_t kN = Waker::kSize;
  Waker waker{.way = nullptr, .a = zeros(kN * kN), .b = zeros(kN * kN), .c = zeros(kN * kN)};
  const HonePeerProblem small{kN, kN, kN, kN, kN, kN, 0, 1, threads};
  waker.way = kList(small, waker.b.get()).front().make();
  return waker;
}

// What `make` gives, or null with the reason in `error`.
inline void* handle_or_reason(char* error, size_t error_size, const std::function<std::unique_ptr<Handle>()>& make) {
  try {
    return make().release();
  } catch (const std::exception& e) {
    if (error != nullptr && error_size > 0) std::snprintf(error, error_size, "%s", e.what());
    return nullptr;
  }
}

template <ListWays kList>
void* prepare(const HonePeerProblem* problem, const float* b, char* error, size_t error_size) {
  return handle_or_reason(error, error_size, [&] {
    if (problem == nullptr) throw std::runtime_error("no problem was given");
    if (const char* why = refusal(*problem, b)) throw std::runtime_error(why);
    auto handle = std::make_unique<Handle>(Handle{.problem = *problem});
    handle->matmul.setting = "nothing to compute";
    if (problem->m > 0 && problem->n > 0 && problem->k > 0) handle->matmul = choose<kList>(*problem, b);
    if (handle->matmul.threads > 1) handle->waker = make_waker<kList>(handle->matmul.threads);
    return handle;
  });
}

inline const char* setting(void* handle) {
  if (handle == nullptr) return "";
  const Handle& h = *static_cast<Handle*>(handle);
  return (h.attention.way != nullptr ? h.attention.setting : h.matmul.setting).c_str();
}

inline int run(void* handle, const float* a, const float* b, float* c) {
  if (handle == nullptr) return 1;
  const Handle& h = *static_cast<Handle*>(handle);
  const HonePeerProblem& p = h.problem;
  if (p.m == 0 || p.n == 0) return 0;
  if (c == nullptr) return 1;
  if (h.matmul.way == nullptr) {
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(c + i * p.ldc, p.n, 0.0F);
    return 0;
  }
  if (a == nullptr || (b == nullptr && !p.b_constant)) return 1;
  try {
    return h.matmul.way->run(a, b, c);
  } catch (const std::exception&) {
    return 1;
  }
}

inline void wake(void* handle) {
  if (handle == nullptr) return;
  const Waker& waker = static_cast<Handle*>(handle)->waker;
  if (waker.way != nullptr) (void)waker.way->run(waker.a.get(), waker.b.get(), waker.c.get());
}

inline const void* packed(void* handle, size_t* bytes) {
  size_t ignored;
  if (bytes == nullptr) bytes = &ignored;
  *bytes = 0;
  const auto* h = static_cast<Handle*>(handle);
  return h == nullptr || h->matmul.way == nullptr ? nullptr : h->matmul.way->packed(bytes);
}

inline void release(void* handle) { delete static_cast<Handle*>(handle); }

template <ListWays kList>
HonePeer make_peer(const char* name, const char* (*describe)()) {
  return {HONE_PEER_ABI, name, describe, prepare<kList>, setting, run, wake, packed, release, nullptr, nullptr};
}

}  // namespace hone::peers

#define HONE_PEER_EXPORT extern "C" __attribute__((visibility("default")))
