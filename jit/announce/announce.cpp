#include "jit/announce/announce.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <optional>

#include "engine/base/env.h"
#include "engine/base/printable.h"
#include "jit/announce/gdb_internal.h"
#include "jit/announce/perf_internal.h"

namespace hone::jit {
namespace {

void warn_once(const std::string& warning) {
  static std::atomic<bool> said{false};
  if (!warning.empty() && !said.exchange(true)) std::fprintf(stderr, "hone: HONE_JIT_SYMBOLS: %s\n", warning.c_str());
}

}  // namespace

Announcees parse_announcees(std::string_view list) {
  Announcees all;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name == "map") {
      all.map = true;
    } else if (name == "jitdump") {
      all.jitdump = true;
    } else if (name == "gdb") {
      all.gdb = true;
    } else if (!name.empty() && all.warning.empty()) {
      all.warning = fmt::format("unknown name '{}'; known: map, jitdump, gdb", printable(name));
    }
  }
  return all;
}

CodeAnnouncement::CodeAnnouncement() = default;

CodeAnnouncement::CodeAnnouncement(const std::string& symbol, std::span<const std::byte> code) {
  // Read for every kernel, so that a test or a debugger may switch it on late.
  const std::optional<std::string> list = env("HONE_JIT_SYMBOLS");
  if (!list) return;
  const Announcees who = parse_announcees(*list);
  warn_once(who.warning);
  if (who.map) append_to_perf_map(symbol, code);
  if (who.jitdump) append_to_jitdump(symbol, code);
  if (who.gdb) gdb_ = std::make_unique<GdbRegistration>(symbol, code);
}

CodeAnnouncement::CodeAnnouncement(CodeAnnouncement&& other) noexcept = default;
CodeAnnouncement& CodeAnnouncement::operator=(CodeAnnouncement&& other) noexcept = default;
CodeAnnouncement::~CodeAnnouncement() = default;

}  // namespace hone::jit
