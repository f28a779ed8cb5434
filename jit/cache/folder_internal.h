// The folder of the cache and the files in it, as far as they can be trusted. Every path is opened once and looked at
// through its descriptor, so that nothing can be exchanged between the look and the use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/descriptor.h"
#include "engine/base/status.h"
#include "jit/cache/disk_cache.h"

namespace hone::jit {

enum class Missing { kFail, kMake };

// Errors: not_found (with kFail), failed_precondition when it is not this user's alone to write or others may put
// another folder in its place, resource_exhausted when the system refuses.
Result<Descriptor> open_folder(const CachePlace& place, Missing missing);

enum class Purpose { kUse, kLook };  // use is noted in the file's modification time

// All of a regular file that is this user's alone to write. Errors: not_found; failed_precondition when it is something
// else, or larger than `limit`.
Result<std::string> read_trusted(int folder, const std::string& name, int64_t limit, Purpose purpose);

// Makes `name` appear with these bytes, or not at all. Errors: resource_exhausted naming the call; failed_precondition
// when only this name cannot be written, because a folder has it.
Status write_whole(int folder, const std::string& name, std::string_view bytes);

// Errors: not_found, resource_exhausted naming the reason.
Status remove_file(int folder, const std::string& name);

struct FolderFile {
  std::string name;
  int64_t bytes = 0;
  int64_t used = 0;    // modification time, ns since 1970
  bool entry = false;  // else a temporary file of write_whole()
};
// Entries and temporary files; what else lies there is not ours to count or remove.
std::vector<FolderFile> list_folder(int folder);

std::string entry_name(std::string_view id);
// The id in the name of an entry.
std::string_view entry_id(std::string_view name);

}  // namespace hone::jit
