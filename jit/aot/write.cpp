// See write.h. Everything is written to a folder beside the place, which then takes the place in one step.
#include "jit/aot/write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <set>

#include "engine/base/guarded.h"
#include "engine/base/sha256.h"
#include "engine/base/version.h"
#include "jit/aot/compile_internal.h"
#include "jit/aot/link.h"
#include "jit/codegen.h"
#include "kernels/ir/text.h"

namespace hone::jit {
namespace {

namespace fs = std::filesystem;

// A folder that is gone when this goes, unless it was moved away.
class Scratch {
 public:
  static Result<Scratch> beside(const fs::path& place) {
    for (int i = 0;; ++i) {
      fs::path path = place.parent_path() / fmt::format(".{}.{}.{}", place.filename().string(), getpid(), i);
      if (mkdir(path.c_str(), 0777) == 0) return Scratch(std::move(path));
      if (errno != EEXIST)
        return invalid_argument(
            fmt::format("cannot write to {}: {}", place.parent_path().string(), std::strerror(errno)));
    }
  }
  ~Scratch() {
    std::error_code ignored;  // what is left is a hidden folder
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  const fs::path& path() const { return path_; }

 private:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

Status cannot_write(const fs::path& path) {
  return resource_exhausted(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

// Not fsync'ed: what a power cut takes is found by the checksums, and the command can be repeated.
Status write_file(const fs::path& path, std::string_view content) {
  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return cannot_write(path);
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  if (std::fclose(file) != 0 || !written) return cannot_write(path);
  return {};
}

Result<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in) return internal_error(fmt::format("cannot read {} again", path.string()));
  return content;
}

// ---- the place ----

// Good enough to know one by: it may be damaged, or of another format.
bool is_package(const fs::path& path) {
  struct stat info = {};
  const fs::path manifest = path / kManifestName;
  if (lstat(manifest.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  std::ifstream in(manifest, std::ios::binary);
  std::string beginning(256, '\0');
  in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  return beginning.find("\"hone package\"") != std::string::npos;
}

// rename() replaces an empty folder and nothing else. A package changes places with the new one in one step, or, where
// the file system cannot do that, is moved aside first.
Status take_place(const fs::path& made, const fs::path& place) {
  if (std::rename(made.c_str(), place.c_str()) == 0) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) return cannot_write(place);
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) return {};
  const fs::path aside = made.string() + ".old";
  if (std::rename(place.c_str(), aside.c_str()) != 0) return cannot_write(place);
  if (std::rename(made.c_str(), place.c_str()) != 0) {
    const Status status = cannot_write(place);
    (void)std::rename(aside.c_str(), place.c_str());  // the error says enough
    return status;
  }
  std::error_code ignored;  // the new package is in place; what is left is a hidden folder
  fs::remove_all(aside, ignored);
  return {};
}

// ---- files ----

// What a package's folder has so far.
class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {}

  fs::path of(const std::string& name) const { return path_ / name; }
  // Anew where the linker made it, with the permissions of a file that is read.
  Status add(const std::string& name, std::span<const std::byte> content) {
    fs::remove(of(name));
    const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
    HONE_RETURN_IF_ERROR(write_file(of(name), text));
    files.push_back({.name = name, .bytes = static_cast<int64_t>(content.size()), .sha256 = sha256_hex(content)});
    return {};
  }
  Status add(const std::string& name, std::string_view content) { return add(name, std::as_bytes(std::span(content))); }

  std::vector<PackageFile> files;

 private:
  fs::path path_;
};

// Kernels that go into one shared object, STEM.so.
class CodeObject {
 public:
  CodeObject(Folder& folder, AotTarget target, std::string stem)
      : folder_(folder), target_(std::move(target)), stem_(std::move(stem)) {}

  std::string name() const { return stem_ + ".so"; }
  const AotTarget& target() const { return target_; }

