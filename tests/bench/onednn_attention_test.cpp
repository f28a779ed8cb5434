// Each way in which the oneDNN peer composes attention, also those that lose on this machine: `hone bench` checks only
// the one that it times.
#include <gtest/gtest.h>

#include <set>

#include "bench/peers/onednn_internal.h"
#include "tests/bench/attention_testing.h"

namespace hone {
namespace {

TEST(OneDnnAttention, EveryWayComputesWhatALoopDoes) {
  std::set<std::string> seen;
  for (const HonePeerAttention& p : attention_problems()) {
    int made = 0;
    for (const peers::Named<peers::AttentionWay>& named : peers::attention_ways(p)) {
      SCOPED_TRACE(named.name + ": " + text(p));
      std::unique_ptr<peers::AttentionWay> way;
      try {
        way = named.make();
      } catch (const std::exception& e) {
        continue;  // no fast kernel for this shape: another way is kept
      }
      ++made;
      seen.insert(named.name);
      expect_right(p, [&](const float* q, const float* k, const float* v, float* o) { return way->run(q, k, v, o); });
    }
    EXPECT_GE(made, 1) << text(p);
  }
  EXPECT_EQ(seen.size(), 4U);
}

}  // namespace
}  // namespace hone
