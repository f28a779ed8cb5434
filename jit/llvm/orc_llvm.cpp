// The "llvm" code generator: compiles a kernel to an object and links it with ORC into memory of its own. JITLink
// writes code to pages that are not executable and then makes them executable and read-only, so no page is ever both.
// Each kernel lives in its own JITDylib: dropping that releases its pages.
#include <fmt/format.h>
#include <llvm-c/Core.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/TargetParser/Host.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "jit/announce/announce.h"
#include "jit/codegen.h"
#include "jit/dump.h"
#include "jit/exec_memory.h"
#include "jit/llvm/cached_object.h"
#include "jit/llvm/lower_internal.h"
#include "jit/llvm/object.h"
#include "jit/llvm/pipelines.h"
#include "jit/llvm/target_internal.h"

namespace hone::jit {

namespace {

namespace orc = llvm::orc;

Status to_status(llvm::Error error, const std::string& what) {
  return internal_error(what + ": " + llvm::toString(std::move(error)));
}

// An ORC session. Kernels share it, and keep it alive.
class Linker {
 public:
  static Result<std::shared_ptr<Linker>> create() {
    // A process whose kernels all come from the cache on disk has compiled nothing, so nobody has entered targets yet.
    const std::string triple = llvm::sys::getProcessTriple();
    HONE_RETURN_IF_ERROR(find_llvm_target(triple).status());
    auto builder = orc::LLJITBuilder();
    builder.setJITTargetMachineBuilder(orc::JITTargetMachineBuilder(llvm::Triple(triple)))
        .setLinkProcessSymbolsByDefault(false)
        .setPlatformSetUp(orc::setUpInactivePlatform)
        .setObjectLinkingLayerCreator([](orc::ExecutionSession& session,
                                         const llvm::Triple&) -> llvm::Expected<std::unique_ptr<orc::ObjectLayer>> {
          auto memory = llvm::jitlink::InProcessMemoryManager::Create();
          if (!memory) return memory.takeError();
          return std::make_unique<orc::ObjectLinkingLayer>(session, std::move(*memory));
        });
    auto jit = builder.create();
    if (!jit) return to_status(jit.takeError(), "cannot start LLVM's linker");
    // The lookup returns the same error; ORC's default reporter would print it as well.
    (*jit)->getExecutionSession().setErrorReporter([](llvm::Error e) { llvm::consumeError(std::move(e)); });
    return std::shared_ptr<Linker>(new Linker(std::move(*jit)));
  }

  Result<orc::JITDylib*> link(LlvmObject& object, ir::TaskFn& entry) {
    orc::ExecutionSession& session = jit_->getExecutionSession();
    orc::JITDylib& library = session.createBareJITDylib("kernel." + std::to_string(next_.fetch_add(1)));
    if (llvm::Error e = jit_->addObjectFile(library, std::move(object.buffer))) {
      remove(library);
      return to_status(std::move(e), "cannot link " + object.symbol);
    }
    auto address = session.lookup({&library}, jit_->mangleAndIntern(object.symbol));
    if (!address) {
      remove(library);
      return to_status(address.takeError(), "cannot link " + object.symbol);
    }
    entry = address->getAddress().toPtr<ir::TaskFn>();
    return &library;
  }

  void remove(orc::JITDylib& library) {
    // Fails only for a session that has ended, which this object outlives.
    if (llvm::Error e = jit_->getExecutionSession().removeJITDylib(library)) llvm::consumeError(std::move(e));
  }

 private:
  explicit Linker(std::unique_ptr<orc::LLJIT> jit) : jit_(std::move(jit)) {}
  std::unique_ptr<orc::LLJIT> jit_;
  std::atomic<uint64_t> next_{0};
};

class LlvmKernel final : public CompiledKernel {
 public:
  LlvmKernel(const std::string& symbol, CodeShare share, std::shared_ptr<Linker> linker, orc::JITDylib* library,
             ir::TaskFn function, size_t size)
      : share_(std::move(share)),
        linker_(std::move(linker)),
        library_(library),
        entry_(function),
        size_(size),
        announcement_(symbol, code()) {}
  LlvmKernel(const LlvmKernel&) = delete;
  LlvmKernel& operator=(const LlvmKernel&) = delete;
  ~LlvmKernel() override {
    announcement_ = CodeAnnouncement();  // before the code goes
    linker_->remove(*library_);
  }

  ir::TaskFn entry() const override { return entry_; }
  std::span<const std::byte> code() const override { return {reinterpret_cast<const std::byte*>(entry_), size_}; }

 private:
  CodeShare share_;
  std::shared_ptr<Linker> linker_;
  orc::JITDylib* library_;
  ir::TaskFn entry_;
  size_t size_;
  CodeAnnouncement announcement_;
};

struct Pipeline {
  LlvmPipeline pipeline;
  std::string_view passes;  // behind the version of its generator
};
constexpr Pipeline kOwn = {LlvmPipeline::kOwn, ""};
constexpr Pipeline kStandard[] = {{LlvmPipeline::kO0, "/default<O0>"},
                                  {LlvmPipeline::kO1, "/default<O1>"},
                                  {LlvmPipeline::kO2, "/default<O2>"},
                                  {LlvmPipeline::kO3, "/default<O3>"}};

class LlvmGenerator final : public CodeGenerator {
 public:
  explicit LlvmGenerator(const Pipeline& pipeline) : pipeline_(pipeline) {}

