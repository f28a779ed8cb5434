// What an op adds to the space: its programs, in any order and as often as it likes.
#pragma once

#include <set>
#include <vector>

#include "autotune/space/space.h"
#include "kernels/op/op.h"

namespace hone::autotune {

// Keeps of what is added the first program of each LoopIR that is legal and of an allowed class.
class Programs {
 public:
  Programs(const op::Problem& problem, const Target& target, Space& space)
      : problem_(problem), target_(target), space_(space) {}

  void add(const op::Program& program);
  const std::vector<op::Program>& kept() const { return kept_; }

 private:
  const op::Problem& problem_;
  const Target& target_;
  Space& space_;  // rejected, duplicates
  std::vector<op::Program> kept_;
  std::set<op::Program> seen_, identities_;
};

// One for each op. Adds what is worth measuring beside the default program.
void generate(const matmul::MatmulProblem& problem, const Target& target, Programs& programs);
void generate(const attention::AttentionProblem& problem, const Target& target, Programs& programs);

}  // namespace hone::autotune
