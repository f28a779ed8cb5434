// Which vector registers should be in memory while a part of the kernel runs (a loop, or straight-line code between
// loops).
//
// Which problem: asmjit gives a value one place for its whole life. If accumulators live across a loop that needs all
// registers for something else, some accumulators move to the stack for good, and every fma of the hot loop next to it
// pays. A value that lives through a part without being used there should be stored in front of it and loaded after it.
//
// How much is too much: asmjit finds a register for every element that a part touches only if all of them fit, even
// where few of them live at once (a transposition uses 32 elements, 17 at a time), so elements are counted, not live
// ranges. Too high a count costs a store and a load per loop, too low a count costs them per iteration.
//
// The lowering records what it emits, as a tree of straight-line code, parts and branches; the plan follows from
// liveness on that tree (one backward pass with summaries for what is inside, another with what is live after). Pure:
// no asmjit here.
#pragma once

#include <bitset>
#include <cstddef>
#include <vector>

namespace hone::jit {

class Lifetimes {
 public:
  // Kernels with more register elements than this are not planned for: their pressure is not about loops.
  static constexpr size_t kMaxElements = 512;

  Lifetimes();
  // In the order of emission; an operation's uses come before its definition.
  void use(int element);
  void define(int element);
  // A part of the code, which runs any number of times, or at least once when that is `certain`. Returns its number.
  int begin_part(bool certain);
  void end_part();
  // Of the branches exactly one runs; an empty one counts.
  void begin_branches();
  void begin_branch();
  void end_branch();
  void end_branches();

  // Neighbouring parts, through which the element lives without being used.
  struct Eviction {
    int first, last;
    int element;
  };
  // What to keep in memory during which parts, so that what a part touches and what lives through it fit `budget`
  // registers as far as that is possible.
  std::vector<Eviction> plan(int budget);

 private:
  using Set = std::bitset<kMaxElements>;
  enum class Kind { kUse, kDefine, kPart, kBranches };
  struct Item {
    Kind kind;
    int id;  // element, region of the part, or index of branches_
  };
  struct Region {
    std::vector<Item> items;
    bool certain = true;
    Set exposed;  // used before they are defined
    Set defined;  // defined on every path
    Set touched;  // used or defined anywhere inside
  };

  Region& open() { return regions_[static_cast<size_t>(open_.back())]; }
  int push_region();
  void summarise(int region);
  // Returns what is live before the region when `live` is live after it.
  Set decide(int region, Set live, size_t budget, std::vector<Eviction>& out) const;

  std::vector<Region> regions_;
  std::vector<std::vector<int>> branches_;
  std::vector<int> open_;  // regions under construction, innermost last
  std::vector<int> open_branches_;
};

}  // namespace hone::jit
