#include <gmock/gmock.h>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> faults_after(const std::string& sql) {
  Folder folder;
  fill(*must_open(folder.file("a.db")));
  run_sql(folder.file("a.db"), "PRAGMA ignore_check_constraints = on; PRAGMA foreign_keys = off; " + sql);
  auto faults = must_open(folder.file("a.db"))->verify();
  EXPECT_TRUE(faults.ok());
  return *faults;
}

TEST(DbVerify, SoundIsEmpty) { EXPECT_THAT(faults_after(""), IsEmpty()); }

TEST(DbVerify, FindsATimeOfZero) {
  EXPECT_THAT(faults_after("UPDATE samples SET ns = 0 WHERE candidate_id = 1"),
              Contains(HasSubstr("time of 0 ns is not positive")));
}

TEST(DbVerify, FindsADecisionWithoutSamples) {
  EXPECT_THAT(faults_after("DELETE FROM samples WHERE candidate_id = 1"),
              Contains(HasSubstr("no sample of its winner")));
  EXPECT_THAT(faults_after("DELETE FROM samples"), SizeIs(2));
}

TEST(DbVerify, FindsADecisionThatItsSamplesDoNotBear) {
  EXPECT_THAT(faults_after("UPDATE decisions SET speedup = 3, speedup_lo = 2.9, speedup_hi = 3.1"),
              ElementsAre(HasSubstr("decision 1: speedup 3.0 is outside of the ratios that its run measured, 1.5 to")));
  EXPECT_THAT(
      faults_after("UPDATE decisions SET ns = 999"),
      ElementsAre(HasSubstr("decision 1: ns 999.0 is outside of what its run measured of the winner, 1000 to")));
  EXPECT_THAT(
      faults_after("UPDATE decisions SET default_ns = 1501"),
      ElementsAre(HasSubstr("default_ns 1501.0 is outside of what its run measured of the default plan, 1500")));
  EXPECT_THAT(faults_after("UPDATE decisions SET speedup = 1.7"), Contains(HasSubstr("outside its interval")));
}

// The search measured anything from half to twice of what is stored: that is no evidence, alone or besides.
TEST(DbVerify, OnlyConfirmationBearsADecision) {
  EXPECT_THAT(faults_after("UPDATE samples SET phase = 0"),
              ElementsAre(HasSubstr("decision 1: run 1 has no sample of its winner"),
                          HasSubstr("decision 1: run 1 has no sample of the default plan")));
  EXPECT_THAT(faults_after("UPDATE samples SET phase = 2"), SizeIs(2));
  const std::string search =
      "INSERT INTO samples SELECT run_id, problem_id, candidate_id, 0, r.value, position, ns * r.value / 2 FROM "
      "samples, "
      "(SELECT 1 value UNION SELECT 4) r; "
      "INSERT INTO samples SELECT run_id, problem_id, candidate_id, 0, 9, position, CASE candidate_id WHEN 1 THEN 500 "
      "ELSE "
      "3000 END FROM samples WHERE phase = 1; ";
  EXPECT_THAT(faults_after(search), IsEmpty());
  EXPECT_THAT(faults_after(search + "UPDATE decisions SET ns = 700, default_ns = 2000, speedup = 3, speedup_hi = 3"),
              ElementsAre(HasSubstr("decision 1: ns 700.0 is outside of"),
                          HasSubstr("decision 1: default_ns 2000.0 is outside of"),
                          HasSubstr("decision 1: speedup 3.0 is outside of")));
}

// What `hone tune` stores when a plan costs the whole that it is part of: the default plan holds.
TEST(DbVerify, ADecisionOfAWholeRestsOnConfirmationToo) {
  const std::string whole =
      "UPDATE runs SET cache_mode = 'whole'; UPDATE decisions SET winner_id = fallback_id, speedup = 1, speedup_lo = "
      "1, "
      "speedup_hi = 1, ns = default_ns; ";
  EXPECT_THAT(faults_after(whole), IsEmpty());
  EXPECT_THAT(faults_after(whole + "UPDATE decisions SET ns = 1000"),
              ElementsAre("decision 1: ns 1000.0 is outside of what its run measured of the winner, 1500 to 1500"));
  EXPECT_THAT(faults_after(whole + "UPDATE samples SET phase = 0"), SizeIs(2));
}

