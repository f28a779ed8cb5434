// LlvmCompiler behind the cache on disk: what LLVM compiled once on this machine is not compiled again.
#pragma once

#include "engine/base/status.h"
#include "jit/codegen.h"
#include "jit/llvm/object.h"

namespace hone::jit {

struct ObtainedObject {
  LlvmObject object;
  const char* cache;     // "hit"; "miss"; "bypass" when it was not to be asked
  std::string cache_id;  // of a hit
};

// obtain_object() without looking: the entry `id`, which could not be linked, is written anew.
Result<ObtainedObject> compile_again(LlvmCompiler& compiler, const ir::Kernel& kernel, const LlvmTarget& target,
                                     const std::string& version, const std::string& id);

// EntryLabel::lowering of what this build would write now; "" for a generator or ISA that it has not.
std::string current_lowering(std::string_view generator, std::string_view isa);

// `version`: that of the generator, a part of the key. While HONE_JIT_DUMP is set the cache is not asked, as an entry
// has neither LLVM IR nor listing; what is compiled is kept all the same.
Result<ObtainedObject> obtain_object(LlvmCompiler& compiler, const ir::Kernel& kernel, const LlvmTarget& target,
                                     const std::string& version, const CompileOptions& options);

}  // namespace hone::jit
