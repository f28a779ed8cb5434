// Preparing routed experts: what a call finds ready. Weights are packed once, an expert at a time, straight from the
// caller's memory but for the interleaving of gate and up, which needs room for one expert.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/base/math.h"
#include "engine/experts_internal.h"
#include "kernels/rows/decoder.h"

namespace hone {
namespace {

using matmul::EpilogueOp;
using matmul::kSwigluColumns;
using matmul::MatmulProblem;
__extension__ typedef __int128 int128;

// With few tokens every expert on each is affordable, so there is memory for it.
constexpr int64_t kDenseTokens = 8;
constexpr int64_t kLine = 64;

// Two operands for each of top_k, the result, and what came before.
constexpr int64_t kCombinedAtOnce = (static_cast<int64_t>(rows::kMaxOperands) - 2) / 2;

MatmulProblem projection(int64_t n, int64_t k, std::vector<EpilogueOp> epilogue) {
  return {.n = n, .k = k, .b = matmul::BLayout::kNt, .epilogue = std::move(epilogue)};
}

// out = [previous +] sum over `count` gathered rows of weight * row, a chain of fma.
rows::RowProgram combine_program(int64_t d, int64_t count, bool continued) {
  using rows::Columns;
  rows::ProgramBuilder b("combine", 1, d);
  const int previous = continued ? b.in() : -1;
  std::vector<std::pair<int, int>> terms;
  for (int64_t j = 0; j < count; ++j) {
    const int weight = b.in(Columns::kOne);
    terms.emplace_back(weight, b.in(Columns::kDense, DType::kF32, 0));
  }
  const int out = b.out();
  rows::ProgramBuilder::Value sum = continued ? b.load(previous) : b.constant(0.0F);
  for (const auto& [weight, row] : terms) sum = b.apply(rows::StepOp::kFma, b.load(weight), b.load(row), sum);
  b.store(out, sum);
  return b.finish();
}

}  // namespace

Experts::Impl::Impl(std::shared_ptr<Engine::State> state, const ExpertsSpec& spec)
    : state_(std::move(state)), spec_(spec) {}

Result<Experts> Experts::Impl::create(const Engine& engine, const ExpertsSpec& spec, const ExpertsWeights& weights) {
  HONE_RETURN_IF_ERROR(check(spec, weights));
  const std::shared_ptr<Impl> impl(new Impl(EngineAccess::state(engine), spec));
  Engine::State& state = *impl->state_;
  HONE_RETURN_IF_ERROR(impl->lay_out());
  HONE_ASSIGN_OR_RETURN(impl->all_threads_, state.schedules.get(state.target.threads));
  HONE_RETURN_IF_ERROR(impl->pack(weights));
  HONE_RETURN_IF_ERROR(impl->make_rows());
  HONE_RETURN_IF_ERROR(impl->scratch_.reserve(impl->layout_.bytes, 1));
  // A region over all experts may have more threads than the plan of one of them.
  HONE_RETURN_IF_ERROR(state.workspaces.reserve(1, state.target.threads));
  return Experts(impl);
}

Status Experts::Impl::check(const ExpertsSpec& spec, const ExpertsWeights& weights) {
  const std::pair<const char*, int64_t> sizes[] = {{"experts", spec.experts},
                                                   {"top_k", spec.top_k},
                                                   {"d", spec.d},
                                                   {"ff", spec.ff},
                                                   {"max_tokens", spec.max_tokens}};
  for (const auto& [name, value] : sizes)
    if (value < 1) return invalid_argument(fmt::format("{}={} must be at least 1", name, value));
  if (spec.top_k > spec.experts)
    return invalid_argument(fmt::format("top_k={} is more than the {} experts there are", spec.top_k, spec.experts));
  for (const int64_t tokens : spec.expected_tokens)
    if (tokens < 1 || tokens > spec.max_tokens)
      return invalid_argument(
          fmt::format("expected_tokens has {}, which is not from 1 to max_tokens={}", tokens, spec.max_tokens));
  const std::pair<const char*, const float*> memory[] = {
      {"gate", weights.gate}, {"up", weights.up}, {"down", weights.down}};
  for (const auto& [name, data] : memory)
    if (data == nullptr) return invalid_argument(fmt::format("the weights of {} are null", name));
  for (MatmulProblem all : {projection(spec.ff, spec.d, {}), projection(spec.d, spec.ff, {})}) {
    all.batch = spec.experts;
    HONE_RETURN_IF_ERROR(matmul::validate(all));
  }
  return {};
}

Status Experts::Impl::lay_out() {
  const auto wide = [](int64_t v) { return static_cast<int128>(v); };
  const int64_t dense_tokens =
      spec_.strategy == ExpertsStrategy::kDense ? spec_.max_tokens : std::min(spec_.max_tokens, kDenseTokens);
  const int128 routed = wide(spec_.max_tokens) * spec_.top_k,
               rows = std::max(routed, dense_tokens * wide(spec_.experts));
  const bool pairs = spec_.ff % kSwigluColumns == 0;
  int128 bytes = 0;
  const auto take = [&](int64_t* at, int128 elements, int64_t element_bytes) {
    *at = static_cast<int64_t>(bytes);
    bytes += (elements * element_bytes + kLine - 1) / kLine * kLine;
  };
  // Rows are numbered in 32 bits. The widest of them then keeps every sum below within 128 bits.
  if (rows <= std::numeric_limits<int32_t>::max()) {
    layout_.rows = static_cast<int64_t>(rows);
    take(&layout_.counts, spec_.experts, sizeof(int64_t));
    take(&layout_.first, spec_.experts, sizeof(int64_t));
    take(&layout_.token, routed, sizeof(int32_t));
    take(&layout_.position, routed, sizeof(int32_t));
    take(&layout_.gathered, routed * spec_.d, sizeof(float));
    take(&layout_.gate, pairs ? 0 : rows * spec_.ff, sizeof(float));
    take(&layout_.hidden, rows * spec_.ff, sizeof(float));
    take(&layout_.results, rows * spec_.d, sizeof(float));
  }
  if (layout_.rows == 0 || bytes > std::numeric_limits<int64_t>::max())
    return invalid_argument(
        fmt::format("too large: max_tokens={} with top_k={} of {} experts, d={}, ff={}; prepare for "
                    "fewer tokens",
                    spec_.max_tokens, spec_.top_k, spec_.experts, spec_.d, spec_.ff));
  layout_.bytes = static_cast<int64_t>(bytes);
  return {};
}

Status Experts::Impl::pack(const ExpertsWeights& weights) {
  const int64_t d = spec_.d, ff = spec_.ff;
  const auto items = [&](const float* all) { return [=](int64_t e) { return all + e * ff * d; }; };
  if (ff % kSwigluColumns == 0) {
    HONE_RETURN_IF_ERROR(pack_pairs(weights));
  } else {
    gate_.emplace(*state_, projection(ff, d, {EpilogueOp::kSilu}));
    HONE_RETURN_IF_ERROR(pack_bank(*gate_, items(weights.gate)));
    up_.emplace(*state_, projection(ff, d, {EpilogueOp::kGate}));
    HONE_RETURN_IF_ERROR(pack_bank(*up_, items(weights.up)));
  }
  down_.emplace(*state_, projection(d, ff, {}));
  return pack_bank(*down_, items(weights.down));
}

// Rows of nt are columns of B: 16 of the gate, 16 of the up projection, and so on.
Status Experts::Impl::pack_pairs(const ExpertsWeights& weights) {
  const int64_t d = spec_.d, ff = spec_.ff, group = kSwigluColumns * d;
  HONE_ASSIGN_OR_RETURN(const AlignedBuffer pairs, AlignedBuffer::allocate_elements(2 * ff * d, sizeof(float)));
  float* const rows = pairs.as<float>().data();
  gate_up_.emplace(*state_, projection(2 * ff, d, {EpilogueOp::kSwiglu}));
  return pack_bank(*gate_up_, [&](int64_t e) {
    for (int64_t g = 0; g < ff / kSwigluColumns; ++g) {
      const size_t bytes = static_cast<size_t>(group) * sizeof(float);
      std::memcpy(rows + 2 * g * group, weights.gate + e * ff * d + g * group, bytes);
      std::memcpy(rows + (2 * g + 1) * group, weights.up + e * ff * d + g * group, bytes);
    }
    return rows;
  });
}

// Plans for the rows that an expert gets when tokens spread evenly, and for every number up to all that there can be:
// tokens that name one expert several times.
Status Experts::Impl::pack_bank(ExpertBank& bank, const WeightItem& item_of) {
  std::vector<int64_t> expected;
  for (const int64_t tokens : spec_.expected_tokens) expected.push_back(ceil_div(tokens * spec_.top_k, spec_.experts));
  MatmulProblem all = bank.plans.problem();
  all.batch = spec_.experts;
  HONE_RETURN_IF_ERROR(bank.plans.pack_b(expected));
  const MatmulPlans::Panels panels = bank.plans.panels();
  HONE_ASSIGN_OR_RETURN(bank.weights, pack_weights(*state_, all, item_of, panels.layout, panels.isa));
  return bank.plans.warm_up(expected, spec_.max_tokens * spec_.top_k);
}

Status Experts::Impl::make_rows() {
  HONE_ASSIGN_OR_RETURN(gather_, RowKernel::make(*state_, rows::gather_rows({.outer = 1, .n = spec_.d})));
  for (int64_t j = 0; j < spec_.top_k; j += kCombinedAtOnce) {
    combined_.push_back(std::min(kCombinedAtOnce, spec_.top_k - j));
    HONE_ASSIGN_OR_RETURN(RowKernel kernel,
                          RowKernel::make(*state_, combine_program(spec_.d, combined_.back(), j > 0)));
    combine_.push_back(std::move(kernel));
  }
  return {};
}

}  // namespace hone
