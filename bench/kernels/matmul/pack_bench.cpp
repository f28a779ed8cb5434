// Packing. Of B, beforehand: bytes read plus bytes written per second, from a matrix of weights beyond L2. Of rows of
// A, within a matmul: the same matmul with and without, where packing is dearest (one tile of columns, so that each
// packed row is used once) and rows are a power of two apart (what packing is for).
#include "bench/bench_internal.h"

namespace hone::bench {
namespace {

constexpr int64_t kRows = 2048;

void pack_b(benchmark::State& state, matmul::BLayout layout, Isa isa, jit::CodeGenerator* generator) {
  const matmul::MatmulProblem source{.m = 1, .n = kRows, .k = kRows, .b = layout};
  const int64_t panel = isa_info(isa).lanes_f32();
  const Result<ir::Kernel> lowered = matmul::lower_pack_b(source, panel, isa);
  const ir::Kernel* kernel = value_or_skip(state, lowered);
  if (kernel == nullptr) return;
  const Result<jit::Executable> made = jit::make_executable(*kernel, *generator, isa);
  const jit::Executable* executable = value_or_skip(state, made);
  if (executable == nullptr) return;
  const AlignedBuffer from = floats(source.n * source.k),
                      to = floats(matmul::packed_elements(source.n, source.k, panel));
  void* const buffers[] = {from.data(), to.data()};
  for (auto _ : state) call(*executable, buffers, nullptr);
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(from.size() + to.size()) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void rows_of_a(benchmark::State& state, matmul::PackA pack_a, Isa isa, jit::CodeGenerator* generator) {
  // Two vectors of columns, and as many rows as the registers then hold: 14 x 32 or 6 x 16.
  const matmul::RegisterTile tile{(isa_info(isa).vector_registers - 3) / 2, 2 * isa_info(isa).lanes_f32()};
  const int64_t k = 512;
  const matmul::MatmulProblem problem{
      .m = tile.mr * 16, .n = tile.nr, .k = k, .b = matmul::BLayout::kPacked, .lda = 4096};
  const int lanes = isa_info(isa).lanes_f32();
  const matmul::TransformProgram program{.isa = isa,
                                         .lanes = lanes,
                                         .mr = tile.mr,
                                         .nr = tile.nr,
                                         .mc = tile.mr * 16,
                                         .nc = tile.nr,
                                         .kc = k,
                                         .pack_a = pack_a,
                                         .panel = lanes};
  const Result<jit::Executable> made = make(problem, program, *generator);
  const jit::Executable* executable = value_or_skip(state, made);
  if (executable == nullptr) return;
  const AlignedBuffer a = floats(problem.m * problem.lda), b = floats(problem.n * k), c = floats(problem.m * problem.n);
  const matmul::Arguments arguments =
      matmul::bind(problem, {.a = a.as<float>().data(), .b = b.as<float>().data(), .c = c.as<float>().data()});
  for (auto _ : state) call(*executable, arguments.buffers.data(), arguments.params.data());
  state.counters["GFLOP/s"] = benchmark::Counter(problem.flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  const Result<Isa> isa = this_machine().best_isa();
  if (!isa.ok()) return false;
  for (jit::CodeGenerator* generator : jit::compiling_generators()) {
    if (!generator->targets(*isa)) continue;
    auto add = [&](const std::string& name, auto function, auto argument) {
      const std::string full = name + "/" + std::string(isa_info(*isa).name) + "/" + std::string(generator->name());
      benchmark::RegisterBenchmark(full.c_str(), function, argument, *isa, generator)->MinTime(0.2);
    };
    add("pack_b/nn", pack_b, matmul::BLayout::kNn);
    add("pack_b/nt", pack_b, matmul::BLayout::kNt);
    add("rows_of_a/in_place", rows_of_a, matmul::PackA::kNone);
    add("rows_of_a/packed", rows_of_a, matmul::PackA::kRows);
  }
  return true;
}();

}  // namespace
}  // namespace hone::bench
