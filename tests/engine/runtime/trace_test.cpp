#include "engine/runtime/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/engine/runtime/schedule_testing.h"

namespace hone::runtime {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Trace : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("hone_trace_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    file_ = folder_ / "trace.json";
  }
  void TearDown() override {
    set_trace_sink(nullptr);
    std::filesystem::remove_all(folder_);
  }
  static json parsed(const std::filesystem::path& path) {
    std::ifstream file(path);
    return json::parse(file, nullptr, /*allow_exceptions=*/false);
  }
  std::filesystem::path folder_, file_;
};

const ScheduleRegion kRegion{.op = "matmul",
                             .node = "a \"b\"\n\xff",
                             .schedule = "tbb(2)",
                             .elements = 9,
                             .tasks = 2,
                             .grain = 3,
                             .begin_ns = 1500,
                             .duration_ns = 250};

TEST_F(Trace, RegionsSayWhatTheyWere) {
  const auto sink = std::make_shared<RecordingSink>();
  const std::unique_ptr<Schedule> schedule = reversed_schedule(3);
  schedule->for_range({"matmul", "before"}, 9, 2, [](int64_t, int64_t) {});
  set_trace_sink(sink);
  schedule->for_range({"matmul", "m=1"}, 9, 2, [](int64_t, int64_t) {});
  schedule->for_range({"matmul", "one task"}, 9, 6, [](int64_t, int64_t) {});
  EXPECT_THROW(schedule->for_range({"pack", "w"}, 2, 1, [](int64_t, int64_t) { throw std::runtime_error("x"); }),
               std::runtime_error);
  schedule->for_range({"outer", ""}, 2, 1, [&](int64_t, int64_t) {
    schedule->for_range({"inner", ""}, 2, 1, [](int64_t, int64_t) {});
  });
  set_trace_sink(nullptr);
  schedule->for_range({"matmul", "after"}, 9, 2, [](int64_t, int64_t) {});
  const std::vector<RecordingSink::Region> regions = sink->regions();
  ASSERT_EQ(regions.size(), 3U);
  EXPECT_EQ(regions[0].op, "matmul");
  EXPECT_EQ(regions[0].node, "m=1");
  EXPECT_EQ(regions[0].schedule, "reversed");
  EXPECT_EQ(regions[0].numbers.elements, 9);
  EXPECT_EQ(regions[0].numbers.tasks, 3);
  EXPECT_EQ(regions[0].numbers.grain, 2);
  EXPECT_GT(regions[0].numbers.begin_ns, 0);
  EXPECT_GE(regions[0].numbers.duration_ns, 0);
  EXPECT_FALSE(regions[0].numbers.failed);
  EXPECT_EQ(regions[1].op, "pack");
  EXPECT_TRUE(regions[1].numbers.failed);
  EXPECT_EQ(regions[1].numbers.failures, 1);
  EXPECT_EQ(regions[2].op, "outer");
}

TEST_F(Trace, ChromeFileIsJsonAfterEveryEvent) {
  const std::shared_ptr<TraceSink> sink = make_chrome_trace(file_).value();
  EXPECT_EQ(parsed(file_).size(), 1U);
  sink->region(kRegion);
  EXPECT_EQ(parsed(file_).size(), 2U);
  sink->downgraded({"dedicated(8)", "tbb(8)", "2 CPUs"});
  const json events = parsed(file_);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_THAT(events[0]["args"]["labels"].get<std::string>(), HasSubstr("CPUs usable"));
  EXPECT_EQ(events[1]["name"], "matmul");
  EXPECT_EQ(events[1]["ph"], "X");
  EXPECT_EQ(events[1]["ts"], 1.5);
  EXPECT_EQ(events[1]["dur"], 0.25);
  EXPECT_EQ(events[1]["args"]["schedule"], "tbb(2)");
  EXPECT_EQ(events[1]["args"]["tasks"], 2);
  EXPECT_EQ(events[2]["args"]["reason"], "2 CPUs");
}

TEST_F(Trace, AFileInUseIsLeftAlone) {
  const std::shared_ptr<TraceSink> first = make_chrome_trace(file_).value(), second = make_chrome_trace(file_).value();
  first->region(kRegion);
  second->region(kRegion);
  second->region(kRegion);
  EXPECT_EQ(parsed(file_).size(), 2U);
  EXPECT_EQ(parsed(file_.string() + "." + std::to_string(::getpid())).size(), 3U);
}

TEST_F(Trace, WhatAnEarlierProcessLeftIsReplaced) {
  std::ofstream(file_) << std::string(10'000, 'x');
  const std::shared_ptr<TraceSink> sink = make_chrome_trace(file_).value();
  EXPECT_EQ(parsed(file_).size(), 1U);
}

TEST_F(Trace, ABadPathIsAnError) {
  for (const std::string& path :
       {folder_.string(), (folder_ / "no" / "trace.json").string(), std::string("/dev/full")}) {
    const Result<std::shared_ptr<TraceSink>> trace = make_chrome_trace(path);
    ASSERT_FALSE(trace.ok()) << path;
    EXPECT_THAT(trace.status().message(), HasSubstr(path));
  }
}

// A limit on the size of files stands for the full disk.
TEST_F(Trace, AFullDiskEndsTheTraceAndLeavesJson) {
  const std::shared_ptr<TraceSink> sink = make_chrome_trace(file_).value();
  for (int i = 0; i < 5; ++i) sink->region(kRegion);
  rlimit old{}, small{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = std::filesystem::file_size(file_) + 20;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) sink->region(kRegion);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  sink->region(kRegion);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr(file_.string()));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(parsed(file_).size(), 6U);
}

}  // namespace
}  // namespace hone::runtime
