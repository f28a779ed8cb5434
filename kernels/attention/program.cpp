// Text and legality of AttentionPrograms. Lowering is in lower.cpp.
#include "kernels/attention/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "kernels/attention/lower_internal.h"
#include "kernels/text/program_steps.h"

namespace hone::attention {
namespace {

constexpr std::array<std::string_view, 4> kAlgorithmNames = {"materialised", "tiled", "online", "split"};
constexpr std::array<std::string_view, 3> kPackKNames = {"block", "strip", "none"};
constexpr std::array<std::string_view, 2> kPackVNames = {"none", "rows"};
constexpr std::array<std::string_view, 2> kHeadsNames = {"one", "group"};
constexpr std::array<std::string_view, 2> kParallelNames = {"h", "hq"};

// Sides of a tile beyond any register file: what is computed from them below stays in range.
constexpr int64_t kMaxTile = 4096;
// Of one task: each thread holds its own; and of the states of all splits.
constexpr int64_t kMaxWorkspace = int64_t{256} << 20;
constexpr int64_t kMaxLead = 64;

int64_t tile_registers(int64_t rows, int64_t vectors) { return rows * vectors + std::min(rows, vectors) + 1; }

Status check_tile(const IsaInfo& isa, std::string_view name, int64_t rows, int64_t columns, int64_t reserved) {
  const int64_t registers = tile_registers(rows, columns / isa.lanes_f32()) + reserved;
  if (registers <= isa.vector_registers) return {};
  return unsupported(fmt::format("{}: {} {}x{} needs {} vector registers, has {}", isa.name, name, rows, columns,
                                 registers, isa.vector_registers));
}

Status check_tiles(const AttentionProblem& problem, const AttentionProgram& p) {
  const IsaInfo& isa = isa_info(p.isa);
  if (p.lanes != isa.lanes_f32())
    return unsupported(fmt::format("{}: vectors of {} f32 lanes, asked for {}", isa.name, isa.lanes_f32(), p.lanes));
  if (std::max({p.mr, p.nr, p.vr, p.vn}) > kMaxTile)
    return unsupported(fmt::format("tiles {}x{} and {}x{}: at most {} a side", p.mr, p.nr, p.vr, p.vn, kMaxTile));
  if (p.mr < 1 || p.nr < 1 || p.vr < 1 || p.vn < 1 || p.bq < 1 || p.bk < 1 || p.tile_rows < 1 || p.value_depth < 1)
    return invalid_argument("tile and block sizes must be at least 1");
  if (p.nr % kKeyGroup != 0)
    return unsupported(fmt::format("score_tile: nr={} is not a multiple of {}", p.nr, kKeyGroup));
  if (p.vn % p.lanes != 0)
    return unsupported(fmt::format("value_tile: vn={} is not a multiple of {} lanes", p.vn, p.lanes));
  if (!is_ordered(p.algorithm) && p.bk % kKeyGroup != 0)
    return unsupported(fmt::format("block: bk={} is not a multiple of {}", p.bk, kKeyGroup));
  if (p.algorithm != Algorithm::kMaterialised && (p.tile_rows % p.mr != 0 || p.tile_rows % p.vr != 0))
    return unsupported(fmt::format("tile_rows={} is not a multiple of mr={} and vr={}", p.tile_rows, p.mr, p.vr));
  const bool masked = problem.value_dim() % p.lanes != 0 && !isa.mask_registers && p.pack_v == PackV::kNone;
  HONE_RETURN_IF_ERROR(check_tile(isa, "score_tile", p.mr, p.nr, 0));
  return check_tile(isa, "value_tile", p.vr, p.vn, masked ? 1 : 0);
}

}  // namespace

std::string to_string(const AttentionProgram& p) {
  return fmt::format(
      "vectorize({},{}) attention({}){} block({},{}) heads({}) tile_rows({}) score_tile({},{}) value_tile({},{}) "
      "value_depth({}) pack_k({}) pack_v({}){} parallel({})",
      isa_info(p.isa).name, p.lanes, kAlgorithmNames[static_cast<size_t>(p.algorithm)],
      p.algorithm == Algorithm::kSplit ? fmt::format(" splits({})", p.splits) : "", p.bq, p.bk,
      kHeadsNames[p.group ? 1 : 0], p.tile_rows, p.mr, p.nr, p.vr, p.vn, p.value_depth,
      kPackKNames[static_cast<size_t>(p.pack_k)], kPackVNames[static_cast<size_t>(p.pack_v)],
      p.prefetch > 0 ? fmt::format(" prefetch({},{})", p.prefetch, p.lead) : "",
      kParallelNames[static_cast<size_t>(p.parallel)]);
}

Result<AttentionProgram> parse_program(std::string_view program) {
  HONE_ASSIGN_OR_RETURN(text::StepReader reader, text::StepReader::open(program));
  AttentionProgram p;
  HONE_ASSIGN_OR_RETURN(const text::Step* const vectorize, reader.next("vectorize", 2));
  const std::optional<Isa> isa = parse_isa(vectorize->args[0]);
  if (!isa) return text::program_error(program, vectorize->column, fmt::format("unknown ISA '{}'", vectorize->args[0]));
  p.isa = *isa;
  HONE_RETURN_IF_ERROR(reader.integer(*vectorize, 1, 1, &p.lanes));

  HONE_ASSIGN_OR_RETURN(const text::Step* const algorithm, reader.next("attention", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*algorithm, kAlgorithmNames, &p.algorithm));
  if (p.algorithm == Algorithm::kSplit) {
    HONE_ASSIGN_OR_RETURN(const text::Step* const splits, reader.next("splits", 1));
    HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*splits, 0, 2, &p.splits));
  }
  HONE_ASSIGN_OR_RETURN(const text::Step* const block, reader.next("block", 2));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*block, 0, 1, &p.bq));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*block, 1, 1, &p.bk));
  HONE_ASSIGN_OR_RETURN(const text::Step* const heads, reader.next("heads", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*heads, kHeadsNames, &p.group));
  HONE_ASSIGN_OR_RETURN(const text::Step* const tile_rows, reader.next("tile_rows", 1));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*tile_rows, 0, 1, &p.tile_rows));
  HONE_ASSIGN_OR_RETURN(const text::Step* const score, reader.next("score_tile", 2));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*score, 0, 1, &p.mr));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*score, 1, 1, &p.nr));
  HONE_ASSIGN_OR_RETURN(const text::Step* const value, reader.next("value_tile", 2));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*value, 0, 1, &p.vr));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*value, 1, 1, &p.vn));
  HONE_ASSIGN_OR_RETURN(const text::Step* const depth, reader.next("value_depth", 1));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*depth, 0, 1, &p.value_depth));
  HONE_ASSIGN_OR_RETURN(const text::Step* const pack_k, reader.next("pack_k", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*pack_k, kPackKNames, &p.pack_k));
  HONE_ASSIGN_OR_RETURN(const text::Step* const pack_v, reader.next("pack_v", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*pack_v, kPackVNames, &p.pack_v));
  HONE_ASSIGN_OR_RETURN(const text::Step* const prefetch, reader.optional("prefetch", 2));
  if (prefetch != nullptr) {
    HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*prefetch, 0, 1, &p.prefetch));
    HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*prefetch, 1, 0, &p.lead));
  }
  HONE_ASSIGN_OR_RETURN(const text::Step* const parallel, reader.next("parallel", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*parallel, kParallelNames, &p.parallel));
  HONE_RETURN_IF_ERROR(reader.at_end());
  return p;
}