// Rounds of a machine whose load changed: ratios of 1, 1 and 0.1, so 1 is their median, but that of the medians is 0.1.
TEST(DbVerify, AChangeOfLoadIsNoFault) {
  EXPECT_THAT(faults_after("DELETE FROM samples; "
                           "INSERT INTO samples SELECT 1, 1, d.winner_id, 1, r.value, 0, r.winner FROM decisions d, "
                           "(SELECT 0 value, 1000 winner UNION SELECT 1, 10000 UNION SELECT 2, 10000) r; "
                           "INSERT INTO samples SELECT 1, 1, d.fallback_id, 1, r.value, 1, r.other FROM decisions d, "
                           "(SELECT 0 value, 1000 other UNION SELECT 1, 10000 UNION SELECT 2, 1000) r; "
                           "UPDATE decisions SET ns = 10000, default_ns = 1000, speedup = 1, speedup_lo = 0.1, "
                           "speedup_hi = 1"),
              IsEmpty());
}

TEST(DbVerify, FindsADefaultThatBeatsItself) {
  EXPECT_THAT(faults_after("UPDATE decisions SET winner_id = fallback_id"),
              Contains(HasSubstr("the winner is the default")));
}

TEST(DbVerify, FindsRunsAndSessionsThatContradict) {
  EXPECT_THAT(faults_after("UPDATE runs SET uid = ''"), Contains("run 1: has no uid"));
  EXPECT_THAT(faults_after("INSERT INTO problems VALUES(9, 'q', 'q', 1); UPDATE runs SET problem_id = 9"),
              Contains("decision 1: is about problem 1, its run 1 about problem 9"));
  const std::string session = "INSERT INTO sessions VALUES(1, 'u', 1, 1, '{}', 1, 'me', 1, 'done'); ";
  EXPECT_THAT(faults_after(session), Contains("session 1: is done, yet owned by me"));
  EXPECT_THAT(faults_after(session + "INSERT INTO builds VALUES(7, 'e', 'c'); UPDATE runs SET session_id = 1, build_id "
                                     "= 7"),
              Contains("run 1: its machine or build is not that of session 1"));
  EXPECT_THAT(faults_after("INSERT INTO schedules SELECT 1, m.id, b.id, 2, 'tbb', 0, 1 FROM machines m, builds b"),
              Contains(HasSubstr("schedule 1: tbb was chosen, yet not measured")));
  EXPECT_THAT(faults_after("INSERT INTO rankers VALUES(1, 'k', 'f', 1, 1, 1, 1.5, 0, x'00')"),
              Contains(HasSubstr("ranker 1: correlation 1.5")));
}

TEST(DbVerify, FindsCodesThatContradictThemselves) {
  const std::string code =
      "INSERT INTO codes SELECT 1, m.id, b.id, 1, 1, 'warm', 'equal', 0, 5.0, 7.0, 2.0, 1.0, 1.5, 9 FROM machines m, "
      "builds b; ";
  EXPECT_THAT(faults_after(code), testing::AllOf(Contains(HasSubstr("code 1: ratio 2.0 is outside its interval")),
                                                 Contains(HasSubstr("code 1: a time of 7.0 ns, yet no round"))));
  EXPECT_THAT(faults_after(code + "INSERT INTO code_parts VALUES(1, 'loop', 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)"),
              Contains(HasSubstr("code 1: its loop has 9 bytes")));
}

TEST(DbVerify, FindsADanglingReference) {
  EXPECT_THAT(faults_after("DELETE FROM programs WHERE id = 1"), Contains(HasSubstr("refers to a row of programs")));
}

// Damage inside the largest table is not looked for at opening; verify finds it.
TEST(DbVerify, FindsDamagedPages) {
  Folder folder;
  const std::string path = folder.file("a.db");
  {
    auto store = must_open(path);
    auto run = begin(*store);
    for (int i = 0; i < 20; ++i) {
      std::vector<Sample> samples;
      for (int r = 0; r < 200; ++r) samples.push_back({.round = r, .order = i, .ns = 1000 + r});
      ASSERT_TRUE(add_samples(*store, *run, problem(1), candidate("p" + std::to_string(i)), samples).ok());
    }
  }
  std::string bytes = slurp(path);
  ASSERT_GT(bytes.size(), 60'000u);
  for (size_t at = bytes.size() - 4096 * 4; at < bytes.size() - 4096 * 2; ++at) bytes[at] = '\x5a';
  spit(path, bytes);
  auto store = must_open(path);
  ASSERT_EQ(store->mode(), OpenMode::kReadWrite) << store->message();
  auto faults = store->verify();
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(*faults, Contains(HasSubstr("file: ")));
  auto samples = store->samples(1, problem(1).text);
  EXPECT_EQ(samples.status().code(), Code::kDataLoss);
  EXPECT_THAT(samples.status().message(), HasSubstr(path));
}

}  // namespace
}  // namespace hone::db
