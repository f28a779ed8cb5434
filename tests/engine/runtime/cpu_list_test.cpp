#include <gtest/gtest.h>

#include <set>

#include "engine/runtime/cpu_list_internal.h"

namespace hone::runtime {
namespace {

TEST(CpuList, FirstSiblingsComeFirst) {
  EXPECT_EQ(one_of_each_core_first({0, 1, 2, 3}, {0, 0, 2, 2}), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(one_of_each_core_first({0, 1, 2, 3}, {0, 1, 0, 1}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(one_of_each_core_first({}, {}), std::vector<int>());
}

TEST(CpuList, ThisProcessHasCpus) { EXPECT_FALSE(usable_cpu_list().empty()); }

// Wherever the caller goes, no worker is there, and no two are on one CPU.
Seats seated(const std::vector<int>& cpus, int workers, int caller) {
  Seats seats(cpus);
  for (int i = 0; i < workers; ++i) seats.add(caller);
  return seats;
}

TEST(Seats, MakeWayForTheCaller) {
  const std::vector<int> cpus = {4, 6, 5, 9};
  for (int workers : {1, 2, 3}) {
    Seats seats = seated(cpus, workers, 6);
    for (int caller : {6, 4, 4, 9, 5, 6, 9, 4, 70, -1, 5}) {
      const int moved = seats.make_way(caller);
      EXPECT_LT(moved, workers);
      std::set<int> taken = {caller};
      for (int i = 0; i < workers; ++i) EXPECT_TRUE(taken.insert(seats.cpu(i)).second) << caller << " " << i;
      EXPECT_EQ(seats.make_way(caller), -1) << "one move is enough";
    }
  }
}

TEST(Seats, WithoutEnoughCpusSomeStand) {
  Seats seats = seated({3}, 2, 0);
  EXPECT_EQ(seats.cpu(0), 3);
  EXPECT_EQ(seats.cpu(1), -1);
  EXPECT_EQ(seats.make_way(3), -1) << "there is no other CPU";
  EXPECT_EQ(seated({}, 1, 0).cpu(0), -1);
}

}  // namespace
}  // namespace hone::runtime
