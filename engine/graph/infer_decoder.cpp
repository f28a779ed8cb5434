// A decoder's ops.
#include "engine/graph/epilogue.h"
#include "engine/graph/infer_internal.h"

namespace hone::graph {

namespace {

using enum DType;

Status all_f32(const Rules& r, std::initializer_list<int> operands) {
  for (const int i : operands)
    if (i < r.count()) HONE_RETURN_IF_ERROR(r.dtype(i, {kF32}));
  return {};
}

// A vector as long as *n.
Status vector_of(const Rules& r, int i, Dim* n, std::string_view of) {
  HONE_RETURN_IF_ERROR(r.rank(i, 1));
  return r.agree(i, 0, n, of);
}

// The operands of an epilogue, from operand 2 on. `type` is the result's: halved by +swiglu.
Status check_epilogue(const Rules& r, Dim n, TensorType* type) {
  Result<std::vector<matmul::EpilogueOp>> ops = parse_epilogue(r.text("epilogue"));
  if (!ops.ok()) return r.wrong(ops.status().message());
  int next = 2;
  for (const matmul::EpilogueOp op : *ops) {
    if (op == matmul::EpilogueOp::kSwiglu) {
      constexpr int64_t kPair = 2 * matmul::kSwigluColumns;
      if (n.is_static() && n.value() % kPair != 0)
        return r.fail("epilogue +swiglu needs pairs of columns: n is {}, no multiple of {}", to_string(n), kPair);
      type->dims.back() = Dim::divide(n, 2).value_or(Dim::unknown());
      n = type->dims.back();
    }
    if (!reads_operand(op)) continue;
    const std::string_view name = matmul::epilogue_name(op).substr(1);
    if (next >= r.count()) return r.fail("epilogue '{}' has no operand for its {}", r.text("epilogue"), name);
    HONE_RETURN_IF_ERROR(r.dtype(next, {kF32}));
    if (op == matmul::EpilogueOp::kBias) {
      HONE_RETURN_IF_ERROR(vector_of(r, next, &n, "the columns"));
    } else if (op == matmul::EpilogueOp::kRowScale) {
      TensorType rows = *type;
      rows.dims.pop_back();
      HONE_RETURN_IF_ERROR(r.agree(next, &rows, "a factor for each row of the result"));
    } else {
      HONE_RETURN_IF_ERROR(r.agree(next, type, fmt::format("the {} of the result's shape", name)));
    }
    ++next;
  }
  if (next == r.count()) return {};
  return r.fail("has {} operands and its epilogue '{}' takes {}", r.count(), r.text("epilogue"), next);
}

Result<Types> infer_rms_scale(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.dtype(0, {kF32}));
  HONE_RETURN_IF_ERROR(r.rank(0, 1, -1));
  HONE_RETURN_IF_ERROR(r.not_negative("eps"));
  TensorType type = r.x(0);
  type.dims.pop_back();
  return Types{type};
}

Result<Types> infer_matmul(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.word("layout", {"nt", "nn"}));
  HONE_RETURN_IF_ERROR(all_f32(r, {0}));
  HONE_RETURN_IF_ERROR(r.dtype(1, {kF32, kBf16, kF16}));
  HONE_RETURN_IF_ERROR(r.rank(0, 1, -1));
  HONE_RETURN_IF_ERROR(r.rank(1, 2));
  const bool nt = r.text("layout") == "nt";
  Dim k = r.last(0);
  HONE_RETURN_IF_ERROR(r.agree(1, nt ? 1 : 0, &k, fmt::format("k, the last dimension of operand 0 (a)")));
  TensorType type = r.x(0);
  type.dims.back() = r.dim(1, nt ? 0 : 1);
  HONE_RETURN_IF_ERROR(check_epilogue(r, type.dims.back(), &type));
  return Types{type};
}

