// See dump.h.
#include "jit/dump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "jit/symbol.h"
#include "kernels/ir/text.h"

namespace hone::jit {

namespace {

const char* dump_directory() {
  const char* dir = std::getenv("HONE_JIT_DUMP");
  return dir != nullptr && *dir != '\0' ? dir : nullptr;
}

bool write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out)
    std::fprintf(stderr, "hone: HONE_JIT_DUMP: cannot write %s; check that the directory is writable and not full\n",
                 path.c_str());
  return static_cast<bool>(out);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Makes the file and says so, or leaves the one that is there: of several processes one gets the name.
bool claim(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

}  // namespace

bool dump_enabled() { return dump_directory() != nullptr; }

void dump_kernel(const ir::Kernel& kernel, std::string_view generator, std::initializer_list<DumpFile> files) {
  const char* dir = dump_directory();
  if (dir == nullptr) return;
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    std::fprintf(stderr, "hone: HONE_JIT_DUMP: cannot make directory %s (%s)\n", dir, error.message().c_str());
    return;
  }
  const std::string text = ir::print(kernel);
  std::string stem = (std::filesystem::path(dir) / kernel_symbol(kernel.name, generator)).string();
  // Who finds the file of another process that has not written it yet takes the longer name too.
  if (!claim(stem + ".ir") && std::filesystem::exists(stem + ".ir", error) && read(stem + ".ir") != text)
    stem += fmt::format("-{:016x}", ir::hash(kernel));
  if (!write(stem + ".ir", text)) return;
  for (const DumpFile& file : files)
    if (!write(stem + "." + std::string(file.suffix), file.content)) return;
}

}  // namespace hone::jit
