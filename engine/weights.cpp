// Packing is a LoopIR kernel like any other, compiled by whatever generates code here; where nothing does, a plain loop
// does it. Both write every element of the panels, so the memory needs no clearing.
#include "engine/weights_internal.h"

#include <algorithm>

#include "engine/base/log.h"
#include "jit/launch.h"
#include "kernels/matmul/fallback.h"
#include "kernels/matmul/program.h"

namespace hone {
namespace {

using matmul::MatmulProblem;

// Panels of one batch item as tasks of a plain loop.
struct PlainPack {
  const MatmulProblem& source;
  const float* src;
  float* dst;
  int64_t width;

  static void run(void* context, int64_t begin, int64_t end) {
    const auto& c = *static_cast<const PlainPack*>(context);
    matmul::fallback_pack_b(c.source, c.src, c.dst, c.width, begin, end);
  }
};

Status run_on_all_threads(Engine::State& state, std::string_view node, int64_t tasks, runtime::RangeBody body) {
  HONE_ASSIGN_OR_RETURN(runtime::Schedule * schedule, state.schedules.get(state.target.threads));
  run_tasks(schedule, {.op = "pack", .node = node}, tasks, body);
  return {};
}

// The packing kernel, of a package or compiled; null when there is none.
Result<plan::KernelCache::Handle> packing_kernel(Engine::State& state, const MatmulProblem& item, int64_t width,
                                                 Isa isa) {
  const std::vector<jit::CodeGenerator*> generators = state.helper_generators(isa);
  if (generators.empty()) return plan::KernelCache::Handle();
  HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, matmul::lower_pack_b(item, width, isa));
  plan::Compiled compiled = plan::compile_first(state.kernels, {&kernel, 1}, isa, generators);
  for (const plan::CompileFailure& f : compiled.failures)
    HONE_LOG_EVENT(LogTopic::kJit, "pack_fallback", {{"codegen", f.codegen}, {"why", f.why}});
  return compiled.executables.empty() ? nullptr : std::move(compiled.executables.front());
}

}  // namespace

Result<PackedWeights> pack_weights(Engine::State& state, const MatmulProblem& source, const float* weights,
                                   int64_t width, Isa isa) {
  const bool read = source.n != 0 && source.k != 0 && source.alpha != 0;
  if (read && weights == nullptr) return invalid_argument("weights are null but the matmul reads them");
  return pack_weights(
      state, source, [&](int64_t item) { return weights + item * source.batch_stride_b(); }, width, isa);
}

Result<PackedWeights> pack_weights(Engine::State& state, const MatmulProblem& source, const WeightItem& item_of,
                                   int64_t width, Isa isa) {
  PackedWeights packed;
  packed.layout.width = width;
  if (source.n == 0 || source.k == 0 || source.alpha == 0) return packed;  // never read
  const bool shared = source.sb == 0 || source.batch == 1;
  // Every item starts on a cache line, as packing stores whole vectors.
  const int64_t item_elements = (packed.layout.elements(source.n, source.k) + 15) / 16 * 16;
  packed.layout.batch_stride = shared ? 0 : item_elements;
  const int64_t items = shared ? 1 : source.batch;
  if (item_elements > INT64_MAX / 4 / items)
    return invalid_argument("too large: the bytes of packed B do not fit 63 bits");
  HONE_ASSIGN_OR_RETURN(packed.memory, AlignedBuffer::allocate_elements(item_elements * items, sizeof(float)));

  MatmulProblem item = source;
  item.batch = 1;
  item.sa = item.sb = item.sc = -1;
  HONE_ASSIGN_OR_RETURN(const plan::KernelCache::Handle kernel, packing_kernel(state, item, width, isa));
  const std::string node = matmul::to_string(source);
  for (int64_t i = 0; i < items; ++i) {
    const float* src = item_of(i);
    float* dst = packed.memory.as<float>().data() + i * item_elements;
    if (kernel == nullptr) {
      PlainPack body{item, src, dst, width};
      HONE_RETURN_IF_ERROR(run_on_all_threads(state, node, packed.layout.panels(item.n), {PlainPack::run, &body}));
      continue;
    }
    void* buffers[] = {const_cast<float*>(src), dst};
    jit::Launch launch(*kernel, buffers, nullptr, &state.workspaces);
    HONE_RETURN_IF_ERROR(run_on_all_threads(state, node, launch.tasks(), {jit::Launch::run_range, &launch}));
    if (launch.out_of_memory()) return resource_exhausted("no memory for the workspace of packing");
  }
  return packed;
}

}  // namespace hone
