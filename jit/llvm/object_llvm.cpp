// Target machine and pass pipeline. Ours has no IR passes: the lowering emits loops and addresses in their final form.
// Code generation is LLVM's own, without its IR preparation (loop strength reduction and friends would choose other
// induction pointers, one per row). README.md says what each choice measured. The standard pipelines take the same IR
// the usual way, for comparison.
//
// LLVM ends the process on what it calls fatal errors. Their causes are avoided rather than handled: a handler may not
// return, and there is one per process, which a host that uses LLVM itself may want. What is left is an exhausted heap.
#include <fmt/format.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <map>

#include "jit/dump.h"
#include "jit/exec_memory.h"
#include "jit/llvm/lower_internal.h"
#include "jit/llvm/object.h"
#include "jit/llvm/pipeline_internal.h"
#include "jit/symbol.h"

namespace hone::jit {

namespace {

// The usual entry point, addISelPasses, brings the IR preparation with it. This names the part behind that, which is
// protected.
struct InstructionSelection : llvm::TargetPassConfig {
  using TargetPassConfig::addCoreISelPasses;
};

std::string feature_string(const LlvmMachine& machine) {
  std::string text(machine.also);
  for (const std::string& name : machine.features) text += "+" + name + ",";
  return text;
}

// More than the ISA requires is enabled only where the kernel asks for it.
void set_attributes(llvm::Function& f, const ir::Kernel& kernel, const LlvmTarget& target) {
  const IsaInfo& isa = isa_info(target.isa);
  const LlvmMachine machine = llvm_machine(isa, target.tune);
  std::string features = feature_string(machine);
  for (const std::string& name : ir::required_features(kernel).names()) features += "+" + name + ",";
  if (ir::required_features(kernel) != FeatureSet{}) f.addFnAttr("target-features", features);
  const std::string bits = std::to_string(isa.vector_bits);
  f.addFnAttr(llvm::Attribute::NoUnwind);
  f.addFnAttr("prefer-vector-width", bits);
  f.addFnAttr("min-legal-vector-width", bits);
  f.addFnAttr("tune-cpu", machine.tune);
}

// Without a handler LLVM would end the process on an error diagnostic.
void collect_errors(llvm::LLVMContext& context, std::string& errors) {
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* out) {
        if (info->getSeverity() != llvm::DS_Error) return;
        llvm::raw_string_ostream stream(*static_cast<std::string*>(out));
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info->print(printer);
      },
      &errors);
}

// Code generation as every front end asks for it.
Status generate_as_usual(llvm::LLVMTargetMachine& machine, llvm::Module& module, llvm::CodeGenFileType type,
                         llvm::raw_pwrite_stream& stream) {
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(no_library(machine.getTargetTriple())));  // `passes` owns it
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    return internal_error("LLVM cannot write this kind of file");
  passes.run(module);
  return {};
}

Status generate(llvm::LLVMTargetMachine& machine, llvm::Module& module, const LlvmTarget& target,
                llvm::CodeGenFileType type, llvm::SmallVectorImpl<char>& out) {
  llvm::raw_svector_ostream stream(out);
  if (target.pipeline != LlvmPipeline::kOwn) return generate_as_usual(machine, module, type, stream);
  llvm::legacy::PassManager passes;
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(true);
  // It would keep the constants of one loop in registers across another, in front of it, that needs them all.
  config->disablePass(&llvm::EarlyMachineLICMID);
  if (!llvm_machine(isa_info(target.isa), target.tune).schedule) config->disablePass(&llvm::MachineSchedulerID);
  passes.add(config);
  auto* info = new llvm::MachineModuleInfoWrapperPass(&machine);  // `passes` owns both
  passes.add(info);
  config->addISelPrepare();
  if ((config->*&InstructionSelection::addCoreISelPasses)()) return internal_error("LLVM has no instruction selector");
  passes.add(fold_broadcasts_of_pairs());
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, stream, nullptr, type, info->getMMI().getContext()))
    return internal_error("LLVM cannot write this kind of file");
  passes.add(llvm::createFreeMachineFunctionPass());
  passes.run(module);
  return {};
}

// For HONE_JIT_DUMP: what goes into code generation and the assembly that comes out, by a second one of a copy, since
// code generation may change the IR.
Status describe(llvm::LLVMTargetMachine& machine, const llvm::Module& module, const LlvmTarget& target,
                LlvmObject& object) {
  std::string problems;
  llvm::raw_string_ostream problem_stream(problems);
  if (llvm::verifyModule(module, &problem_stream)) return internal_error("malformed LLVM IR: " + problems);
  llvm::raw_string_ostream stream(object.ir);
  module.print(stream, nullptr);
  llvm::SmallVector<char, 0> text;
  HONE_RETURN_IF_ERROR(
      generate(machine, *llvm::CloneModule(module), target, llvm::CodeGenFileType::AssemblyFile, text));
  object.listing.assign(text.begin(), text.end());
  return {};
}

llvm::CodeGenOptLevel level_of(LlvmPipeline pipeline) {
  switch (pipeline) {
    case LlvmPipeline::kO0:
      return llvm::CodeGenOptLevel::None;
    case LlvmPipeline::kO1:
      return llvm::CodeGenOptLevel::Less;
    case LlvmPipeline::kO3:
      return llvm::CodeGenOptLevel::Aggressive;
    case LlvmPipeline::kOwn:
    case LlvmPipeline::kO2:
      break;
  }
  return llvm::CodeGenOptLevel::Default;
}

