// What may be decided about a plan: typed choices, each of which changes what runs. The defaults are a plan that is
// good without measuring; the plan optimiser (tune_plan.h) measures others against it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace hone::passes {

enum class KeyPolicy : uint8_t { kChosen, kRows, kBlocked };  // how cached keys lie
enum class LayoutPolicy : uint8_t {
  kDense,
  kPadded
};                                                          // rows of intermediates: dense, or apart by more than
                                                            // a multiple of the L1's period
enum class BoundaryPolicy : uint8_t { kFused, kSeparate };  // one matmul with a fused epilogue, or several
// An RMSNorm before matmuls is a launch of its own, or folded into their weights: another numerics class.
enum class NormPolicy : uint8_t { kSeparate, kFolded };
enum class ReusePolicy : uint8_t { kReuse, kApart };  // buffers whose lifetimes do not meet share memory
enum class ExpertsPolicy : uint8_t { kChosen, kPerExpert, kGrouped, kDense };

struct PlanPolicy {
  std::string attention;  // numerics classes that attention may have, as AttentionSpec::numerics: "", "any", a class
  KeyPolicy keys = KeyPolicy::kChosen;
  LayoutPolicy layout = LayoutPolicy::kDense;
  BoundaryPolicy qkv = BoundaryPolicy::kFused;
  BoundaryPolicy gate_up = BoundaryPolicy::kFused;
  BoundaryPolicy residual = BoundaryPolicy::kFused;
  NormPolicy norm = NormPolicy::kSeparate;
  ReusePolicy reuse = ReusePolicy::kReuse;
  ExpertsPolicy experts = ExpertsPolicy::kChosen;
  int threads = 0;  // at most; 0: the engine's
  bool operator==(const PlanPolicy&) const = default;
};

// "keys=blocked layout=padded qkv=separate": what differs from the default, in a fixed order; "default" when nothing.
std::string to_string(const PlanPolicy& policy);
// Error: invalid_argument naming the word, and the words there are.
Result<PlanPolicy> parse_policy(std::string_view text);

}  // namespace hone::passes
