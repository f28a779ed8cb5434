// What the database costs: size per sample, and the time until a new process has its plans. Bounds are ten times what a
// laptop needs, since sanitizers and busy machines run this too; the measured values are printed.
#include <chrono>
#include <filesystem>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

TEST(DbCost, OpeningAndReadingAThousandDecisions) {
  Folder folder;
  const std::string path = folder.file("a.db");
  constexpr int kProblems = 1000, kCandidates = 10, kRounds = 20;
  int samples_stored = 0;
  auto start = std::chrono::steady_clock::now();
  {
    auto store = must_open(path);
    auto run = begin(*store);
    for (int p = 0; p < kProblems; ++p) {
      for (int c = 0; c < kCandidates; ++c) {
        std::vector<Sample> samples;
        for (int r = 0; r < kRounds; ++r) samples.push_back({.round = r, .order = c, .ns = 1'000'000 + r * 137 + c});
        const std::string program = "mr=14 nr=32 mc=" + std::to_string(p) +
                                    " kc=256 nc=4096 packa unroll=4 prefetch=8 " + std::to_string(c) +
                                    " vectorize=16 order=nkm parallel=n";
        ASSERT_TRUE(add_samples(*store, *run, problem(p), candidate(program), samples).ok());
        samples_stored += kRounds;
      }
      ASSERT_TRUE(store->add_decision(*run, decision(problem(p), "tuned")).ok());
    }
  }
  const double write_ms = ms_since(start);
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));

  start = std::chrono::steady_clock::now();
  auto store = must_open(path);
  const double open_ms = ms_since(start);
  for (int p = 0; p < kProblems; ++p) ASSERT_EQ(store->decisions_for_problem(problem(p).text)->size(), 1u);
  const double read_ms = ms_since(start);

  std::printf(
      "%d samples in %d calls: %.1f us a call; %.2f MB, %.1f bytes a sample with texts; open %.2f ms, open and %d "
      "decisions %.2f ms\n",
      samples_stored, kProblems * kCandidates, write_ms * 1000 / (kProblems * kCandidates), bytes / 1e6,
      bytes / samples_stored, open_ms, kProblems, read_ms);
  EXPECT_LT(bytes / samples_stored, 60);
}

// What a tuner pays per round.
TEST(DbCost, ARoundOfNineCandidates) {
  Folder folder;
  auto store = must_open(folder.file("a.db"));
  auto run = begin(*store);
  std::vector<SampleGroup> groups;
  for (int c = 0; c < 9; ++c)
    groups.push_back({candidate(std::string(150, 'p') + std::to_string(c)), {{.order = c, .ns = 1'000'000 + c}}});
  std::vector<double> us;
  for (int round = 0; round < 500; ++round) {
    for (SampleGroup& group : groups) group.samples.front().round = round;
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(store->add_round(*run, problem(1), groups, round).ok());
    us.push_back(1000 * ms_since(start));
  }
  std::sort(us.begin(), us.end());
  std::printf("a round of 9 candidates: median %.0f us, 90%% %.0f us, slowest %.0f us\n", us[250], us[450], us.back());
  EXPECT_EQ(rows(*store, "samples"), 500 * 9);
}

}  // namespace
}  // namespace hone::db
