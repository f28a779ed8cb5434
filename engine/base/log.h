// Events for people who debug: silent by default, one key=value line per event of the topics that HONE_LOG lists.
//
//   HONE_LOG_EVENT(LogTopic::kJit, "compile", {{"kernel", name}, {"ns", ns}});
//   hone: topic=jit event=compile kernel=matmul_f32_f32_f32_14x32_avx512_asmjit ns=412000
//
// A topic that is off costs one relaxed load and a branch: the macro evaluates nothing else. Sink and topics are
// process wide, as stderr is.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace hone {

// HONE_LOG_TOPIC(enumerator, name): the one list of topics.
#define HONE_LOG_TOPICS(HONE_LOG_TOPIC) \
  HONE_LOG_TOPIC(kDispatch, "dispatch") \
  HONE_LOG_TOPIC(kTune, "tune")         \
  HONE_LOG_TOPIC(kJit, "jit")           \
  HONE_LOG_TOPIC(kDb, "db")

enum class LogTopic : uint8_t {
#define HONE_LOG_TOPIC(id, name) id,
  HONE_LOG_TOPICS(HONE_LOG_TOPIC)
#undef HONE_LOG_TOPIC
};

// A set of topics as bits, 1 << topic.
using LogTopics = uint32_t;

// "jit,db" -> bits; blank is none. Unknown names are left out, and `warning` then names the first and the known ones.
struct ParsedTopics {
  LogTopics topics = 0;
  std::string warning;
};
ParsedTopics parse_log_topics(std::string_view list);

// Gets one line, without a newline. Called under a lock: lines never interleave, and a sink must not log.
using LogSink = std::function<void(std::string_view line)>;
// Empty: back to stderr.
void set_log_sink(LogSink sink);
// Replaces what HONE_LOG said.
void set_log_topics(LogTopics topics);

struct LogField {
  LogField(std::string_view k, std::string_view text) : key(k), value(text) {}
  LogField(std::string_view k, const char* text) : key(k), value(text) {}
  LogField(std::string_view k, const std::string& text) : key(k), value(text) {}
  LogField(std::string_view k, bool truth) : key(k), value(truth ? "true" : "false") {}
  LogField(std::string_view k, std::integral auto number) : key(k), value(std::to_string(number)) {}
  LogField(std::string_view k, double number);

  std::string_view key;
  std::string value;
};

bool log_enabled(LogTopic topic);
// Writes unconditionally; use HONE_LOG_EVENT.
void log_event(LogTopic topic, std::string_view event, std::initializer_list<LogField> fields);

// The line of an event. A value with blanks, quotes, '=' or control characters is quoted, so that a line stays one
// line.
std::string format_log_line(LogTopic topic, std::string_view event, std::initializer_list<LogField> fields);

#define HONE_LOG_EVENT(topic, event, ...)                                         \
  do {                                                                            \
    if (::hone::log_enabled(topic)) ::hone::log_event(topic, event, __VA_ARGS__); \
  } while (0)

}  // namespace hone
