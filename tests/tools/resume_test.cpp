// A tune that is killed, at any moment and again and again, and then taken up: what was decided stays decided and is
// not measured again, of what was measured nothing but the round under way is lost (case d3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "db/store.h"
#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

std::vector<Json> objects(const std::string& jsonl) {
  std::vector<Json> parsed;
  for (size_t begin = 0; begin < jsonl.size();) {
    const size_t end = jsonl.find('\n', begin);
    if (end == std::string::npos) break;  // cut off by the kill
    parsed.push_back(Json::parse(jsonl.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parsed;
}

class Resume : public NeedsCode {
 protected:
  Outcome tune(const std::string& budget, Setting setting = {}, std::vector<std::string> more = {}) const {
    setting.env = {{"HONE_DB", database()}, {"HONE_LOG", "tune"}};
    std::vector<std::string> args = {
        "tune", "matmul:f32:m={4,8,12,16,20,24},n=64,k=64", "--threads", "1", "--budget", budget, "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return run_hone(args, setting);
  }

  // What says on stderr that a problem's first round is stored. A moment that is named by what has happened, not by the
  // clock, comes on any machine.
  static std::string first_round_of(const std::string& rows) {
    return "event=round problem=\"matmul:f32:" + rows + "n=64,k=64\"";
  }

  std::string database() const { return (scratch_ / "hone.db").string(); }

  // Rounds in the database, of all runs.
  int stored_rounds() const {
    Result<std::unique_ptr<db::Store>> store = db::open({database(), db::OpenMode::kReadOnly});
    EXPECT_TRUE(store.ok()) << store.status().message();
    const Result<std::vector<db::StoredRun>> runs = (*store)->runs();
    EXPECT_TRUE(runs.ok());
    int total = 0;
    for (const db::StoredRun& run : *runs) {
      std::set<std::pair<db::Phase, int64_t>> rounds;
      const auto samples = (*store)->samples(run.id, run.info.problem.text);
      EXPECT_TRUE(samples.ok());
      for (const auto& [candidate, taken] : *samples)
        for (const db::Sample& s : taken) rounds.insert({s.phase, s.round});
      total += static_cast<int>(rounds.size());
    }
    const Result<std::vector<std::string>> faults = (*store)->verify();
    EXPECT_TRUE(faults.ok());
    EXPECT_THAT(*faults, testing::IsEmpty());
    return total;
  }

  std::map<std::string, int64_t> stored_decisions() const {
    Result<std::unique_ptr<db::Store>> store = db::open({database(), db::OpenMode::kReadOnly});
    EXPECT_TRUE(store.ok());
    const Result<std::vector<db::StoredDecision>> all = (*store)->all_decisions();
    EXPECT_TRUE(all.ok());
    std::map<std::string, int64_t> decisions;
    for (const db::StoredDecision& d : *all) {
      EXPECT_FALSE(decisions.contains(d.decision.problem.text)) << "decided twice: " << d.decision.problem.text;
      decisions[d.decision.problem.text] = d.id;
    }
    return decisions;
  }
};

TEST_F(Resume, D3KilledTwentyTimesAtRandomMomentsLosesAtMostTheRoundUnderWay) {
  std::mt19937 random(20261129);
  int acknowledged = 0;  // rounds that were said to be stored
  std::map<std::string, int64_t> decided;
  for (int kill = 0; kill < 20; ++kill) {
    const int after = std::uniform_int_distribution<int>(0, 700)(random);
    SCOPED_TRACE("kill " + std::to_string(kill) + " after " + std::to_string(after) + " ms");
    const Outcome killed = tune("9s", {.signal = SIGKILL, .signal_at = "peak", .signal_after_ms = after});
    if (killed.code == 0) break;  // on a busy machine what was spent may reach the budget before the last kill
    ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.err;
    acknowledged += count(killed.err, "event=round ");
    if (!fs::exists(database())) continue;
    EXPECT_GE(stored_rounds(), acknowledged);
    EXPECT_LE(stored_rounds(), acknowledged + kill + 1) << "a kill can only fall between storing and saying so";
    const std::map<std::string, int64_t> now = stored_decisions();
    for (const auto& [problem, id] : decided) {
      ASSERT_TRUE(now.contains(problem));
      EXPECT_EQ(now.at(problem), id);
    }
    decided = now;
  }
  EXPECT_GT(acknowledged, 20) << "the kills came before anything was measured";
}

TEST_F(Resume, TheSameCommandGoesOnWhereItWasKilled) {
  const Outcome killed = tune("6s", {.signal = SIGKILL, .signal_at = first_round_of("m=12,")});
  ASSERT_EQ(killed.code, 128 + SIGKILL) << killed.err;
  const std::map<std::string, int64_t> decided = stored_decisions();
  ASSERT_GE(decided.size(), 2u) << killed.err;
  ASSERT_LT(decided.size(), 6u) << killed.err;
  const int before = stored_rounds();

  const Outcome second = tune("6s");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("taking up the tune of"));
  EXPECT_THAT(second.err, HasSubstr(": " + std::to_string(decided.size()) + " of 6 problem(s) are decided"));
  const std::vector<Json> rows = objects(second.out);
  ASSERT_EQ(rows.size(), 6u);
  for (const Json& row : rows) {
    EXPECT_EQ(row["resumed"], decided.contains(row["problem"])) << row;
    EXPECT_GT(row["winner"]["ns"], 0) << row;
    EXPECT_GT(row["measured"], 0) << row;
    EXPECT_GT(row["enumerated"], 0) << row;
  }
  EXPECT_GT(stored_rounds(), before);
  EXPECT_EQ(stored_decisions().size(), 6u);
  for (const auto& [problem, id] : decided) EXPECT_EQ(stored_decisions().at(problem), id);
  // The one under way kept its run: no problem has two.
  Result<std::unique_ptr<db::Store>> store = db::open({database(), db::OpenMode::kReadOnly});
  EXPECT_EQ((*store)->runs()->size(), 6u);

  // It is through: the next one is a new tune.
  const Outcome third = tune("2s", {.signal = SIGINT, .signal_at = "[1/6]"});
  EXPECT_EQ(third.code, 130) << third.err;
  EXPECT_THAT(third.err, Not(HasSubstr("taking up")));
}

TEST_F(Resume, InterruptedIsTakenUpAndFreshIsNot) {
  const Outcome interrupted = tune("6s", {.signal = SIGINT, .signal_at = first_round_of("m=8,")});
  ASSERT_EQ(interrupted.code, 130) << interrupted.err;
  EXPECT_THAT(interrupted.err, HasSubstr("the same command takes it up again"));
  const Outcome fresh = tune("600ms", {}, {"--fresh"});
  EXPECT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_THAT(fresh.err, Not(HasSubstr("taking up")));
  const Outcome warm = tune("600ms", {}, {"--cache", "warm"});
  EXPECT_THAT(warm.err, Not(HasSubstr("taking up"))) << "samples of another cache mode say nothing";
  const Outcome again = tune("3s");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("taking up the tune of"));
}

TEST_F(Resume, TwoProcessesAtOnceDoNotTakeEachOthersTune) {
  // The second starts while the first is at work: it must not take its session, and both end well.
  std::string errors[2];
  int codes[2] = {-1, -1};
  {
    std::jthread first([&] {
      const Outcome o = tune("2s");
      codes[0] = o.code, errors[0] = o.err;
    });
    std::jthread second([&] {
      const Outcome o = tune("2s");
      codes[1] = o.code, errors[1] = o.err;
    });
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(codes[i], 0) << errors[i];
    EXPECT_THAT(errors[i], Not(HasSubstr("taking up")));
    EXPECT_THAT(errors[i], Not(HasSubstr("locked")));
  }
}

}  // namespace
}  // namespace hone::cli_test
