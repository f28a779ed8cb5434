#include "jit/llvm/cached_object.h"

#include <llvm/Support/MemoryBuffer.h>

#include <optional>
#include <utility>

#include "engine/base/log.h"
#include "jit/cache/disk_cache.h"
#include "jit/dump.h"
#include "jit/llvm/lowering_digest.inc"  // kLoweringDigest, made by CMake
#include "kernels/ir/text.h"

namespace hone::jit {

namespace {

// The digest is of the sources that lower: who changes them and runs, before any version is raised, runs the change.
CacheKey key_of(const LlvmTarget& target, const std::string& version, std::string loop_ir) {
  return {.generator = std::string(generator_name(target.pipeline)),
          .version = version,
          .isa = std::string(isa_info(target.isa).name),
          .target = target_text(target) + "\n" + kLoweringDigest,
          .loop_ir = std::move(loop_ir)};
}

void keep(DiskCache& cache, const std::string& id, const CacheKey& key, const std::string& kernel,
          const LlvmObject& object) {
  cache.store(id, {.label = {.generator = key.generator,
                             .version = key.version,
                             .isa = key.isa,
                             .lowering = key.lowering(),
                             .kernel = kernel},
                   .symbol = object.symbol,
                   .size = object.size,
                   .object = object.buffer->getBuffer().str()});
}

// The entry, if its object is what it says: whoever reads the code goes as far as the size.
std::optional<LlvmObject> load(DiskCache& cache, const std::string& id, const std::string& kernel) {
  std::optional<CachedCode> code = cache.load(id);
  if (!code) return std::nullopt;
  LlvmObject object;
  object.buffer = llvm::MemoryBuffer::getMemBufferCopy(code->object, kernel);
  object.symbol = std::move(code->symbol);
  object.size = symbol_size(*object.buffer, object.symbol);
  if (object.size != 0 && object.size == code->size) return object;
  cache.remove(id);
  HONE_LOG_EVENT(LogTopic::kJit, "cache", {{"removed", id}, {"why", "it has no function of its symbol and size"}});
  return std::nullopt;
}

}  // namespace

Result<ObtainedObject> obtain_object(LlvmCompiler& compiler, const ir::Kernel& kernel, const LlvmTarget& target,
                                     const std::string& version, const CompileOptions& options) {
  const std::shared_ptr<DiskCache> cache = disk_cache();
  if (!options.cached || cache->place().folder.empty()) {
    HONE_ASSIGN_OR_RETURN(LlvmObject object, compiler.compile(kernel, target));
    return ObtainedObject{std::move(object), "bypass", ""};
  }
  const CacheKey key = key_of(target, version, ir::print(kernel));
  std::string id = key.id();
  if (!dump_enabled())
    if (std::optional<LlvmObject> object = load(*cache, id, kernel.name))
      return ObtainedObject{std::move(*object), "hit", std::move(id)};
  HONE_ASSIGN_OR_RETURN(LlvmObject object, compiler.compile(kernel, target));
  keep(*cache, id, key, kernel.name, object);
  return ObtainedObject{std::move(object), "miss", ""};
}

Result<ObtainedObject> compile_again(LlvmCompiler& compiler, const ir::Kernel& kernel, const LlvmTarget& target,
                                     const std::string& version, const std::string& id) {
  HONE_ASSIGN_OR_RETURN(LlvmObject object, compiler.compile(kernel, target));
  keep(*disk_cache(), id, key_of(target, version, ""), kernel.name, object);
  return ObtainedObject{std::move(object), "miss", ""};
}

std::string current_lowering(std::string_view generator, std::string_view isa_name) {
  const std::optional<Isa> isa = parse_isa(isa_name);
  if (!isa) return "";
  for (const LlvmPipeline pipeline :
       {LlvmPipeline::kOwn, LlvmPipeline::kO0, LlvmPipeline::kO1, LlvmPipeline::kO2, LlvmPipeline::kO3})
    if (generator_name(pipeline) == generator)
      return key_of({.isa = *isa, .tune = "", .pipeline = pipeline}, "", "").lowering();
  return "";
}

}  // namespace hone::jit
