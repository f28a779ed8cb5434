#include "engine/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hone {
namespace {

Machine machine_of(int cpus) {
  Machine m;
  m.cpus_usable = cpus;
  m.cpus_source = "affinity";
  return m;
}

TEST(Env, ThreadsUnsetOrBlankDetects) {
  for (const std::optional<std::string>& value : {std::optional<std::string>(), {""}, {"  "}}) {
    ThreadSetting setting = resolve_threads(value, machine_of(5));
    EXPECT_EQ(setting.threads, 5);
    EXPECT_EQ(setting.source, "affinity");
  }
}

TEST(Env, ThreadsNotAPositiveNumberDetectsAndSaysSo) {
  for (const char* value : {"abc", "0", "-3", "3x", "2.5", "-99999999999", "99999999999x", "+"}) {
    ThreadSetting setting = resolve_threads(value, machine_of(5));
    EXPECT_EQ(setting.threads, 5) << value;
    EXPECT_EQ(setting.source, std::string("affinity (HONE_THREADS=") + value + " is not a positive number)");
  }
}

TEST(Env, ThreadsInForce) {
  ThreadSetting setting = resolve_threads(" 12 ", machine_of(5));
  EXPECT_EQ(setting.threads, 12);
  EXPECT_EQ(setting.source, "HONE_THREADS");
}

TEST(Env, ThreadsBeyondTheLimitAreCutAndSaySo) {
  EXPECT_EQ(resolve_threads("1024", machine_of(5)).threads, kMaxThreads);
  EXPECT_EQ(resolve_threads("1024", machine_of(5)).source, "HONE_THREADS");
  for (const char* value : {"1025", "100000", "2000000000", "99999999999"}) {
    const ThreadSetting setting = resolve_threads(value, machine_of(5));
    EXPECT_EQ(setting.threads, kMaxThreads) << value;
    EXPECT_EQ(setting.source, std::string("HONE_THREADS=") + value + ", more than 1024");
  }
  EXPECT_EQ(resolve_threads(std::nullopt, machine_of(5000)).threads, kMaxThreads);
  EXPECT_EQ(resolve_threads(std::nullopt, machine_of(5000)).source, "affinity, more than 1024");
}

TEST(Env, BlankIsUnset) {
  setenv("HONE_TEST_BLANK", "  \t", 1);
  EXPECT_FALSE(env("HONE_TEST_BLANK").has_value());
  setenv("HONE_TEST_BLANK", " a b ", 1);
  EXPECT_EQ(env("HONE_TEST_BLANK"), "a b");
  unsetenv("HONE_TEST_BLANK");
  EXPECT_FALSE(env("HONE_TEST_BLANK").has_value());
}

}  // namespace
}  // namespace hone
