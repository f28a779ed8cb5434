// Which process works on a session, and whether it still does. A pid alone is not enough: it is reused, and it means
// another process in another container or on another host that shares the file.
#pragma once

#include <cstdint>
#include <string>

namespace hone::db {

// "BOOT/NAMESPACE/PID/START": the boot id of the kernel, the pid namespace, and the process with its start time in it.
// `root` is where proc/ is found; tests inject one.
std::string process_owner(const std::string& root = "/");

// True when nobody owns it (""), or the owner has ended: looked up where its pid means something, which is the same
// boot and namespace; elsewhere it counts as ended when it was not seen for ten minutes before `now` (unix seconds).
bool owner_is_gone(const std::string& owner, int64_t last_seen, int64_t now, const std::string& root = "/");

}  // namespace hone::db
