// The kernels of packages as a code generator. It emits nothing: compile() finds the kernel by its LoopIR, so that
// everything which asks a generator for code (caches, plans, launches) has code of a package the same way.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jit/aot/package.h"
#include "jit/codegen.h"

namespace hone::jit {

inline constexpr std::string_view kPackageCodegen = "package";

class PackageGenerator final : public CodeGenerator {
 public:
  // Loads a variant now, so that what cannot be loaded is known here; its code stays as long as this object or a kernel
  // from it. Of equal LoopIR for one instruction set the kernel that was added last counts. Error: that of
  // Package::load, and nothing is added. Thread safe.
  Status add(const Package& package, const PackageCode& code, const PackageHost& host);
  Status add(const Package& package, const PackageVariant& variant, const PackageHost& host) {
    return add(package, code_of(variant), host);
  }

  std::string_view name() const override { return kPackageCodegen; }
  std::string version() const override { return "package-" + std::to_string(kPackageAbi); }
  bool targets(Isa isa) const override;
  bool emits(Isa isa) const override { return targets(isa); }
  // Error: unsupported where no package has this very kernel.
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                  const CompileOptions& options) override;

 private:
  using Key = std::pair<Isa, std::string>;  // LoopIR as text

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const CompiledKernel>> kernels_;
};

}  // namespace hone::jit
