// Lowers a row program to LoopIR:
//
//   parallel over the outer dimensions, a few rows a task
//     constants, once
//     for rows of the task
//       for each pass: what is one a row | for groups of kChains columns: vectors | what a reduction's chains come to
//
// What must stay true: a column's arithmetic and the chain that it joins depend on its number only, never on lanes, on
// where the tail begins or on how rows are cut into tasks. Lanes beyond the last column are neither loaded nor stored,
// and join no chain.
#include "kernels/rows/lower.h"

#include <algorithm>
#include <limits>

#include "engine/base/math.h"
#include "kernels/rows/lower_internal.h"

namespace hone::rows {

using ir::Access;
using ir::Affine;
using ir::BinaryOp;
using ir::Builder;
using ir::RegRef;
using ir::Scope;
using ir::UnaryOp;

// A task costs some 7 ns to start (Zen 4, RoPE of heads of 64: 13 ns a head where each is a task, 6 where 64 are one).
// Rows are put together up to these many columns, which take 100 ns and more.
constexpr int64_t kTaskColumns = 2048;
constexpr int64_t kMaxTaskRows = 64;
constexpr int64_t kRuntimeTaskRows = 4;

int64_t rows_per_task(const RowProgram& program) {
  if (program.outer == 0) return 1;
  if (program.n == kRuntime) return kRuntimeTaskRows;
  return std::clamp<int64_t>(kTaskColumns / program.n, 1, kMaxTaskRows);
}

Result<ir::Kernel> lower(const RowProgram& program, Isa isa) {
  HONE_ASSIGN_OR_RETURN(const RowPlan plan, make_plan(program));
  return RowLowering(program, plan, isa).run();
}

namespace {

// Copies that no vector helps: a strided side has its elements apart.
bool copies_strided(const RowProgram& program) {
  const bool strided = std::any_of(program.operands.begin(), program.operands.end(),
                                   [](const Operand& o) { return o.columns == Columns::kStrided; });
  const bool copy = std::all_of(program.steps.begin(), program.steps.end(), [](const Step& s) {
    const StepFamily f = step_info(s.op).family;
    return f == StepFamily::kLoad || f == StepFamily::kStore || f == StepFamily::kConst;
  });
  const bool pairs = std::any_of(program.operands.begin(), program.operands.end(),
                                 [](const Operand& o) { return o.columns == Columns::kPairs; });
  return strided && copy && !pairs;
}

}  // namespace

RowLowering::RowLowering(const RowProgram& program, const RowPlan& plan, Isa isa)
    : p_(program),
      plan_(plan),
      b_(kernel_name(program, isa)),
      lanes_(copies_strided(program) ? 1 : isa_info(isa).lanes_f32()),
      index_(static_cast<size_t>(program.outer)),
      memory_(program.operands.size()),
      value_(program.steps.size()),
      chains_(program.steps.size(), -1),
      nan_chains_(program.steps.size(), -1),
      ops_(b_, lanes_) {}

ir::Kernel RowLowering::run() {
  declare_arguments();
  declare_registers();
  outer(0);
  return b_.finish();
}

// ---- declarations ----

// In the order of bind() in arguments.cpp.
void RowLowering::declare_arguments() {
  for (int d = 0; d < p_.outer; ++d) extents_.push_back(Affine::var(b_.param("e" + std::to_string(d))));
  n_ = p_.n == kRuntime ? Affine::var(b_.param("n")) : Affine(p_.n);
  for (size_t i = 0; i < p_.operands.size(); ++i) declare_operand(i);
}

void RowLowering::declare_operand(size_t i) {
  const Operand& o = p_.operands[i];
  Memory& m = memory_[i];
  const std::string number = std::to_string(i);
  auto param = [&](const std::string& name) { return Affine::var(b_.param(name + number)); };
  ir::Buffer buffer{.name = "x" + number, .dtype = o.dtype, .align = dtype_bytes(o.dtype)};
  const bool staged = o.columns == Columns::kStrided || dtype_bytes(o.dtype) != 4;
  if (staged && lanes_ > 1) {
    m.stage = b_.buffer({.name = "stage" + number,
                         .dtype = ir::register_dtype(o.dtype),
                         .scope = Scope::kWorkspace,
                         .extents = {lanes_},
                         .strides = {1},
                         .align = 64});
  }
  if (o.role == Role::kScratch) {
    buffer.scope = Scope::kWorkspace;
    buffer.align = 64;
  } else {
    buffer.scope = o.role == Role::kIn ? Scope::kIn : Scope::kOut;
    for (int d = 0; d < p_.outer; ++d) {
      buffer.extents.push_back(extents_[static_cast<size_t>(d)]);
      buffer.strides.push_back(param("s" + std::to_string(d) + "_"));
    }
  }
  const Affine column_stride = o.columns == Columns::kStrided ? param("c") : Affine(1);
  if (o.gather >= 0) {
    m.rows = param("rows");
    buffer.extents[static_cast<size_t>(o.gather)] = m.rows;
    m.table = b_.buffer({.name = "table" + number,
                         .dtype = DType::kS32,
                         .scope = Scope::kIn,
                         .extents = {extents_[static_cast<size_t>(o.gather)]},
                         .strides = {1}});
  }
  auto dimension = [&](const Affine& extent, const Affine& stride) {
    buffer.extents.push_back(extent);
    buffer.strides.push_back(stride);
  };
  if (o.columns == Columns::kStrided) dimension(n_, column_stride);
  if (o.columns == Columns::kHalves) dimension(2, p_.n);
  if (o.columns == Columns::kOne || o.columns == Columns::kStrided) {
    dimension(1, 1);
  } else {
    dimension(o.columns == Columns::kPairs ? Affine(2 * p_.n) : n_, 1);
  }
  m.data = b_.buffer(std::move(buffer));
}

void RowLowering::declare_registers() {
  for (size_t i = 0; i < p_.steps.size(); ++i) {
    const Step& s = p_.steps[i];
    if (s.op == StepOp::kConst || is_store(s)) continue;  // ops_ has registers of f32 constants
    const std::string name = "v" + std::to_string(i);
    const ValueType type = plan_.values[i].type;
    if (is_reduction(s)) {
      const ir::RegType vector_type{.lanes = lanes_};
      chains_[i] = b_.reg(name, vector_type, {vectors()});
      if (keeps_nan(s.op)) nan_chains_[i] = b_.reg(name + "_nan", vector_type, {vectors()});
      value_[i] = chain(static_cast<int>(i), 0);
    } else {
      value_[i] = type == ValueType::kMask ? mask(name.c_str())
                                           : vector(name.c_str(), type == ValueType::kS32 ? DType::kS32 : DType::kF32);
    }
  }
  live_ = mask("live");
  live_next_ = mask("live_next");
  test_ = mask("test");
  spare_ = vector("spare");
  spare_next_ = vector("spare_next");
  for (size_t i = 0; i < p_.operands.size(); ++i) {
    if (p_.operands[i].columns != Columns::kPairs) continue;
    memory_[i].first = vector("even", p_.operands[i].dtype);
    memory_[i].second = vector("odd", p_.operands[i].dtype);
  }
}

void RowLowering::declare_constants() {
  for (size_t i = 0; i < p_.steps.size(); ++i) {
    const Step& s = p_.steps[i];
    declare_step_constants(s);
    if (s.op == StepOp::kConstS32) b_.constant_s32(value_[i], static_cast<int32_t>(s.bits));
    if (s.op != StepOp::kConst) continue;
    const auto number = std::bit_cast<float>(s.bits);
    ops_.declare_constant(number);
    value_[i] = ops_.constant(number).ref();
  }
}

// ---- tasks and rows ----

void RowLowering::outer(int dimension) {
  if (dimension == p_.outer) return task();
  const auto d = static_cast<size_t>(dimension);
  const int64_t step = dimension + 1 == p_.outer ? rows_per_task(p_) : 1;
  b_.parallel("r" + std::to_string(dimension), 0, extents_[d], step, [&](const Affine& r) {
    index_[d] = r;
    outer(dimension + 1);
  });
}

void RowLowering::task() {
  declare_constants();
  if (rows_per_task(p_) == 1) return row();
  const Affine first = index_.back();
  const Affine count = b_.let_min("rows", {rows_per_task(p_), extents_.back() - first});
  b_.serial("i", 0, count, 1, [&](const Affine& i) {
    index_.back() = first + i;
    row();
  });
}

void RowLowering::row() {
  for (size_t i = 0; i < p_.operands.size(); ++i) {
    const int d = p_.operands[i].gather;
    if (d < 0) continue;
    memory_[i].gathered =
        b_.let_load("at" + std::to_string(i), {memory_[i].table, {index_[static_cast<size_t>(d)]}}, memory_[i].rows);
  }
  for (size_t pass_number = 0; pass_number < plan_.columns.size(); ++pass_number) {
    for (const int i : plan_.per_row[pass_number]) {
      const Step& s = p_.steps[static_cast<size_t>(i)];
      if (s.op == StepOp::kLoad) {
        load_per_row(s, i);
      } else if (is_store(s)) {
        store_per_row(s);
      } else {
        compute(s, i);
      }
    }
    pass(plan_.columns[pass_number]);
  }
}

void RowLowering::pass(const std::vector<int>& steps) {
  if (steps.empty()) return;
  auto each_reduction = [&](auto act) {
    for (const int i : steps)
      if (const Step& s = p_.steps[static_cast<size_t>(i)]; is_reduction(s)) (this->*act)(s, i);
  };
  each_reduction(&RowLowering::begin_reduction);
  lanes_ == 1 ? each_column(steps) : each_part(steps);
  each_reduction(&RowLowering::end_reduction);
}

// ---- columns ----

void RowLowering::each_column(const std::vector<int>& steps) {
  b_.serial("c", 0, n_, 1, [&](const Affine& c) { columns(steps, {.column = c}); });
}

void RowLowering::each_part(const std::vector<int>& steps) {
  auto group = [&](const Affine& first) {
    for (int64_t u = 0; u < vectors(); ++u) columns(steps, {.column = first + u * lanes_, .chain = u});
  };
  if (p_.n == kRuntime) {
    const Affine groups = b_.let_floor_div("groups", n_, kChains);
    b_.serial("g", 0, groups, 1, [&](const Affine& g) { group(g * kChains); });
    const Affine rest = n_ - groups * kChains;
    b_.if_ge_zero(rest - 1, [&] { tail(steps, groups * kChains, rest); });
    return;
  }
  const int64_t whole = p_.n / kChains * kChains;
  if (whole > 0) b_.serial("c", 0, whole, kChains, group);
  tail(steps, whole, p_.n - whole);
}

// The last count < kChains columns.
void RowLowering::tail(const std::vector<int>& steps, const Affine& from, const Affine& count) {
  for (int64_t u = 0; u < vectors(); ++u) {
    const Affine left = count - u * lanes_;
    if (left.is_constant() && left.constant() <= 0) return;
    const bool whole = left.is_constant() && left.constant() >= lanes_;
    columns(steps, {.column = from + u * lanes_, .chain = u, .masked = !whole, .count = left});
  }
}

void RowLowering::columns(const std::vector<int>& steps, const Part& part) {
  if (part.masked) b_.lane_mask(live_, part.count);
  for (Memory& m : memory_) m.held = false;
  for (const int i : steps) {
    const Step& s = p_.steps[static_cast<size_t>(i)];
    if (s.op == StepOp::kLoad) {
      load(s, i, part);
    } else if (is_store(s)) {
      store(s, part);
    } else if (is_reduction(s)) {
      reduce(s, i, part);
    } else {
      compute(s, i);
    }
  }
}

// ---- reductions ----

void RowLowering::begin_reduction(const Step& step, int i) {
  const float inf = std::numeric_limits<float>::infinity();
  const float start = step.op == StepOp::kReduceMin                                    ? inf
                      : step.op == StepOp::kReduceSum || step.op == StepOp::kReduceDot ? 0.0F
                                                                                       : -inf;
  for (int64_t c = 0; c < vectors(); ++c) {
    b_.constant(chain(i, c), start);
    if (keeps_nan(step.op)) b_.constant(nan_chain(i, c), 0.0F);
  }
}

// max(x, chain) and min(x, chain) pass over a NaN in x, which is what nan_chain is for: 0, or a NaN once there was one.
void RowLowering::reduce(const Step& step, int i, const Part& part) {
  const RegRef to = chain(i, part.chain), next = part.masked ? spare_ : to, x = arg(step, 0);
  switch (step.op) {
    case StepOp::kReduceSum:
      b_.binary(BinaryOp::kAdd, next, to, x);
      break;
    case StepOp::kReduceDot:
      b_.fma(next, x, arg(step, 1), to);
      break;
    default:
      b_.binary(step.op == StepOp::kReduceMin ? BinaryOp::kMin : BinaryOp::kMax, next, x, to);
      break;
  }
  if (part.masked) b_.select(to, live_, next, to);
  if (!keeps_nan(step.op)) return;
  const RegRef nan = nan_chain(i, part.chain), seen = part.masked ? spare_next_ : nan;
  b_.compare(ir::CompareOp::kEq, test_, x, x);
  b_.select(seen, test_, nan, x);
  if (part.masked) b_.select(nan, live_, seen, nan);
}

// The result in every lane of the first vector. A maximum of zeros is +0, since their order is not defined.
void RowLowering::end_reduction(const Step& step, int i) {
  math::LaneReducer reducer(b_, lanes_);
  const bool sum = step.op == StepOp::kReduceSum || step.op == StepOp::kReduceDot;
  const BinaryOp op = sum ? BinaryOp::kAdd : step.op == StepOp::kReduceMin ? BinaryOp::kMin : BinaryOp::kMax;
  auto together = [&](auto of, BinaryOp by) {
    for (int64_t half = vectors() / 2; half > 0; half /= 2)
      for (int64_t c = 0; c < half; ++c) b_.binary(by, of(c), of(c), of(c + half));
    reducer.reduce(by, of(0));
  };
  together([&](int64_t c) { return chain(i, c); }, op);
  if (sum) return;
  b_.constant(spare_, 0.0F);
  b_.binary(BinaryOp::kAdd, chain(i, 0), chain(i, 0), spare_);
  if (!keeps_nan(step.op)) return;
  together([&](int64_t c) { return nan_chain(i, c); }, BinaryOp::kAdd);
  b_.compare(ir::CompareOp::kEq, test_, nan_chain(i, 0), nan_chain(i, 0));
  b_.select(chain(i, 0), test_, chain(i, 0), nan_chain(i, 0));
}

}  // namespace hone::rows
