// See package.h.
#include "jit/aot/package.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/base/guarded.h"
#include "engine/base/sha256.h"
#include "jit/aot/elf_object.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"

namespace hone::jit {
namespace {

// A kernel takes kilobytes, all kernels of a graph megabytes; the bound is so that a manifest cannot ask for all
// memory.
constexpr int64_t kMaxKernelFile = int64_t{256} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string reason() { return std::strerror(errno); }

// ---- the folder ----

struct RegularFile {
  Descriptor file;
  int64_t bytes = 0;
};

// O_NOFOLLOW: a link would lead out of the folder. O_NONBLOCK: a pipe would wait for whom nobody sends. `most`: bytes.
Result<RegularFile> open_regular(int folder, const std::string& name, int64_t most) {
  Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ELOOP) return data_loss(fmt::format("{} is a symbolic link, not a file", name));
  if (file.get() < 0) return data_loss(fmt::format("cannot open {}: {}", name, reason()));
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return data_loss(fmt::format("cannot read {}: {}", name, reason()));
  if (!S_ISREG(info.st_mode)) return data_loss(fmt::format("{} is not a regular file", name));
  if (info.st_size > most) return data_loss(fmt::format("{} has {} bytes, more than {}", name, info.st_size, most));
  return RegularFile{std::move(file), info.st_size};
}

Result<std::string> read_regular(int folder, const std::string& name, int64_t most) {
  HONE_ASSIGN_OR_RETURN(const RegularFile opened, open_regular(folder, name, most));
  std::string content(static_cast<size_t>(opened.bytes), '\0');
  for (size_t have = 0; have < content.size();) {
    const ssize_t got = read(opened.file.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return data_loss(fmt::format("cannot read {}: {}", name, reason()));
    if (got == 0) return data_loss(fmt::format("{} became shorter while it was read", name));
    have += static_cast<size_t>(got);
  }
  return content;
}

Status check_file(const PackageFile& file, std::span<const std::byte> content) {
  if (static_cast<int64_t>(content.size()) != file.bytes)
    return data_loss(fmt::format("{} has {} bytes, the manifest says {}", file.name, content.size(), file.bytes));
  if (sha256_hex(content) != file.sha256)
    return data_loss(fmt::format("{} is not the file that was packed: its SHA-256 is another", file.name));
  return {};
}

Result<std::string> read_checked(int folder, const PackageFile& file) {
  HONE_ASSIGN_OR_RETURN(std::string content, read_regular(folder, file.name, kMaxKernelFile));
  HONE_RETURN_IF_ERROR(check_file(file, std::as_bytes(std::span(content))));
  return content;
}

// The size first: a mapping of a file that is shorter than the manifest says would end in a signal.
Result<std::shared_ptr<const MappedFile>> map_checked(int folder, const PackageFile& file) {
  HONE_ASSIGN_OR_RETURN(const RegularFile opened, open_regular(folder, file.name, INT64_MAX));
  if (opened.bytes != file.bytes)
    return data_loss(fmt::format("{} has {} bytes, the manifest says {}", file.name, opened.bytes, file.bytes));
  const size_t size = static_cast<size_t>(file.bytes);
  void* memory = nullptr;
  if (size > 0) memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.file.get(), 0);
  if (memory == MAP_FAILED) return resource_exhausted(fmt::format("cannot map {}: {}", file.name, reason()));
  auto mapped = std::make_shared<const MappedFile>(static_cast<const std::byte*>(memory), size);
  HONE_RETURN_IF_ERROR(check_file(file, mapped->bytes()));
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

Status named(const std::string& path, const Status& status) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("package {}: {}", path, status.message())};
}

// ---- the object ----

