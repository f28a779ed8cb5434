// Packing f32 is a LoopIR kernel like any other, compiled by whatever generates code here; where nothing does, and for
// weights of 16 bits, a plain loop does it. Both write every element of the panels, so the memory needs no clearing.
#include "engine/weights_internal.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/log.h"
#include "engine/base/math.h"
#include "jit/launch.h"
#include "kernels/matmul/fallback.h"
#include "kernels/matmul/program.h"

namespace hone {
namespace {

using matmul::MatmulProblem;

// Panels of one batch item as tasks of a plain loop.
struct PlainPack {
  const MatmulProblem& source;
  const void* src;
  void* dst;
  const matmul::PackedB& layout;

  static void run(void* context, int64_t begin, int64_t end) {
    const auto& c = *static_cast<const PlainPack*>(context);
    matmul::fallback_pack_b(c.source, c.src, c.dst, c.layout, begin, end);
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
  if (item.dtype != DType::kF32) return plan::KernelCache::Handle();
  const std::vector<jit::CodeGenerator*> generators = state.helper_generators(isa);
  if (generators.empty()) return plan::KernelCache::Handle();
  HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, matmul::lower_pack_b(item, width, isa));
  plan::Compiled compiled = plan::compile_first(state.kernels, {&kernel, 1}, isa, generators);
  for (const plan::CompileFailure& f : compiled.failures)
    HONE_LOG_EVENT(LogTopic::kJit, "pack_fallback", {{"codegen", f.codegen}, {"why", f.why}});
  return compiled.executables.empty() ? nullptr : std::move(compiled.executables.front());
}

bool read(const MatmulProblem& source) { return source.n != 0 && source.k != 0 && source.alpha != 0; }

struct PanelSizes {
  matmul::PackedB layout;
  int64_t items = 1, item_bytes = 0;
  int64_t bytes() const { return items * item_bytes; }
};

// Every item starts on a cache line, as packing stores whole vectors.
Result<PanelSizes> panel_sizes(const MatmulProblem& source, const matmul::PackedB& panels) {
  constexpr int64_t kLine = 64;
  PanelSizes sizes{.layout = {.width = panels.width, .kr = panels.kr}};
  const bool shared = source.sb == 0 || source.batch == 1;
  sizes.items = shared ? 1 : source.batch;
  sizes.item_bytes = round_up(sizes.layout.elements(source.n, source.k) * source.bytes_b(), kLine);
  if (!shared) sizes.layout.batch_stride = sizes.item_bytes / source.bytes_b();
  if (sizes.item_bytes > INT64_MAX / sizes.items)
    return invalid_argument("too large: the bytes of packed B do not fit 63 bits");
  return sizes;
}

// What packing made of which part of the content. A number for the layout of panels: whoever changes it raises it.
std::string stored_key(const std::string& content, const MatmulProblem& s, const matmul::PackedB& panels) {
  return fmt::format("{}/panels 1 {} n={},k={},b={},ldb={},batch={},sb={},width={}{}", content, dtype_name(s.dtype),
                     s.n, s.k, matmul::layout_name(s.b), s.row_stride_b(), s.batch,
                     s.batch == 1 ? 0 : s.batch_stride_b(), panels.width,
                     panels.kr == 1 ? "" : fmt::format(",kr={}", panels.kr));
}

}  // namespace

Result<PackedWeights> pack_weights(Engine::State& state, const MatmulProblem& source, const WeightSource& weights,
                                   const matmul::PackedB& panels, Isa isa) {
  if (!read(source)) return PackedWeights{.bytes = {}, .owner = nullptr, .layout = panels};
  HONE_ASSIGN_OR_RETURN(const PanelSizes sizes, panel_sizes(source, panels));
  const bool stored = weights.store != nullptr && !weights.content_key.empty();
  const std::string key = stored ? stored_key(weights.content_key, source, panels) : "";
  if (stored) {
    std::optional<WeightStore::Found> found = weights.store->find(key, sizes.bytes());
    if (found && std::ssize(found->bytes) == sizes.bytes())
      return PackedWeights{.bytes = found->bytes, .owner = std::move(found->owner), .layout = sizes.layout};
  }
  HONE_ASSIGN_OR_RETURN(const void* elements, weights.elements());
  if (elements == nullptr) return invalid_argument("weights are null but the matmul reads them");
  const int64_t item_bytes = source.batch_stride_b() * source.bytes_b();
  HONE_ASSIGN_OR_RETURN(
      PackedWeights packed,
      pack_weights(
          state, source, [&](int64_t item) { return static_cast<const std::byte*>(elements) + item * item_bytes; },
          panels, isa));
  if (stored) weights.store->put(key, packed.bytes);
  return packed;
}

Result<PackedWeights> pack_weights(Engine::State& state, const MatmulProblem& source, const WeightItem& item_of,
                                   const matmul::PackedB& panels, Isa isa) {
  if (!read(source)) return PackedWeights{.bytes = {}, .owner = nullptr, .layout = panels};
  HONE_ASSIGN_OR_RETURN(const PanelSizes sizes, panel_sizes(source, panels));
  HONE_ASSIGN_OR_RETURN(AlignedBuffer memory, AlignedBuffer::allocate(sizes.bytes()));
  MatmulProblem item = source;
  item.batch = 1;
  item.sa = item.sb = item.sc = -1;
  HONE_ASSIGN_OR_RETURN(const plan::KernelCache::Handle kernel, packing_kernel(state, item, panels.width, isa));
  const std::string node = matmul::to_string(source);
  for (int64_t i = 0; i < sizes.items; ++i) {
    const void* src = item_of(i);
    void* dst = memory.data() + i * sizes.item_bytes;
    if (kernel == nullptr) {
      PlainPack body{item, src, dst, panels};
      HONE_RETURN_IF_ERROR(run_on_all_threads(state, node, sizes.layout.panels(item.n), {PlainPack::run, &body}));
      continue;
    }
    void* buffers[] = {const_cast<void*>(src), dst};
    jit::Launch launch(*kernel, buffers, nullptr, &state.workspaces);
    HONE_RETURN_IF_ERROR(run_on_all_threads(state, node, launch.tasks(), {jit::Launch::run_range, &launch}));
    if (launch.out_of_memory()) return resource_exhausted("no memory for the workspace of packing");
  }
  const std::span<const std::byte> bytes(memory.data(), static_cast<size_t>(sizes.bytes()));
  return PackedWeights{
      .bytes = bytes, .owner = std::make_shared<const AlignedBuffer>(std::move(memory)), .layout = sizes.layout};
}

}  // namespace hone
