// The workload of attention. Candidates of one numerics class give the same bits, those of different classes do not.
//
// Guarded: one sequence of few rows and keys, yet so many that tiles and blocks have rests and splits have several
// blocks, against the scalar text of the candidate's class, for the query heads of the first and the last KV head.
// Real: the first candidate of a class against both references on sampled rows; those after it against the first, bit
// for bit, by a digest of each row. Where two disagree the scalar text decides who is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>

#include "autotune/measure/attention_operands.h"
#include "autotune/measure/values_internal.h"
#include "autotune/measure/workloads_internal.h"
#include "engine/base/math.h"
#include "kernels/attention/bind.h"
#include "kernels/attention/reference.h"

namespace hone::autotune {
namespace {

using attention::Algorithm;
using attention::AttentionProblem;
using attention::AttentionProgram;
using attention::Sequence;

// Rows of a KV head on guarded memory: a tile of 28 twice, and a rest.
constexpr int64_t kGuardedRows = 61;
// Keys beyond a whole block: two groups and a rest.
constexpr int64_t kBeyond = 37;
// Multiply-adds of a reference, about 0.1 s: how many rows are sampled, at least two.
constexpr int64_t kReferenceWork = int64_t{1} << 23;
constexpr int64_t kSampledRows = 6;

const AttentionProgram& program_of(const Compiled& candidate) { return std::get<AttentionProgram>(candidate.program); }

struct Row {
  size_t item;
  int64_t head, row;
};

class AttentionWorkload final : public Workload {
 public:
  AttentionWorkload(const AttentionProblem& problem, AttentionOperands operands, uint64_t seed)
      : problem_(problem), seed_(seed), operands_(std::move(operands)) {}

  Status set_up(const Compiled& candidate) override {
    const int64_t elements = attention::partial_elements(problem_, program_of(candidate)) * problem_.batch;
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
    if (bytes <= partials_.size()) return {};
    HONE_ASSIGN_OR_RETURN(partials_, AlignedBuffer::allocate(bytes, Touch::kNow));
    return {};
  }

  Status check_guarded(const Compiled& candidate, bool* refuted) override;
  Status check(const Compiled& candidate, bool* refuted) override;

  Status call(const Compiled& candidate) override { return run(candidate, *candidate.schedule, operands_.sequences()); }

  std::vector<std::span<const std::byte>> ranges(const Compiled& candidate) const override {
    std::vector<std::span<const std::byte>> all = operands_.ranges();
    if (program_of(candidate).algorithm == Algorithm::kSplit)
      all.emplace_back(partials_.data(), static_cast<size_t>(partials_.size()));
    return all;
  }

 private:
  // The few rows and keys of the first step, and what each class gives on them.
  struct Guarded {
    AttentionOperands operands;
    std::map<std::string, std::vector<float>> expected;  // by class and KV head
  };

  Status run(const Compiled& candidate, runtime::Schedule& schedule, std::span<const Sequence> sequences);
  AttentionProblem guarded_problem(const AttentionProgram& program) const;
  Result<Guarded*> guarded(const AttentionProgram& program);
  Status compare_heads(Guarded& guarded, const std::string& numerics, int64_t kv_head);
  Status check_sampled(const std::string& numerics);
  Status check_row(const Row& row, const std::string& numerics, bool bounds);
  std::vector<uint64_t> digests() const;
  uint64_t digest(const Row& row) const;

