// See write.h and compile_internal.h. What a CPU can do is LLVM's answer, for every architecture that this LLVM has, so
// that an instruction set of another one is a row of isa.inc and nothing here.
#include "jit/aot/compile_internal.h"

#ifdef HONE_WITH_LLVM
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/TargetParser/Triple.h>
#endif
#include <fmt/format.h>

#include <algorithm>

#include "jit/codegen.h"
#ifdef HONE_WITH_LLVM
#include "jit/llvm/object.h"
#endif

namespace hone::jit {

#ifdef HONE_WITH_LLVM

namespace {

LlvmCompiler& compiler() {
  static LlvmCompiler one;
  return one;
}

// What LLVM knows of the CPUs of one architecture.
std::unique_ptr<llvm::MCSubtargetInfo> subtarget(Isa isa, const std::string& cpu) {
  if (!llvm_emits(isa)) return nullptr;
  std::string error;
  const std::string triple = llvm_triple(isa);
  const llvm::Target* const target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return nullptr;
  return std::unique_ptr<llvm::MCSubtargetInfo>(target->createMCSubtargetInfo(triple, cpu, ""));
}

std::string feature_list(Isa isa) {
  std::string list;
  for (const std::string& name : llvm_features(isa)) list += (list.empty() ? "+" : ",+") + name;
  return list;
}

// Asking LLVM for a CPU that it does not know prints a warning, so its list is asked first.
bool knows(Isa isa, const std::string& cpu) {
  const std::unique_ptr<llvm::MCSubtargetInfo> any = subtarget(isa, "");
  return any != nullptr && any->isCPUStringValid(cpu);
}

bool has(Isa isa, const std::string& cpu) {
  return knows(isa, cpu) && subtarget(isa, cpu)->checkFeatures(feature_list(isa));
}

// A CPU that has the ISA; see AotTarget.
FeatureSet optional_features(Isa isa, const std::string& cpu, const FeatureSet& host) {
  FeatureSet found;
  const std::string pairs(feature_name(Feature::kAvx512Bf16));  // LLVM's name too
  if (!isa_info(isa).required.has(Feature::kAvx512F)) return found;
  if (cpu == "native" ? host.has(Feature::kAvx512Bf16) : subtarget(isa, cpu)->checkFeatures("+" + pairs))
    found.add(Feature::kAvx512Bf16);
  return found;
}

// Names of a level of features, of which LLVM has no machine model worth having.
bool is_generic(const std::string& cpu) { return cpu == "native" || cpu == "generic" || cpu.starts_with("x86-64"); }

Status unknown_cpu(const std::string& mcpu) {
  return invalid_argument(
      fmt::format("LLVM knows no CPU '{}'; names are those of clang's -mcpu: native, x86-64-v3, x86-64-v4, znver4, "
                  "sapphirerapids, neoverse-n1, ...",
                  mcpu));
}

}  // namespace

Result<AotTarget> aot_target(const std::string& mcpu, const FeatureSet& host, const Isa* wanted) {
  // Every architecture has a "generic": without an instruction set it is this machine's.
  const std::vector<Isa> here = isas_of(host_arch());
  const bool ours = std::any_of(here.begin(), here.end(), [&](Isa isa) { return knows(isa, mcpu); });
  bool known = mcpu == "native";
  for (auto isa = all_isas().rbegin(); isa != all_isas().rend(); ++isa) {
    known = known || knows(*isa, mcpu);
    if (wanted != nullptr ? *isa != *wanted : ours && isa_info(*isa).arch != host_arch()) continue;
    const bool can = mcpu == "native" ? host.contains(isa_info(*isa).required) : has(*isa, mcpu);
    if (!can) continue;
    return AotTarget{.isa = *isa,
                     .mcpu = mcpu == "native" ? "" : mcpu,
                     .tune = is_generic(mcpu) ? "" : mcpu,
                     .optional = optional_features(*isa, mcpu, host)};
  }
  if (!known) return unknown_cpu(mcpu);
  if (wanted == nullptr) return invalid_argument(fmt::format("CPU '{}' has no instruction set that hone emits", mcpu));
  return invalid_argument(fmt::format("CPU '{}' does not have {}, which needs {}", mcpu, isa_info(*wanted).name,
                                      fmt::join(isa_info(*wanted).required.names(), ", ")));
}

Result<AotObject> compile_object(const ir::Kernel& kernel, const AotTarget& target) {
  HONE_RETURN_IF_ERROR(check_features(kernel, target.isa, {.cpu = target.optional}));
  HONE_ASSIGN_OR_RETURN(const LlvmObject object, compiler().compile(kernel, {.isa = target.isa, .tune = target.tune}));
  return AotObject{.bytes = object.buffer->getBuffer().str(), .symbol = object.symbol};
}

Result<std::string> aot_arch(Isa isa) { return llvm::Triple(llvm_triple(isa)).getArchName().str(); }

Result<std::string> aot_codegen() {
  HONE_ASSIGN_OR_RETURN(const CodeGenerator* const llvm, find_code_generator("llvm"));
  return llvm->version();
}

#else

namespace {
Status no_llvm() { return unsupported("this build cannot compile packages: configure with HONE_WITH_LLVM=ON"); }
}  // namespace

Result<AotTarget> aot_target(const std::string&, const FeatureSet&, const Isa*) { return no_llvm(); }
Result<AotObject> compile_object(const ir::Kernel&, const AotTarget&) { return no_llvm(); }
Result<std::string> aot_arch(Isa) { return no_llvm(); }
Result<std::string> aot_codegen() { return no_llvm(); }

#endif

}  // namespace hone::jit
