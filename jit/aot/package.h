// Opening a package and loading its kernels. No LLVM and no other code generator: this is all that a process needs that
// runs what another one compiled.
//
// Everything is checked before the dynamic loader sees a byte:
//   folder      each file by name in the folder itself (no path, no symbolic link), a regular file of the listed size
//   checksum    of the bytes that are then used: a file is read once, into memory, and an object is loaded from a
//   sealed
//               memfd made of these bytes, so there is no moment at which another file can take its place
//   CPU         the architecture of this process, and every feature that the variant needs
//   object      elf_object.h: loading it runs nothing; each symbol is a function of it
//   LoopIR      parsed and verified, so that task bounds and workspace are those of a proven kernel
// What is not checked here is what op the LoopIR is of: whoever binds arguments compares it with what they lower
// (engine/plan/packages.h does).
//
// Depends on engine/base (status, guarded, isa, sha256), kernels/ir and nlohmann-json alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "jit/aot/manifest.h"
#include "jit/launch.h"

namespace hone::jit {

// What a package is opened for.
struct PackageHost {
  std::string arch;     // "x86_64"
  FeatureSet features;  // that code may use
};
// The architecture of this process: "x86_64", "aarch64", or "other", for which no package has code.
std::string_view process_arch();

// ok, or unsupported with what the host lacks.
Status runs_on(const PackageVariant& variant, const PackageHost& host);
// The variant that runs there with the strongest instruction set, of equal ones the first: its index. Error:
// unsupported with the reason for each variant.
Result<size_t> choose_variant(const PackageOp& op, const PackageHost& host);

class Package {
 public:
  // Reads and checks the folder, loads nothing. Errors: not_found (no such folder), data_loss (not a package, damaged;
  // names the file and what is wrong with it), unsupported (another format or ABI).
  static Result<std::shared_ptr<const Package>> open(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // LoopIR of a kernel, as the file has it.
  const std::string& loop_ir(const PackageKernel& kernel) const { return contents_.at(kernel.loop_ir); }

  // The kernels of a variant, ready to run, one after the other. Thread safe. The object stays loaded as long as one of
  // its kernels lives. Errors: what runs_on says; data_loss naming the file.
  Result<std::vector<Executable>> load(const PackageVariant& variant, const PackageHost& host) const;

 private:
  class SharedObject;

  Package(std::string path, Manifest manifest) : path_(std::move(path)), manifest_(std::move(manifest)) {}
  static Result<std::shared_ptr<const Package>> read(const std::string& path);
  Status read_files(int folder);
  Result<std::vector<Executable>> load_kernels(const PackageVariant& variant, const PackageHost& host) const;
  Result<std::shared_ptr<const SharedObject>> object(const PackageVariant& variant) const;

  std::string path_;
  Manifest manifest_;
  std::map<std::string, std::string, std::less<>> contents_;  // of files that ops name, by name
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::weak_ptr<const SharedObject>, std::less<>> loaded_;
};

}  // namespace hone::jit