// Only what the ISA names is enabled, unless a kernel asks for more (set_attributes); LLVM never looks at the host.
Result<std::unique_ptr<llvm::LLVMTargetMachine>> make_machine(const LlvmTarget& wanted) {
  const LlvmMachine machine = llvm_machine(isa_info(wanted.isa), wanted.tune);
  HONE_ASSIGN_OR_RETURN(const llvm::Target* target, find_llvm_target(machine.triple));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::LLVMTargetMachine>(static_cast<llvm::LLVMTargetMachine*>(
      target->createTargetMachine(machine.triple, machine.cpu, feature_string(machine), options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, level_of(wanted.pipeline), /*JIT=*/true)));
}

}  // namespace

std::string target_text(const LlvmTarget& target) {
  const auto& [isa, tune, pipeline] = target;  // a field that is added does not compile until it is part of the text
  const IsaInfo& info = isa_info(isa);
  const LlvmMachine machine = llvm_machine(info, tune);
  return fmt::format("{} {} {} bits {} tune {} by {}", machine.triple, machine.cpu, feature_string(machine),
                     info.vector_bits, machine.tune, generator_name(pipeline));
}

size_t symbol_size(const llvm::MemoryBuffer& object, std::string_view symbol) {
  auto file = llvm::object::ObjectFile::createObjectFile(object.getMemBufferRef());
  if (!file) {
    llvm::consumeError(file.takeError());  // the linker reads the same object and reports it
    return 0;
  }
  for (const llvm::object::ELFSymbolRef s : (*file)->symbols()) {
    auto name = s.getName();
    if (!name)
      llvm::consumeError(name.takeError());
    else if (std::string_view(*name) == symbol)
      return s.getSize();
  }
  return 0;
}

size_t mapped_size(const llvm::MemoryBuffer& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(object.getMemBufferRef());
  if (!file) {
    llvm::consumeError(file.takeError());
    return whole_pages(object.getBufferSize());
  }
  std::map<uint64_t, size_t> bytes;  // by the flags that decide the protection
  for (const llvm::object::ELFSectionRef section : (*file)->sections()) {
    const uint64_t flags = section.getFlags();
    if ((flags & llvm::ELF::SHF_ALLOC) == 0 || section.getSize() == 0) continue;
    size_t& at = bytes[flags & (llvm::ELF::SHF_WRITE | llvm::ELF::SHF_EXECINSTR)];
    at = llvm::alignTo(at, section.getAlignment()) + section.getSize();
  }
  size_t all = 0;
  for (const auto& [flags, size] : bytes) all += whole_pages(size);
  return all;
}

std::vector<std::string> llvm_features(Isa isa) { return llvm_machine(isa_info(isa), "").features; }
std::string llvm_triple(Isa isa) { return std::string(llvm_machine(isa_info(isa), "").triple); }
bool llvm_emits(Isa isa) { return find_llvm_target(llvm_machine(isa_info(isa), "").triple).ok(); }

LlvmCompiler::LlvmCompiler() = default;
LlvmCompiler::~LlvmCompiler() = default;

Result<LlvmObject> LlvmCompiler::compile(const ir::Kernel& kernel, const LlvmTarget& target) {
  std::unique_ptr<llvm::LLVMTargetMachine> machine = take(target);
  if (machine == nullptr) {
    HONE_ASSIGN_OR_RETURN(machine, make_machine(target));
  }
  Result<LlvmObject> object = compile(kernel, target, *machine);
  // After an error the machine's state is nobody's to vouch for.
  if (object.ok()) {
    const std::lock_guard lock(mutex_);
    idle_.push_back({target, std::move(machine)});
  }
  return object;
}

Result<LlvmObject> LlvmCompiler::compile(const ir::Kernel& kernel, const LlvmTarget& target,
                                         llvm::LLVMTargetMachine& machine) {
  std::string error;
  llvm::LLVMContext context;
  context.setDiscardValueNames(!dump_enabled());
  collect_errors(context, error);
  llvm::Module module(kernel.name, context);
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());

  LlvmObject object;
  object.symbol = kernel_symbol(kernel.name, generator_name(target.pipeline));
  HONE_RETURN_IF_ERROR(LlvmLowering(kernel, isa_info(target.isa), module).lower(object.symbol));
  set_attributes(*module.getFunction(object.symbol), kernel, target);
  optimise(module, machine, target.pipeline);
  if (dump_enabled()) HONE_RETURN_IF_ERROR(describe(machine, module, target, object));
  llvm::SmallVector<char, 0> bytes;
  HONE_RETURN_IF_ERROR(generate(machine, module, target, llvm::CodeGenFileType::ObjectFile, bytes));
  if (!error.empty()) return internal_error("LLVM: " + error);
  object.buffer = std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), kernel.name, false);
  object.size = symbol_size(*object.buffer, object.symbol);
  return object;
}

std::unique_ptr<llvm::LLVMTargetMachine> LlvmCompiler::take(const LlvmTarget& target) {
  const std::lock_guard lock(mutex_);
  for (Idle& idle : idle_)
    if (idle.target == target) {
      std::unique_ptr<llvm::LLVMTargetMachine> machine = std::move(idle.machine);
      idle = std::move(idle_.back());
      idle_.pop_back();
      return machine;
    }
  return nullptr;
}

}  // namespace hone::jit
