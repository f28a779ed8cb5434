// See listing.h.
#include "tests/jit/asmjit/listing.h"

#include <algorithm>
#include <sstream>

namespace hone::jit {

namespace {

std::vector<std::string> lines_of(const std::string& listing) {
  std::vector<std::string> lines;
  std::istringstream in(listing);
  for (std::string line; std::getline(in, line);) lines.push_back(line.rfind("short ", 0) == 0 ? line.substr(6) : line);
  return lines;
}

}  // namespace

std::vector<std::vector<std::string>> inner_loops(const std::string& listing) {
  const std::vector<std::string> lines = lines_of(listing);
  std::vector<std::vector<std::string>> loops;
  size_t last_end = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].rfind('j', 0) != 0) continue;
    const std::string target = lines[i].substr(lines[i].rfind(' ') + 1) + ":";
    const auto head = std::find(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(i), target);
    const auto at = static_cast<size_t>(head - lines.begin());
    if (at == i) continue;        // forward
    if (at < last_end) continue;  // encloses a loop already found
    loops.emplace_back(head + 1, lines.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    last_end = i;
  }
  return loops;
}

int64_t count(const std::vector<std::string>& lines, const std::string& prefix) {
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& l) { return l.rfind(prefix, 0) == 0; });
}

bool touches_stack(const std::string& line) {
  return line.find("[rsp") != std::string::npos || line.rfind("push", 0) == 0 || line.rfind("pop", 0) == 0;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& l : lines) all += l + "\n";
  return all;
}

}  // namespace hone::jit
