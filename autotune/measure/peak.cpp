// Estimator: interference (other tenants, interrupts, low clocks before warm-up) only ever makes a window slower, so
// the ceiling is a high quantile of many short windows: the 95th percentile. Not the maximum, which on a virtual
// machine now and then is a clock glitch; not the mean, which measures the neighbours.
#include "autotune/measure/peak.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "autotune/measure/clock.h"
#include "autotune/measure/flush.h"
#include "autotune/measure/gather.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/guarded.h"
#include "engine/runtime/schedule.h"
#include "jit/launch.h"
#include "kernels/ir/builder.h"

namespace hone::autotune {
namespace {

using ir::Affine;
using ir::Builder;
using ir::Scope;

double high_quantile(std::vector<double> windows) {
  if (windows.empty()) return 0;
  std::sort(windows.begin(), windows.end());
  return windows[static_cast<size_t>(0.95 * static_cast<double>(windows.size() - 1) + 0.5)];
}

class Runner {
 public:
  static Result<Runner> create(const ir::Kernel& kernel, jit::CodeGenerator& generator, Isa isa,
                               runtime::Schedule& schedule) {
    HONE_ASSIGN_OR_RETURN(jit::Executable executable, jit::make_executable(kernel, generator, isa));
    return Runner(std::move(executable), kernel.name, schedule);
  }
  // ns of one call, all threads awake.
  int64_t time(void* const* buffers, const int64_t* params) {
    jit::Launch launch(executable_, buffers, params, nullptr);
    gather(*schedule_);
    const int64_t begin = clock_.now_ns();
    schedule_->for_range({"peak", node_}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
    return std::max<int64_t>(clock_.now_ns() - begin, 1);
  }

 private:
  Runner(jit::Executable executable, std::string node, runtime::Schedule& schedule)
      : executable_(std::move(executable)), node_(std::move(node)), schedule_(&schedule) {}
  jit::Executable executable_;
  std::string node_;  // what a trace calls it
  runtime::Schedule* schedule_;
  SteadyClock clock_;
};

struct Where {
  jit::CodeGenerator& generator;
  Isa isa;
  FeatureSet features;
  int lanes() const { return isa_info(isa).lanes_f32(); }
  bool multiplies_pairs() const { return isa == Isa::kAvx512 && features.has(Feature::kAvx512Bf16); }
};

// Independent chains in registers. Of fma 12: 2 pipes x 4 to 5 cycles need 10, and they fit 16 registers. Of dot
// products of pairs 20: their latency is 6 cycles on Zen 4, up to 10 elsewhere, and there are 32 registers.
class FmaWindow {
 public:
  static Result<FmaWindow> create(const Where& where, runtime::Schedule& schedule, bool pairs) {
    const int threads = schedule.parallelism(), lanes = where.lanes(), chains = pairs ? 20 : 12;
    const ir::Kernel kernel = pairs ? dot_kernel(lanes, chains, threads) : fma_kernel(lanes, chains, threads);
    HONE_ASSIGN_OR_RETURN(Runner runner, Runner::create(kernel, where.generator, where.isa, schedule));
    HONE_ASSIGN_OR_RETURN(AlignedBuffer out, AlignedBuffer::allocate_elements(threads * lanes, 4, Touch::kNow));
    const double a_step = (pairs ? 4.0 : 2.0) * lanes * chains * threads;
    return FmaWindow(std::move(runner), std::move(out), a_step * static_cast<double>(kSteps));
  }
  // GFLOP/s of one window.
  double rate() {
    void* buffers[] = {out_.data()};
    return flops_ / static_cast<double>(runner_.time(buffers, &kSteps));
  }
  // ns of a window without work.
  int64_t empty() {
    void* buffers[] = {out_.data()};
    const int64_t none = 0;
    return runner_.time(buffers, &none);
  }

 private:
  // 50 000 steps take 100-300 us: long against opening a region, short against an interruption.
  static constexpr int64_t kSteps = 50'000;
  FmaWindow(Runner runner, AlignedBuffer out, double flops)
      : runner_(std::move(runner)), out_(std::move(out)), flops_(flops) {}

