// Ops on elements: one shape in, the same shape out.
#include "engine/graph/infer_internal.h"

namespace hone::graph {

namespace {

using enum DType;

// All operands have one type, which is the result's.
Result<Types> same_types(const Rules& r, std::initializer_list<DType> allowed) {
  HONE_RETURN_IF_ERROR(r.dtype(0, allowed));
  TensorType type = r.x(0);
  for (int i = 1; i < r.count(); ++i) HONE_RETURN_IF_ERROR(r.agree(i, &type, "operand 0"));
  return Types{type};
}

Result<Types> infer_compare(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.word("direction", {"EQ", "NE", "LT", "LE", "GT", "GE"}));
  HONE_ASSIGN_OR_RETURN(Types types, same_types(r, {kF32, kS32, kU8}));
  types[0].dtype = kU8;
  return types;
}

Result<Types> infer_select(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.dtype(0, {kU8}));
  TensorType type = r.x(1);
  HONE_RETURN_IF_ERROR(r.agree(2, &type, "operand 1 (a)"));
  if (r.x(0).rank() != 0) HONE_RETURN_IF_ERROR(r.agree(0, &type, "operand 1 (a)", true));
  return Types{type};
}

Result<Types> infer_iota(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.needs_wanted());
  if (r.wanted()->dtype == kU8) return r.fail("the result is {} and must be f32 or s32", to_string(*r.wanted()));
  HONE_RETURN_IF_ERROR(r.axis("axis", r.integer("axis"), r.wanted()->rank()));
  return Types{*r.wanted()};
}

Result<Types> infer_convert(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.needs_wanted());
  TensorType type = *r.wanted();
  HONE_RETURN_IF_ERROR(r.agree(0, &type, "the result", true));
  return Types{type};
}

}  // namespace

Result<Types> infer_elements(const Rules& r) {
  switch (r.op()) {
    case OpKind::constant:
      HONE_RETURN_IF_ERROR(r.needs_wanted());
      if (!r.wanted()->is_static()) return r.fail("the result is {} and must be static", to_string(*r.wanted()));
      return Types{*r.wanted()};
    case OpKind::iota:
      return infer_iota(r);
    case OpKind::convert:
      return infer_convert(r);
    case OpKind::neg:
    case OpKind::abs:
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
    case OpKind::max:
    case OpKind::min:
      return same_types(r, {kF32, kS32});
    case OpKind::logical_not:
    case OpKind::logical_and:
    case OpKind::logical_or:
      return same_types(r, {kU8});
    case OpKind::compare:
      return infer_compare(r);
    case OpKind::select:
      return infer_select(r);
    default:
      return same_types(r, {kF32});
  }
}

}  // namespace hone::graph