std::string numerics(const AttentionProgram& p) {
  if (is_ordered(p.algorithm)) return "ordered";
  if (p.algorithm == Algorithm::kSplit) return fmt::format("split({},{})", p.bk, p.splits);
  return fmt::format("online({})", p.bk);
}

Status legal(const AttentionProblem& problem, const AttentionProgram& p) {
  HONE_RETURN_IF_ERROR(validate(problem));
  HONE_RETURN_IF_ERROR(check_tiles(problem, p));
  const bool blocked = problem.k == KeyLayout::kBlocked;
  if (blocked && p.pack_k != PackK::kNone) return unsupported("k=blocked lies transposed already: pack_k must be none");
  if (!blocked && p.pack_k == PackK::kNone)
    return unsupported("k=rows cannot be read in place by vectors along keys: pack_k must be block or strip");
  if (p.algorithm == Algorithm::kSplit && (p.splits < 2 || p.splits > kMaxSplits))
    return unsupported(fmt::format("splits must be from 2 to {}, got {}", kMaxSplits, p.splits));
  if (p.lead < 0 || p.lead > kMaxLead)
    return unsupported(fmt::format("prefetch: leads by 0 to {} keys, got {}", kMaxLead, p.lead));
  const AttentionProgram c = canonical(problem, p);
  const int64_t rows = c.bq * (c.group ? problem.group() : 1);
  if (p.pack_k == PackK::kStrip && rows > c.tile_rows)
    return unsupported(
        fmt::format("pack_k(strip) would transpose K once per tile of rows: a task has {} rows, tile_rows "
                    "is {}",
                    rows, c.tile_rows));
  if (const int64_t bytes = workspace_bytes(problem, p); bytes > kMaxWorkspace)
    return unsupported(fmt::format("a task needs a workspace of {} bytes, at most {}", bytes, kMaxWorkspace));
  // validate() has bounded the product of heads, q and a row of O.
  if (p.algorithm == Algorithm::kSplit &&
      problem.heads * problem.q > kMaxWorkspace / 4 / p.splits / partial_row_elements(problem))
    return unsupported(fmt::format("the states of {} splits of {} rows exceed {} bytes", p.splits,
                                   problem.heads * problem.q, kMaxWorkspace));
  return {};
}

