// A decoder's ops. Norms and softmax are those of kernels/rows, attention that of kernels/attention: the definitions of
// their classes. The matmul's chain and its epilogue are written out here.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/graph/epilogue.h"
#include "engine/graph/reference_internal.h"
#include "engine/graph/rope_table.h"
#include "kernels/attention/reference.h"
#include "kernels/math/scalar_ops.h"
#include "kernels/rows/decoder.h"
#include "kernels/rows/reference.h"

namespace hone::graph {

namespace {

using math::Activation;
using math::scalar_activation;

// ---- matmul ----

// One row of sums through the chain. `at` is the row, `n` the columns of the result.
void finish_row(const Call& c, const std::vector<matmul::EpilogueOp>& ops, int64_t at, int64_t n,
                std::vector<float>* v) {
  using enum matmul::EpilogueOp;
  size_t next = 2;
  for (const matmul::EpilogueOp op : ops) {
    const float* operand = reads_operand(op) ? c.x<float>(next++).data() : nullptr;
    if (op == kGate || op == kResidual) operand += at * n;
    if (op == kRowScale) operand += at;
    if (op == kSwiglu) {
      const std::vector<float> sums = *v;
      v->resize(static_cast<size_t>(n));
      for (int64_t j = 0; j < n; ++j)
        (*v)[static_cast<size_t>(j)] =
            scalar_activation(Activation::kSilu, sums[static_cast<size_t>(matmul::gate_column(j))]) *
            sums[static_cast<size_t>(matmul::up_column(j))];
      continue;
    }
    for (size_t j = 0; j < v->size(); ++j) {
      float& x = (*v)[j];
      if (op == kBias || op == kResidual) x = x + operand[j];
      if (op == kGate) x = x * operand[j];
      if (op == kRowScale) x = x * operand[0];
      if (op == kGeluTanh) x = scalar_activation(Activation::kGeluTanh, x);
      if (op == kGeluErf) x = scalar_activation(Activation::kGeluErf, x);
      if (op == kSilu) x = scalar_activation(Activation::kSilu, x);
      if (op == kRelu) x = scalar_activation(Activation::kRelu, x);
    }
  }
}

Status matmul_op(const Call& c) {
  const bool nt = c.node.text("layout") == "nt";
  const int64_t k = c.last(0), n = c.shape(1)[nt ? 0 : 1], out = c.results[0].shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < c.shape(0).size(); ++i) rows *= c.shape(0)[i];
  std::vector<float> sums(static_cast<size_t>(rows * n));
  const std::vector<float> wide = is_16bit_float(c.operands[1].dtype) ? widened(c.operands[1]) : std::vector<float>();
  ordered_matmul({.m = rows, .n = n, .k = k, .b_row = nt ? 1 : n, .b_column = nt ? k : 1}, c.x<float>(0).data(),
                 wide.empty() ? c.x<float>(1).data() : wide.data(), sums.data());
  HONE_ASSIGN_OR_RETURN(const std::vector<matmul::EpilogueOp> ops, parse_epilogue(c.node.text("epilogue")));
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<float> row(sums.begin() + i * n, sums.begin() + (i + 1) * n);
    finish_row(c, ops, i, out, &row);
    std::copy(row.begin(), row.end(), c.y<float>().begin() + i * out);
  }
  return {};
}

// ---- attention ----

Status attention_op(const Call& c) {
  const size_t s = c.shape(0).size() - 3;  // the axis of rows
  const int64_t batch = s == 0 ? 1 : c.shape(0)[0];
  attention::AttentionProblem p;
  p.heads = c.shape(0)[s + 1], p.kv_heads = c.shape(1)[s + 1];
  p.d = c.last(0), p.dv = c.last(2);
  p.q = c.shape(0)[s], p.kv = c.shape(1)[s];
  p.ldq = p.heads * p.d, p.ldk = p.kv_heads * p.d, p.ldv = p.kv_heads * p.dv, p.ldo = p.heads * p.dv;
  p.causal = c.node.flag("causal");
  p.window = c.node.integer("window");
  p.scale = static_cast<float>(c.node.number("scale"));
  p.softcap = static_cast<float>(c.node.number("softcap"));
  if (c.results[0].data.empty()) return {};
  if (c.operands.size() == 4)
    p.mask = c.operands[3].dtype == DType::kF32 ? attention::MaskKind::kAdditive : attention::MaskKind::kBoolean;
  if (const Status legal = attention::validate(p); !legal.ok()) return c.wrong(legal.message());
  for (int64_t b = 0; b < batch; ++b) {
    attention::Sequence q{.q = p.q, .kv = p.kv};
    q.query = c.x<float>(0).data() + b * p.q * p.ldq;
    q.key = c.x<float>(1).data() + b * p.kv * p.ldk;
    q.value = c.x<float>(2).data() + b * p.kv * p.ldv;
    q.out = c.y<float>().data() + b * p.q * p.ldo;
    q.q_head = p.d, q.k_head = p.d, q.v_head = p.dv, q.o_head = p.dv;
    if (p.mask != attention::MaskKind::kNone) {
      const int64_t item = c.shape(3).size() == 3 ? b * p.q * p.kv : 0;
      q.mask = c.operands[3].data + item * dtype_bytes(c.operands[3].dtype);
      q.mask_row = p.kv;
    }
    attention::class_f32(p, q, "online(256)");
  }
  return {};
}

