// Row programs alone, on this thread, operands in cache: what a decoder's layer has of each at one token and at 128,
// through each code generator. `GB/s` counts each operand's bytes once, whatever the passes; the read bandwidth of L1
// and L2 is the ceiling of those with little arithmetic, exp that of softmax and swiglu. `rows` a second include the
// start of their tasks.
#include <vector>

#include "bench/bench_internal.h"
#include "kernels/rows/arguments.h"
#include "kernels/rows/decoder.h"
#include "kernels/rows/lower.h"
#include "kernels/rows/topk.h"

namespace hone::bench {
namespace {

using rows::RowProgram;

struct Workload {
  const char* name;
  RowProgram program;
  int64_t rows;
  size_t weights = rows::kMaxOperands;  // inputs from here on have one row for all
};

std::vector<Workload> workloads() {
  std::vector<Workload> all;
  for (const int64_t rows : {1, 128}) {
    all.push_back({"rms_norm_2048", rows::rms_norm({.n = 2048}, 1e-5F), rows, 1});
    all.push_back({"add_rms_norm_2048", rows::add_rms_norm({.n = 2048}, 1e-5F), rows, 2});
    all.push_back({"layer_norm_2048", rows::layer_norm({.n = 2048}, 1e-5F, true), rows, 1});
    all.push_back({"softmax_512", rows::softmax({.n = 512}, 0.125F), rows});
    all.push_back({"softmax_n", rows::softmax({}, 0.125F), rows});
    all.push_back({"swiglu_5632", rows::silu_mul({.n = 5632}), rows});
    all.push_back({"add_2048", rows::binary_map({.n = 2048}, rows::StepOp::kAdd), rows});
    all.push_back({"rope_half_64", rows::rope_half(1, 64), 32 * rows});
    all.push_back({"rope_interleaved_64", rows::rope_interleaved(1, 64), 32 * rows});
    all.push_back({"transpose_64", rows::copy({.n = 64}, DType::kF32, rows::Columns::kStrided), 32 * rows});
  }
  return all;
}

constexpr int64_t kRuntimeColumns = 512;

void run(benchmark::State& state, const Workload& w, jit::CodeGenerator* generator) {
  const auto isa = this_machine().best_isa();
  if (value_or_skip(state, isa) == nullptr) return;
  const Result<ir::Kernel> kernel = rows::lower(w.program, *isa);
  if (value_or_skip(state, kernel) == nullptr) return;
  const auto executable = jit::make_executable(*kernel, *generator, *isa);
  if (value_or_skip(state, executable) == nullptr) return;
  const int64_t n = w.program.n == rows::kRuntime ? kRuntimeColumns : w.program.n;
  rows::RowArgs args{.extents = {w.rows}, .n = n};
  std::vector<AlignedBuffer> memory;
  int64_t bytes = 0;
  for (size_t i = 0; i < w.program.operands.size(); ++i) {
    const auto columns = w.program.operands[i].columns;
    const bool two = columns == rows::Columns::kHalves || columns == rows::Columns::kPairs;
    // The second of two inputs and those after it are weights or tables where the first has rows: one row for all.
    const bool one_row = w.program.name.find("norm") != std::string::npos && i > 0 &&
                         w.program.operands[i].role == rows::Role::kIn && w.program.name != "add_rms_norm";
    const int64_t row = two ? 2 * n : n;
    memory.push_back(floats(w.rows * row));
    args.operands[i].data = memory.back().data();
    args.operands[i].strides = {one_row ? 0 : row};
    if (columns == rows::Columns::kStrided) args.operands[i].strides = {1}, args.operands[i].column_stride = w.rows;
    bytes += (one_row ? 1 : w.rows) * row * 4;
  }
  rows::Arguments arguments;
  rows::bind(w.program, args, &arguments);
  for (auto _ : state) call(*executable, arguments.buffers.data(), arguments.params.data());
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9, rate);
  state.counters["rows"] = benchmark::Counter(static_cast<double>(w.rows), rate);
}

void run_top_k(benchmark::State& state, const rows::TopK& problem, int64_t rows, jit::CodeGenerator* generator) {
  const auto isa = this_machine().best_isa();
  if (value_or_skip(state, isa) == nullptr) return;
  const Result<ir::Kernel> kernel = rows::lower(problem, *isa);
  if (value_or_skip(state, kernel) == nullptr) return;
  const auto executable = jit::make_executable(*kernel, *generator, *isa);
  if (value_or_skip(state, executable) == nullptr) return;
  AlignedBuffer x = floats(rows * problem.n), values = floats(rows * problem.k), indices = floats(rows * problem.k);
  float next = 0;
  for (float& f : x.as<float>()) f = next = next > 100 ? next - 99.7F : next + 7.3F;
  const rows::TopKArguments arguments = rows::bind({.rows = rows,
                                                    .x = x.as<float>().data(),
                                                    .x_stride = problem.n,
                                                    .values = values.as<float>().data(),
                                                    .values_stride = problem.k,
                                                    .indices = indices.as<int32_t>().data(),
                                                    .indices_stride = problem.k});
  for (auto _ : state) call(*executable, arguments.buffers.data(), arguments.params.data());
  state.counters["ns/row"] = benchmark::Counter(
      static_cast<double>(rows) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

const bool registered = [] {
  for (jit::CodeGenerator* g : jit::compiling_generators()) {
    const std::string generator(g->name());
    for (const Workload& w : workloads())
      benchmark::RegisterBenchmark((std::string(w.name) + "/rows:" + std::to_string(w.rows) + "/" + generator).c_str(),
                                   [w, g](benchmark::State& state) { run(state, w, g); });
    for (const rows::TopK& problem : {rows::TopK{8, 2}, rows::TopK{128, 8}, rows::TopK{4096, 64}})
      benchmark::RegisterBenchmark(
          ("topk_" + std::to_string(problem.k) + "_of_" + std::to_string(problem.n) + "/rows:128/" + generator).c_str(),
          [problem, g](benchmark::State& state) { run_top_k(state, problem, 128, g); });
  }
  return true;
}();

}  // namespace
}  // namespace hone::bench
