#include "engine/base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace hone {
namespace {

LogTopics bit(LogTopic topic) { return LogTopics{1} << static_cast<int>(topic); }

class Log : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  void TearDown() override {
    set_log_sink({});
    set_log_topics(0);
  }
  std::vector<std::string> lines_;
};

TEST_F(Log, OffEvaluatesNothing) {
  set_log_topics(bit(LogTopic::kDb));
  int evaluated = 0;
  HONE_LOG_EVENT(LogTopic::kJit, "compile", {{"n", ++evaluated}});
  EXPECT_EQ(evaluated, 0);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Log, OneLinePerEvent) {
  set_log_topics(bit(LogTopic::kJit));
  HONE_LOG_EVENT(LogTopic::kJit, "compile",
                 {{"kernel", "k_14x32"}, {"ns", int64_t{412000}}, {"ok", true}, {"ratio", 1.5}});
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0], "hone: topic=jit event=compile kernel=k_14x32 ns=412000 ok=true ratio=1.5");
}

TEST_F(Log, QuotesWhatWouldBreakTheLine) {
  EXPECT_EQ(format_log_line(LogTopic::kDb, "e", {{"a", "two words"}, {"b", ""}, {"c", "x=\"1\"\n\x01"}}),
            "hone: topic=db event=e a=\"two words\" b=\"\" c=\"x=\\\"1\\\"\\n\\x01\"");
}

TEST_F(Log, ParsesTopics) {
  ParsedTopics parsed = parse_log_topics(" jit, db,");
  EXPECT_EQ(parsed.topics, bit(LogTopic::kJit) | bit(LogTopic::kDb));
  EXPECT_EQ(parsed.warning, "");
  EXPECT_EQ(parse_log_topics("").topics, 0u);
}

TEST_F(Log, UnknownTopicWarnsAndTheOthersStay) {
  ParsedTopics parsed = parse_log_topics("jti,db,xyz");
  EXPECT_EQ(parsed.topics, bit(LogTopic::kDb));
  EXPECT_EQ(parsed.warning, "unknown topic 'jti'; known: dispatch,tune,jit,db");
}

// The environment is read once per process, so these run in a child.
TEST(LogDeathTest, EnvironmentTurnsTopicsOn) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("HONE_LOG", "tune,nonsense", 1);
        HONE_LOG_EVENT(LogTopic::kTune, "round", {{"n", 1}});
        HONE_LOG_EVENT(LogTopic::kJit, "compile", {{"n", 2}});
        std::_Exit(0);
      },
      testing::ExitedWithCode(0),
      "^hone: warning: HONE_LOG: unknown topic 'nonsense'; known: dispatch,tune,jit,db\n"
      "hone: topic=tune event=round n=1\n$");
}

TEST(LogDeathTest, AStderrThatTakesNothingIsNoError) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("HONE_LOG", "tune", 1);
        close(STDERR_FILENO);
        HONE_LOG_EVENT(LogTopic::kTune, "round", {{"n", 1}});
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^$");
}

TEST(LogDeathTest, SilentByDefault) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        unsetenv("HONE_LOG");
        HONE_LOG_EVENT(LogTopic::kTune, "round", {{"n", 1}});
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace hone