Status check_mask(const Rules& r, bool batched, Dim b, Dim s, Dim t) {
  HONE_RETURN_IF_ERROR(r.dtype(3, {kF32, kU8}));
  HONE_RETURN_IF_ERROR(r.rank(3, 2, batched ? 3 : 2));
  const int first = r.x(3).rank() - 2;
  if (first > 0) HONE_RETURN_IF_ERROR(r.agree(3, 0, &b, "the batch of q"));
  HONE_RETURN_IF_ERROR(r.agree(3, first, &s, "the rows of q"));
  return r.agree(3, first + 1, &t, "the rows of k");
}

Status check_attention_numbers(const Rules& r, const Dim& heads, const Dim& kv_heads, const Dim& d) {
  if (heads.is_static() && kv_heads.is_static()) {
    if (kv_heads.value() < 1 || heads.value() < 1 || heads.value() % kv_heads.value() != 0)
      return r.fail("q has {} heads, which must be a multiple of the {} of k and v", heads.value(), kv_heads.value());
    const int64_t group = heads.value() / kv_heads.value();
    if (r.has("group") && r.integer("group") != group)
      return r.fail("group is {} and must be {}, the heads of q for each of k", r.integer("group"), group);
  }
  if (d.is_static() && d.value() < 1) return r.fail("heads have 0 elements");
  if (r.integer("window") < 0) return r.fail("window is {} and must be 0 (none) or more", r.integer("window"));
  return r.not_negative("softcap");
}

Result<Types> infer_attention(const Rules& r) {
  HONE_RETURN_IF_ERROR(all_f32(r, {0, 1, 2}));
  HONE_RETURN_IF_ERROR(r.rank(0, 3, 4));
  const int rank = r.x(0).rank(), h = rank - 2, d = rank - 1, s = rank - 3;
  HONE_RETURN_IF_ERROR(r.rank(1, rank));
  HONE_RETURN_IF_ERROR(r.rank(2, rank));
  TensorType type = r.x(0);
  if (rank == 4)
    for (const int i : {1, 2}) HONE_RETURN_IF_ERROR(r.agree(i, 0, &type.dims[0], "the batch of q"));
  Dim depth = r.dim(0, d), keys = r.dim(1, s), kv_heads = r.dim(1, h);
  HONE_RETURN_IF_ERROR(r.agree(1, d, &depth, "the last dimension of q"));
  HONE_RETURN_IF_ERROR(r.agree(2, s, &keys, "the rows of k"));
  HONE_RETURN_IF_ERROR(r.agree(2, h, &kv_heads, "the heads of k"));
  HONE_RETURN_IF_ERROR(check_attention_numbers(r, r.dim(0, h), kv_heads, depth));
  if (r.count() == 4)
    HONE_RETURN_IF_ERROR(check_mask(r, rank == 4, type.dims[0], type.dims[static_cast<size_t>(s)], keys));
  type.dims.back() = r.dim(2, d);
  return Types{type};
}

Result<Types> infer_norm(const Rules& r) {
  HONE_RETURN_IF_ERROR(all_f32(r, {0, 1, 2}));
  HONE_RETURN_IF_ERROR(r.rank(0, 1, -1));
  HONE_RETURN_IF_ERROR(r.not_negative("eps"));
  TensorType type = r.x(0);
  for (int i = 1; i < r.count(); ++i)
    HONE_RETURN_IF_ERROR(vector_of(r, i, &type.dims.back(), "the last dimension of operand 0 (x)"));
  return Types{type};
}

Result<Types> infer_rope(const Rules& r) {
  HONE_RETURN_IF_ERROR(all_f32(r, {0, 1}));
  HONE_RETURN_IF_ERROR(r.word("style", {"half", "interleaved"}));
  HONE_RETURN_IF_ERROR(r.rank(0, 3, -1));
  HONE_RETURN_IF_ERROR(r.rank(1, 1));
  TensorType type = r.x(0);
  const Dim& half = r.dim(1, 0);
  const Dim twice = half * Dim(2);
  if (!possibly_equal(type.dims.back(), twice))
    return r.fail("operand 1 (inv_freq) has {} entries and must have half of {}, the last dimension of operand 0 (x)",
                  to_string(half), to_string(type.dims.back()));
  type.dims.back() = surer(type.dims.back(), twice);
  if (r.count() < 3) return Types{type};
  if (r.has("offset")) return r.fail("has operand 2 (positions) and attribute 'offset': one says where rows are");
  HONE_RETURN_IF_ERROR(r.dtype(2, {kS32}));
  Dim& rows = type.dims[type.dims.size() - 3];
  HONE_RETURN_IF_ERROR(vector_of(r, 2, &rows, "the rows of operand 0 (x)"));
  return Types{type};
}

