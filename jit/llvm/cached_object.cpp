#include "jit/llvm/cached_object.h"

#include <llvm/Support/MemoryBuffer.h>

#include "jit/cache/disk_cache.h"
#include "jit/dump.h"
#include "jit/llvm/lowering_digest.inc"  // kLoweringDigest, made by CMake
#include "kernels/ir/text.h"

namespace hone::jit {

Result<ObtainedObject> obtain_object(LlvmCompiler& compiler, const ir::Kernel& kernel, const LlvmTarget& target,
                                     const std::string& version, const CompileOptions& options) {
  const std::shared_ptr<DiskCache> cache = disk_cache();
  const bool asks = options.cached && !cache->place().folder.empty();
  std::string id;
  const std::string generator(generator_name(target.pipeline)), isa(isa_info(target.isa).name);
  if (asks) {
    // The digest is of the sources that lower: who changes them and runs, before any version is raised, runs the
    // change.
    id = CacheKey{.generator = generator,
                  .version = version,
                  .isa = isa,
                  .target = target_text(target) + "\n" + kLoweringDigest,
                  .loop_ir = ir::print(kernel)}
             .id();
    if (std::optional<CachedCode> code = dump_enabled() ? std::nullopt : cache->load(id)) {
      LlvmObject object;
      object.buffer = llvm::MemoryBuffer::getMemBufferCopy(code->object, kernel.name);
      object.symbol = std::move(code->symbol);
      object.size = code->size;
      return ObtainedObject{std::move(object), "hit", std::move(id)};
    }
  }
  HONE_ASSIGN_OR_RETURN(LlvmObject object, compiler.compile(kernel, target));
  if (asks) {
    const llvm::StringRef bytes = object.buffer->getBuffer();
    cache->store(id, {.label = {.generator = generator, .version = version, .isa = isa, .kernel = kernel.name},
                      .symbol = object.symbol,
                      .size = object.size,
                      .object = bytes.str()});
  }
  return ObtainedObject{std::move(object), asks ? "miss" : "bypass", ""};
}

}  // namespace hone::jit