  // One that is there already is not compiled again.
  Result<PackageKernel> add(const ir::Kernel& kernel) {
    const std::string text = ir::print(kernel);
    if (const auto known = kernels_.find(text); known != kernels_.end()) return known->second;
    HONE_ASSIGN_OR_RETURN(AotObject object, compile_object(kernel, target_));
    // Kernels of one name and different code; a name is no part of the code.
    for (int i = 2; symbols_.contains(object.symbol); ++i) {
      ir::Kernel renamed = kernel;
      renamed.name += fmt::format("_{}", i);
      HONE_ASSIGN_OR_RETURN(object, compile_object(renamed, target_));
    }
    symbols_.insert(object.symbol);
    const PackageKernel packed{object.symbol, fmt::format("{}.{}.loopir", stem_, objects_.size())};
    HONE_RETURN_IF_ERROR(folder_.add(packed.loop_ir, text));
    objects_.push_back(folder_.of(fmt::format("{}.{}.o", stem_, objects_.size())).string());
    HONE_RETURN_IF_ERROR(write_file(objects_.back(), object.bytes));
    kernels_.emplace(text, packed);
    return packed;
  }

  // Without kernels there is no object.
  Status link() {
    if (objects_.empty()) return {};
    HONE_ASSIGN_OR_RETURN(const std::string arch, aot_arch(target_.isa));
    const fs::path linked = folder_.of(name());
    HONE_RETURN_IF_ERROR(link_shared(objects_, linked.string(), arch));
    for (const std::string& object : objects_) fs::remove(object);
    HONE_ASSIGN_OR_RETURN(const std::string content, read_file(linked));
    return folder_.add(name(), content);
  }

 private:
  Folder& folder_;
  AotTarget target_;
  std::string stem_;
  std::vector<std::string> objects_;
  std::set<std::string> symbols_;
  std::map<std::string, PackageKernel> kernels_;  // by LoopIR
};

// All of a variant but what it is of. Code: PackageVariant, PackageCode.
template <typename Code>
Status add_code(std::span<const ir::Kernel> kernels, CodeObject& object, Code& packed) {
  packed.isa = isa_info(object.target().isa).name;
  HONE_ASSIGN_OR_RETURN(packed.arch, aot_arch(object.target().isa));
  packed.mcpu = object.target().mcpu;
  packed.features = needed_features(kernels, object.target().isa).names();
  HONE_ASSIGN_OR_RETURN(packed.codegen, aot_codegen());
  packed.object = object.name();
  for (const ir::Kernel& kernel : kernels) {
    HONE_ASSIGN_OR_RETURN(PackageKernel one, object.add(kernel));
    packed.kernels.push_back(std::move(one));
  }
  return {};
}

Status add_variant(const AotVariant& variant, CodeObject& object, PackageVariant& packed) {
  packed.program = variant.program;
  packed.numerics = variant.numerics;
  packed.threads = variant.threads;
  return add_code(variant.kernels, object, packed);
}

// "avx512", with the CPU where several targets have that instruction set.
std::string label(const AotTarget& target, bool several) {
  std::string text(isa_info(target.isa).name);
  if (several) text += "-" + target.mcpu;
  for (char& c : text)
    if (c == '+' || c == '/') c = '_';
  return text;
}

// ---- ops ----

Result<Manifest> write_ops(const std::vector<AotOp>& ops, Folder& folder) {
  Manifest manifest;
  for (const AotOp& op : ops) {
    PackageOp& packed = manifest.ops.emplace_back();
    packed.problem = op.problem;
    for (const AotVariant& variant : op.variants) {
      const bool several =
          std::ranges::count(op.variants, variant.target.isa, [](const AotVariant& v) { return v.target.isa; }) > 1;
      CodeObject object(folder, variant.target,
                        fmt::format("{}.{}", manifest.ops.size() - 1, label(variant.target, several)));
      HONE_RETURN_IF_ERROR(add_variant(variant, object, packed.variants.emplace_back()));
      HONE_RETURN_IF_ERROR(object.link());
    }
  }
  return manifest;
}

// ---- graphs ----

// One object for each target.
class GraphObjects {
 public:
  explicit GraphObjects(Folder& folder) : folder_(folder) {}
  CodeObject& of(const AotTarget& target) {
    const auto at = std::ranges::find(objects_, target, &CodeObject::target);
    if (at != objects_.end()) return *at;
    return objects_.emplace_back(folder_, target, "code." + label(target, !target.mcpu.empty()));
  }
  Status link() {
    for (CodeObject& object : objects_) HONE_RETURN_IF_ERROR(object.link());
    return {};
  }

