// Whatever arrives, decoding answers: the message that was encoded, or nothing.
#include "autotune/isolate/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace hone::autotune {
namespace {

std::vector<Message> one_of_each() {
  return {HelloMessage{"hone 1"},
          ProblemMessage{.text = "matmul:f32:m=1,n=2,k=3",
                         .cold = false,
                         .seed = ~uint64_t{0},
                         .peak = {.f32_gflops_1t = 1.5,
                                  .f32_gflops_all = 2,
                                  .bf16_gflops_1t = 3,
                                  .bf16_gflops_all = 4,
                                  .read_gbs_1t = 5,
                                  .read_gbs_all = 6,
                                  .l2_gbs_1t = 7},
                         .cpus = 7,
                         .schedule = runtime::ScheduleKind::kDedicated},
          PrepareMessage{12, "vectorize(avx2,8)", "asmjit", 3},
          RoundMessage{{3, 1, 3}},
          ReleaseMessage{5},
          SetUpAnswer{resource_exhausted("no memory")},
          SetUpAnswer{},
          PrepareAnswer{{db::Outcome::kWrong, "C[0, 1, 2]"}},
          RoundAnswer{99, {{.ns = 10, .wall_ns = 20}, {.outcome = db::Outcome::kRefused, .detail = "a time of 0"}}}};
}

TEST(WorkerMessage, RoundTrip) {
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    const std::optional<Message> back = decode(bytes);
    ASSERT_TRUE(back) << message.index();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_EQ(encode(*back), bytes);
  }
  const std::optional<Message> back = decode(encode(one_of_each()[1]));
  EXPECT_EQ(std::get<ProblemMessage>(*back).seed, ~uint64_t{0});
  EXPECT_EQ(std::get<ProblemMessage>(*back).peak.l2_gbs_1t, 7);
  EXPECT_EQ(std::get<ProblemMessage>(*back).schedule, runtime::ScheduleKind::kDedicated);
  EXPECT_EQ(std::get<SetUpAnswer>(*decode(encode(one_of_each()[5]))).status.code(), Code::kResourceExhausted);
}

TEST(WorkerMessage, CutOrLongerIsNothing) {
  for (const Message& message : one_of_each()) {
    const std::string bytes = encode(message);
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode(bytes.substr(0, n))) << message.index() << " " << n;
    EXPECT_FALSE(decode(bytes + "x"));
  }
}

TEST(WorkerMessage, RandomBytesAreHarmless) {
  std::mt19937 random(7);
  const std::vector<Message> messages = one_of_each();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = encode(messages[random() % messages.size()]);
    for (int edits = 0; edits < 3; ++edits) bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::optional<Message> message = decode(bytes);
    EXPECT_TRUE(!message || encode(*message).size() == bytes.size());
  }
}

TEST(WorkerMessage, TheLargestAnswerFitsIntoAPacket) {
  RoundAnswer answer;
  answer.timings.resize(kMostArms, {.detail = std::string(5000, 'x')});
  EXPECT_LE(encode(answer).size(), kMostMessageBytes);
  EXPECT_TRUE(decode(encode(answer)));
}

}  // namespace
}  // namespace hone::autotune
