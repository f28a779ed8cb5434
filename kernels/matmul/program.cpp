// Text and legality of TransformPrograms. Lowering is in lower.cpp.
#include "kernels/matmul/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/matmul/lower_internal.h"
#include "kernels/text/program_steps.h"

namespace hone::matmul {
namespace {

constexpr std::array<std::string_view, 2> kOrderNames = {"ji", "ij"};
constexpr std::array<std::string_view, 3> kPackANames = {"none", "rows", "pairs"};
constexpr std::array<std::string_view, 3> kPackBNames = {"none", "block", "strip"};
constexpr std::array<std::string_view, 3> kParallelNames = {"m", "n", "mn"};

// Bound of everything that unrolls: the largest kernel stays near 256 KiB of code, well inside what the code generators
// compile in their time budgets.
constexpr int64_t kMaxUnrolledFma = 6000;
// A side of a tile beyond any register file: what is computed from it below stays in range.
constexpr int64_t kMaxTile = 4096;

Status check_registers(const TransformProgram& p) {
  const IsaInfo& isa = isa_info(p.isa);
  if (tile_registers(p) <= isa.vector_registers) return {};
  return unsupported(fmt::format("{}: tile {}x{} needs {} vector registers, has {}", isa.name, p.mr, p.nr,
                                 tile_registers(p), isa.vector_registers));
}

Status check_shape_of_tiles(const TransformProgram& p) {
  if (p.mr < 1 || p.nr < 1 || p.mc < 1 || p.nc < 1 || p.kc < 1 || p.unroll_k < 1 || p.panel < 1)
    return invalid_argument("tile and block sizes must be at least 1");
  if (std::max(p.mr, p.nr) > kMaxTile)
    return unsupported(fmt::format("tile {}x{}: at most {} a side", p.mr, p.nr, kMaxTile));
  if (p.lanes != isa_info(p.isa).lanes_f32())
    return unsupported(fmt::format("{}: vectors of {} f32 lanes, asked for {}", isa_info(p.isa).name,
                                   isa_info(p.isa).lanes_f32(), p.lanes));
  if (p.nr % p.lanes != 0) return unsupported(fmt::format("nr={} is not a multiple of {} lanes", p.nr, p.lanes));
  if (p.mc % p.mr != 0) return unsupported(fmt::format("mc={} is not a multiple of mr={}", p.mc, p.mr));
  if (p.nc % p.nr != 0) return unsupported(fmt::format("nc={} is not a multiple of nr={}", p.nc, p.nr));
  return {};
}

// A tile has the gate and the up columns of what it makes. Partial sums have no place in C, which is half as wide, and
// a workspace for them would have to hold all rows of a task, of which there may be any number: so none are kept.
Status check_pairs(const MatmulProblem& problem, const TransformProgram& p) {
  if (p.nr % (2 * kSwigluColumns) != 0)
    return unsupported(fmt::format("+swiglu needs gate and up columns in one tile: nr={} is not a multiple of {}", p.nr,
                                   2 * kSwigluColumns));
  if (p.pack_b != PackB::kStrip && p.kc < problem.k)
    return unsupported(
        fmt::format("+swiglu leaves no room for partial sums in C: kc must be at least k={}", problem.k));
  return {};
}

Status check_dot(const MatmulProblem& problem, const TransformProgram& p) {
  if ((p.dot == Dot::kBf16) != (p.pack_a == PackA::kPairs))
    return unsupported("dot(bf16) and pack_a(pairs) need each other");
  if (p.dot == Dot::kNone) return {};
  constexpr int kLanes = 16;
  if (problem.dtype != DType::kBf16)
    return unsupported(fmt::format("dot(bf16) is for weights of bf16, not of {}", dtype_name(problem.dtype)));
  if (p.lanes != kLanes)
    return unsupported(fmt::format("dot(bf16) needs AVX512_BF16, vectors of {} lanes: {} has {}", kLanes,
                                   isa_info(p.isa).name, p.lanes));
  if (p.kc % kr_of(p.dot) != 0 && p.kc < problem.k)
    return unsupported(fmt::format("kc={} cuts a pair of dot(bf16): it must be even, or all of k", p.kc));
  return {};
}

}  // namespace

std::string to_string(const TransformProgram& p) {
  return fmt::format(
      "vectorize({},{}){} register_tile({},{}) tile({},{},{}) order({}) pack_a({}) pack_b({}) panel({}) unroll_k({}) "
      "prefetch_b({}){}{} parallel({})",
      isa_info(p.isa).name, p.lanes, p.dot == Dot::kNone ? "" : " dot(bf16)", p.mr, p.nr, p.mc, p.nc, p.kc,
      kOrderNames[static_cast<size_t>(p.order)], kPackANames[static_cast<size_t>(p.pack_a)],
      kPackBNames[static_cast<size_t>(p.pack_b)], p.panel, p.unroll_k, p.prefetch_b,
      p.prefetch_next ? " prefetch_next(1)" : "", p.prefetch_c ? " prefetch_c(1)" : "",
      kParallelNames[static_cast<size_t>(p.parallel)]);
}

Result<TransformProgram> parse_program(std::string_view program) {
  HONE_ASSIGN_OR_RETURN(text::StepReader reader, text::StepReader::open(program));
  TransformProgram p;

  HONE_ASSIGN_OR_RETURN(const text::Step* vectorize, reader.next("vectorize", 2));
  const std::optional<Isa> isa = parse_isa(vectorize->args[0]);
  if (!isa) return text::program_error(program, vectorize->column, fmt::format("unknown ISA '{}'", vectorize->args[0]));
  p.isa = *isa;
  HONE_RETURN_IF_ERROR(reader.integer(*vectorize, 1, 1, &p.lanes));

  HONE_ASSIGN_OR_RETURN(const text::Step* dot, reader.optional("dot", 1));
  if (dot != nullptr) {
    if (dot->args[0] != "bf16")
      return text::program_error(program, dot->column, fmt::format("dot takes bf16, got '{}'", dot->args[0]));
    p.dot = Dot::kBf16;
  }

  HONE_ASSIGN_OR_RETURN(const text::Step* tile, reader.next("register_tile", 2));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*tile, 0, 1, &p.mr));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*tile, 1, 1, &p.nr));
  HONE_ASSIGN_OR_RETURN(const text::Step* block, reader.next("tile", 3));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*block, 0, 1, &p.mc));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*block, 1, 1, &p.nc));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*block, 2, 1, &p.kc));

  HONE_ASSIGN_OR_RETURN(const text::Step* order, reader.next("order", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*order, kOrderNames, &p.order));
  HONE_ASSIGN_OR_RETURN(const text::Step* pack_a, reader.next("pack_a", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*pack_a, kPackANames, &p.pack_a));
  HONE_ASSIGN_OR_RETURN(const text::Step* pack_b, reader.next("pack_b", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*pack_b, kPackBNames, &p.pack_b));
  HONE_ASSIGN_OR_RETURN(const text::Step* panel, reader.next("panel", 1));
  HONE_RETURN_IF_ERROR(reader.integer<int64_t>(*panel, 0, 1, &p.panel));
  HONE_ASSIGN_OR_RETURN(const text::Step* unroll, reader.next("unroll_k", 1));
  HONE_RETURN_IF_ERROR(reader.integer(*unroll, 0, 1, &p.unroll_k));
  HONE_ASSIGN_OR_RETURN(const text::Step* prefetch, reader.next("prefetch_b", 1));
  HONE_RETURN_IF_ERROR(reader.integer(*prefetch, 0, 0, &p.prefetch_b));
  HONE_RETURN_IF_ERROR(reader.option("prefetch_next", &p.prefetch_next));
  HONE_RETURN_IF_ERROR(reader.option("prefetch_c", &p.prefetch_c));
  HONE_ASSIGN_OR_RETURN(const text::Step* parallel, reader.next("parallel", 1));
  HONE_RETURN_IF_ERROR(reader.choice(*parallel, kParallelNames, &p.parallel));
  HONE_RETURN_IF_ERROR(reader.at_end());
  return p;
}