int64_t workspace_bytes(const AttentionProblem& problem, const AttentionProgram& program) {
  const AttentionProgram p = canonical(problem, program);
  int64_t total = 0;
  bool fits = true;
  auto add = [&](int64_t rows, int64_t columns) {
    int64_t bytes = 0;
    fits = fits && !__builtin_mul_overflow(rows, columns, &bytes) && !__builtin_mul_overflow(bytes, 4, &bytes) &&
           !__builtin_add_overflow(total, bytes, &total);
  };
  int64_t rows = 0;
  if (__builtin_mul_overflow(p.bq, p.group ? problem.group() : 1, &rows)) return std::numeric_limits<int64_t>::max();
  const int64_t columns = round_up(problem.value_dim(), kKeyGroup);
  add(rows, problem.d + columns + 2 * kKeyGroup);
  add(p.tile_rows, round_up(p.bk, p.nr) + 2 * kKeyGroup);
  if (p.pack_k == PackK::kBlock) add(round_up(p.bk, p.nr), problem.d);
  if (p.pack_k == PackK::kStrip) add(p.nr, problem.d);
  if (p.pack_k != PackK::kNone) add(kKeyGroup, round_up(problem.d, kKeyGroup) + kKeyGroup);
  if (p.pack_v == PackV::kRows) add(p.bk, columns);
  return fits ? total : std::numeric_limits<int64_t>::max();
}

AttentionProgram canonical(const AttentionProblem& problem, AttentionProgram p) {
  p.bq = std::min(p.bq, std::max<int64_t>(problem.q, 1));
  if (is_ordered(p.algorithm)) p.bk = round_up(std::max<int64_t>(problem.kv, 1), kKeyGroup);
  if (p.algorithm != Algorithm::kSplit) p.splits = 1;
  if (problem.group() == 1) p.group = true;
  const bool sane = p.mr >= 1 && p.vr >= 1 && std::max(p.mr, p.vr) <= kMaxTile;
  const int64_t step = sane ? std::lcm(p.mr, p.vr) : 1, rows = round_up(p.bq * (p.group ? problem.group() : 1), step);
  if (p.algorithm == Algorithm::kMaterialised || p.tile_rows > rows) p.tile_rows = rows;
  p.value_depth = std::min(p.value_depth, p.bk);
  // Only a task of one tile announces: of several, each would announce the same.
  const bool announces = problem.page == 0 && p.bq * (p.group ? problem.group() : 1) <= std::min(p.mr, p.vr);
  // Keys lie in order, or are so few elements each that no turn of the products' loop runs: see announce.cpp.
  const bool blocked = problem.k == KeyLayout::kBlocked;
  const bool values = p.pack_v == PackV::kNone && !problem.causal && problem.window == 0;
  const bool keys = !blocked || problem.d >= kScoreSteps;
  const bool flat = blocked || problem.row_stride_k() == problem.d;
  if (!announces || (!values && !keys) || p.prefetch == 0) p.prefetch = p.lead = 0;
  if (!values && !flat) p.lead = 0;
  if (p.bq * (p.group ? problem.group() : 1) == 1) p.mr = p.vr = p.tile_rows = 1;
  if (p.bq >= problem.q) p.parallel = ParallelDim::kHeadsRows;
  return p;
}

std::string kernel_name(const AttentionProblem& problem, const AttentionProgram& p) {
  return fmt::format("attention_{}_{}_{}x{}_{}x{}_{}", dtype_name(problem.dtype),
                     kAlgorithmNames[static_cast<size_t>(p.algorithm)], p.mr, p.nr, p.vr, p.vn, isa_info(p.isa).name);
}

}  // namespace hone::attention