// ---- rows ----

// Every operand of one dimension is shared by all rows. Results are of the shape of operand 0, or one element a row.
Status along_rows(const Call& c, const rows::RowProgram& program) {
  rows::RowArgs args;
  const int64_t n = c.last(0);
  if (c.results[0].data.empty()) return {};
  const bool one = c.results[0].shape.size() < c.shape(0).size();
  args.extents[0] = one ? c.results[0].elements() : c.results[0].elements() / n;
  args.n = n;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    args.operands[i].data = const_cast<std::byte*>(c.operands[i].data);  // inputs are not written
    args.operands[i].strides[0] = i > 0 && c.shape(i).size() < c.shape(0).size() ? 0 : n;
  }
  rows::Tensor& y = args.operands[c.operands.size()];
  y.data = c.results[0].data.data();
  y.strides[0] = one ? 1 : n;
  return rows::reference(program, args);
}

Status norm(const Call& c) {
  const rows::RowShape shape{.outer = 1, .n = c.last(0)};
  if (shape.n == 0) {  // rms_scale has a result all the same: the mean of nothing
    std::fill(c.y<float>().begin(), c.y<float>().end(), std::numeric_limits<float>::quiet_NaN());
    return {};
  }
  const auto eps = static_cast<float>(c.node.number("eps"));
  if (c.node.op == OpKind::rms_norm) return along_rows(c, rows::rms_norm(shape, eps));
  if (c.node.op == OpKind::rms_scale) return along_rows(c, rows::rms_scale(shape, eps));
  return along_rows(c, rows::layer_norm(shape, eps, c.operands.size() == 3));
}

Status softmax(const Call& c) {
  if (c.last(0) == 0) return {};
  return along_rows(c, rows::softmax({.outer = 1, .n = c.last(0)}, static_cast<float>(c.node.number("scale", 1))));
}

Status swiglu(const Call& c) {
  const auto gate = c.x<float>(0), up = c.x<float>(1);
  for (size_t i = 0; i < gate.size(); ++i) c.y<float>()[i] = scalar_activation(Activation::kSilu, gate[i]) * up[i];
  return {};
}

// ---- rope ----

Status rope(const Call& c) {
  const bool interleaved = c.node.text("style") == "interleaved";
  const auto x = c.x<float>(0), inv_freq = c.x<float>(1);
  const auto y = c.y<float>();
  const size_t rank = c.shape(0).size(), d = static_cast<size_t>(c.last(0)), half = d / 2;
  const auto rows = static_cast<size_t>(c.shape(0)[rank - 3]), heads = static_cast<size_t>(c.shape(0)[rank - 2]);
  int64_t offset = 0;
  if (const std::optional<Dim> dim = c.node.dim("offset")) {
    HONE_ASSIGN_OR_RETURN(offset, dim->evaluate(c.bindings));
  }
  std::vector<float> cos(half), sin(half);
  for (size_t at = 0; at < x.size(); at += d) {
    const size_t row = at / d / heads % rows;
    const int64_t position = c.operands.size() == 3 ? c.x<int32_t>(2)[row] : offset + static_cast<int64_t>(row);
    rope_row(position, inv_freq, cos.data(), sin.data());
    for (size_t j = 0; j < half; ++j) {
      const size_t first = at + (interleaved ? 2 * j : j), second = interleaved ? first + 1 : first + half;
      const float x1 = x[first], x2 = x[second];
      y[first] = x1 * cos[j] - x2 * sin[j];
      y[second] = x2 * cos[j] + x1 * sin[j];
    }
  }
  return {};
}

