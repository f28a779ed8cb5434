// See dump.h.
#include "jit/dump.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "kernels/ir/text.h"

namespace hone::jit {

namespace {

const char* dump_directory() {
  const char* dir = std::getenv("HONE_JIT_DUMP");
  return dir != nullptr && *dir != '\0' ? dir : nullptr;
}

std::string file_name(std::string_view name) {
  std::string out(name.substr(0, 160));  // leaves room for the suffix within the usual 255
  for (char& c : out) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    if (!plain) c = '_';
  }
  return out.empty() || out.front() == '.' ? "_" + out : out;
}

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out)
    std::fprintf(stderr, "hone: HONE_JIT_DUMP: cannot write %s; check that the directory is writable and not full\n",
                 path.c_str());
}

}  // namespace

bool dump_enabled() { return dump_directory() != nullptr; }

void dump_kernel(const ir::Kernel& kernel, std::string_view generator, std::string_view listing,
                 std::span<const std::byte> code) {
  const std::string name(generator);
  dump_text(kernel, "ir", ir::print(kernel));
  dump_text(kernel, name + ".s", listing);
  dump_text(kernel, name + ".bin", {reinterpret_cast<const char*>(code.data()), code.size()});
}

void dump_text(const ir::Kernel& kernel, std::string_view suffix, std::string_view text) {
  const char* dir = dump_directory();
  if (dir == nullptr) return;
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    std::fprintf(stderr, "hone: HONE_JIT_DUMP: cannot make directory %s (%s)\n", dir, error.message().c_str());
    return;
  }
  write(std::filesystem::path(dir) / (file_name(kernel.name) + "." + std::string(suffix)), text);
}

}  // namespace hone::jit
