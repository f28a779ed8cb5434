// A decoder's ops as primitive ones, in the forms that frameworks export.
#include <fmt/format.h>

#include "engine/graph/epilogue.h"
#include "engine/graph/stablehlo/export_internal.h"

namespace hone::graph::stablehlo {

Status Exporter::decoder(const Node& n, const std::vector<Ref>& x) {
  switch (n.op) {
    case OpKind::matmul:
      return matmul(n, x);
    case OpKind::rms_norm:
    case OpKind::rms_scale:
    case OpKind::layer_norm:
      return norm(n, x);
    case OpKind::rope:
      return rope(n, x);
    case OpKind::softmax:
      return softmax(n, x[0]);
    case OpKind::silu:
      bind(n, silu(x[0]));
      return {};
    case OpKind::gelu:
      bind(n, gelu(x[0], n.text("approximate") == "tanh"));
      return {};
    case OpKind::swiglu:
      bind(n, e_.mul(silu(x[0]), x[1]));
      return {};
    case OpKind::experts:
      return experts(n, x);
    default:
      return refuse(n, "has no form in StableHLO");
  }
}

// ---- shared ----

Ref Exporter::along_last(const Ref& vector, const Shape& shape) {
  return e_.broadcast(vector, {static_cast<int64_t>(shape.size()) - 1}, shape);
}

Ref Exporter::rows_over_last(const Ref& reduced, const Shape& shape) {
  Ints dims;
  for (int64_t d = 0; d + 1 < static_cast<int64_t>(shape.size()); ++d) dims.push_back(d);
  return e_.broadcast(reduced, dims, shape);
}

std::optional<int64_t> Exporter::last_size(const Node& n, const Ref& x) {
  if (x.dim(-1).is_static()) return x.dim(-1).value();
  e_.fail(refuse(n, "the last dimension is open: give its size"));
  return std::nullopt;
}

Ref Exporter::silu(const Ref& x) { return e_.mul(x, e_.unary("stablehlo.logistic", x)); }

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), 0.5 x (1 + erf(x / sqrt(2)))
Ref Exporter::gelu(const Ref& x, bool tanh) {
  const Shape& shape = x.type.dims;
  Ref inner;
  if (tanh) {
    const Ref cubed = e_.mul(e_.mul(x, x), x);
    const Ref sum = e_.add(x, e_.mul(e_.number(0.044715f, shape), cubed));
    inner = e_.unary("stablehlo.tanh", e_.mul(e_.number(0.797884583f, shape), sum));
  } else {
    inner = e_.erf(e_.mul(x, e_.number(0.707106769f, shape)));
  }
  const Ref half = e_.mul(x, e_.number(0.5f, shape));
  return e_.mul(half, e_.add(inner, e_.number(1.0f, shape)));
}

// ---- matmul ----

// Columns of a gate and an up projection in turns of 16: silu(gate) * up.
Ref Exporter::swiglu_columns(const Ref& x) {
  const int64_t turn = matmul::kSwigluColumns, pairs = x.dim(-1).value() / (2 * turn);
  Shape paired(x.type.dims.begin(), x.type.dims.end() - 1), half = paired;
  paired.insert(paired.end(), {Dim(pairs), Dim(2 * turn)});
  half.push_back(Dim(pairs * turn));
  const Ref both = e_.reshape(x, paired);
  const Ref gate = e_.reshape(e_.slice_last(both, 0, turn), half);
  const Ref up = e_.reshape(e_.slice_last(both, turn, 2 * turn), half);
  return e_.mul(silu(gate), up);
}