  std::string_view name() const override { return generator_name(pipeline_.pipeline); }
  std::string version() const override {
    // Of the library that is loaded, which may be newer than the headers.
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    return fmt::format("llvm-{}.{}.{}/{}{}", major, minor, patch, kLlvmLoweringVersion, pipeline_.passes);
  }

  bool targets(Isa isa) const override {
    static const Result<Machine> machine = detect_machine();
    return machine.ok() && machine.value().supports(isa);
  }
  bool emits(Isa isa) const override { return llvm_emits(isa); }

  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                  const CompileOptions& options) override {
    HONE_RETURN_IF_ERROR(check_features(kernel, isa, options));
    HONE_RETURN_IF_ERROR(exec_memory_available());
    const auto start = std::chrono::steady_clock::now();
    const LlvmTarget target{.isa = isa, .tune = "", .pipeline = pipeline_.pipeline};
    HONE_ASSIGN_OR_RETURN(ObtainedObject got, obtain_object(compiler_, kernel, target, version(), options));
    const auto compiled = std::chrono::steady_clock::now();
    HONE_ASSIGN_OR_RETURN(std::shared_ptr<Linker> linker, this->linker());
    Result<Linked> placed = link(*linker, got.object);
    if (!placed.ok() && placed.status().code() != Code::kResourceExhausted && !got.cache_id.empty()) {
      // What the cache has is whole and yet no object for this linker: compile after all, and keep that instead.
      HONE_ASSIGN_OR_RETURN(got, compile_again(compiler_, kernel, target, version(), got.cache_id));
      placed = link(*linker, got.object);
    }
    HONE_RETURN_IF_ERROR(placed.status());
    const auto linked = std::chrono::steady_clock::now();
    HONE_LOG_EVENT(LogTopic::kJit, "compile",
                   {{"codegen", name()},
                    {"kernel", kernel.name},
                    {"isa", isa_info(isa).name},
                    {"bytes", got.object.size},
                    {"cache", got.cache},
                    {"ns", std::chrono::nanoseconds(linked - start).count()},
                    {"link_ns", std::chrono::nanoseconds(linked - compiled).count()}});
    auto compiled_kernel = std::make_unique<LlvmKernel>(got.object.symbol, std::move(placed->share), std::move(linker),
                                                        placed->library, placed->entry, got.object.size);
    if (dump_enabled()) {
      const std::span<const std::byte> code = compiled_kernel->code();
      const std::string_view bytes(reinterpret_cast<const char*>(code.data()), code.size());
      dump_kernel(kernel, name(), {{"ll", got.object.ir}, {"s", got.object.listing}, {"bin", bytes}});
    }
    return std::unique_ptr<CompiledKernel>(std::move(compiled_kernel));
  }

 private:
  struct Linked {
    CodeShare share;
    orc::JITDylib* library;
    ir::TaskFn entry;
  };
  // Error: resource_exhausted when all live code together would be too much. The share is given back with any error.
  static Result<Linked> link(Linker& linker, LlvmObject& object) {
    HONE_ASSIGN_OR_RETURN(CodeShare share, CodeShare::take(mapped_size(*object.buffer)));
    ir::TaskFn entry = nullptr;
    HONE_ASSIGN_OR_RETURN(orc::JITDylib * library, linker.link(object, entry));
    return Linked{std::move(share), library, entry};
  }

  // Made by the first compile: a process that only reads plans never pays for it.
  Result<std::shared_ptr<Linker>> linker() {
    std::lock_guard lock(mutex_);
    if (linker_ == nullptr) {
      HONE_ASSIGN_OR_RETURN(linker_, Linker::create());
    }
    return linker_;
  }

  const Pipeline pipeline_;
  LlvmCompiler compiler_;
  std::mutex mutex_;
  std::shared_ptr<Linker> linker_;
};

}  // namespace

std::unique_ptr<CodeGenerator> make_llvm_generator();
std::unique_ptr<CodeGenerator> make_llvm_generator() { return std::make_unique<LlvmGenerator>(kOwn); }

CodeGenerator* find_llvm_pipeline(std::string_view name) {
  static const std::vector<std::unique_ptr<LlvmGenerator>> all = [] {
    std::vector<std::unique_ptr<LlvmGenerator>> made;
    for (const Pipeline& p : kStandard) made.push_back(std::make_unique<LlvmGenerator>(p));
    return made;
  }();
  for (const std::unique_ptr<LlvmGenerator>& g : all)
    if (g->name() == name) return g.get();
  return nullptr;
}

std::vector<std::string_view> llvm_pipeline_names() {
  std::vector<std::string_view> names;
  for (const Pipeline& p : kStandard) names.push_back(generator_name(p.pipeline));
  return names;
}

}  // namespace hone::jit
