// Steps that run row programs, and the programs of the ops that are not chains of elementwise ones: RoPE, gather,
// concatenation, sums across rows.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/executable/row_program_internal.h"
#include "engine/graph/rope_table.h"
#include "engine/passes/form_dispatches.h"
#include "engine/passes/plan_memory.h"
#include "engine/row_kernel_internal.h"
#include "kernels/op/region.h"
#include "kernels/rows/arguments.h"
#include "kernels/rows/decoder.h"

namespace hone::executable {
namespace {

using graph::Dim;
using graph::Node;
using graph::Shape;
using graph::ValueId;
using passes::Dispatch;

// Positions that come as an operand may be any number; a table of rotations has to end somewhere, and a larger position
// is an error. 64 Ki positions of 64 angles are 32 MiB.
constexpr int64_t kMaxPosition = int64_t{1} << 16;

class RowsStep final : public Step {
 public:
  struct Operand {
    Place place;
    std::array<Size, rows::kMaxOuter> strides;
    Size column_stride;
    bool gathered = false;
    Place table;
    Size rows;
  };

  Status run(const Call& call) const override {
    const rows::RowProgram& program = kernel->program();
    rows::RowArgs args;
    for (int i = 0; i < program.outer; ++i) {
      args.extents[static_cast<size_t>(i)] = extents[static_cast<size_t>(i)].at(call.symbols);
      if (args.extents[static_cast<size_t>(i)] == 0) return {};
    }
    if (program.n == rows::kRuntime) args.n = columns.at(call.symbols);
    for (size_t i = 0; i < operands.size(); ++i) HONE_RETURN_IF_ERROR(set_operand(call, i, args));
    return kernel->run(args, schedule_for(call.symbols), {.op = kind, .node = name});
  }

  // Threads for what they pay for.
  runtime::Schedule* schedule_for(std::span<const int64_t> symbols) const {
    const rows::RowProgram& program = kernel->program();
    double elements = static_cast<double>(program.n == rows::kRuntime ? columns.at(symbols) : program.n);
    for (int i = 0; i < program.outer; ++i)
      elements *= static_cast<double>(extents[static_cast<size_t>(i)].at(symbols));
    const double work = op::kWorkPerElement * elements * static_cast<double>(operands.size());
    return schedule != nullptr && op::region_pays(work, min_work) ? schedule : nullptr;
  }

  Result<StepReport> report(std::span<const int64_t> symbols) const override {
    const runtime::Schedule* const on = schedule_for(symbols);
    return StepReport{.kernel = kernel->name(),
                      .plan = rows::to_string(kernel->program()),
                      .codegen = kernel->codegen(),
                      .numerics = "lanes16",
                      .reason = "default",
                      .threads = on == nullptr ? 1 : on->parallelism()};
  }

  Status set_operand(const Call& call, size_t i, rows::RowArgs& args) const {
    const rows::RowProgram& program = kernel->program();
    const Operand& o = operands[i];
    if (o.place.buffer < 0) return {};
    rows::Tensor& t = args.operands[i];
    t.data = call.at<std::byte>(o.place);
    for (size_t j = 0; j < static_cast<size_t>(program.outer); ++j) t.strides[j] = o.strides[j].at(call.symbols);
    t.column_stride = o.column_stride.at(call.symbols);
    if (!o.gathered) return {};
    t.table = call.at<const int32_t>(o.table);
    t.rows = o.rows.at(call.symbols);
    const int64_t count = args.extents[static_cast<size_t>(program.operands[i].gather)];
    if (Status s = rows::check_table(t.table, count, t.rows); !s.ok()) return {s.code(), name + ": " + s.message()};
    return {};
  }

