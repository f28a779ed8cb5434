// Files that are written whole or stay as they were: made beside their name and renamed.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::cli {

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;

// "cannot VERB PATH: ", and what errno says: resource_exhausted for a full disk, else invalid_argument.
Status cannot(const char* verb, const std::string& path);

// The file at `path` as it will be. Nothing of it is seen before commit(). A device or a pipe is written to at once.
class NewFile {
 public:
  // `example`: the name of a file, for who names a folder. `begins`: of a file that is there already, what it must
  // begin with to be replaced (or be empty). A symbolic link is followed, also to where nothing is yet. Error: what
  // cannot() says; a folder, a database, a file that begins otherwise.
  static Result<NewFile> create(const std::string& path, std::string_view example, std::string_view begins = {});
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Status write(std::string_view text);
  Status commit();

 private:
  NewFile() = default;

  std::string path_, temporary_;
  FilePtr file_;
};

}  // namespace hone::cli
