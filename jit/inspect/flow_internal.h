// Control flow of decoded code: basic blocks, dominators, natural loops.
#pragma once

#include <span>
#include <vector>

#include "jit/inspect/arch_internal.h"

namespace hone::jit {

struct Block {
  int first = 0, last = 0;  // operations [first, last)
  std::vector<int> next, previous;
};

struct FlowGraph {
  std::vector<Block> blocks;   // in the order of the code; the first one is entered
  std::vector<int> block_of;   // by operation
  std::vector<int> order;      // blocks that can be reached, in reverse post-order
  std::vector<int> dominator;  // by block, the immediate one; -1 for the entry and what cannot be reached
  bool dominates(int a, int b) const;
};

// Where an indirect jump goes is not in the code. It is taken to go to every block that nothing else reaches, the first
// of those that hang together: for the table of a switch these are its cases, but for one that another case falls into.
FlowGraph flow_graph(std::span<const Operation> operations);

struct NaturalLoop {
  int header = 0;
  std::vector<int> blocks;  // ascending
  int parent = -1;          // index of the smallest loop around it
};

// One per header: back edges to the same header are one loop (a loop that begins with the loop in it is one with it).
// Outer loops before those in them, otherwise in the order of the code. A cycle that can be entered in two places has
// no header and is no natural loop.
std::vector<NaturalLoop> natural_loops(const FlowGraph& graph);

}  // namespace hone::jit
