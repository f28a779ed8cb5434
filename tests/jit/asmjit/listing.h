// Questions about a listing (asmjit_listing) that tests ask. Answers come from operands, not from patterns of whole
// lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone::jit {

// Instructions between each label and the jump back to it, the jump included, of loops that contain no other loop.
std::vector<std::vector<std::string>> inner_loops(const std::string& listing);

// Lines that start with a prefix.
int64_t count(const std::vector<std::string>& lines, const std::string& prefix);

// Does the instruction have a memory operand based on the stack pointer (asmjit spills nowhere else), or push or pop?
bool touches_stack(const std::string& line);

std::string joined(const std::vector<std::string>& lines);

}  // namespace hone::jit
