// One program of `hone fuzz`: LoopIR with parameters, or a problem and a program of some op; with the seed of its data.
// A value with a text, which is what a repeat file holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace hone::cli {

inline constexpr std::string_view kLoopIr = "loopir";

struct FuzzCase {
  std::string kind;   // kLoopIr, or an op
  uint64_t seed = 0;  // of the data
  // kLoopIr
  std::string kernel;
  std::vector<std::vector<int64_t>> runs;  // parameter values
  // An op. Texts may be anything: then what parses and judges them is tried.
  std::string problem, program;

  bool operator==(const FuzzCase&) const = default;
};

// kLoopIr and the ops.
std::vector<std::string> fuzz_kinds();

// Program `index` of a seed; `kinds` are those that it may be of. Depends on these and on which instruction sets run
// here, and on nothing else.
FuzzCase random_case(uint64_t seed, uint64_t index, const std::vector<std::string>& kinds);

// "# seed 7", then "# parameters 1 2 3" for each run and the kernel, or "# problem .." and "# program ..".
std::string to_text(const FuzzCase& c);
// Error: invalid_argument saying what is missing. Neither kernel nor problem is parsed.
Result<FuzzCase> parse_case(std::string_view text);

}  // namespace hone::cli
