// See package_generator.h.
#include "jit/aot/package_generator.h"

#include <algorithm>
#include <utility>

#include "kernels/ir/text.h"

namespace hone::jit {
namespace {

class Shared final : public CompiledKernel {
 public:
  explicit Shared(std::shared_ptr<const CompiledKernel> kernel) : kernel_(std::move(kernel)) {}
  ir::TaskFn entry() const override { return kernel_->entry(); }
  std::span<const std::byte> code() const override { return kernel_->code(); }

 private:
  std::shared_ptr<const CompiledKernel> kernel_;
};

}  // namespace

Status PackageGenerator::add(const Package& package, const PackageCode& code, const PackageHost& host) {
  HONE_ASSIGN_OR_RETURN(std::vector<Executable> loaded, package.load(code, host));
  const Isa isa = *parse_isa(code.isa);  // load() has refused a name that is none
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < loaded.size(); ++i)
    kernels_[{isa, package.loop_ir(code.kernels[i])}] = std::move(loaded[i].kernel);
  return {};
}

bool PackageGenerator::targets(Isa isa) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(kernels_.begin(), kernels_.end(), [isa](const auto& k) { return k.first.first == isa; });
}

Result<std::unique_ptr<CompiledKernel>> PackageGenerator::compile(const ir::Kernel& kernel, Isa isa,
                                                                  const CompileOptions&) {
  const std::lock_guard lock(mutex_);
  const auto at = kernels_.find({isa, ir::print(kernel)});
  if (at == kernels_.end()) return unsupported("no package has the code of " + kernel.name);
  return std::unique_ptr<CompiledKernel>(std::make_unique<Shared>(at->second));
}

}  // namespace hone::jit