Status Exporter::matmul(const Node& n, const std::vector<Ref>& x) {
  const bool nt = n.text("layout") == "nt";
  Ref v = e_.dot(x[0], x[1], {}, {}, {x[0].type.rank() - 1}, {nt ? 1 : 0});
  name_line(n);
  HONE_ASSIGN_OR_RETURN(const std::vector<matmul::EpilogueOp> ops, parse_epilogue(n.text("epilogue")));
  size_t next = 2;
  for (const matmul::EpilogueOp op : ops) {
    const Ref* operand = reads_operand(op) ? &x[next++] : nullptr;
    switch (op) {
      case matmul::EpilogueOp::kBias:
        v = e_.add(v, along_last(*operand, v.type.dims));
        break;
      case matmul::EpilogueOp::kRowScale:
        v = e_.mul(v, rows_over_last(*operand, v.type.dims));
        break;
      case matmul::EpilogueOp::kGate:
        v = e_.mul(v, *operand);
        break;
      case matmul::EpilogueOp::kResidual:
        v = e_.add(v, *operand);
        break;
      case matmul::EpilogueOp::kGeluTanh:
      case matmul::EpilogueOp::kGeluErf:
        v = gelu(v, op == matmul::EpilogueOp::kGeluTanh);
        break;
      case matmul::EpilogueOp::kSilu:
        v = silu(v);
        break;
      case matmul::EpilogueOp::kRelu:
        v = e_.max(v, e_.number(0, v.type.dims));
        break;
      case matmul::EpilogueOp::kSwiglu:
        if (!v.dim(-1).is_static()) return refuse(n, "the columns are open: give their size");
        v = swiglu_columns(v);
        break;
    }
  }
  bind(n, std::move(v));
  return {};
}

// ---- rows ----

// rms_norm: x * rsqrt(mean(x^2) + eps) * w. layer_norm: the same of x - mean(x), and + b. rms_scale: the rsqrt.
Status Exporter::norm(const Node& n, const std::vector<Ref>& x) {
  const std::optional<int64_t> size = last_size(n, x[0]);
  if (!size) return e_.status();
  const Shape& shape = x[0].type.dims;
  const Ints last{x[0].type.rank() - 1};
  const auto mean = [&](const Ref& v) {
    const Ref sum = e_.reduce(v, "sum", last);
    return e_.div(sum, e_.number(static_cast<float>(*size), sum.type.dims));
  };
  Ref v = x[0];
  if (n.op == OpKind::layer_norm) v = e_.sub(v, rows_over_last(mean(v), shape));
  const Ref variance = mean(e_.mul(v, v));
  const Ref steady = e_.add(variance, e_.number(static_cast<float>(n.number("eps")), variance.type.dims));
  const Ref factor = e_.unary("stablehlo.rsqrt", steady);
  if (n.op == OpKind::rms_scale) {
    bind(n, factor);
    return {};
  }
  v = e_.mul(v, rows_over_last(factor, shape));
  v = e_.mul(v, along_last(x[1], shape));
  if (x.size() > 2) v = e_.add(v, along_last(x[2], shape));
  bind(n, std::move(v));
  return {};
}

Status Exporter::softmax(const Node& n, const Ref& x) {
  const Shape& shape = x.type.dims;
  const Ints last{x.type.rank() - 1};
  const double scale = n.number("scale", 1);
  const Ref scaled = scale == 1 ? x : e_.mul(x, e_.number(static_cast<float>(scale), shape));
  const Ref most = e_.reduce(scaled, "max", last);
  const Ref weights = e_.unary("stablehlo.exponential", e_.sub(scaled, rows_over_last(most, shape)));
  bind(n, e_.div(weights, rows_over_last(e_.reduce(weights, "sum", last), shape)));
  return {};
}