// ---- experts, state ----

// y(r, i) for every row r and choice i that names expert e, tokens of one expert together.
void run_expert(const Call& c, int64_t e, std::vector<float>* y) {
  const int64_t d = c.last(0), k = c.last(1), ff = c.shape(3)[1];
  const auto indices = c.x<int32_t>(1);
  std::vector<size_t> chosen;
  std::vector<float> x;
  for (size_t at = 0; at < indices.size(); ++at) {
    if (indices[at] != e) continue;
    chosen.push_back(at);
    const auto row = c.x<float>(0).begin() + static_cast<int64_t>(at) / k * d;
    x.insert(x.end(), row, row + d);
  }
  if (chosen.empty()) return;
  const auto m = static_cast<int64_t>(chosen.size());
  std::vector<float> gate(static_cast<size_t>(m * ff)), up = gate, down(static_cast<size_t>(m * d));
  const OrderedShape in{.m = m, .n = ff, .k = d, .b_row = 1, .b_column = d};
  ordered_matmul(in, x.data(), c.x<float>(3).data() + e * ff * d, gate.data());
  ordered_matmul(in, x.data(), c.x<float>(4).data() + e * ff * d, up.data());
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = scalar_activation(Activation::kSilu, gate[i]) * up[i];
  ordered_matmul({.m = m, .n = d, .k = ff, .b_row = 1, .b_column = ff}, gate.data(), c.x<float>(5).data() + e * d * ff,
                 down.data());
  for (size_t i = 0; i < chosen.size(); ++i)
    std::copy_n(down.begin() + static_cast<int64_t>(i) * d, d, y->begin() + static_cast<int64_t>(chosen[i]) * d);
}

// out[r] = chain of fused multiply-adds over i ascending, from +0, of weights[r, i] * y(r, i).
Status experts(const Call& c) {
  const int64_t d = c.last(0), k = c.last(1), count = c.shape(3)[0];
  const auto indices = c.x<int32_t>(1);
  for (size_t at = 0; at < indices.size(); ++at)
    if (indices[at] < 0 || indices[at] >= count)
      return c.fail("index {} at row {} is not in 0..{}, the experts", indices[at], static_cast<int64_t>(at) / k,
                    count - 1);
  std::vector<float> y(indices.size() * static_cast<size_t>(d));
  for (int64_t e = 0; e < count; ++e) run_expert(c, e, &y);
  for (int64_t at = 0; at < c.results[0].elements(); ++at) {
    float sum = 0;
    for (int64_t i = at / d * k; i < (at / d + 1) * k; ++i)
      sum = std::fma(c.x<float>(2)[static_cast<size_t>(i)], y[static_cast<size_t>(i * d + at % d)], sum);
    c.y<float>()[static_cast<size_t>(at)] = sum;
  }
  return {};
}

Status kv_append(const Call& c) {
  const int64_t capacity = c.shape(0)[0], rows = c.shape(1)[0];
  if (c.position + rows > capacity)
    return c.fail("{} rows are there and {} come: the state holds {}", c.position, rows, capacity);
  const size_t row = static_cast<size_t>(c.shape(1)[1] * c.shape(1)[2]);
  const size_t before = static_cast<size_t>(c.position) * row;
  std::copy_n(c.x<float>(0).begin(), before, c.y<float>().begin());
  std::copy(c.x<float>(1).begin(), c.x<float>(1).end(), c.y<float>().begin() + static_cast<ptrdiff_t>(before));
  return {};
}

}  // namespace

Status evaluate_decoder(const Call& c) {
  switch (c.node.op) {
    case OpKind::matmul:
      return matmul_op(c);
    case OpKind::attention:
      return attention_op(c);
    case OpKind::rms_norm:
    case OpKind::rms_scale:
    case OpKind::layer_norm:
      return norm(c);
    case OpKind::rope:
      return rope(c);
    case OpKind::softmax:
      return softmax(c);
    case OpKind::silu:
      return unary_rows(c, rows::StepOp::kSilu);
    case OpKind::gelu:
      return unary_rows(c, c.node.text("approximate") == "tanh" ? rows::StepOp::kGeluTanh : rows::StepOp::kGeluErf);
    case OpKind::swiglu:
      return swiglu(c);
    case OpKind::experts:
      return experts(c);
    default:
      return kv_append(c);
  }
}

}  // namespace hone::graph
