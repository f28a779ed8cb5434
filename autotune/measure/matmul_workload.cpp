// The workload of matmul. Its outputs are judged by OutputCheck: one for each class, whose candidates all give the same
// bits.
#include <algorithm>
#include <map>
#include <string>

#include "autotune/measure/gate.h"
#include "autotune/measure/operands.h"
#include "autotune/measure/workloads_internal.h"
#include "engine/base/guarded_buffer.h"
#include "kernels/matmul/bind.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::MatmulProblem;
using matmul::PackedB;
using matmul::TransformProgram;

// B is copied to guarded memory up to this size: touching more takes longer than the candidate.
constexpr int64_t kGuardedB = int64_t{4} << 20;
// Copies are kept, one a panel width, as touching fresh memory is what costs.
constexpr int64_t kGuardedBTotal = int64_t{256} << 20;

Result<GuardedBuffer> guarded(int64_t elements) {
  return GuardedBuffer::create(elements * static_cast<int64_t>(sizeof(float)));
}

// Packed operands are shared by all candidates of a width, so none of them may have packed them with its own generator:
// a wrong one would make the others look wrong.
jit::CodeGenerator& packing_generator(Isa isa) {
  const std::span<jit::CodeGenerator* const> all = jit::code_generators();
  return **std::find_if(all.begin(), all.end(), [isa](const jit::CodeGenerator* g) { return g->targets(isa); });
}

const TransformProgram& program_of(const Compiled& candidate) { return std::get<TransformProgram>(candidate.program); }

class MatmulWorkload final : public Workload {
 public:
  MatmulWorkload(const MatmulProblem& problem, Operands operands, uint64_t seed)
      : problem_(problem), operands_(std::move(operands)), seed_(seed) {}
  MatmulWorkload(const MatmulWorkload&) = delete;
  MatmulWorkload& operator=(const MatmulWorkload&) = delete;

  Status set_up(const Compiled& candidate) override {
    if (problem_.b != BLayout::kPacked) return {};
    const TransformProgram& program = program_of(candidate);
    return operands_.pack(program.panel, matmul::kr_of(program.dot), packing_generator(program.isa), program.isa);
  }

  Status check_guarded(const Compiled& candidate, bool* refuted) override;

  Status check(const Compiled& candidate, bool* refuted) override {
    operands_.reset_c();
    HONE_RETURN_IF_ERROR(call(candidate));
    return check_of(candidate).check(problem_, operands_.c(), refuted);
  }

  Status call(const Compiled& candidate) override {
    return run(candidate, *candidate.schedule, problem_, operands_.view(packed(candidate)));
  }

  std::vector<std::span<const std::byte>> ranges(const Compiled& candidate) const override {
    return operands_.ranges(packed(candidate));
  }

 private:
  PackedB packed(const Compiled& candidate) const {
    if (problem_.b != BLayout::kPacked) return {};
    const TransformProgram& program = program_of(candidate);
    return operands_.layout(program.panel, matmul::kr_of(program.dot));
  }
  OutputCheck& check_of(const Compiled& candidate) {
    const matmul::Dot dot = program_of(candidate).dot;
    return checks_.try_emplace(dot, operands_, seed_, dot).first->second;
  }
  Status run(const Compiled& candidate, runtime::Schedule& schedule, const MatmulProblem& shape,
             const matmul::MatmulOperands& operands);
  Result<const void*> guarded_b(const PackedB& packed);

  const MatmulProblem problem_;
  const std::string node_ = matmul::to_string(problem_);  // what a trace calls it
  Operands operands_;
  uint64_t seed_;
  std::map<matmul::Dot, OutputCheck> checks_;
  std::map<std::pair<int64_t, int64_t>, GuardedBuffer> guarded_b_;  // by panel width and kr
};