  Runner runner_;
  AlignedBuffer out_;
  double flops_;
};

// Reads a buffer, window after window. A window of cold reading is 16 MiB a thread, about a millisecond; warm reading
// takes the whole buffer.
class ReadWindow {
 public:
  // `x` must outlive the window and hold no denormals.
  static Result<ReadWindow> create(const Where& where, runtime::Schedule& schedule, const AlignedBuffer& x, int streams,
                                   bool prefetch, bool cold) {
    const int threads = schedule.parallelism(), lanes = where.lanes();
    HONE_ASSIGN_OR_RETURN(Runner runner,
                          Runner::create(read_kernel(lanes, streams, prefetch), where.generator, where.isa, schedule));
    HONE_ASSIGN_OR_RETURN(AlignedBuffer out, AlignedBuffer::allocate_elements(threads * lanes, 4, Touch::kNow));
    ReadWindow w(std::move(runner), std::move(out), x, cold);
    const int64_t chunk_bytes = int64_t{8} / streams * lanes * 4;
    const int64_t window = cold ? std::min<int64_t>(x.size(), (int64_t{16} << 20) * threads) : x.size();
    const int64_t chunks = window / (chunk_bytes * streams * threads);
    const int64_t per_stream = chunks * chunk_bytes / 4;
    w.params_ = {threads, chunks, per_stream * streams, per_stream};
    w.bytes_ = chunks * chunk_bytes * streams * threads;
    return w;
  }
  // GB/s of one window; 0 when the buffer is too small for one.
  double rate() {
    if (bytes_ == 0) return 0;
    if (at_ + bytes_ > x_->size()) at_ = 0;
    std::byte* begin = x_->data() + at_;
    at_ += bytes_ / 64 * 64;
    if (cold_) {
      const std::span<const std::byte> range(begin, static_cast<size_t>(bytes_));
      flush_caches({&range, 1});
    }
    void* buffers[] = {begin, out_.data()};
    return static_cast<double>(bytes_) / static_cast<double>(runner_.time(buffers, params_.data()));
  }

 private:
  ReadWindow(Runner runner, AlignedBuffer out, const AlignedBuffer& x, bool cold)
      : runner_(std::move(runner)), out_(std::move(out)), x_(&x), cold_(cold) {}

