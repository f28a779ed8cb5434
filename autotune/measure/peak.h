// What can this machine do at most? FMA throughput and read bandwidth, measured with kernels that are LoopIR like all
// others: so the ceiling goes through the same code generators, schedule and clock as what is compared with it.
#pragma once

#include <memory>
#include <string_view>

#include "engine/base/machine.h"
#include "engine/runtime/schedule.h"
#include "jit/codegen.h"

namespace hone::autotune {

// Programs of this numerics class compute by dot products of pairs of bf16: their ceiling is another than that of fma.
constexpr bool by_dot_products(std::string_view numerics) { return numerics == "bf16"; }

struct Peak {
  double f32_gflops_1t = 0;
  double f32_gflops_all = 0;
  double bf16_gflops_1t = 0;  // of dot products of pairs of bf16; 0: this CPU has none
  double bf16_gflops_all = 0;
  double read_gbs_1t = 0;  // from memory: caches are emptied first
  double read_gbs_all = 0;
  double l2_gbs_1t = 0;

  // The ceiling for a number of threads: that of fma, or for programs of class `bf16` that of their dot products.
  double gflops(int threads, int cpus, std::string_view numerics = {}) const;
};

struct PeakOptions {
  double seconds = 1.0;  // in all; 0.1 gives a usable estimate
  int threads = 0;       // of the "all" figures; 0: machine.cpus_usable
  int64_t dram_bytes = int64_t{128} << 20;
};

// Uses the first code generator that emits machine code for the machine's best ISA; the interpreter would measure
// itself. Error: unsupported when there is none.
Result<Peak> measure_peak(const Machine& machine, const PeakOptions& options = {});

// The ceiling of this moment, one short window at a time, to be measured between the samples of what is compared with
// it. A clock under sustained wide-vector load can be a third below that of a burst (216 and 143 GFLOP/s on one thread
// of a Granite Rapids VM), so a percentage of a burst's peak says more about the clock than about a kernel.
class CeilingProbe {
 public:
  // warm_bytes: 0 for reading from memory; else so many bytes are read again and again, from whatever cache holds them.
  // `schedule` as of what is compared with it, so that both wait for the same threads.
  static Result<CeilingProbe> create(const Machine& machine, const runtime::ScheduleRequest& schedule,
                                     int64_t warm_bytes = 0);
  CeilingProbe(CeilingProbe&&) noexcept;
  CeilingProbe& operator=(CeilingProbe&&) noexcept;
  ~CeilingProbe();

  double gflops();       // of fma: about 0.3 ms
  double bf16_gflops();  // of dot products of pairs of bf16, likewise; 0: this CPU has none
  double read_gbs();     // about 20 ms with the flush; 0 when there is no memory for its buffer (64 MiB or more)
  double call_ns();      // a call that computes nothing, on all the threads

 private:
  struct Impl;
  explicit CeilingProbe(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The kernels, for tests and for whoever wants to read them.
// sums[t, lanes]: `chains` independent chains of n dependent fma in each of `threads` tasks.
ir::Kernel fma_kernel(int lanes, int chains, int threads);
// The same of dot products of pairs of bf16.
ir::Kernel dot_kernel(int lanes, int chains, int threads);
// Sums all of x[threads, streams, chunks, 8 / streams vectors], the streams read side by side; sums keeps it alive.
ir::Kernel read_kernel(int lanes, int streams, bool prefetch);

}  // namespace hone::autotune
