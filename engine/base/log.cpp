#include "engine/base/log.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include "engine/base/env.h"
#include "engine/base/printable.h"

namespace hone {
namespace {

constexpr std::array kTopicNames = {
#define HONE_LOG_TOPIC(id, name) std::string_view(name),
    HONE_LOG_TOPICS(HONE_LOG_TOPIC)
#undef HONE_LOG_TOPIC
};

struct Output {
  std::mutex mutex;
  LogSink sink;
};

// Never destroyed: a static object elsewhere may log while the process exits.
Output& output() {
  static Output* instance = new Output;
  return *instance;
}

void write_line(std::string_view line) {
  Output& out = output();
  std::lock_guard lock(out.mutex);
  if (out.sink) {
    out.sink(line);
    return;
  }
  // Not fmt::print, which throws when stderr is closed or full: an event that cannot be shown must not cost the work.
  std::string text(line);
  text += '\n';
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

std::atomic<LogTopics>& topics() {
  static std::atomic<LogTopics> instance = [] {
    std::optional<std::string> list = env("HONE_LOG");
    if (!list) return LogTopics{0};
    ParsedTopics parsed = parse_log_topics(*list);
    if (!parsed.warning.empty()) write_line(fmt::format("hone: warning: HONE_LOG: {}", parsed.warning));
    return parsed.topics;
  }();
  return instance;
}

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (char c : value) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return true;
  }
  return false;
}

void append_quoted(std::string& line, std::string_view value) {
  line += '"';
  for (char c : value) {
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  line += '"';
}

}  // namespace

ParsedTopics parse_log_topics(std::string_view list) {
  ParsedTopics parsed;
  while (!list.empty()) {
    size_t comma = list.find(',');
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name.empty()) continue;
    size_t topic = 0;
    while (topic < kTopicNames.size() && kTopicNames[topic] != name) ++topic;
    if (topic < kTopicNames.size()) {
      parsed.topics |= LogTopics{1} << topic;
    } else if (parsed.warning.empty()) {
      parsed.warning = fmt::format("unknown topic '{}'; known: {}", printable(name), fmt::join(kTopicNames, ","));
    }
  }
  return parsed;
}

void set_log_sink(LogSink sink) {
  Output& out = output();
  std::lock_guard lock(out.mutex);
  out.sink = std::move(sink);
}

void set_log_topics(LogTopics bits) { topics().store(bits, std::memory_order_relaxed); }

LogField::LogField(std::string_view k, double number) : key(k), value(fmt::format("{:.6g}", number)) {}

bool log_enabled(LogTopic topic) { return (topics().load(std::memory_order_relaxed) >> static_cast<int>(topic)) & 1; }

std::string format_log_line(LogTopic topic, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = fmt::format("hone: topic={} event={}", kTopicNames.at(static_cast<size_t>(topic)), event);
  for (const LogField& field : fields) {
    line += fmt::format(" {}=", field.key);
    if (needs_quotes(field.value)) {
      append_quoted(line, field.value);
    } else {
      line += field.value;
    }
  }
  return line;
}

void log_event(LogTopic topic, std::string_view event, std::initializer_list<LogField> fields) {
  write_line(format_log_line(topic, event, fields));
}

}  // namespace hone