// MFD_NOEXEC_SEAL is for a file that is never executed as a program, which hardened kernels insist on (mapping code
// from it is allowed); kernels before 6.3 do not know it.
int make_memfd() {
  constexpr unsigned kNoExecSeal = 8;
  const int fd = memfd_create("hone-package", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create("hone-package", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

// `content` as a file that nobody can change any more.
Result<Descriptor> sealed_file(std::string_view content) {
  Descriptor file(make_memfd());
  if (file.get() < 0) return resource_exhausted(fmt::format("memfd_create: {}", reason()));
  for (size_t done = 0; done < content.size();) {
    const ssize_t wrote = write(file.get(), content.data() + done, content.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0)
      return resource_exhausted(fmt::format("cannot write {} bytes to memory: {}", content.size(), reason()));
    done += static_cast<size_t>(wrote);
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return resource_exhausted(fmt::format("cannot seal memory: {}", reason()));
  return file;
}

std::string descriptor_path(const Descriptor& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

}  // namespace

std::string_view process_arch() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

Status runs_on(const PackageCode& code, const PackageHost& host) {
  if (code.arch != host.arch)
    return unsupported(fmt::format("{} code for {}, this is {}", code.isa, code.arch, host.arch));
  const std::optional<Isa> isa = parse_isa(code.isa);
  if (!isa) return unsupported(fmt::format("instruction set '{}' is not one of this build", code.isa));
  std::vector<std::string> missing;
  FeatureSet needed = isa_info(*isa).required;
  for (const std::string& name : code.features) {
    if (const std::optional<Feature> feature = parse_feature(name)) {
      needed.add(*feature);
    } else {
      missing.push_back(name);
    }
  }
  for (std::string& name : needed.without(host.features).names()) missing.push_back(std::move(name));
  if (missing.empty()) return {};
  return unsupported(fmt::format("{} code, and this CPU lacks {}", code.isa, fmt::join(missing, ", ")));
}

Result<size_t> choose_code(std::span<const PackageCode> codes, const PackageHost& host) {
  std::optional<size_t> best;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < codes.size(); ++i) {
    const Status status = runs_on(codes[i], host);
    if (!status.ok()) {
      reasons.push_back(status.message());
    } else if (!best || *parse_isa(codes[i].isa) > *parse_isa(codes[*best].isa)) {
      best = i;
    }
  }
  if (best) return *best;
  return unsupported(fmt::format("no variant runs here: {}", fmt::join(reasons, "; ")));
}

Result<size_t> choose_variant(const PackageOp& op, const PackageHost& host) {
  std::vector<PackageCode> codes;
  for (const PackageVariant& variant : op.variants) codes.push_back(code_of(variant));
  const Result<size_t> chosen = choose_code(codes, host);
  if (chosen.ok()) return chosen;
  return Status(chosen.status().code(), fmt::format("{}: {}", op.problem, chosen.status().message()));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

// The descriptor stays open as long as the object is loaded: glibc takes two objects of one name for the same, and the
// name is the number of the descriptor.
class Package::SharedObject {
 public:
  static Result<std::shared_ptr<const SharedObject>> load(std::string_view content, const std::string& arch) {
    const auto bytes = std::as_bytes(std::span(content));
    HONE_ASSIGN_OR_RETURN(std::vector<ElfFunction> functions, check_elf_object(bytes, arch));
    HONE_ASSIGN_OR_RETURN(Descriptor file, sealed_file(content));
    HONE_ASSIGN_OR_RETURN(file, free_name(std::move(file)));
    void* const handle = dlopen(descriptor_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return data_loss(fmt::format("the dynamic loader refuses it: {}", dlerror()));
    return std::shared_ptr<const SharedObject>(new SharedObject(std::move(file), handle, std::move(functions)));
  }
  ~SharedObject() { dlclose(handle_); }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // null: not one of its functions.
  const ElfFunction* function(const std::string& symbol) const {
    const auto at =
        std::find_if(functions_.begin(), functions_.end(), [&](const ElfFunction& f) { return f.name == symbol; });
    return at == functions_.end() ? nullptr : &*at;
  }
  ir::TaskFn entry(const std::string& symbol) const {
    return reinterpret_cast<ir::TaskFn>(dlsym(handle_, symbol.c_str()));
  }

 private:
  SharedObject(Descriptor file, void* handle, std::vector<ElfFunction> functions)
      : file_(std::move(file)), handle_(handle), functions_(std::move(functions)) {}

  // Somebody else may have loaded a file of this name and closed it.
  static Result<Descriptor> free_name(Descriptor file) {
    std::vector<Descriptor> taken;
    while (void* const other = dlopen(descriptor_path(file).c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(other);
      Descriptor next(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
      if (next.get() < 0) return resource_exhausted(fmt::format("no free file descriptor: {}", reason()));
      taken.push_back(std::exchange(file, std::move(next)));
    }
    return file;
  }

  Descriptor file_;
  void* handle_;
  std::vector<ElfFunction> functions_;
};

namespace {

// Holds what its code lies in.
class PackagedKernel final : public CompiledKernel {
 public:
  PackagedKernel(std::shared_ptr<const void> object, ir::TaskFn function, size_t size)
      : object_(std::move(object)), entry_(function), size_(size) {}
  ir::TaskFn entry() const override { return entry_; }
  std::span<const std::byte> code() const override { return {reinterpret_cast<const std::byte*>(entry_), size_}; }

 private:
  std::shared_ptr<const void> object_;
  ir::TaskFn entry_;
  size_t size_;
};

}  // namespace

Result<std::shared_ptr<const Package>> Package::open(const std::string& path) {
  return guarded([&] { return read(path); });
}

Result<std::shared_ptr<const Package>> Package::read(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 && errno == ENOENT) return not_found(fmt::format("there is no package {}", path));
  if (folder.get() < 0) return data_loss(fmt::format("cannot open package {}: {}", path, reason()));
  const Result<std::string> text = read_regular(folder.get(), std::string(kManifestName), kMaxManifestBytes);
  if (!text.ok()) return named(path, text.status());
  Result<Manifest> manifest = parse_manifest(*text);
  if (!manifest.ok()) return named(path, manifest.status());
  const std::shared_ptr<Package> package(new Package(path, std::move(*manifest)));
  HONE_RETURN_IF_ERROR(named(path, package->read_files(folder.get())));
  return std::shared_ptr<const Package>(package);
}

Status Package::read_files(int folder) {
  const auto expect = [&](const PackageCode& code) {
    contents_[code.object];
    for (const PackageKernel& kernel : code.kernels) contents_[kernel.loop_ir];
  };
  for (const PackageOp& op : manifest_.ops)
    for (const PackageVariant& variant : op.variants) expect(code_of(variant));
  for (const PackageCode& code : manifest_.kernels) expect(code);
  if (manifest_.graph) {
    contents_[manifest_.graph->text];
    for (const PackageConstant& constant : manifest_.graph->constants) constants_[constant.file];
  }
  for (const PackageFile& file : manifest_.files) {
    if (const auto constant = constants_.find(file.name); constant != constants_.end()) {
      HONE_ASSIGN_OR_RETURN(constant->second, map_checked(folder, file));
    }
    const auto at = contents_.find(file.name);
    if (at == contents_.end() && constants_.contains(file.name)) continue;
    HONE_ASSIGN_OR_RETURN(std::string content, read_checked(folder, file));
    if (at != contents_.end()) at->second = std::move(content);
  }
  return {};
}

Result<std::shared_ptr<const Package::SharedObject>> Package::object(const PackageCode& code) const {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const SharedObject>& known = loaded_[code.object];
  if (std::shared_ptr<const SharedObject> alive = known.lock()) return alive;
  Result<std::shared_ptr<const SharedObject>> loaded = SharedObject::load(contents_.at(code.object), code.arch);
  if (!loaded.ok())
    return Status(loaded.status().code(), fmt::format("{}: {}", code.object, loaded.status().message()));
  known = *loaded;
  return loaded;
}

Result<std::vector<Executable>> Package::load(const PackageCode& code, const PackageHost& host) const {
  return guarded([&] { return load_kernels(code, host); });
}

Result<std::vector<Executable>> Package::load_kernels(const PackageCode& code, const PackageHost& host) const {
  HONE_RETURN_IF_ERROR(named(path_, runs_on(code, host)));
  std::vector<ir::Kernel> kernels;
  for (const PackageKernel& packed : code.kernels) {
    Result<ir::Kernel> kernel = ir::parse(loop_ir(packed));
    Status status = kernel.ok() ? ir::verify(*kernel) : kernel.status();
    if (!status.ok())
      return named(path_,
                   data_loss(fmt::format("{} is no LoopIR that can be run: {}", packed.loop_ir, status.message())));
    kernels.push_back(std::move(*kernel));
  }
  const Result<std::shared_ptr<const SharedObject>> object = this->object(code);
  if (!object.ok()) return named(path_, object.status());
  std::vector<Executable> executables;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string& symbol = code.kernels[i].symbol;
    const ElfFunction* const function = (*object)->function(symbol);
    const ir::TaskFn entry = function == nullptr ? nullptr : (*object)->entry(symbol);
    if (entry == nullptr) return named(path_, data_loss(fmt::format("{} has no function '{}'", code.object, symbol)));
    Executable executable;
    executable.kernel = std::make_unique<PackagedKernel>(*object, entry, function->size);
    executable.bounds = ir::task_bounds(kernels[i]);
    executable.workspace_bytes = ir::workspace_size(kernels[i]);
    executables.push_back(std::move(executable));
  }
  return executables;
}

}  // namespace hone::jit
