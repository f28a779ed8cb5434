// What tuner and worker say to each other. A message is one packet of a SOCK_SEQPACKET socket: the kernel keeps packets
// apart, so there is no framing to lose. Numbers have 8 bytes in the machine's own order (both ends are the same
// executable), texts their length in front.
//
// Either end may be handed anything by a neighbour that went mad: decoding checks every length and enumerator, and what
// does not fit is nullopt.
//
//   tuner -> worker     answer
//   ProblemMessage      SetUpAnswer    the operands are there, or why not
//   PrepareMessage      PrepareAnswer  compiled, checked and warmed up, or what is wrong with it
//   RoundMessage        RoundAnswer    arm for arm
//   ReleaseMessage      (none)
//                       HelloMessage   unasked, once, at the start
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autotune/measure/peak.h"
#include "autotune/search/racer.h"
#include "engine/runtime/schedule.h"

namespace hone::autotune {

// A packet must fit into the socket's buffer (about 200 KiB by default).
inline constexpr size_t kMostMessageBytes = 128 << 10;
// Of one message. A detail is for people: what is longer is cut, so that the answer for so many arms fits.
inline constexpr size_t kMostArms = 256;
inline constexpr size_t kMostDetail = 400;

struct HelloMessage {
  std::string engine;
};
struct ProblemMessage {
  std::string text;
  bool cold = true;
  uint64_t seed = 1;
  Peak peak;
  int cpus = 1;
  runtime::ScheduleKind schedule = runtime::ScheduleKind::kTbb;
};
struct PrepareMessage {
  int candidate = 0;
  std::string program, codegen;
  int threads = 1;
};
struct RoundMessage {
  std::vector<int> arms;
};
struct ReleaseMessage {
  int candidate = 0;
};
struct SetUpAnswer {
  Status status;
};
struct PrepareAnswer {
  Prepared prepared;
};
struct RoundAnswer {
  int64_t wall_ns = 0;  // of the whole round, in the worker
  std::vector<Timing> timings;
};

using Message = std::variant<HelloMessage, ProblemMessage, PrepareMessage, RoundMessage, ReleaseMessage, SetUpAnswer,
                             PrepareAnswer, RoundAnswer>;

std::string encode(const Message& message);
std::optional<Message> decode(std::string_view bytes);

}  // namespace hone::autotune
