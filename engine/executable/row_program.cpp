// Each node of a dispatch becomes a few steps on values that a row program has loaded. What lies outside is an operand
// with the strides of its placement: views, broadcasts and transposes cost nothing but strides.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/executable/row_program_internal.h"
#include "engine/passes/form_dispatches.h"
#include "kernels/rows/decoder.h"

namespace hone::executable {
namespace {

using graph::Dim;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;
using passes::RowClass;
using rows::Columns;
using rows::ProgramBuilder;
using rows::StepOp;

std::optional<StepOp> unary_step(const Node& n) {
  switch (n.op) {
    case OpKind::neg:
      return StepOp::kNeg;
    case OpKind::abs:
      return StepOp::kAbs;
    case OpKind::exp:
      return StepOp::kExp;
    case OpKind::log:
      return StepOp::kLog;
    case OpKind::tanh:
      return StepOp::kTanh;
    case OpKind::erf:
      return StepOp::kErf;
    case OpKind::logistic:
      return StepOp::kLogistic;
    case OpKind::sqrt:
      return StepOp::kSqrt;
    case OpKind::rsqrt:
      return StepOp::kRsqrt;
    case OpKind::silu:
      return StepOp::kSilu;
    case OpKind::gelu:
      return n.text("approximate") == "erf" ? StepOp::kGeluErf : StepOp::kGeluTanh;
    default:
      return std::nullopt;
  }
}

std::optional<StepOp> binary_step(OpKind op) {
  switch (op) {
    case OpKind::add:
      return StepOp::kAdd;
    case OpKind::sub:
      return StepOp::kSub;
    case OpKind::mul:
      return StepOp::kMul;
    case OpKind::div:
      return StepOp::kDiv;
    case OpKind::max:
      return StepOp::kMax;
    case OpKind::min:
      return StepOp::kMin;
    default:
      return std::nullopt;
  }
}

class Translator {
 public:
  Translator(const Preparation& p, const passes::Dispatch& d, const Shape& domain)
      : p_(p), d_(d), domain_(domain), builder_(program_name(p, d), outer_of(domain), columns_of(domain)) {}

  Result<RowWork> run() {
    for (const graph::NodeId id : d_.nodes) {
      const Node& n = p_.compilation.graph.node(id);
      HONE_ASSIGN_OR_RETURN(const Value v, emit(n));
      values_[n.results[0]] = v;
    }
    for (const ValueId v : d_.outputs) HONE_RETURN_IF_ERROR(store(v));
    return finish();
  }

  // Elements of `from` to the dense memory of `to`, in the order of `from`.
  Result<RowWork> copy(ValueId from, ValueId to) {
    HONE_ASSIGN_OR_RETURN(const Value v, load(from));
    const passes::Placement& target = p_.placement(to);
    RowOperand out{.value = to, .buffer = target.buffer, .offset = Dim(0), .strides = {}};
    std::vector<Dim> strides(domain_.size());
    Dim stride(1);
    for (size_t i = domain_.size(); i-- > 0;) {
      strides[i] = stride;
      stride = stride * domain_[i];
    }
    if (!strides.empty()) strides.pop_back();
    out.strides = std::move(strides);
    work_.operands.push_back(std::move(out));
    const DType dtype = memory_dtype(to);
    if (dtype == DType::kU8) return refuse_bytes(to);
    builder_.store(builder_.out(Columns::kDense, dtype), to_number(v));
    return finish();
  }

 private:
  struct Value {
    int step = -1;
    bool mask = false;
  };

  static std::string program_name(const Preparation& p, const passes::Dispatch& d) {
    std::string name;
    for (const graph::NodeId id : d.nodes) {
      if (name.size() > 32) break;
      name += (name.empty() ? "" : "_") + std::string(graph::op_info(p.compilation.graph.node(id).op).name);
    }
    return name;
  }
  static int outer_of(const Shape& domain) { return domain.empty() ? 0 : static_cast<int>(domain.size()) - 1; }
  static int64_t columns_of(const Shape& domain) {
    if (domain.empty()) return 1;
    return domain.back().is_static() && domain.back().value() > 0 ? domain.back().value() : rows::kRuntime;
  }

  Result<RowWork> finish() {
    work_.program = builder_.finish();
    if (!domain_.empty()) work_.extents.assign(domain_.begin(), domain_.end() - 1);
    if (work_.program.n == rows::kRuntime) work_.columns = domain_.back();
    return std::move(work_);
  }

  Status refuse(const Node& n, const std::string& why) const {
    return unsupported(fmt::format("{} {}: {}", graph::op_info(n.op).name, n.name, why));
  }

