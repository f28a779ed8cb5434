// How much memory may this process still fill? Linux promises more than it has: mmap of any size succeeds, and the
// process is killed when it writes to the pages. So whoever is about to fill gigabytes asks here first.
#pragma once

#include <cstdint>
#include <string>

namespace hone {

// Bytes that can be filled without pushing anything out that is in use: MemAvailable, or what the tightest memory limit
// of this process's cgroups (v2 or v1) leaves, where that is less. Page cache counts as free, as it gives way.
// INT64_MAX when nothing says. `root` is "" for the running system; tests give a folder with files of their own.
int64_t available_memory(const std::string& root);

}  // namespace hone
