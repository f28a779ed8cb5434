// Two listings of one loop side by side: instructions that do the same stand in one line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/inspect/facts.h"

namespace hone::cli {

// What an instruction is apart from which registers, addresses and numbers it names: "vfmadd231ps zmm, zmm, dword ptr
// []{1to#}".
std::string instruction_shape(std::string_view text);

// One line: an index into each listing, -1 where that side has nothing.
struct AlignedLine {
  int left = -1, right = -1;
  bool same = false;  // of one shape; two that are not stand in one line where both sides differ
  bool operator==(const AlignedLine&) const = default;
};
// Every instruction once and in order, with as many lines of one shape as there can be (longest common subsequence).
// Very long listings are not compared: line by line.
std::vector<AlignedLine> align(std::span<const jit::Instruction> left, std::span<const jit::Instruction> right);

}  // namespace hone::cli