  Status refuse_bytes(ValueId v) const {
    return unsupported(
        fmt::format("{}: outputs are f32 or s32; convert {} first", d_.name, p_.compilation.graph.value(v).name));
  }

  // ---- operands ----

  // Truth values that a dispatch leaves are numbers, 0 or 1.
  DType memory_dtype(ValueId v) const {
    const DType dtype = p_.type(v).dtype;
    const passes::Buffer& b = p_.compilation.buffers[static_cast<size_t>(p_.placement(v).buffer)];
    return dtype == DType::kU8 && b.element_bytes == 4 ? DType::kF32 : dtype;
  }

  // How the domain's rows and columns walk a value.
  Result<std::pair<RowOperand, Columns>> operand_of(ValueId v) const {
    const passes::Placement& at = p_.placement(v);
    const Shape& dims = p_.type(v).dims;
    RowOperand operand{.value = v, .buffer = at.buffer, .offset = Dim(0), .strides = {}};
    const size_t outer = static_cast<size_t>(outer_of(domain_));
    operand.strides.assign(outer, Dim(0));
    const RowClass as = dims.empty() ? RowClass::kRow : passes::row_class(domain_, dims);
    if (dims.empty()) return std::pair(operand, Columns::kOne);
    if (as == RowClass::kRow) {
      for (size_t i = 0; i < outer; ++i) operand.strides[i] = at.strides[i];
      return std::pair(operand, Columns::kOne);
    }
    if (as != RowClass::kFull)
      return unsupported(fmt::format("{}: {} lies across rows of {}", d_.name, p_.compilation.graph.value(v).name,
                                     to_string(graph::TensorType{DType::kF32, domain_})));
    for (size_t i = 0; i < outer; ++i) operand.strides[i] = at.strides[i];
    operand.column_stride = at.strides.back();
    return std::pair(operand, columns_by(operand.column_stride));
  }

  static Columns columns_by(const Dim& stride) {
    if (surely_equal(stride, Dim(1))) return Columns::kDense;
    return surely_equal(stride, Dim(0)) ? Columns::kOne : Columns::kStrided;
  }

  // A weight [columns] of all rows. Where rows are as many as columns its type does not say which it goes along.
  Result<Value> load_weight(ValueId v) {
    const graph::Constant* constant = p_.compilation.graph.constant(v);
    if (constant != nullptr && constant->splat) return Value{builder_.constant(constant->f32_at(0))};
    if (!p_.compilation.placements.contains(v))
      return unsupported(
          fmt::format("{}: {} is computed among its own rows", d_.name, p_.compilation.graph.value(v).name));
    RowOperand operand{.value = v, .buffer = p_.placement(v).buffer, .offset = Dim(0), .strides = {}};
    operand.strides.assign(static_cast<size_t>(outer_of(domain_)), Dim(0));
    operand.column_stride = p_.placement(v).strides[0];
    const Columns columns = columns_by(operand.column_stride);
    work_.operands.push_back(std::move(operand));
    return Value{builder_.load(builder_.in(columns))};
  }

  Result<Value> load(ValueId v) {
    if (const auto at = values_.find(v); at != values_.end()) return at->second;
    const graph::Constant* constant = p_.compilation.graph.constant(v);
    Value loaded;
    if (constant != nullptr && constant->splat && constant->type.dtype == DType::kF32) {
      loaded.step = builder_.constant(constant->f32_at(0));
    } else if (constant != nullptr && constant->splat && constant->type.dtype == DType::kS32) {
      loaded.step = builder_.constant_s32(constant->s32_at(0));
    } else {
      HONE_ASSIGN_OR_RETURN(const auto described, operand_of(v));
      const DType dtype = memory_dtype(v);
      Columns columns = described.second;
      if (dtype == DType::kU8 && columns == Columns::kOne) columns = Columns::kStrided;  // bytes are read in columns
      loaded.step = builder_.load(builder_.in(columns, dtype));
      work_.operands.push_back(described.first);
      if (columns != described.second) work_.operands.back().column_stride = Dim(0);
      if (p_.type(v).dtype == DType::kU8) {
        if (dtype == DType::kU8) loaded.step = builder_.apply(StepOp::kToFloat, loaded.step);
        loaded = from_number(loaded.step);
      }
    }
    return values_[v] = loaded;
  }

  // A truth value is a mask among steps, and 0 or 1 in memory.
  Value from_number(int number) { return {builder_.apply(StepOp::kLt, builder_.constant(0), number), true}; }
  int to_number(const Value& v) { return v.mask ? builder_.apply(StepOp::kToFloat, v.step) : v.step; }

