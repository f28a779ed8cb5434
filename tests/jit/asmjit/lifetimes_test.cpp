#include "jit/asmjit/lifetimes_internal.h"

#include <gmock/gmock.h>

namespace hone::jit {

// Found by gtest.
void PrintTo(const Lifetimes::Eviction& e, std::ostream* out) {
  *out << "element " << e.element << " during " << e.first << ".." << e.last;
}

namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

auto evicted(int first, int last, int element) {
  return testing::AllOf(testing::Field("first", &Lifetimes::Eviction::first, first),
                        testing::Field("last", &Lifetimes::Eviction::last, last),
                        testing::Field("element", &Lifetimes::Eviction::element, element));
}

// Defines and uses `count` elements from `first` on, as one part.
int busy(Lifetimes& l, int first, int count) {
  const int part = l.begin_part(true);
  for (int e = first; e < first + count; ++e) l.define(e);
  for (int e = first; e < first + count; ++e) l.use(e);
  l.end_part();
  return part;
}

int part_that_uses(Lifetimes& l, int element) {
  const int part = l.begin_part(false);
  l.use(element);
  l.end_part();
  return part;
}

int part_that_defines(Lifetimes& l, int element) {
  const int part = l.begin_part(true);
  l.define(element);
  l.end_part();
  return part;
}

TEST(JitAsmjitLifetimes, IdleValuesLeaveABusyPart) {
  Lifetimes l;
  part_that_defines(l, 0);
  const int part = busy(l, 1, 4);
  part_that_uses(l, 0);
  EXPECT_THAT(l.plan(4), UnorderedElementsAre(evicted(part, part, 0)));
}

TEST(JitAsmjitLifetimes, NothingHappensWhileAllFits) {
  Lifetimes l;
  part_that_defines(l, 0);
  busy(l, 1, 4);
  part_that_uses(l, 0);
  EXPECT_THAT(l.plan(5), IsEmpty());
}

TEST(JitAsmjitLifetimes, DeadValuesAreNotStored) {
  Lifetimes l;
  part_that_defines(l, 0);
  busy(l, 1, 4);
  part_that_defines(l, 0);  // the first value was not used again
  part_that_uses(l, 0);
  EXPECT_THAT(l.plan(4), IsEmpty());
}

TEST(JitAsmjitLifetimes, NeighboursShareOneEviction) {
  Lifetimes l;
  part_that_defines(l, 0);
  const int first = busy(l, 1, 4);
  busy(l, 1, 4);
  const int last = busy(l, 1, 4);
  part_that_uses(l, 0);
  EXPECT_THAT(l.plan(4), UnorderedElementsAre(evicted(first, last, 0)));
}

TEST(JitAsmjitLifetimes, OuterPartsAreEnough) {
  Lifetimes l;
  part_that_defines(l, 0);
  const int outer = l.begin_part(false);
  busy(l, 1, 4);
  busy(l, 5, 4);
  l.end_part();
  part_that_uses(l, 0);
  EXPECT_THAT(l.plan(4), UnorderedElementsAre(evicted(outer, outer, 0)));
}

// A loop that comes back to its own beginning keeps alive what it uses there.
TEST(JitAsmjitLifetimes, LoopsKeepTheirValuesAlive) {
  Lifetimes l;
  part_that_defines(l, 0);
  l.begin_part(false);
  part_that_uses(l, 0);
  const int part = busy(l, 1, 4);
  l.end_part();
  EXPECT_THAT(l.plan(4), UnorderedElementsAre(evicted(part, part, 0)));
}

TEST(JitAsmjitLifetimes, BranchesAreAlternatives) {
  Lifetimes l;
  part_that_defines(l, 0);
  l.begin_branches();
  l.begin_branch();
  part_that_defines(l, 0);
  l.end_branch();
  l.begin_branch();
  const int part = busy(l, 1, 4);
  l.end_branch();
  l.end_branches();
  part_that_uses(l, 0);
  EXPECT_THAT(l.plan(4), UnorderedElementsAre(evicted(part, part, 0)));
}

TEST(JitAsmjitLifetimes, TooManyElementsAreLeftAlone) {
  Lifetimes l;
  busy(l, 0, static_cast<int>(Lifetimes::kMaxElements) + 1);
  EXPECT_THAT(l.plan(4), IsEmpty());
}

}  // namespace
}  // namespace hone::jit
