// The innermost loop alone: one register tile of C, A and packed B in L1, per ISA, tile and code generator. The
// distance from this to the FMA peak of `hone info` is what instruction selection costs; the distance from a whole
// matmul to this is what packing and caches cost.
#include "bench/bench_internal.h"

namespace hone::bench {
namespace {

struct Tile {
  Isa isa;
  int64_t mr, nr;
};
// The widest of each shape that the registers hold, and its neighbours: 32 registers with AVX-512, 16 with AVX2.
constexpr Tile kTiles[] = {{Isa::kAvx512, 14, 32}, {Isa::kAvx512, 12, 32}, {Isa::kAvx512, 6, 64},
                           {Isa::kAvx512, 8, 48},  {Isa::kAvx2, 6, 16},    {Isa::kAvx2, 4, 24}};

// k=128: A (14 x 128) and B (128 x 64) take 39 KiB at most, and L1 has 48 KiB where there is AVX-512, 32 KiB elsewhere.
constexpr int64_t kK = 128;

void microkernel(benchmark::State& state, Tile tile, jit::CodeGenerator* generator) {
  const int lanes = isa_info(tile.isa).lanes_f32();
  const matmul::MatmulProblem problem{.m = tile.mr, .n = tile.nr, .k = kK, .b = matmul::BLayout::kPacked};
  const matmul::TransformProgram program{.isa = tile.isa,
                                         .lanes = lanes,
                                         .mr = tile.mr,
                                         .nr = tile.nr,
                                         .mc = tile.mr,
                                         .nc = tile.nr,
                                         .kc = kK,
                                         .panel = lanes};
  const Result<jit::Executable> made = make(problem, program, *generator);
  const jit::Executable* executable = value_or_skip(state, made);
  if (executable == nullptr) return;
  const AlignedBuffer a = floats(problem.m * kK), b = floats(problem.n * kK), c = floats(problem.m * problem.n);
  const matmul::Arguments arguments =
      matmul::bind(problem, {.a = a.as<float>().data(), .b = b.as<float>().data(), .c = c.as<float>().data()});
  for (auto _ : state) call(*executable, arguments.buffers.data(), arguments.params.data());
  state.counters["GFLOP/s"] = benchmark::Counter(problem.flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes"] = static_cast<double>(executable->kernel->code().size());
}

const bool kRegistered = [] {
  for (const Tile& tile : kTiles) {
    if (!this_machine().supports(tile.isa)) continue;
    for (jit::CodeGenerator* generator : jit::compiling_generators()) {
      if (!generator->targets(tile.isa)) continue;
      const std::string name = "microkernel/" + std::string(isa_info(tile.isa).name) + "/" + std::to_string(tile.mr) +
                               "x" + std::to_string(tile.nr) + "/" + std::string(generator->name());
      benchmark::RegisterBenchmark(name.c_str(), microkernel, tile, generator)->MinTime(0.1);
    }
  }
  return true;
}();

}  // namespace
}  // namespace hone::bench
