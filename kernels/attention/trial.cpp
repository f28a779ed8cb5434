// See trial.h and kernels/op/trial.h.
#include "kernels/attention/trial.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/bind.h"
#include "kernels/attention/guarded_sequence.h"

namespace hone::attention {
namespace {

// The sequences of a batch: the first as long as the plan was made for, the others up to that.
class AttentionTrial final : public op::Trial {
 public:
  AttentionTrial(const AttentionProblem& problem, const AttentionProgram& program, Random random)
      : problem_(problem), program_(program) {
    const std::string numerics = attention::numerics(program);
    const SequenceStyle style{.specials = random.one_of({0, 0, 2, 30})};
    for (int64_t i = 0; i < std::max<int64_t>(problem.batch, 1); ++i) {
      const int64_t q = i == 0 ? problem.q : random.between(0, problem.q);
      const int64_t kv = i == 0 ? problem.kv : random.between(0, problem.kv);
      Item item{std::make_unique<GuardedSequence>(problem, q, kv, random.next(), style), {}, partials(), {}};
      item.expected = item.sequence->expected(numerics);
      items_.push_back(std::move(item));
    }
  }

  std::vector<Call> calls(size_t index) override {
    std::vector<Call> all;
    for (Item& item : items_) {
      item.arguments = bind(problem_, program_, item.sequence->sequence(), static_cast<int>(index),
                            reinterpret_cast<float*>(item.partials.data()));
      all.push_back({item.arguments.buffers.data(), item.arguments.params.data()});
    }
    return all;
  }
  void reset() override {
    for (Item& item : items_) {
      item.sequence->reset();
      item.partials.poison();
    }
  }
  numeric::Comparison compare() const override {
    for (const Item& item : items_) {
      numeric::Comparison comparison = item.sequence->compare(item.expected);
      if (!comparison.ok()) return comparison;
    }
    return {};
  }
  std::vector<const GuardedBuffer*> memory() const override {
    std::vector<const GuardedBuffer*> all;
    for (const Item& item : items_) {
      const std::vector<const GuardedBuffer*> its = item.sequence->memory();
      all.insert(all.end(), its.begin(), its.end());
      all.push_back(&item.partials);
    }
    return all;
  }

 private:
  struct Item {
    std::unique_ptr<GuardedSequence> sequence;
    GuardedSequence::Expected expected;
    GuardedBuffer partials;
    Arguments arguments;
  };
  GuardedBuffer partials() const {
    Result<GuardedBuffer> made = GuardedBuffer::create(4 * partial_elements(problem_, program_));
    if (!made.ok()) throw std::bad_alloc();
    return std::move(*made);
  }

  AttentionProblem problem_;
  AttentionProgram program_;
  std::vector<Item> items_;
};

}  // namespace

// Long sequences and large heads are the same code but for their loops, so small ones will do; others now and then.
AttentionProblem Trials::random_problem(uint64_t seed) {
  Random random(seed);
  if (random.chance(5)) return attention::random_problem(random.next(), {.max_q = 34, .max_kv = 150, .max_d = 96});
  AttentionProblem p = attention::random_problem(random.next(), {.max_q = 6, .max_kv = 50, .max_d = 24});
  p.batch = std::min<int64_t>(p.batch, 2);
  return p;
}

std::optional<AttentionProgram> Trials::random_program(const AttentionProblem& problem, uint64_t seed, Isa isa) {
  return attention::random_program(problem, seed, isa, true);
}

std::unique_ptr<op::Trial> Trials::make(const AttentionProblem& problem, const AttentionProgram& program,
                                        uint64_t seed) {
  return std::make_unique<AttentionTrial>(problem, program, Random(seed));
}

}  // namespace hone::attention