// x [s, d], indices [s, k], weights [s, k], w_gate and w_up [E, ff, d], w_down [E, d, ff].
Result<Types> infer_experts(const Rules& r) {
  HONE_RETURN_IF_ERROR(all_f32(r, {0, 2, 3, 4, 5}));
  HONE_RETURN_IF_ERROR(r.dtype(1, {kS32}));
  for (int i = 0; i < 6; ++i) HONE_RETURN_IF_ERROR(r.rank(i, i < 3 ? 2 : 3));
  Dim s = r.dim(0, 0), d = r.dim(0, 1), k = r.dim(1, 1), count = r.dim(3, 0), ff = r.dim(3, 1);
  for (const int i : {1, 2}) HONE_RETURN_IF_ERROR(r.agree(i, 0, &s, "the rows of x"));
  HONE_RETURN_IF_ERROR(r.agree(2, 1, &k, "the columns of indices"));
  for (const int i : {4, 5}) HONE_RETURN_IF_ERROR(r.agree(i, 0, &count, "the experts of w_gate"));
  for (const int i : {3, 4}) HONE_RETURN_IF_ERROR(r.agree(i, 2, &d, "the columns of x"));
  HONE_RETURN_IF_ERROR(r.agree(4, 1, &ff, "the rows of w_gate"));
  HONE_RETURN_IF_ERROR(r.agree(5, 2, &ff, "the rows of w_gate"));
  HONE_RETURN_IF_ERROR(r.agree(5, 1, &d, "the columns of x"));
  return Types{{kF32, {s, d}}};
}

// Rows are added to what is there: the first dimension of the result is the position plus those of this call.
Result<Types> infer_kv_append(const Rules& r) {
  HONE_RETURN_IF_ERROR(all_f32(r, {0, 1}));
  HONE_RETURN_IF_ERROR(r.rank(0, 3));
  HONE_RETURN_IF_ERROR(r.rank(1, 3));
  TensorType type = r.x(0);
  for (const int axis : {1, 2})
    HONE_RETURN_IF_ERROR(r.agree(1, axis, &type.dims[static_cast<size_t>(axis)], "as in operand 0 (state)"));
  type.dims[0] = r.position() + r.dim(1, 0);
  if (r.dim(0, 0).is_static() && r.dim(1, 0).is_static() && r.dim(1, 0).value() > r.dim(0, 0).value())
    return r.fail("operand 1 (rows) is {} and operand 0 (state) holds {} rows", to_string(r.x(1)),
                  to_string(r.dim(0, 0)));
  return Types{type};
}

// One shape, f32.
Result<Types> infer_activation(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.dtype(0, {kF32}));
  if (r.op() == OpKind::gelu) HONE_RETURN_IF_ERROR(r.word("approximate", {"tanh", "erf"}));
  if (r.op() == OpKind::softmax) HONE_RETURN_IF_ERROR(r.rank(0, 1, -1));
  TensorType type = r.x(0);
  if (r.count() == 2) HONE_RETURN_IF_ERROR(r.agree(1, &type, "operand 0 (gate)"));
  return Types{type};
}

}  // namespace

Result<Types> infer_decoder(const Rules& r) {
  switch (r.op()) {
    case OpKind::matmul:
      return infer_matmul(r);
    case OpKind::attention:
      return infer_attention(r);
    case OpKind::rms_norm:
    case OpKind::layer_norm:
      return infer_norm(r);
    case OpKind::rms_scale:
      return infer_rms_scale(r);
    case OpKind::rope:
      return infer_rope(r);
    case OpKind::experts:
      return infer_experts(r);
    case OpKind::kv_append:
      return infer_kv_append(r);
    default:
      return infer_activation(r);
  }
}

}  // namespace hone::graph
