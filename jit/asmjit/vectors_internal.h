// Vector operations: one virtual register per element of a LoopIR register, one instruction per operation wherever the
// ISA has it. What the two ISAs do differently is in this class and nowhere else.
//
//   masks      AVX-512: k registers. AVX2: a vector whose active lanes are all ones (vmaskmovps, vblendvps read the
//   sign). lanes      16 zmm, 8 ymm, 4 and 1 xmm. A scalar computes in a whole xmm register: only lane 0 is defined,
//   loads and
//              stores touch one element.
//   constants  a pool behind the code; zero is an xor.
#pragma once

#include <asmjit/x86.h>

#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "jit/asmjit/integers_internal.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// Lane counts and dtypes that `isa` cannot hold: unsupported, with the register's name.
Status check_registers(const ir::Kernel& kernel, Isa isa);

class VectorEmitter {
 public:
  VectorEmitter(const ir::Kernel& kernel, Isa isa, asmjit::x86::Compiler& cc, IntegerEmitter& integers);

  void emit(const ir::Const& op);
  void emit(const ir::Load& op);
  void emit(const ir::Broadcast& op);
  void emit(const ir::Store& op);
  void emit(const ir::Binary& op);
  void emit(const ir::Fma& op);
  void emit(const ir::Unary& op);
  void emit(const ir::Compare& op);
  void emit(const ir::Select& op);
  void emit(const ir::Permute& op);
  void emit(const ir::LaneMask& op);
  void emit(const ir::Prefetch& op);

 private:
  using Vec = asmjit::x86::Vec;
  using KReg = asmjit::x86::KReg;

  const ir::RegType& type(const ir::RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type; }
  const asmjit::BaseReg& reg(const ir::RegRef& r);
  const Vec& vec(const ir::RegRef& r) { return reg(r).as<Vec>(); }
  const KReg& k(const ir::RegRef& r) { return reg(r).as<KReg>(); }
  Vec new_vec(int lanes);

  asmjit::x86::Mem pool(uint32_t bits);                      // one 32-bit constant
  asmjit::x86::Mem pool_vector(const uint32_t (&lanes)[8]);  // AVX2: a whole vector
  asmjit::x86::Mem splat_operand(uint32_t bits, int lanes);  // operand with `bits` in each lane
  Vec memory_mask(const ir::RegRef& mask);                   // AVX2: for vmaskmovps; a scalar's upper lanes are off
  void groups(const ir::Permute& op);

  const ir::Kernel& kernel_;
  asmjit::x86::Compiler& cc_;
  IntegerEmitter& integers_;
  const bool avx512_;
  std::vector<std::vector<asmjit::BaseReg>> registers_;  // per LoopIR register, per element; made when first used
};

}  // namespace hone::jit
