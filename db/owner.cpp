#include "db/owner.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace hone::db {
namespace {

// A round lasts seconds at most, but a compilation, a stopped process or a suspended machine lasts longer.
constexpr int64_t kSilentSeconds = 600;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string link_target(const std::string& path) {
  std::array<char, 128> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<size_t>(length)) : "";
}

struct ProcessStat {
  std::string pid, state, start;  // empty when there is no such process
};

// proc(5): "PID (NAME) STATE ...", where NAME may hold anything, parentheses too; the start time is field 22.
ProcessStat read_stat(const std::string& path) {
  const std::string text = slurp(path);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  ProcessStat stat;
  stat.pid = text.substr(0, text.find(' '));
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
    if (i == 3) stat.state = field;
    if (i == 22) stat.start = field;
  }
  return stat;
}

// "BOOT/NAMESPACE": where a pid means the same process as here. "" when /proc does not tell.
std::string pid_scope(const std::string& root) {
  std::string boot = slurp(root + "/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  const std::string space = link_target(root + "/proc/self/ns/pid");
  return boot.empty() || space.empty() ? "" : boot + "/" + space;
}

}  // namespace

std::string process_owner(const std::string& root) {
  const ProcessStat self = read_stat(root + "/proc/self/stat");
  return pid_scope(root) + "/" + (self.pid.empty() ? std::to_string(getpid()) : self.pid) + "/" + self.start;
}

bool owner_is_gone(const std::string& owner, int64_t last_seen, int64_t now, const std::string& root) {
  if (owner.empty()) return true;
  const size_t start_at = owner.rfind('/');
  const size_t pid_at = start_at == 0 || start_at == std::string::npos ? start_at : owner.rfind('/', start_at - 1);
  const std::string scope = pid_scope(root);
  if (pid_at == std::string::npos || start_at == 0 || scope.empty() || owner.substr(0, pid_at) != scope)
    return now - last_seen > kSilentSeconds;
  const std::string pid = owner.substr(pid_at + 1, start_at - pid_at - 1);
  const ProcessStat stat = read_stat(root + "/proc/" + pid + "/stat");
  if (!stat.start.empty()) return stat.start != owner.substr(start_at + 1) || stat.state == "Z" || stat.state == "X";
  // No entry: ended, or of another user where /proc is mounted with hidepid. The kernel knows.
  const long number = std::strtol(pid.c_str(), nullptr, 10);
  return root != "/" || number <= 0 || (kill(static_cast<pid_t>(number), 0) != 0 && errno == ESRCH);
}

}  // namespace hone::db