  Runner runner_;
  AlignedBuffer out_;
  const AlignedBuffer* x_;
  bool cold_;
  std::array<int64_t, 4> params_{};
  int64_t bytes_ = 0, at_ = 0;
};

Result<AlignedBuffer> readable(int64_t bytes) {
  HONE_ASSIGN_OR_RETURN(AlignedBuffer x, AlignedBuffer::allocate(bytes, Touch::kNow));
  std::fill(x.as<float>().begin(), x.as<float>().end(), 1.0f);
  return x;
}

template <typename Window>
double ceiling(Window& window, double seconds) {
  SteadyClock clock;
  std::vector<double> rates;
  window.rate(), window.rate();  // code and pages
  const int64_t end = clock.now_ns() + static_cast<int64_t>(seconds * 1e9);
  // The first part of the time lets the clock rise; the quantile forgets it.
  while (rates.size() < 8 || (clock.now_ns() < end && rates.size() < 100'000)) rates.push_back(window.rate());
  return high_quantile(std::move(rates));
}

Result<double> fma_ceiling(const Where& where, runtime::Schedule& schedule, double seconds) {
  HONE_ASSIGN_OR_RETURN(FmaWindow window, FmaWindow::create(where, schedule, false));
  return ceiling(window, seconds);
}

// 0 where there are no such instructions.
Result<double> dot_ceiling(const Where& where, runtime::Schedule& schedule, double seconds) {
  if (!where.multiplies_pairs()) return 0.0;
  HONE_ASSIGN_OR_RETURN(FmaWindow window, FmaWindow::create(where, schedule, true));
  return ceiling(window, seconds);
}

// Few streams or many, with hints or without: whichever this memory likes best is the ceiling.
Result<double> read_ceiling(const Where& where, runtime::Schedule& schedule, int64_t bytes, bool cold, double seconds) {
  HONE_ASSIGN_OR_RETURN(const AlignedBuffer x, readable(bytes));
  double best = 0;
  for (int streams : {1, 2, 4}) {
    for (bool prefetch : {false, true}) {
      if (prefetch && !cold) continue;
      HONE_ASSIGN_OR_RETURN(ReadWindow window, ReadWindow::create(where, schedule, x, streams, prefetch, cold));
      best = std::max(best, ceiling(window, seconds / (cold ? 6 : 3)));
    }
  }
  return best;
}

Result<Where> where_to_measure(const Machine& machine) {
  HONE_ASSIGN_OR_RETURN(const Isa isa, machine.best_isa());
  for (jit::CodeGenerator* g : jit::compiling_generators())
    if (g->targets(isa)) return Where{*g, isa, machine.features};
  return unsupported("no code generator of this build emits machine code for this CPU");
}

}  // namespace

struct CeilingProbe::Impl {
  Where where;
  std::unique_ptr<runtime::Schedule> schedule;
  AlignedBuffer x{};
  int64_t warm_bytes = 0;
  std::optional<FmaWindow> fma{}, dot{};  // dot: made when it is asked for
  std::vector<ReadWindow> read{};         // which is the fastest changes with the machine, and within a run

  // Made by the first reading: the buffer alone takes longer to touch than many windows of fma.
  Status make_read() {
    const bool cold = warm_bytes == 0;
    const int64_t enough = std::max<int64_t>(64, 32 * schedule->parallelism()) << 20;
    HONE_ASSIGN_OR_RETURN(x, readable(cold ? enough : warm_bytes));
    for (int streams : {2, 4}) {
      HONE_ASSIGN_OR_RETURN(ReadWindow window, ReadWindow::create(where, *schedule, x, streams, cold, cold));
      read.push_back(std::move(window));
    }
    return {};
  }
};

CeilingProbe::CeilingProbe(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CeilingProbe::CeilingProbe(CeilingProbe&&) noexcept = default;
CeilingProbe& CeilingProbe::operator=(CeilingProbe&&) noexcept = default;
CeilingProbe::~CeilingProbe() = default;

Result<CeilingProbe> CeilingProbe::create(const Machine& machine, const runtime::ScheduleRequest& schedule,
                                          int64_t warm_bytes) {
  HONE_ASSIGN_OR_RETURN(const Where where, where_to_measure(machine));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Schedule> made, runtime::make_schedule(schedule));
  auto impl = std::make_unique<Impl>(Impl{.where = where, .schedule = std::move(made), .warm_bytes = warm_bytes});
  HONE_ASSIGN_OR_RETURN(impl->fma, FmaWindow::create(where, *impl->schedule, false));
  return CeilingProbe(std::move(impl));
}

// The better of two windows: interference only ever lowers one.
double CeilingProbe::gflops() { return std::max(impl_->fma->rate(), impl_->fma->rate()); }
double CeilingProbe::bf16_gflops() {
  if (!impl_->where.multiplies_pairs()) return 0;
  if (!impl_->dot) {
    Result<FmaWindow> made = FmaWindow::create(impl_->where, *impl_->schedule, true);
    if (!made.ok()) return 0;
    impl_->dot.emplace(std::move(made).value());
  }
  return std::max(impl_->dot->rate(), impl_->dot->rate());
}
double CeilingProbe::read_gbs() {
  if (impl_->read.empty() && !impl_->make_read().ok()) return 0;
  double best = 0;
  for (int repeat = 0; repeat < 2; ++repeat)
    for (ReadWindow& window : impl_->read) best = std::max(best, window.rate());
  return best;
}
double CeilingProbe::call_ns() {
  int64_t least = impl_->fma->empty();
  for (int repeat = 0; repeat < 4; ++repeat) least = std::min(least, impl_->fma->empty());
  return static_cast<double>(least);
}

double Peak::gflops(int threads, int cpus, std::string_view numerics) const {
  const bool pairs = by_dot_products(numerics);
  const double one = pairs ? bf16_gflops_1t : f32_gflops_1t, all = pairs ? bf16_gflops_all : f32_gflops_all;
  if (threads <= 1 || cpus <= 1) return one;
  return std::max(all, one * std::min(threads, cpus));
}

namespace {

// `x` and `y`: registers of the operands, whose constants `begin` gives; `step(sum)` adds x * y to a chain.
ir::Kernel chains_kernel(const char* name, const ir::RegType& operand, int chains, int threads,
                         const std::function<void(Builder&, ir::RegRef x, ir::RegRef y)>& begin,
                         const std::function<void(Builder&, ir::RegRef sum, ir::RegRef x, ir::RegRef y)>& step) {
  const int lanes = operand.lanes;
  Builder b(name);
  const ir::VarId n = b.param("n");
  const ir::BufferId out =
      b.buffer({.name = "sums", .scope = Scope::kOut, .extents = {threads, lanes}, .strides = {lanes, 1}});
  const ir::RegId acc = b.reg("acc", {.lanes = lanes}, {chains}), x = b.reg("x", operand), y = b.reg("y", operand);
  b.parallel("t", 0, threads, 1, [&](Affine t) {
    begin(b, Builder::at(x), Builder::at(y));
    b.unroll("r", 0, chains, 1, [&](Affine r) { b.constant(Builder::at(acc, {r}), 1.0f); });
    b.serial("i", 0, Affine::var(n), 1, [&](Affine) {
      b.unroll("r", 0, chains, 1, [&](Affine r) { step(b, Builder::at(acc, {r}), Builder::at(x), Builder::at(y)); });
    });
    b.unroll("r", 1, chains, 1, [&](Affine r) {
      b.binary(ir::BinaryOp::kAdd, Builder::at(acc, {0}), Builder::at(acc, {0}), Builder::at(acc, {r}));
    });
    b.store({out, {t, 0}}, Builder::at(acc, {0}));
  });
  return b.finish();
}

}  // namespace

// Products of 2^-20: values stay normal for any count of steps, so that no denormal slows the chains.
ir::Kernel fma_kernel(int lanes, int chains, int threads) {
  return chains_kernel(
      "peak_fma", {.lanes = lanes}, chains, threads,
      [](Builder& b, const ir::RegRef& x, const ir::RegRef& y) { b.constant(x, 1.0f), b.constant(y, 0x1p-20f); },
      [](Builder& b, const ir::RegRef& sum, const ir::RegRef& x, const ir::RegRef& y) { b.fma(sum, x, y, sum); });
}

ir::Kernel dot_kernel(int lanes, int chains, int threads) {
  constexpr int32_t kOnes = 0x3f803f80, kSmall = 0x35803580;  // pairs of 1 and of 2^-20
  return chains_kernel(
      "peak_dot", {.dtype = DType::kS32, .lanes = lanes}, chains, threads,
      [](Builder& b, const ir::RegRef& x, const ir::RegRef& y) { b.constant_s32(x, kOnes), b.constant_s32(y, kSmall); },
      [](Builder& b, const ir::RegRef& sum, const ir::RegRef& x, const ir::RegRef& y) { b.dot_pairs(sum, x, y, sum); });
}

ir::Kernel read_kernel(int lanes, int streams, bool prefetch) {
  Builder b("peak_read");
  const ir::VarId threads = b.param("threads"), chunks = b.param("chunks"), per_thread = b.param("per_thread"),
                  per_stream = b.param("per_stream");
  const int64_t vectors = 8 / streams, chunk = vectors * lanes;
  const ir::BufferId x = b.buffer({.name = "x",
                                   .scope = Scope::kIn,
                                   .extents = {Affine::var(threads), streams, Affine::var(chunks), chunk},
                                   .strides = {Affine::var(per_thread), Affine::var(per_stream), chunk, 1}});
  const ir::BufferId out =
      b.buffer({.name = "sums", .scope = Scope::kOut, .extents = {Affine::var(threads), lanes}, .strides = {lanes, 1}});
  const ir::RegType vec{.lanes = lanes};
  const ir::RegId acc = b.reg("acc", vec, {8}), v = b.reg("v", vec);
  // 2 KiB ahead in each stream is what the fastest kernels of one row use (16.7 GB/s where 4 KiB gave 15.9, Granite
  // Rapids).
  const int64_t ahead = (2048 / 4) / chunk;
  b.parallel("t", 0, Affine::var(threads), 1, [&](Affine t) {
    b.unroll("r", 0, 8, 1, [&](Affine r) { b.constant(Builder::at(acc, {r}), 0.0f); });
    b.serial("c", 0, Affine::var(chunks), 1, [&](Affine c) {
      for (int64_t s = 0; s < streams; ++s) {
        for (int64_t i = 0; i < vectors; ++i) {
          if (prefetch && i * lanes * 4 % 64 == 0) b.prefetch({x, {t, s, c + ahead, i * lanes}}, 0);
          b.load(Builder::at(v), {x, {t, s, c, i * lanes}});
          b.binary(ir::BinaryOp::kAdd, Builder::at(acc, {s * vectors + i}), Builder::at(acc, {s * vectors + i}),
                   Builder::at(v));
        }
      }
    });
    b.unroll("r", 1, 8, 1, [&](Affine r) {
      b.binary(ir::BinaryOp::kAdd, Builder::at(acc, {0}), Builder::at(acc, {0}), Builder::at(acc, {r}));
    });
    b.store({out, {t, 0}}, Builder::at(acc, {0}));
  });
  return b.finish();
}

namespace {

Result<Peak> measure(const Machine& machine, const PeakOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Where where, where_to_measure(machine));
  const int all = std::max(1, options.threads > 0 ? options.threads : machine.cpus_usable);
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Schedule> one, runtime::make_schedule({}));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Schedule> every,
                        runtime::make_schedule({runtime::ScheduleKind::kTbb, all}));
  // Half of the L2 size that blocking relies on: more would measure L3, less L1.
  const int64_t l2_bytes = blocking_caches(machine).l2 / 2;