  Status store(ValueId v) {
    HONE_ASSIGN_OR_RETURN(const auto described, operand_of(v));
    const DType dtype = memory_dtype(v);
    if (dtype == DType::kU8)
      return unsupported(
          fmt::format("{}: outputs are f32 or s32; convert {} first", d_.name, p_.compilation.graph.value(v).name));
    builder_.store(builder_.out(described.second, dtype), to_number(values_.at(v)));
    work_.operands.push_back(described.first);
    return {};
  }

  // ---- nodes ----

  Result<Value> emit(const Node& n) {
    switch (n.op) {
      case OpKind::broadcast:
      case OpKind::reshape:
        return load(n.operands[0]);
      case OpKind::convert:
        return emit_convert(n);
      case OpKind::compare:
        return emit_compare(n);
      case OpKind::select:
        return emit_select(n);
      case OpKind::logical_not:
      case OpKind::logical_and:
      case OpKind::logical_or:
        return emit_logic(n);
      case OpKind::reduce:
        return emit_reduce(n);
      case OpKind::rms_norm:
      case OpKind::rms_scale:
      case OpKind::layer_norm:
        return emit_norm(n);
      case OpKind::softmax:
        return emit_softmax(n);
      case OpKind::swiglu: {
        HONE_ASSIGN_OR_RETURN(const Value gate, load(n.operands[0]));
        HONE_ASSIGN_OR_RETURN(const Value up, load(n.operands[1]));
        return Value{builder_.apply(StepOp::kMul, builder_.apply(StepOp::kSilu, gate.step), up.step)};
      }
      default:
        return emit_arithmetic(n);
    }
  }

  Result<Value> emit_arithmetic(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value a, load(n.operands[0]));
    const bool integers = p_.type(n.operands[0]).dtype != DType::kF32;
    if (const auto step = unary_step(n)) {
      if (integers) return refuse(n, "it is computed in f32 only; convert first");
      return Value{builder_.apply(*step, a.step)};
    }
    const auto step = binary_step(n.op);
    if (!step) return refuse(n, "no row program computes it");
    if (integers && *step != StepOp::kAdd && *step != StepOp::kSub)
      return refuse(n, "of s32 only add and sub are computed; convert to f32 first");
    HONE_ASSIGN_OR_RETURN(const Value b, load(n.operands[1]));
    return Value{builder_.apply(*step, a.step, b.step)};
  }

  Result<Value> emit_convert(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value v, load(n.operands[0]));
    const DType from = p_.type(n.operands[0]).dtype, to = p_.type(n.results[0]).dtype;
    if (from == to) return v;
    const int number = to_number(v);
    if (to == DType::kF32) return Value{from == DType::kS32 ? builder_.apply(StepOp::kToFloat, number) : number};
    if (to == DType::kS32) return Value{builder_.apply(StepOp::kToInt, number)};
    const int zero = from == DType::kS32 ? builder_.constant_s32(0) : builder_.constant(0);
    return negated({builder_.apply(StepOp::kEq, number, zero), true});
  }