 private:
  Folder& folder_;
  std::list<CodeObject> objects_;
};

Result<PackageGraph> write_graph(const AotGraph& graph, Folder& folder) {
  PackageGraph packed{
      .text = "graph.txt", .policy = graph.policy, .tokens = graph.tokens, .guards = graph.guards, .constants = {}};
  HONE_RETURN_IF_ERROR(folder.add(packed.text, graph.text));
  for (const AotConstant& constant : graph.constants) {
    packed.constants.push_back({constant.name, fmt::format("constant.{}.bin", packed.constants.size())});
    HONE_RETURN_IF_ERROR(folder.add(packed.constants.back().file, constant.data));
  }
  return packed;
}

Result<Manifest> write_graph_files(const AotGraphPackage& package, Folder& folder) {
  Manifest manifest;
  HONE_ASSIGN_OR_RETURN(manifest.graph, write_graph(package.graph, folder));
  GraphObjects objects(folder);
  for (const AotOp& op : package.ops) {
    PackageOp& packed = manifest.ops.emplace_back();
    packed.problem = op.problem;
    for (const AotVariant& variant : op.variants) {
      HONE_RETURN_IF_ERROR(add_variant(variant, objects.of(variant.target), packed.variants.emplace_back()));
    }
  }
  for (const AotKernels& kernels : package.kernels) {
    if (kernels.kernels.empty()) continue;
    HONE_RETURN_IF_ERROR(add_code(kernels.kernels, objects.of(kernels.target), manifest.kernels.emplace_back()));
  }
  HONE_RETURN_IF_ERROR(objects.link());
  return manifest;
}

// `fill` writes the files to the folder and says what the manifest has of them.
template <typename Fill>
Result<Manifest> write(const Fill& fill, const std::string& path, Replace replace) {
  HONE_ASSIGN_OR_RETURN(const std::string name, package_place(path, replace));
  const fs::path place = fs::absolute(name);
  HONE_ASSIGN_OR_RETURN(const Scratch scratch, Scratch::beside(place));
  Folder folder(scratch.path());
  HONE_ASSIGN_OR_RETURN(Manifest manifest, fill(folder));
  manifest.files = std::move(folder.files);
  manifest.engine = engine_label();
  const std::string text = print(manifest);
  if (const Result<Manifest> again = parse_manifest(text); !again.ok())
    return invalid_argument(fmt::format("no package can have this: {}", again.status().message()));
  HONE_RETURN_IF_ERROR(write_file(folder.of(std::string(kManifestName)), text));
  HONE_RETURN_IF_ERROR(package_place(path, replace).status());  // it may have changed meanwhile
  HONE_RETURN_IF_ERROR(take_place(scratch.path(), place));
  return manifest;
}

}  // namespace

Result<std::string> package_place(const std::string& path, Replace replace) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  const fs::path place(name);
  if (name.empty() || place.filename().empty() || place.filename() == "." || place.filename() == "..")
    return invalid_argument(fmt::format("'{}' is no name for a package; give one like kernel.hone", path));
  std::error_code error;
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error))
    return invalid_argument(
        fmt::format("there is no folder {} to write {} to", parent.string(), place.filename().string()));
  const fs::file_status status = fs::symlink_status(place, error);
  if (!fs::exists(status)) return name;
  if (fs::is_directory(status) && fs::is_empty(place, error) && !error) return name;
  if (!fs::is_directory(status) || !is_package(place))
    return invalid_argument(fmt::format("{} exists and is no package: it is left as it is; give another name", name));
  if (replace == Replace::kNothing) return invalid_argument(fmt::format("{} exists; --force replaces it", name));
  return name;
}

Result<Manifest> write_package(const std::vector<AotOp>& ops, const std::string& path, Replace replace) {
  return guarded([&] { return write([&](Folder& folder) { return write_ops(ops, folder); }, path, replace); });
}

Result<Manifest> write_graph_package(const AotGraphPackage& package, const std::string& path, Replace replace) {
  return guarded(
      [&] { return write([&](Folder& folder) { return write_graph_files(package, folder); }, path, replace); });
}

}  // namespace hone::jit