  Peak peak;
  HONE_ASSIGN_OR_RETURN(peak.f32_gflops_1t, fma_ceiling(where, *one, 0.15 * options.seconds));
  HONE_ASSIGN_OR_RETURN(peak.bf16_gflops_1t, dot_ceiling(where, *one, 0.05 * options.seconds));
  HONE_ASSIGN_OR_RETURN(peak.l2_gbs_1t, read_ceiling(where, *one, l2_bytes, false, 0.1 * options.seconds));
  HONE_ASSIGN_OR_RETURN(peak.read_gbs_1t, read_ceiling(where, *one, options.dram_bytes, true, 0.3 * options.seconds));
  if (all == 1) {
    peak.f32_gflops_all = peak.f32_gflops_1t;
    peak.bf16_gflops_all = peak.bf16_gflops_1t;
    peak.read_gbs_all = peak.read_gbs_1t;
    return peak;
  }
  HONE_ASSIGN_OR_RETURN(peak.f32_gflops_all, fma_ceiling(where, *every, 0.07 * options.seconds));
  HONE_ASSIGN_OR_RETURN(peak.bf16_gflops_all, dot_ceiling(where, *every, 0.03 * options.seconds));
  HONE_ASSIGN_OR_RETURN(peak.read_gbs_all,
                        read_ceiling(where, *every, options.dram_bytes, true, 0.3 * options.seconds));
  return peak;
}

}  // namespace

Result<Peak> measure_peak(const Machine& machine, const PeakOptions& options) {
  return guarded([&] { return measure(machine, options); });
}

}  // namespace hone::autotune