  Result<Value> emit_compare(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value left, load(n.operands[0]));
    HONE_ASSIGN_OR_RETURN(const Value right, load(n.operands[1]));
    int a = left.mask ? to_number(left) : left.step, b = right.mask ? to_number(right) : right.step;
    const std::string direction = n.text("direction");
    if (direction == "GT" || direction == "GE") std::swap(a, b);
    if (direction == "LT" || direction == "GT") return Value{builder_.apply(StepOp::kLt, a, b), true};
    if (direction == "LE" || direction == "GE") return Value{builder_.apply(StepOp::kLe, a, b), true};
    const Value equal{builder_.apply(StepOp::kEq, a, b), true};
    return direction == "EQ" ? equal : negated(equal);
  }

  Value negated(const Value& v) { return {builder_.apply(StepOp::kNot, v.step), true}; }

  Result<Value> emit_select(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value c, load(n.operands[0]));
    HONE_ASSIGN_OR_RETURN(const Value a, load(n.operands[1]));
    HONE_ASSIGN_OR_RETURN(const Value b, load(n.operands[2]));
    const bool mask = a.mask;
    const int x = to_number(a), y = to_number(b);
    const int chosen = builder_.apply(StepOp::kSelect, c.step, x, y);
    return mask ? from_number(chosen) : Value{chosen};
  }

  Result<Value> emit_logic(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value a, load(n.operands[0]));
    if (n.op == OpKind::logical_not) return negated(a);
    HONE_ASSIGN_OR_RETURN(const Value b, load(n.operands[1]));
    return Value{builder_.apply(n.op == OpKind::logical_and ? StepOp::kAnd : StepOp::kOr, a.step, b.step), true};
  }

  Result<Value> emit_reduce(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value v, load(n.operands[0]));
    if (p_.type(n.operands[0]).dtype != DType::kF32) return refuse(n, "sums are computed in f32 only; convert first");
    const std::string kind = n.text("kind");
    const StepOp op = kind == "sum" ? StepOp::kReduceSum : kind == "max" ? StepOp::kReduceMax : StepOp::kReduceMin;
    return Value{builder_.apply(op, v.step)};
  }

  Result<int64_t> fixed_columns(const Node& n) const {
    if (builder_columns() > 0) return builder_columns();
    return refuse(n, "its last dimension has to be static");
  }
  int64_t builder_columns() const { return columns_of(domain_); }

  Result<Value> emit_norm(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const int64_t columns, fixed_columns(n));
    HONE_ASSIGN_OR_RETURN(const Value x, load(n.operands[0]));
    const float eps = static_cast<float>(n.number("eps"));
    if (n.op == OpKind::rms_scale) return Value{rows::emit_rms_scale(builder_, x.step, columns, eps)};
    HONE_ASSIGN_OR_RETURN(const Value w, load_weight(n.operands[1]));
    if (n.op == OpKind::rms_norm) return Value{rows::emit_rms_norm(builder_, x.step, w.step, columns, eps)};
    const int scaled = rows::emit_layer_norm(builder_, x.step, w.step, columns, eps);
    if (n.operands.size() < 3) return Value{scaled};
    HONE_ASSIGN_OR_RETURN(const Value bias, load_weight(n.operands[2]));
    return Value{builder_.apply(StepOp::kAdd, scaled, bias.step)};
  }

  Result<Value> emit_softmax(const Node& n) {
    HONE_ASSIGN_OR_RETURN(const Value x, load(n.operands[0]));
    int scratch = -1;  // of exponentials that wait for their sum; with columns by parameter they are computed again
    if (builder_columns() > 0) {
      scratch = builder_.scratch();
      work_.operands.push_back({});
    }
    return Value{rows::emit_softmax(builder_, x.step, static_cast<float>(n.number("scale", 1)), scratch)};
  }

  const Preparation& p_;
  const passes::Dispatch& d_;
  const Shape domain_;
  ProgramBuilder builder_;
  RowWork work_;
  std::map<ValueId, Value> values_;
};

}  // namespace

Result<RowWork> row_work(const Preparation& p, const passes::Dispatch& dispatch) {
  const graph::Graph& g = p.compilation.graph;
  const Node& first = g.node(dispatch.nodes[0]);
  if (dispatch.nodes.size() == 1 && first.op == OpKind::reshape) {
    Shape domain = p.type(first.operands[0]).dims;
    return Translator(p, dispatch, domain).copy(first.operands[0], first.results[0]);
  }
  // The first node of a dispatch says which rows are walked; others joined because they walk the same.
  const std::optional<Shape> domain = passes::row_domain(g, first);
  if (!domain) return unsupported(fmt::format("{}: no row program computes it", dispatch.name));
  return Translator(p, dispatch, *domain).run();
}

Status collapse(RowWork& work, const std::string& node) {
  const auto drop = [&](size_t i) {
    work.extents.erase(work.extents.begin() + static_cast<int64_t>(i));
    for (RowOperand& o : work.operands)
      if (o.buffer >= 0) o.strides.erase(o.strides.begin() + static_cast<int64_t>(i));
  };
  const bool gathers =
      std::any_of(work.operands.begin(), work.operands.end(), [](const RowOperand& o) { return o.table >= 0; });
  for (size_t i = work.extents.size(); i-- > (gathers ? 1 : 0);)
    if (surely_equal(work.extents[i], Dim(1))) drop(i);
  for (size_t i = gathers ? 0 : work.extents.size(); i-- > 1;) {
    const bool alike = std::all_of(work.operands.begin(), work.operands.end(), [&](const RowOperand& o) {
      return o.buffer < 0 || surely_equal(o.strides[i - 1], o.strides[i] * work.extents[i]);
    });
    if (!alike) continue;
    const Dim joined = work.extents[i - 1] * work.extents[i];
    if (joined.is_unknown()) continue;
    work.extents[i - 1] = joined;
    for (RowOperand& o : work.operands)
      if (o.buffer >= 0) o.strides[i - 1] = o.strides[i];
    drop(i);
  }
  work.program.outer = static_cast<int>(work.extents.size());
  if (work.program.outer <= rows::kMaxOuter) return {};
  return unsupported(fmt::format("{}: its rows are walked in {} dimensions, the most is {}", node, work.program.outer,
                                 rows::kMaxOuter));
}

}  // namespace hone::executable