Status MatmulWorkload::run(const Compiled& candidate, runtime::Schedule& schedule, const MatmulProblem& shape,
                           const matmul::MatmulOperands& operands) {
  const matmul::Arguments args = matmul::bind(shape, operands, packed(candidate));
  jit::Launch launch(candidate.kernels.front(), args.buffers.data(), args.params.data(), candidate.workspaces);
  schedule.for_range({"matmul", node_}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
  if (launch.out_of_memory()) return resource_exhausted("no memory for a workspace");
  return {};
}

Result<const void*> MatmulWorkload::guarded_b(const PackedB& packed) {
  const std::span<const std::byte> real = operands_.b(packed);
  const std::pair key(packed.width, packed.kr);
  const auto bytes = static_cast<int64_t>(real.size());
  if (bytes > kGuardedB) return static_cast<const void*>(real.data());
  const auto at = guarded_b_.find(key);
  if (at != guarded_b_.end()) return static_cast<const void*>(at->second.data());
  if (static_cast<int64_t>(guarded_b_.size() + 1) * bytes > kGuardedBTotal) guarded_b_.clear();
  HONE_ASSIGN_OR_RETURN(GuardedBuffer copy, GuardedBuffer::create(bytes));
  std::ranges::copy(real, copy.data());
  return static_cast<const void*>(guarded_b_.emplace(key, std::move(copy)).first->second.data());
}

Status MatmulWorkload::check_guarded(const Compiled& candidate, bool* refuted) {
  MatmulProblem shape = problem_;
  const int64_t mr = program_of(candidate).mr;
  shape.m = std::min(problem_.m, mr + problem_.m % mr);
  HONE_ASSIGN_OR_RETURN(GuardedBuffer a, guarded(elements_a(shape)));
  operands_.copy_a(shape, a.as<float>());
  HONE_ASSIGN_OR_RETURN(GuardedBuffer c, guarded(elements_c(shape)));
  operands_.reset_c(shape, c.as<float>());
  matmul::MatmulOperands operands = operands_.view(packed(candidate));
  auto like_c = [&](const float*& operand) -> Result<GuardedBuffer> {
    HONE_ASSIGN_OR_RETURN(GuardedBuffer copy, guarded(operand == nullptr ? 0 : elements_c(shape)));
    if (operand != nullptr) {
      operands_.copy_like_c(shape, operand, copy.as<float>());
      operand = copy.as<float>().data();
    }
    return copy;
  };
  HONE_ASSIGN_OR_RETURN(const GuardedBuffer gate, like_c(operands.gate));
  HONE_ASSIGN_OR_RETURN(const GuardedBuffer residual, like_c(operands.residual));
  HONE_ASSIGN_OR_RETURN(GuardedBuffer bias, guarded(operands.bias == nullptr ? 0 : problem_.n));
  if (operands.bias != nullptr) {
    std::copy_n(operands.bias, problem_.n, bias.as<float>().data());
    operands.bias = bias.as<float>().data();
  }
  HONE_ASSIGN_OR_RETURN(GuardedBuffer row_scale, guarded(operands.row_scale == nullptr ? 0 : shape.m));
  if (operands.row_scale != nullptr) {
    std::copy_n(operands.row_scale, shape.m, row_scale.as<float>().data());
    operands.row_scale = row_scale.as<float>().data();
  }
  HONE_ASSIGN_OR_RETURN(operands.b, guarded_b(packed(candidate)));
  operands.a = a.as<float>().data();
  operands.c = c.as<float>().data();
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Schedule> sequential, runtime::make_schedule({}));
  HONE_RETURN_IF_ERROR(run(candidate, *sequential, shape, operands));
  if (!c.slack_intact()) return data_loss("the kernel wrote before the first element of C");
  return check_of(candidate).check(shape, c.as<float>(), refuted);
}

}  // namespace

Result<std::unique_ptr<Workload>> make_workload_of(const MatmulProblem& problem, uint64_t seed,
                                                   std::shared_ptr<Weights>* weights) {
  HONE_ASSIGN_OR_RETURN(Operands operands, Operands::create(problem, seed, weights));
  return std::unique_ptr<Workload>(std::make_unique<MatmulWorkload>(problem, std::move(operands), seed));
}

// A packed copy of B stands beside the rows; of C there are what is laid out like it.
double operand_bytes_of(const MatmulProblem& p) {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  return d(p.batch) * (4 * d(p.row_stride_a()) * d(p.m) + d(p.bytes_b()) * d(p.n) * d(p.k) * 1.5 +
                       4 * 4 * d(p.row_stride_c()) * d(p.m));
}

}  // namespace hone::autotune
