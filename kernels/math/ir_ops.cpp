// See ir_ops.h.
#include "kernels/math/ir_ops.h"

#include <bit>
#include <string>

namespace hone::math {
namespace {

// Runs an activation for the constants it asks for.
struct ConstantCollector {
  struct V {};
  std::vector<float> values;

  V constant(float value) {
    values.push_back(value);
    return {};
  }
  static V add(V, V) { return {}; }
  static V sub(V, V) { return {}; }
  static V mul(V, V) { return {}; }
  static V div(V, V) { return {}; }
  static V min(V, V) { return {}; }
  static V max(V, V) { return {}; }
  static V fma(V, V, V) { return {}; }
  static V exponent(V) { return {}; }
  static V bits_as_number(V) { return {}; }
};

}  // namespace

IrOps::IrOps(ir::Builder& builder, int lanes)
    : builder_(builder), type_{DType::kF32, lanes, false}, pool_(std::make_shared<Pool>()) {}

void IrOps::declare(Activation activation) {
  ConstantCollector collector;
  activate(collector, activation, {});
  for (float value : collector.values) declare_constant(value);
}

void IrOps::declare_constant(float value) {
  const auto [entry, added] = constants_.emplace(std::bit_cast<uint32_t>(value), -1);
  if (!added) return;
  entry->second = builder_.reg("const" + std::to_string(constants_.size() - 1), type_);
  builder_.constant(ir::Builder::at(entry->second), value);
}

void IrOps::apply(Activation activation, const ir::RegRef& in_out) {
  const V y = activate(*this, activation, view(in_out));
  builder_.unary(ir::UnaryOp::kMove, in_out, y.ref_);
}

IrOps::V IrOps::view(const ir::RegRef& reg) const {
  V v;
  v.ref_ = reg;
  return v;
}

IrOps::V IrOps::constant(float value) {
  if (const auto at = constants_.find(std::bit_cast<uint32_t>(value)); at != constants_.end()) {
    return view(ir::Builder::at(at->second));
  }
  // Not declared: a register set here is valid only here, so it is not remembered.
  V v = fresh();
  builder_.constant(v.ref_, value);
  return v;
}

IrOps::V IrOps::binary(ir::BinaryOp op, V a, V b) {
  V dst = destination({&a, &b});
  builder_.binary(op, dst.ref_, a.ref_, b.ref_);
  release({&a, &b});
  return dst;
}

// The addend first: dst = c is the form that x86 has when a and b live on.
IrOps::V IrOps::fma(V a, V b, V c) {
  V dst = destination({&c, &a, &b});
  builder_.fma(dst.ref_, a.ref_, b.ref_, c.ref_);
  release({&a, &b, &c});
  return dst;
}

IrOps::V IrOps::exponent(V a) {
  if (integer_ < 0) integer_ = builder_.reg("bits", {DType::kS32, type_.lanes, false});
  const ir::RegRef bits = ir::Builder::at(integer_);
  builder_.unary(ir::UnaryOp::kBitcast, bits, a.ref_);
  builder_.unary(ir::UnaryOp::kShl, bits, bits, 23);
  V dst = destination({&a});
  builder_.unary(ir::UnaryOp::kBitcast, dst.ref_, bits);
  release({&a});
  return dst;
}

IrOps::V IrOps::bits_as_number(V a) {
  if (integer_ < 0) integer_ = builder_.reg("bits", {DType::kS32, type_.lanes, false});
  const ir::RegRef bits = ir::Builder::at(integer_);
  builder_.unary(ir::UnaryOp::kBitcast, bits, a.ref_);
  V dst = destination({&a});
  builder_.unary(ir::UnaryOp::kToFloat, dst.ref_, bits);
  release({&a});
  return dst;
}

IrOps::V IrOps::fresh() {
  if (pool_->free.empty()) {
    pool_->free.push_back(builder_.reg("tmp" + std::to_string(pool_->made), type_));
    ++pool_->made;
  }
  const ir::RegId id = pool_->free.back();
  pool_->free.pop_back();
  V v;
  v.ref_ = ir::Builder::at(id);
  v.lease_ = std::shared_ptr<void>(nullptr, [pool = pool_, id](void*) { pool->free.push_back(id); });
  return v;
}

// Parameters live until the end of the caller's whole expression, which may go on to use registers; so they let go
// here.
void IrOps::release(std::initializer_list<V*> operands) {
  for (V* v : operands) v->lease_.reset();
}

IrOps::V IrOps::destination(std::initializer_list<const V*> operands) {
  for (const V* v : operands)
    if (v->lease_.use_count() == 1) return *v;
  return fresh();
}

}  // namespace hone::math