  std::array<Size, rows::kMaxOuter> extents;
  Size columns;
  std::vector<Operand> operands;
  std::optional<RowKernel> kernel;
  runtime::Schedule* schedule = nullptr;
  std::optional<int64_t> min_work;
};

// ---- RoPE ----

// cos and sin of every position that the graph allows, as two buffers of the plan.
Result<Preparation::RopeTable> rope_table(Preparation& p, const Node& n, int64_t rows) {
  const graph::Constant* inv_freq = p.compilation.graph.constant(n.operands[1]);
  if (inv_freq == nullptr) return unsupported(fmt::format("rope {}: inv_freq has to be a constant", n.name));
  for (const Preparation::RopeTable& t : p.rope_tables)
    if (t.inv_freq == inv_freq->data.data() && t.rows >= rows) return t;
  const int64_t half = inv_freq->type.elements();
  std::vector<float> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) frequencies[static_cast<size_t>(i)] = inv_freq->f32_at(i);
  HONE_ASSIGN_OR_RETURN(AlignedBuffer cos, AlignedBuffer::allocate_elements(rows * half, 4));
  HONE_ASSIGN_OR_RETURN(AlignedBuffer sin, AlignedBuffer::allocate_elements(rows * half, 4));
  for (int64_t r = 0; r < rows; ++r)
    graph::rope_row(r, frequencies, cos.as<float>().data() + r * half, sin.as<float>().data() + r * half);
  const int c = p.add_buffer(std::move(cos)), s = p.add_buffer(std::move(sin));
  p.rope_tables.push_back({inv_freq->data.data(), rows, c, s});
  return p.rope_tables.back();
}

// x [.., s, heads, d]: rows along s have an angle of their own, heads share it.
Status prepare_rope(Preparation& p, const Dispatch& d, const Node& n, Steps& steps) {
  const Shape& dims = p.type(n.operands[0]).dims;
  const size_t rank = dims.size();
  if (rank < 3 || !dims.back().is_static())
    return unsupported(fmt::format("rope {}: x has to be [.., s, heads, d] with a static d", n.name));
  const bool gathered = n.operands.size() > 2;
  const Dim offset = n.dim("offset").value_or(Dim(0));
  HONE_ASSIGN_OR_RETURN(const int64_t most, p.largest(offset + dims[rank - 3]));
  HONE_ASSIGN_OR_RETURN(const int64_t least, passes::smallest(p.compilation.graph, offset));
  if (least < 0)
    return unsupported(
        fmt::format("rope {}: its offset {} can be {}; positions start at 0", n.name, to_string(offset), least));
  const int64_t d_half = dims.back().value() / 2;
  const int64_t table_rows = gathered ? std::max<int64_t>(most, kMaxPosition) : most;
  HONE_ASSIGN_OR_RETURN(const Preparation::RopeTable table, rope_table(p, n, table_rows));
  RowWork work;
  // Positions are the first dimension of the program, where a table may be gathered.
  const bool half = n.text("style") == "half";
  work.program = half ? rows::rope_half(static_cast<int>(rank) - 1, dims.back().value(), gathered)
                      : rows::rope_interleaved(static_cast<int>(rank) - 1, dims.back().value(), gathered);
  std::vector<size_t> order{rank - 3};
  for (size_t i = 0; i + 1 < rank; ++i)
    if (i != rank - 3) order.push_back(i);
  for (const size_t i : order) work.extents.push_back(dims[i]);
  const auto add = [&](ValueId v) {
    RowOperand o{.value = v, .buffer = p.placement(v).buffer, .offset = Dim(0), .strides = {}};
    for (const size_t i : order) o.strides.push_back(p.placement(v).strides[i]);
    work.operands.push_back(std::move(o));
  };
  add(n.operands[0]);
  for (const int buffer : {table.cos, table.sin}) {
    RowOperand o{.value = -1, .buffer = buffer, .offset = gathered ? Dim(0) : offset * Dim(d_half), .strides = {}};
    o.strides.assign(order.size(), Dim(0));
    o.strides[0] = Dim(d_half);
    if (gathered) o.table = n.operands[2], o.rows = table_rows;
    work.operands.push_back(std::move(o));
  }
  add(n.results[0]);
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Step> step, make_rows_step(p, std::move(work), d));
  steps.push_back(std::move(step));
  return {};
}

// ---- gather ----

Status prepare_gather(Preparation& p, const Dispatch& d, const Node& n, Steps& steps) {
  const Shape& table = p.type(n.operands[0]).dims;
  const Shape& indices = p.type(n.operands[1]).dims;
  if (table.size() < 2 || !table.back().is_static())
    return unsupported(fmt::format("gather {}: it gathers rows of a length that is static", n.name));
  const passes::Placement& from = p.placement(n.operands[0]);
  const passes::Placement& to = p.placement(n.results[0]);
  if (!surely_equal(from.strides.back(), Dim(1)))
    return unsupported(fmt::format("gather {}: the columns of its table lie apart", n.name));
  RowWork work;
  rows::ProgramBuilder b("gather_rows", static_cast<int>(table.size()) - 1, table.back().value());
  const DType dtype = p.type(n.operands[0]).dtype;
  const int x = b.in(rows::Columns::kDense, dtype, 0);
  const int y = b.out(rows::Columns::kDense, is_16bit_float(dtype) ? DType::kF32 : dtype);  // widened by the load
  b.store(y, b.load(x));
  work.program = b.finish();
  Dim count(1);
  for (const Dim& i : indices) count = count * i;
  if (count.is_unknown())
    return unsupported(fmt::format("gather {}: the number of its indices is a product of symbols", n.name));
  work.extents.push_back(count);
  RowOperand in{.value = n.operands[0], .buffer = from.buffer, .offset = Dim(0), .strides = {from.strides[0]}};
  in.table = n.operands[1];
  in.rows = table[0];
  RowOperand result{.value = n.results[0], .buffer = to.buffer, .offset = Dim(0), .strides = {}};
  result.strides.push_back(indices.empty() ? Dim(0) : to.strides[indices.size() - 1]);
  for (size_t i = 1; i + 1 < table.size(); ++i) {
    work.extents.push_back(table[i]);
    in.strides.push_back(from.strides[i]);
    result.strides.push_back(to.strides[indices.size() + i - 1]);
  }
  work.operands = {std::move(in), std::move(result)};
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Step> step, make_rows_step(p, std::move(work), d));
  steps.push_back(std::move(step));
  return {};
}

