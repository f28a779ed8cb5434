// The Ops of vector_math.h as LoopIR: every operation becomes one statement on vector registers.
//
// Constants must not be set inside the loops that use them, and temporaries must be few, so:
//   IrOps ops(builder, lanes);
//   ops.declare(Activation::kSilu);            // before the loops: one register per distinct constant, set here
//   builder.serial(..., [&](...) {
//     ops.apply(Activation::kSilu, acc);       // acc = silu(acc), constants only read
//   });
// Temporaries come from a pool and return to it when the last handle dies; an operand that was moved away is
// overwritten in place. At most 5 temporaries are alive at any point of any activation (tested).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ir/builder.h"
#include "kernels/math/vector_math.h"

namespace hone::math {

class IrOps {
 public:
  IrOps(ir::Builder& builder, int lanes);

  // A handle on a register: a pool temporary (lease set), or a constant or the caller's register (read only).
  class V {
   public:
    const ir::RegRef& ref() const { return ref_; }

   private:
    friend class IrOps;
    ir::RegRef ref_;
    std::shared_ptr<void> lease_;
  };

  // Emits the constants of `activation` that are not there yet into the block that is open now. That block must enclose
  // every later apply() of the activation.
  void declare(Activation activation);
  // in_out = activation(in_out). Without declare() it works too, but sets its constants on the spot.
  void apply(Activation activation, const ir::RegRef& in_out);
  // For other code built on this pool: a constant register of its own (declared in the open block), a view of a
  // register.
  void declare_constant(float value);
  V view(const ir::RegRef& reg) const;

  V constant(float value);
  V add(V a, V b) { return binary(ir::BinaryOp::kAdd, std::move(a), std::move(b)); }
  V sub(V a, V b) { return binary(ir::BinaryOp::kSub, std::move(a), std::move(b)); }
  V mul(V a, V b) { return binary(ir::BinaryOp::kMul, std::move(a), std::move(b)); }
  V div(V a, V b) { return binary(ir::BinaryOp::kDiv, std::move(a), std::move(b)); }
  V min(V a, V b) { return binary(ir::BinaryOp::kMin, std::move(a), std::move(b)); }
  V max(V a, V b) { return binary(ir::BinaryOp::kMax, std::move(a), std::move(b)); }
  V fma(V a, V b, V c);
  V exponent(V a);
  V bits_as_number(V a);

  int temporaries() const { return pool_->made; }  // registers made so far (not counting the integer one)

 private:
  struct Pool {
    std::vector<ir::RegId> free;
    int made = 0;
  };

  V binary(ir::BinaryOp op, V a, V b);
  V fresh();
  // The first operand that nobody else holds, else a fresh register.
  V destination(std::initializer_list<const V*> operands);
  static void release(std::initializer_list<V*> operands);

  ir::Builder& builder_;
  ir::RegType type_;
  std::map<uint32_t, ir::RegId> constants_;  // by bit pattern
  std::shared_ptr<Pool> pool_;
  ir::RegId integer_ = -1;
};

}  // namespace hone::math