int64_t tile_registers(const TransformProgram& p) {
  const int64_t nv = p.nr / std::max(p.lanes, 1);
  return p.mr * nv + std::min(nv, p.mr) + 1;
}

std::string_view numerics(const TransformProgram& p) { return p.dot == Dot::kNone ? "ordered" : "bf16"; }

FeatureSet features(const TransformProgram& p) {
  return p.dot == Dot::kNone ? FeatureSet() : FeatureSet{Feature::kAvx512Bf16};
}

Status legal(const MatmulProblem& problem, const TransformProgram& p) {
  HONE_RETURN_IF_ERROR(validate(problem));
  HONE_RETURN_IF_ERROR(check_shape_of_tiles(p));
  HONE_RETURN_IF_ERROR(check_registers(p));
  const bool packed = problem.b == BLayout::kPacked;
  if (problem.dtype != DType::kF32 && !packed)
    return unsupported(fmt::format("B of {} is read in panels only: use b=packed", dtype_name(problem.dtype)));
  if (packed && p.nr % p.panel != 0)
    return unsupported(fmt::format("nr={} is not a multiple of panel={}", p.nr, p.panel));
  if (packed && p.panel % p.lanes != 0)
    return unsupported(fmt::format("panel={} is not a multiple of {} lanes", p.panel, p.lanes));
  if (packed && p.pack_b != PackB::kNone) return unsupported("b=packed is packed already: pack_b must be none");
  HONE_RETURN_IF_ERROR(check_dot(problem, p));
  if (problem.b == BLayout::kNt && p.pack_b == PackB::kNone)
    return unsupported("b=nt cannot be read in place by vectors along n: pack_b must be block or strip");
  if (problem.beta != 0 && p.pack_b != PackB::kStrip && p.kc < problem.k)
    return unsupported(fmt::format("beta={} reads C, so partial sums cannot be kept there: kc must be at least k={}",
                                   problem.beta, problem.k));
  if (problem.swiglu()) HONE_RETURN_IF_ERROR(check_pairs(problem, p));
  if (p.pack_b == PackB::kBlock && p.parallel == ParallelDim::kMn && p.mc < problem.m)
    return unsupported("pack_b(block) with parallel(mn) would pack B once per block of rows: use parallel(n)");
  const int64_t nv = p.nr / p.lanes;
  const int64_t versions = problem.n % p.nr == 0 ? 1 : 2;
  const int64_t fmas = p.mr * (p.mr + 1) / 2 * nv * p.unroll_k * versions;
  if (fmas > kMaxUnrolledFma)
    return unsupported(fmt::format("tile {}x{} with unroll_k={} expands to {} fma, at most {}", p.mr, p.nr, p.unroll_k,
                                   fmas, kMaxUnrolledFma));
  if (const int64_t bytes = packed_bytes(problem, p); bytes > kMaxPackedBytes)
    return unsupported(fmt::format("packed blocks of {} bytes exceed {}", bytes, kMaxPackedBytes));
  return {};
}

