// Counters against a pretended kernel: what is refused has a reason and no value, what is multiplexed is scaled. The
// real kernel is asked too, and whatever it answers must hold together.
#include "engine/base/perf_counters.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <map>
#include <set>

namespace hone {
namespace {

using testing::HasSubstr;

// Answers like a kernel whose events show `numbers` (count, enabled, running), each read one row further.
struct FakeKernel {
  std::map<Counter, int> errors;                                   // errno of open
  std::map<Counter, std::vector<std::array<uint64_t, 3>>> script;  // what reads give
  std::string paranoid = "2";
  std::map<Counter, int> leaders;
  std::set<int> opened;
  std::map<int, size_t> reads;
  std::set<int> unreadable;

  PerfSystem system() {
    return {.open =
                [this](Counter counter, int leader) {
                  leaders[counter] = leader;
                  if (errors.contains(counter)) return -errors[counter];
                  const int fd = 100 + static_cast<int>(counter);
                  opened.insert(fd);
                  return fd;
                },
            .read =
                [this](int fd, std::array<uint64_t, 3>& numbers) {
                  if (unreadable.contains(fd)) return false;
                  numbers = script.at(static_cast<Counter>(fd - 100)).at(reads[fd]++);
                  return true;
                },
            .close = [this](int fd) { opened.erase(fd); },
            .paranoid = [this] { return paranoid; }};
  }
};

FakeKernel counting() {
  FakeKernel kernel;
  for (const Counter c : kAllCounters) kernel.script[c] = {{1000, 50, 50}, {1600, 150, 150}};
  return kernel;
}

TEST(PerfCounters, ADifferenceOfTwoReadings) {
  FakeKernel kernel = counting();
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  EXPECT_TRUE(counters.any());
  EXPECT_EQ(counters.why_not(), "");
  counters.start();
  const CounterReading reading = counters.stop();
  for (const Counter c : kAllCounters) EXPECT_EQ(reading[c], 600.0) << counter_name(c);
}

TEST(PerfCounters, InstructionsAreInTheGroupOfCyclesAndMissesAreAlone) {
  FakeKernel kernel = counting();
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  EXPECT_EQ(kernel.leaders[Counter::kCycles], -1);
  EXPECT_EQ(kernel.leaders[Counter::kInstructions], 100);
  EXPECT_EQ(kernel.leaders[Counter::kL1dReadMisses], -1);
  EXPECT_EQ(kernel.leaders[Counter::kLlcReadMisses], -1);
}

// Counted during 25 of 100 ns: four times as many in all.
TEST(PerfCounters, MultiplexedCountsAreScaled) {
  FakeKernel kernel = counting();
  kernel.script[Counter::kLlcReadMisses] = {{1000, 50, 50}, {1600, 150, 75}};
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  counters.start();
  const CounterReading reading = counters.stop();
  EXPECT_EQ(reading[Counter::kLlcReadMisses], 2400.0);
  EXPECT_EQ(reading[Counter::kCycles], 600.0);
}

TEST(PerfCounters, NeverScheduledIsNoZero) {
  FakeKernel kernel = counting();
  kernel.script[Counter::kL1dReadMisses] = {{0, 50, 0}, {0, 150, 0}};
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  counters.start();
  EXPECT_EQ(counters.stop()[Counter::kL1dReadMisses], std::nullopt);
  EXPECT_THAT(counters.why_not(Counter::kL1dReadMisses), HasSubstr("never scheduled"));
}

TEST(PerfCounters, CyclesThatStandStillAreNoZeroButNoMissesIsOne) {
  FakeKernel kernel = counting();
  for (const Counter c : kAllCounters) kernel.script[c] = {{7, 50, 50}, {7, 150, 150}};
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  counters.start();
  const CounterReading reading = counters.stop();
  EXPECT_EQ(reading[Counter::kCycles], std::nullopt);
  EXPECT_EQ(reading[Counter::kInstructions], std::nullopt);
  EXPECT_EQ(reading[Counter::kL1dReadMisses], 0.0);
  EXPECT_THAT(counters.why_not(), HasSubstr("cycles: counted nothing"));
}

TEST(PerfCounters, EveryRefusalHasAReason) {
  struct Row {
    int error;
    const char *paranoid, *reason;
  };
  for (const Row& row :
       {Row{ENOENT, "2", "virtual PMU"}, Row{EOPNOTSUPP, "2", "virtual PMU"}, Row{EACCES, "4", "perf_event_paranoid=2"},
        Row{EPERM, "3", "perf_event_paranoid is 3"}, Row{EPERM, "2", "seccomp"}, Row{EPERM, "", "seccomp"},
        Row{ENOSYS, "", "without performance events"}, Row{EMFILE, "2", "ulimit"}, Row{EINVAL, "2", "errno 22"}}) {
    FakeKernel kernel = counting();
    kernel.paranoid = row.paranoid;
    for (const Counter c : kAllCounters) kernel.errors[c] = row.error;
    PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
    EXPECT_FALSE(counters.any());
    for (const Counter c : kAllCounters) EXPECT_THAT(counters.why_not(c), HasSubstr(row.reason));
    EXPECT_THAT(counters.why_not(), testing::StartsWith("cycles: "));
    counters.start();
    const CounterReading reading = counters.stop();
    for (const Counter c : kAllCounters) EXPECT_EQ(reading[c], std::nullopt);
  }
}

TEST(PerfCounters, OneThatIsMissingDoesNotCostTheOthers) {
  FakeKernel kernel = counting();
  kernel.errors[Counter::kCycles] = ENOENT;
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  EXPECT_EQ(kernel.leaders[Counter::kInstructions], -1) << "there is no leader to join";
  counters.start();
  const CounterReading reading = counters.stop();
  EXPECT_EQ(reading[Counter::kCycles], std::nullopt);
  EXPECT_EQ(reading[Counter::kInstructions], 600.0);
}

TEST(PerfCounters, AFailedReadIsNoValue) {
  FakeKernel kernel = counting();
  kernel.unreadable = {100};
  PerfCounters counters = PerfCounters::of_this_thread(kernel.system());
  counters.start();
  const CounterReading reading = counters.stop();
  EXPECT_EQ(reading[Counter::kCycles], std::nullopt);
  EXPECT_EQ(reading[Counter::kInstructions], 600.0);
  EXPECT_THAT(counters.why_not(), HasSubstr("cannot be read"));
}

TEST(PerfCounters, EverythingOpenedIsClosedOnceWhereverItMoved) {
  FakeKernel kernel = counting();
  {
    PerfCounters a = PerfCounters::of_this_thread(kernel.system());
    EXPECT_EQ(kernel.opened.size(), kAllCounters.size());
    PerfCounters b = std::move(a);
    EXPECT_TRUE(b.any());
    EXPECT_EQ(kernel.opened.size(), kAllCounters.size());
  }
  EXPECT_TRUE(kernel.opened.empty());
}

// Whether this machine grants counters is its own affair: they have values that grow with the work, or reasons.
TEST(PerfCounters, TheKernelAtHand) {
  PerfCounters counters = PerfCounters::of_this_thread();
  auto count = [&](int iterations) {
    counters.start();
    volatile int sink = 0;
    for (int i = 0; i < iterations; ++i) sink = sink + i;
    return counters.stop();
  };
  const CounterReading few = count(1'000), many = count(1'000'000);
  for (const Counter c : kAllCounters) EXPECT_EQ(many[c].has_value(), counters.why_not(c).empty()) << counter_name(c);
  if (!few[Counter::kInstructions] || !many[Counter::kInstructions]) GTEST_SKIP() << counters.why_not();
  EXPECT_GT(*few[Counter::kInstructions], 1'000);
  EXPECT_GT(*many[Counter::kInstructions], 100 * *few[Counter::kInstructions]);
}

}  // namespace
}  // namespace hone