// (x1 cos - x2 sin, x2 cos + x1 sin), the angle of row r being its position times inv_freq.
Status Exporter::rope(const Node& n, const std::vector<Ref>& x) {
  const std::optional<int64_t> size = last_size(n, x[0]);
  if (!size) return e_.status();
  const int rank = x[0].type.rank();
  const int64_t half = *size / 2;
  const bool interleaved = n.text("style") == "interleaved";
  const Dim rows = x[0].dim(-3);
  Ref positions;
  if (x.size() > 2) {
    positions = x[2];
  } else {
    positions = e_.iota(DType::kS32, {rows}, 0);
    const Dim offset = sized(n.dim("offset").value_or(Dim(0)));
    if (offset != Dim(0)) positions = e_.add(positions, e_.broadcast(e_.size(offset), {}, {rows}));
  }
  const Shape table{rows, Dim(half)};
  const Ref row = e_.broadcast(e_.convert(positions, DType::kF32), {0}, table);
  const Ref frequency = e_.broadcast(x[1], {1}, table);
  const Ref angle = e_.mul(row, frequency);
  Shape halves = x[0].type.dims;
  halves.back() = Dim(half);
  const Ref cos = e_.broadcast(e_.unary("stablehlo.cosine", angle), {rank - 3, rank - 1}, halves);
  const Ref sin = e_.broadcast(e_.unary("stablehlo.sine", angle), {rank - 3, rank - 1}, halves);
  Shape pairs = halves;
  pairs.push_back(Dim(2));
  const Ref source = interleaved ? e_.reshape(x[0], pairs) : x[0];
  const Ref x1 = interleaved ? e_.reshape(e_.slice_last(source, 0, 1), halves) : e_.slice_last(source, 0, half);
  const Ref x2 = interleaved ? e_.reshape(e_.slice_last(source, 1, 2), halves) : e_.slice_last(source, half, 2 * half);
  const Ref x1_cos = e_.mul(x1, cos), x2_sin = e_.mul(x2, sin), x2_cos = e_.mul(x2, cos), x1_sin = e_.mul(x1, sin);
  Ref parts[2] = {e_.sub(x1_cos, x2_sin), e_.add(x2_cos, x1_sin)};
  if (!interleaved) {
    bind(n, e_.concatenate(parts, rank - 1));
    return {};
  }
  pairs.back() = Dim(1);
  for (Ref& part : parts) part = e_.reshape(part, pairs);
  bind(n, e_.reshape(e_.concatenate(parts, rank), x[0].type.dims));
  return {};
}

// ---- experts ----

// Dense: every expert computes every row, and a row's weights are 0 for those that it did not choose.
Status Exporter::experts(const Node& n, const std::vector<Ref>& x) {
  const Ref &indices = x[1], &weights = x[2];
  const Dim rows = x[0].dim(0), count = x[3].dim(0), chosen = indices.dim(1);
  const Shape hot{rows, chosen, count};
  const Ref choice = e_.broadcast(indices, {0, 1}, hot), expert = e_.iota(DType::kS32, hot, 2);
  const Ref is_chosen = e_.convert(e_.compare("EQ", choice, expert), DType::kF32);
  const Ref spread = e_.mul(is_chosen, e_.broadcast(weights, {0, 1}, hot));
  const Ref of_expert = e_.reduce(spread, "sum", {1});                        // [s, E]
  const Ref gate = e_.dot(x[0], x[3], {}, {}, {1}, {2});                      // [s, E, ff]
  const Ref up = e_.dot(x[0], x[4], {}, {}, {1}, {2});                        // [s, E, ff]
  const Ref down = e_.dot(e_.mul(silu(gate), up), x[5], {1}, {0}, {2}, {2});  // [E, s, d]
  bind(n, e_.dot(of_expert, down, {0}, {1}, {1}, {0}));
  return {};
}

// ---- caches ----

Status Exporter::kv_append(const Node& n) {
  const auto rows = values_.find(n.operands[1]);
  if (rows == values_.end() || rows->second.rows) return refuse(n, "appends a cache to a cache");
  const Ref zero = e_.integer(0);
  Ref& state = states_.at(n.operands[0]);
  const Ref all[] = {state, rows->second.ref, position_, zero, zero};
  state = e_.dynamic_update_slice(all);
  values_[n.results[0]] = {state, sized(graph_.value(n.results[0]).type.dims[0])};
  return {};
}

}  // namespace hone::graph::stablehlo
