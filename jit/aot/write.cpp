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
#include <set>

#include "engine/base/guarded.h"
#include "engine/base/sha256.h"
#include "engine/base/version.h"
#include "jit/aot/compile_internal.h"
#include "jit/aot/link.h"
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

class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {}

  Status add_op(const AotOp& op) {
    PackageOp& packed = manifest_.ops.emplace_back();
    packed.problem = op.problem;
    for (const AotVariant& variant : op.variants) {
      const std::string stem = fmt::format("{}.{}", manifest_.ops.size() - 1, label(op, variant));
      HONE_RETURN_IF_ERROR(add_variant(variant, stem, packed.variants.emplace_back()));
    }
    return {};
  }

  Result<Manifest> finish() {
    manifest_.engine = engine_label();
    HONE_RETURN_IF_ERROR(write_file(folder_ / kManifestName, print(manifest_)));
    return std::move(manifest_);
  }

 private:
  // "avx512", with the CPU where several variants have that instruction set.
  static std::string label(const AotOp& op, const AotVariant& variant) {
    const auto same = std::count_if(op.variants.begin(), op.variants.end(),
                                    [&](const AotVariant& v) { return v.target.isa == variant.target.isa; });
    std::string text(isa_info(variant.target.isa).name);
    if (same > 1) text += "-" + variant.target.mcpu;
    for (char& c : text)
      if (c == '+' || c == '/') c = '_';
    return text;
  }

  Status add_variant(const AotVariant& variant, const std::string& stem, PackageVariant& packed) {
    packed.isa = isa_info(variant.target.isa).name;
    HONE_ASSIGN_OR_RETURN(packed.arch, aot_arch(variant.target.isa));
    packed.mcpu = variant.target.mcpu;
    packed.features = isa_info(variant.target.isa).required.names();
    HONE_ASSIGN_OR_RETURN(packed.codegen, aot_codegen());
    packed.program = variant.program;
    packed.numerics = variant.numerics;
    packed.threads = variant.threads;
    packed.object = stem + ".so";
    std::vector<std::string> objects;
    std::set<std::string> symbols;
    for (size_t i = 0; i < variant.kernels.size(); ++i) {
      const ir::Kernel& kernel = variant.kernels[i];
      HONE_ASSIGN_OR_RETURN(const AotObject object, compile_object(kernel, variant.target));
      if (!symbols.insert(object.symbol).second)
        return internal_error(fmt::format("two kernels of {} are called {}", variant.program, object.symbol));
      packed.kernels.push_back({object.symbol, fmt::format("{}.{}.loopir", stem, i)});
      HONE_RETURN_IF_ERROR(add_file(packed.kernels.back().loop_ir, ir::print(kernel)));
      objects.push_back((folder_ / fmt::format("{}.{}.o", stem, i)).string());
      HONE_RETURN_IF_ERROR(write_file(objects.back(), object.bytes));
    }
    const fs::path linked = folder_ / packed.object;
    HONE_RETURN_IF_ERROR(link_shared(objects, linked.string(), packed.arch));
    for (const std::string& object : objects) fs::remove(object);
    HONE_ASSIGN_OR_RETURN(const std::string content, read_file(linked));
    return add_file(packed.object, content);
  }

  // Anew where the linker made it, with the permissions of a file that is read.
  Status add_file(const std::string& name, std::string_view content) {
    fs::remove(folder_ / name);
    HONE_RETURN_IF_ERROR(write_file(folder_ / name, content));
    manifest_.files.push_back(
        {.name = name, .bytes = static_cast<int64_t>(content.size()), .sha256 = sha256_hex(content)});
    return {};
  }

  fs::path folder_;
  Manifest manifest_;
};

Result<Manifest> write(const std::vector<AotOp>& ops, const std::string& path, Replace replace) {
  HONE_ASSIGN_OR_RETURN(const std::string name, package_place(path, replace));
  const fs::path place = fs::absolute(name);
  HONE_ASSIGN_OR_RETURN(const Scratch scratch, Scratch::beside(place));
  Writer writer(scratch.path());
  for (const AotOp& op : ops) HONE_RETURN_IF_ERROR(writer.add_op(op));
  HONE_ASSIGN_OR_RETURN(Manifest manifest, writer.finish());
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
  return guarded([&] { return write(ops, path, replace); });
}

}  // namespace hone::jit
