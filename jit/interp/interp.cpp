// The interpreter as a code generator: nothing is emitted, the kernel is executed statement by statement. It is the
// oracle of every differential test, and what still runs where executable memory is refused.
#include <memory>

#include "jit/codegen.h"
#include "kernels/ir/interpret.h"

namespace hone::jit {

namespace {

class InterpretedKernel final : public CompiledKernel {
 public:
  explicit InterpretedKernel(const ir::Kernel& kernel) : interpreter_(kernel) {}
  ir::TaskFn entry() const override { return nullptr; }
  void run(void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace) const override {
    interpreter_.run(buffers, params, tasks, workspace);
  }
  std::span<const std::byte> code() const override { return {}; }

 private:
  ir::Interpreter interpreter_;
};

class InterpGenerator final : public CodeGenerator {
 public:
  std::string_view name() const override { return "interp"; }
  std::string version() const override { return "interp-1"; }
  bool targets(Isa) const override { return true; }
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa, const CompileOptions&) override {
    return std::unique_ptr<CompiledKernel>(std::make_unique<InterpretedKernel>(kernel));
  }
};

}  // namespace

std::unique_ptr<CodeGenerator> make_interp_generator() { return std::make_unique<InterpGenerator>(); }

}  // namespace hone::jit
