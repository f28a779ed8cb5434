// Opening a package and loading its kernels. No LLVM and no other code generator: this is all that a process needs that
// runs what another one compiled.
//
// Everything is checked before the dynamic loader sees a byte:
//   folder      each file by name in the folder itself (no path, no symbolic link), a regular file of the listed size
//   checksum    of the bytes that are then used: a file is read once, into memory, and an object is loaded from a
//   sealed
//               memfd made of these bytes, so there is no moment at which another file can take its place. Constants of
//               a graph, which are data and may be large, are mapped instead: what is read later is the file as it then
//               is
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
#include <span>
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
Status runs_on(const PackageCode& code, const PackageHost& host);
inline Status runs_on(const PackageVariant& variant, const PackageHost& host) {
  return runs_on(code_of(variant), host);
}
// The variant that runs there with the strongest instruction set, of equal ones the first: its index. Error:
// unsupported with the reason for each variant.
Result<size_t> choose_variant(const PackageOp& op, const PackageHost& host);
// The same of the kernels of a graph.
Result<size_t> choose_code(std::span<const PackageCode> codes, const PackageHost& host);

// The bytes of a file, in memory until this goes.
class MappedFile {
 public:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_;
  size_t size_;
};

class Package {
 public:
  // Reads and checks the folder, loads nothing. Errors: not_found (no such folder), data_loss (not a package, damaged;
  // names the file and what is wrong with it), unsupported (another format or ABI).
  static Result<std::shared_ptr<const Package>> open(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // LoopIR of a kernel, as the file has it.
  const std::string& loop_ir(const PackageKernel& kernel) const { return contents_.at(kernel.loop_ir); }

  // The text of a graph. Only of a package with one.
  const std::string& graph_text() const { return contents_.at(manifest_.graph->text); }
  // The elements of a constant of the graph.
  std::shared_ptr<const MappedFile> constant(const PackageConstant& constant) const {
    return constants_.at(constant.file);
  }

  // The kernels of a variant, ready to run, one after the other. Thread safe. The object stays loaded as long as one of
  // its kernels lives. Errors: what runs_on says; data_loss naming the file.
  Result<std::vector<Executable>> load(const PackageCode& code, const PackageHost& host) const;
  Result<std::vector<Executable>> load(const PackageVariant& variant, const PackageHost& host) const {
    return load(code_of(variant), host);
  }

 private:
  class SharedObject;

  Package(std::string path, Manifest manifest) : path_(std::move(path)), manifest_(std::move(manifest)) {}
  static Result<std::shared_ptr<const Package>> read(const std::string& path);
  Status read_files(int folder);
  Result<std::vector<Executable>> load_kernels(const PackageCode& code, const PackageHost& host) const;
  Result<std::shared_ptr<const SharedObject>> object(const PackageCode& code) const;

  std::string path_;
  Manifest manifest_;
  std::map<std::string, std::string, std::less<>> contents_;  // of files with code and text, by name
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> constants_;  // the same of constants
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::weak_ptr<const SharedObject>, std::less<>> loaded_;
};

}  // namespace hone::jit
