// See trial.h and kernels/op/trial.h.
#include "kernels/matmul/trial.h"

#include "kernels/matmul/guarded_operands.h"

namespace hone::matmul {
namespace {

// The kernel knows no m, so it also runs with another one.
class MatmulTrial final : public op::Trial {
 public:
  MatmulTrial(const MatmulProblem& problem, const TransformProgram& program, Random random)
      : specials_(random.one_of({0, 0, 2, 30, 300})),
        planned_(problem, program.panel, random.next(), specials_, program.dot) {
    MatmulProblem other = problem;
    other.m = random.between(0, 2 * program.mr + 1);
    if (validate(other).ok()) other_.emplace(other, program.panel, random.next(), specials_, program.dot);
    arguments_.push_back(planned_.arguments());
    if (other_) arguments_.push_back(other_->arguments());
  }

  std::vector<Call> calls(size_t) override {
    std::vector<Call> all;
    for (const Arguments& a : arguments_) all.push_back({a.buffers.data(), a.params.data()});
    return all;
  }
  void reset() override {
    planned_.reset_c();
    if (other_) other_->reset_c();
  }
  numeric::Comparison compare() const override {
    numeric::Comparison comparison = planned_.compare_with_reference();
    return comparison.ok() && other_ ? other_->compare_with_reference() : comparison;
  }
  std::vector<const GuardedBuffer*> memory() const override {
    std::vector<const GuardedBuffer*> all = planned_.memory();
    if (!other_) return all;
    const std::vector<const GuardedBuffer*> others = other_->memory();
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }

 private:
  int specials_;
  GuardedOperands planned_;
  std::optional<GuardedOperands> other_;
  std::vector<Arguments> arguments_;
};

}  // namespace

// Products of all sizes are the same code, so small ones will do; k beyond the largest block now and then.
MatmulProblem Trials::random_problem(uint64_t seed) {
  Random random(seed);
  const bool large = random.chance(5);
  return matmul::random_problem(random.next(),
                                {.max_m = large ? 40 : 9, .max_n = large ? 130 : 50, .max_k = large ? 300 : 40});
}

std::optional<TransformProgram> Trials::random_program(const MatmulProblem& problem, uint64_t seed, Isa isa) {
  return matmul::random_program(problem, seed, isa, true, {Feature::kAvx512Bf16});
}

std::unique_ptr<op::Trial> Trials::make(const MatmulProblem& problem, const TransformProgram& program, uint64_t seed) {
  return std::make_unique<MatmulTrial>(problem, program, Random(seed));
}

}  // namespace hone::matmul