  const AttentionProblem problem_;
  const std::string node_ = attention::to_string(problem_);  // what a trace calls it
  const uint64_t seed_;
  AttentionOperands operands_;
  AlignedBuffer partials_;
  std::map<std::pair<int64_t, int64_t>, Guarded> guarded_;  // by q, kv
  std::map<std::string, std::vector<uint64_t>> agreed_;     // by class: digests of all rows
  std::vector<attention::Arguments> arguments_;
  std::vector<jit::LaunchItem> items_;
};

Status AttentionWorkload::run(const Compiled& candidate, runtime::Schedule& schedule,
                              std::span<const Sequence> sequences) {
  const AttentionProgram& program = program_of(candidate);
  const int64_t partial = attention::partial_elements(problem_, program);
  for (size_t k = 0; k < candidate.kernels.size(); ++k) {
    arguments_.resize(sequences.size());
    items_.clear();
    for (size_t i = 0; i < sequences.size(); ++i) {
      float* const its = partial == 0 ? nullptr : partials_.as<float>().data() + static_cast<int64_t>(i) * partial;
      arguments_[i] = attention::bind(problem_, program, sequences[i], static_cast<int>(k), its);
      items_.emplace_back(candidate.kernels[k], arguments_[i].buffers.data(), arguments_[i].params.data());
    }
    const bool growing = attention::later_tasks_are_longer(problem_, static_cast<int>(k));
    jit::Launch launch(candidate.kernels[k], items_, candidate.workspaces,
                       growing ? jit::Walk::kLastFirst : jit::Walk::kRange);
    schedule.for_range({"attention", node_}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
    if (launch.out_of_memory()) return resource_exhausted("no memory for a workspace");
  }
  return {};
}

// ---- guarded ----

AttentionProblem AttentionWorkload::guarded_problem(const AttentionProgram& program) const {
  AttentionProblem p = problem_;
  p.batch = std::min<int64_t>(problem_.batch, 1);
  p.q = std::min(problem_.q, ceil_div(kGuardedRows, problem_.group()));
  const int64_t block = attention::is_ordered(program.algorithm) ? attention::kDefaultKeyBlock : program.bk;
  // Of split keys one split has two blocks.
  p.kv = std::min(problem_.kv, block * program.splits + kBeyond);
  return p;
}

Result<AttentionWorkload::Guarded*> AttentionWorkload::guarded(const AttentionProgram& program) {
  const AttentionProblem p = guarded_problem(program);
  const auto at = guarded_.find({p.q, p.kv});
  if (at != guarded_.end()) return &at->second;
  HONE_ASSIGN_OR_RETURN(AttentionOperands operands, AttentionOperands::create(p, seed_, Where::kGuarded));
  return &guarded_.emplace(std::pair(p.q, p.kv), Guarded{std::move(operands), {}}).first->second;
}

Status AttentionWorkload::check_guarded(const Compiled& candidate, bool*) {
  const AttentionProgram& program = program_of(candidate);
  HONE_ASSIGN_OR_RETURN(Guarded* const small, guarded(program));
  small->operands.reset_output();
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<runtime::Schedule> sequential, runtime::make_schedule({}));
  HONE_RETURN_IF_ERROR(run(candidate, *sequential, small->operands.sequences()));
  HONE_RETURN_IF_ERROR(small->operands.check_gaps());
  for (const int64_t kv_head : std::set<int64_t>{0, problem_.kv_heads - 1})
    HONE_RETURN_IF_ERROR(compare_heads(*small, attention::numerics(program), kv_head));
  return {};
}

// The query heads of one KV head as a problem of their own.
Status AttentionWorkload::compare_heads(Guarded& guarded, const std::string& numerics, int64_t kv_head) {
  if (guarded.operands.sequences().empty()) return {};
  AttentionProblem p = guarded.operands.problem();
  Sequence got = guarded.operands.sequences().front();
  const int64_t group = p.group(), first = kv_head * group;
  p.heads = group, p.kv_heads = 1;
  got.query += first * got.q_head;
  got.key += kv_head * got.k_head;
  got.value += kv_head * got.v_head;
  got.out += first * got.o_head;
  if (p.lse) got.lse += first * got.lse_head;
  const int64_t out_elements = (group - 1) * got.o_head + (p.q - 1) * p.row_stride_o() + p.value_dim();
  const int64_t lse_elements = p.lse ? (group - 1) * got.lse_head + p.q : 0;
  const auto [at, is_new] = guarded.expected.try_emplace(fmt::format("{} {}", numerics, kv_head));
  std::vector<float>& memory = at->second;
  if (is_new) memory.resize(static_cast<size_t>(out_elements + lse_elements));
  Sequence expected = got;
  expected.out = memory.data();
  expected.lse = p.lse ? memory.data() + out_elements : nullptr;
  if (is_new) attention::class_f32(p, expected, numerics);
  const attention::Comparison result = attention::compare_bits(p, got, expected);
  if (result.ok()) return {};
  return data_loss(fmt::format("class {}, KV head {}, q={}, kv={}: {}", numerics, kv_head, p.q, p.kv, result.text));
}

// ---- real ----

// Of out and lse; NaN is NaN.
uint64_t AttentionWorkload::digest(const Row& row) const {
  const Sequence& s = operands_.sequences()[row.item];
  uint64_t sum = 0;
  auto add = [&sum](float v) { sum = (sum ^ std::bit_cast<uint32_t>(v)) * 0x9e3779b97f4a7c15ULL, sum ^= sum >> 29; };
  const float* const out = s.out + row.head * s.o_head + row.row * problem_.row_stride_o();
  std::for_each(out, out + problem_.value_dim(), add);
  if (problem_.lse) add(s.lse[row.head * s.lse_head + row.row]);
  return sum;
}

std::vector<uint64_t> AttentionWorkload::digests() const {
  std::vector<uint64_t> all;
  for (size_t item = 0; item < operands_.sequences().size(); ++item)
    for (int64_t h = 0; h < problem_.heads; ++h)
      for (int64_t i = 0; i < problem_.q; ++i) all.push_back(digest({item, h, i}));
  return all;
}

Status AttentionWorkload::check_row(const Row& row, const std::string& numerics, bool bounds) {
  const Sequence& s = operands_.sequences()[row.item];
  AttentionRow one = row_of(problem_, s, row.head, row.row);
  Sequence got = one.sequence;
  got.out = s.out + row.head * s.o_head + row.row * problem_.row_stride_o();
  if (problem_.lse) got.lse = s.lse + row.head * s.lse_head + row.row;
  std::vector<float> memory(static_cast<size_t>(problem_.value_dim()) + 1);
  one.sequence.out = memory.data();
  if (problem_.lse) one.sequence.lse = &memory.back();
  attention::class_f32(one.problem, one.sequence, numerics);
  attention::Comparison result = attention::compare_bits(one.problem, got, one.sequence);
  if (result.ok() && bounds)
    result = attention::compare(one.problem, got, attention::reference_f64(one.problem, one.sequence));
  if (result.ok()) return {};
  return data_loss(
      fmt::format("class {}, item {}, head {}, row {}: {}", numerics, row.item, row.head, row.row, result.text));
}

// The last row, which sees most, the first, and random ones.
Status AttentionWorkload::check_sampled(const std::string& numerics) {
  const int64_t each = std::max<int64_t>(problem_.kv * (problem_.d + problem_.value_dim()), 1);
  const int64_t count = std::clamp<int64_t>(kReferenceWork / each, 2, kSampledRows);
  const size_t items = operands_.sequences().size();
  for (int64_t n = 0; n < count; ++n) {
    const uint64_t draw = mix(seed_ + static_cast<uint64_t>(n));
    Row row{draw % items, static_cast<int64_t>(draw >> 16) % problem_.heads,
            static_cast<int64_t>(draw >> 32) % problem_.q};
    if (n == 0) row = {items - 1, problem_.heads - 1, problem_.q - 1};
    if (n == 1) row = {0, 0, 0};
    if (!has_row(problem_, operands_.sequences()[row.item], row.row)) row.row = problem_.q - 1;
    HONE_RETURN_IF_ERROR(check_row(row, numerics, true));
  }
  return {};
}

Status AttentionWorkload::check(const Compiled& candidate, bool* refuted) {
  const std::string numerics = attention::numerics(program_of(candidate));
  operands_.reset_output();
  HONE_RETURN_IF_ERROR(call(candidate));
  if (problem_.batch == 0 || problem_.q == 0) return {};
  std::vector<uint64_t> got = digests();
  const auto [at, is_first] = agreed_.try_emplace(numerics);
  const std::vector<uint64_t>& agreed = at->second;
  for (size_t i = 0; !is_first && i < got.size(); ++i) {
    if (got[i] == agreed[i]) continue;
    const auto index = static_cast<int64_t>(i);
    const Row row{static_cast<size_t>(index / problem_.q / problem_.heads), index / problem_.q % problem_.heads,
                  index % problem_.q};
    if (!has_row(problem_, operands_.sequences()[row.item], row.row))
      return data_loss(fmt::format("class {}, item {}, head {}, row {}: not the bits of the candidates before it",
                                   numerics, row.item, row.head, row.row));
    HONE_RETURN_IF_ERROR(check_row(row, numerics, false));
    // This one is right: what was agreed is wrong.
    *refuted = true;
    break;
  }
  if (is_first || *refuted) {
    if (Status s = check_sampled(numerics); !s.ok()) {
      agreed_.erase(numerics);
      return s;
    }
    at->second = std::move(got);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Workload>> make_workload_of(const AttentionProblem& problem, uint64_t seed,
                                                   std::shared_ptr<Weights>*) {
  HONE_ASSIGN_OR_RETURN(AttentionOperands operands, AttentionOperands::create(problem, seed, Where::kReal));
  return std::unique_ptr<Workload>(std::make_unique<AttentionWorkload>(problem, std::move(operands), seed));
}

double operand_bytes_of(const AttentionProblem& p) {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  const double rows = d(p.heads) * d(p.q) * d(p.row_stride_q() + p.row_stride_o());
  const double keys = d(p.kv_heads) * d(p.kv) * d(p.row_stride_k() + p.row_stride_v());
  const double mask = p.mask == attention::MaskKind::kNone ? 0 : d(p.q) * d(p.kv);
  return 4 * d(p.batch) * (rows + keys + mask);
}

}  // namespace hone::autotune