int64_t packed_bytes(const MatmulProblem& problem, const TransformProgram& program) {
  const TransformProgram p = canonical(problem, program);
  int64_t total = 0;
  bool fits = true;
  auto add = [&](int64_t rows, int64_t depth) {
    int64_t bytes = 0;
    fits = fits && !__builtin_mul_overflow(rows, round_up(depth, p.lanes) * 4, &bytes) &&
           !__builtin_add_overflow(total, bytes, &total);
  };
  if (p.pack_a == PackA::kPairs) add(p.mc, pair_row(p.kc));
  // Strips of B come and go inside a tile, whose rows of A are packed once for all of k.
  if (p.pack_a == PackA::kRows) add(p.mc, p.pack_b == PackB::kStrip ? std::max<int64_t>(problem.k, 1) : p.kc);
  if (p.pack_b != PackB::kNone) add(p.pack_b == PackB::kBlock ? p.nc : p.nr, p.kc);
  return fits ? total : std::numeric_limits<int64_t>::max();
}

TransformProgram canonical(const MatmulProblem& problem, TransformProgram p) {
  const int64_t k = std::max<int64_t>(problem.k, 1);
  const int64_t n = std::max<int64_t>(problem.n, 1);
  if (p.kc > k) p.kc = k;
  if (p.nc > round_up(n, p.nr)) p.nc = round_up(n, p.nr);
  if (problem.b != BLayout::kPacked) {
    p.panel = p.nr;
    p.prefetch_next = false;
  }
  if (p.kc >= k && (problem.alpha != 1 || problem.beta != 0 || !problem.epilogue.empty())) p.prefetch_c = false;
  return p;
}

TransformProgram lowering_identity(const MatmulProblem& problem, const TransformProgram& program) {
  TransformProgram p = canonical(problem, program);
  const TransformProgram unread;
  const bool has_sum = problem.k > 0 && problem.alpha != 0;
  if (!has_sum) {
    p.kc = unread.kc, p.unroll_k = unread.unroll_k, p.prefetch_b = unread.prefetch_b, p.prefetch_next = false;
    p.pack_a = PackA::kNone, p.pack_b = PackB::kNone;
  }
  if (p.pack_b == PackB::kStrip) p.prefetch_b = unread.prefetch_b;
  // Sums that go through a tile of their own do not touch C where it is announced.
  const bool whole_k = !has_sum || p.kc >= problem.k || p.pack_b == PackB::kStrip;
  const bool has_post = problem.alpha != 1 || problem.beta != 0 || !problem.epilogue.empty();
  if (!has_sum || (whole_k && has_post)) p.prefetch_c = false;
  // One tile of columns: nothing to order, except which tile comes next.
  if (problem.n > 0 && problem.n < p.nr && !p.prefetch_c) p.order = unread.order;
  // One block of columns: rows alone are parallel, and little tells m from mn: the order of the two packings.
  const bool packs_both = p.pack_a != PackA::kNone && p.pack_b == PackB::kBlock;
  // What is announced beyond the block depends on which loop is the inner one.
  const bool announces = p.prefetch_next && !whole_k && !announces_next_tile(p);
  if (p.nc >= problem.n && p.parallel == ParallelDim::kM && !packs_both && !announces) p.parallel = ParallelDim::kMn;
  return p;
}

std::string kernel_name(const MatmulProblem& problem, const TransformProgram& p) {
  return fmt::format("matmul_{}_{}_f32_{}x{}_{}", p.dot == Dot::kNone ? "f32" : "bf16", dtype_name(problem.dtype), p.mr,
                     p.nr, isa_info(p.isa).name);
}

}  // namespace hone::matmul
