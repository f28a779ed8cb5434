// Texts that people give: files and stdin.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "tools/hone/cli.h"
#include "tools/hone/new_file.h"

namespace hone::cli {

// All of a file; "-": of stdin. An interrupt ends reading, with an error: ask interrupted() first. Error:
// invalid_argument naming the file.
inline Result<std::string> read_text(const std::string& path) {
  constexpr size_t kMost = size_t{1} << 30;
  const bool is_stdin = path == "-";
  const std::string name = is_stdin ? "stdin" : path;
  const FilePtr opened(is_stdin ? nullptr : std::fopen(path.c_str(), "rb"));
  std::FILE* const file = is_stdin ? stdin : opened.get();
  if (file == nullptr) return typed(cannot("read", name));
  std::string text;
  std::string block(size_t{64} << 10, '\0');
  for (size_t n = 0; (n = std::fread(block.data(), 1, block.size(), file)) > 0;) {
    text.append(block, 0, n);
    if (text.size() > kMost) return invalid_argument(fmt::format("{} is longer than 1 GiB", name));
  }
  if (std::ferror(file) != 0) return typed(cannot("read", name));
  return text;
}

}  // namespace hone::cli
