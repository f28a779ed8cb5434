#include "kernels/attention/op.h"

namespace hone::attention {

AttentionProgram lowering_identity(const AttentionProblem& problem, const AttentionProgram& program) {
  return canonical(problem, program);
}

}  // namespace hone::attention
