// A guarded sequence whose contract tests may rely on.
#pragma once

#include <gtest/gtest.h>

#include "kernels/attention/guarded_sequence.h"
#include "kernels/attention/trial.h"

namespace hone::attention {

class TestSequence : public GuardedSequence {
 public:
  TestSequence(const AttentionProblem& problem, int64_t q, int64_t kv, uint64_t seed, SequenceStyle style = {})
      : GuardedSequence(problem, q, kv, seed, style) {
    EXPECT_TRUE(checked().ok()) << checked().message();
  }
  TestSequence(const AttentionProblem& problem, uint64_t seed) : TestSequence(problem, problem.q, problem.kv, seed) {}
};

}  // namespace hone::attention