// ---- concatenate ----

// Each operand is copied to its part of the result.
Status prepare_concatenate(Preparation& p, const Dispatch& d, const Node& n, Steps& steps) {
  const size_t axis = static_cast<size_t>(n.integer("axis"));
  const passes::Placement& to = p.placement(n.results[0]);
  Dim at(0);
  for (const ValueId v : n.operands) {
    const Shape& dims = p.type(v).dims;
    const passes::Placement& from = p.placement(v);
    RowWork work;
    const bool fixed = dims.back().is_static() && dims.back().value() > 0;
    const int64_t columns = fixed ? dims.back().value() : rows::kRuntime;
    rows::ProgramBuilder b("copy", static_cast<int>(dims.size()) - 1, columns);
    DType dtype = p.type(v).dtype;
    if (dtype == DType::kU8) {  // a number between dispatches
      if (p.compilation.buffers[static_cast<size_t>(from.buffer)].element_bytes == 1)
        return unsupported(fmt::format("concatenate {}: u8 inputs are not joined; convert {} first", n.name,
                                       p.compilation.graph.value(v).name));
      dtype = DType::kF32;
    }
    const bool dense = surely_equal(from.strides.back(), Dim(1)), one = surely_equal(from.strides.back(), Dim(0));
    const int x = b.in(dense ? rows::Columns::kDense : one ? rows::Columns::kOne : rows::Columns::kStrided, dtype);
    const int y = b.out(rows::Columns::kDense, dtype);
    b.store(y, b.load(x));
    work.program = b.finish();
    if (!fixed) work.columns = dims.back();
    work.extents.assign(dims.begin(), dims.end() - 1);
    RowOperand in{
        .value = v, .buffer = from.buffer, .offset = Dim(0), .strides = {from.strides.begin(), from.strides.end() - 1}};
    in.column_stride = from.strides.back();
    RowOperand out{.value = n.results[0],
                   .buffer = to.buffer,
                   .offset = to.strides[axis] * at,
                   .strides = {to.strides.begin(), to.strides.end() - 1}};
    work.operands = {std::move(in), std::move(out)};
    if (work.operands[1].offset.is_unknown())
      return unsupported(fmt::format("concatenate {}: the place of operand {} is a product of symbols", n.name,
                                     p.compilation.graph.value(v).name));
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Step> step, make_rows_step(p, std::move(work), d));
    steps.push_back(std::move(step));
    at += dims[axis];
  }
  return {};
}

// ---- sums across rows ----

// The dimensions that go are walked as columns: with one stride, so they have to lie like one dimension.
Status prepare_cross_reduce(Preparation& p, const Dispatch& d, const Node& n, Steps& steps) {
  const ValueId x = n.operands[0];
  const Shape& dims = p.type(x).dims;
  const passes::Placement& from = p.placement(x);
  const passes::Placement& to = p.placement(n.results[0]);
  const auto axes = n.integers("axes");
  const auto reduced = [&](size_t i) {
    return std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
  };
  if (p.type(x).dtype != DType::kF32)
    return unsupported(fmt::format("reduce {}: sums are computed in f32 only; convert first", n.name));
  RowWork work;
  Dim columns(1), stride(1);
  bool first = true;
  RowOperand in{.value = x, .buffer = from.buffer, .offset = Dim(0), .strides = {}};
  for (size_t i = dims.size(); i-- > 0;) {
    if (!reduced(i) || surely_equal(dims[i], Dim(1))) continue;
    if (!first && !surely_equal(from.strides[i], stride * columns))
      return unsupported(fmt::format("reduce {}: the axes that it sums do not lie next to each other", n.name));
    if (first) stride = from.strides[i];
    columns = columns * dims[i];
    first = false;
  }
  if (columns.is_unknown()) return unsupported(fmt::format("reduce {}: it sums over a product of symbols", n.name));
  in.column_stride = stride;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!reduced(i)) work.extents.push_back(dims[i]), in.strides.push_back(from.strides[i]);
  const bool fixed = columns.is_static() && columns.value() > 0;
  rows::ProgramBuilder b("reduce", static_cast<int>(work.extents.size()), fixed ? columns.value() : rows::kRuntime);
  const std::string kind = n.text("kind");
  const int operand = b.in(surely_equal(stride, Dim(1)) ? rows::Columns::kDense : rows::Columns::kStrided);
  const int result = b.out(rows::Columns::kOne);
  b.store(result, b.apply(kind == "sum"   ? rows::StepOp::kReduceSum
                          : kind == "max" ? rows::StepOp::kReduceMax
                                          : rows::StepOp::kReduceMin,
                          b.load(operand)));
  work.program = b.finish();
  if (!fixed) work.columns = columns;
  RowOperand out{.value = n.results[0], .buffer = to.buffer, .offset = Dim(0), .strides = to.strides};
  work.operands = {std::move(in), std::move(out)};
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Step> step, make_rows_step(p, std::move(work), d));
  steps.push_back(std::move(step));
  return {};
}

}  // namespace

Result<std::unique_ptr<Step>> make_rows_step(Preparation& p, RowWork work, const Dispatch& dispatch) {
  HONE_RETURN_IF_ERROR(collapse(work, dispatch.name));
  if (Status s = rows::validate(work.program); !s.ok())
    return unsupported(fmt::format("{}: {}", dispatch.name, s.message()));
  auto step = std::make_unique<RowsStep>();
  set_names(*step, dispatch);
  for (size_t i = 0; i < work.extents.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(step->extents[i], p.size(work.extents[i]));
  }
  if (work.columns) {
    HONE_ASSIGN_OR_RETURN(step->columns, p.size(*work.columns));
  }
  for (const RowOperand& o : work.operands) {
    RowsStep::Operand operand;
    if (o.buffer < 0) {  // a row that the kernel keeps for itself
      step->operands.push_back(operand);
      continue;
    }
    if (o.value >= 0) {
      HONE_ASSIGN_OR_RETURN(operand.place, p.place(o.value));
    } else {
      operand.place = {.buffer = o.buffer, .offset = Size(0), .element_bytes = 4};
    }
    const Dim offset = (o.value >= 0 ? p.placement(o.value).offset : Dim(0)) + o.offset;
    HONE_ASSIGN_OR_RETURN(operand.place.offset, p.size(offset));
    for (size_t i = 0; i < o.strides.size(); ++i) {
      HONE_ASSIGN_OR_RETURN(operand.strides[i], p.size(o.strides[i]));
    }
    HONE_ASSIGN_OR_RETURN(operand.column_stride, p.size(o.column_stride));
    if (o.table >= 0) {
      operand.gathered = true;
      HONE_ASSIGN_OR_RETURN(operand.rows, p.size(o.rows));
      HONE_ASSIGN_OR_RETURN(operand.table, p.place(o.table));
    }
    step->operands.push_back(operand);
  }
  const auto same = [&](const RowKernel& k) { return k.program() == work.program; };
  const auto known = std::find_if(p.row_kernels.begin(), p.row_kernels.end(), same);
  if (known == p.row_kernels.end()) {
    HONE_ASSIGN_OR_RETURN(step->kernel, RowKernel::make(p.state, std::move(work.program)));
    p.row_kernels.push_back(*step->kernel);
  } else {
    step->kernel = *known;
  }
  step->min_work = p.state.target.min_work;
  HONE_ASSIGN_OR_RETURN(step->schedule, p.state.schedules.get(p.state.target.threads));
  return std::unique_ptr<Step>(std::move(step));
}

Status prepare_rows(Preparation& p, const Dispatch& dispatch, Steps& steps) {
  const Node& n = p.compilation.graph.node(dispatch.nodes[0]);
  using graph::OpKind;
  if (n.op == OpKind::rope) return prepare_rope(p, dispatch, n, steps);
  if (n.op == OpKind::gather) return prepare_gather(p, dispatch, n, steps);
  if (n.op == OpKind::concatenate) return prepare_concatenate(p, dispatch, n, steps);
  if (n.op == OpKind::reduce && !passes::row_domain(p.compilation.graph, n))
    return prepare_cross_reduce(p, dispatch, n, steps);
  HONE_ASSIGN_OR_RETURN(RowWork work, row_work(p, dispatch));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Step> step, make_rows_step(p, std::move(work), dispatch));
  steps.push_back(std::move(step));
  return {};
}

}  // namespace hone::executable
