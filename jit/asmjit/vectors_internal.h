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
#include "jit/asmjit/folding_internal.h"
#include "jit/asmjit/integers_internal.h"
#include "jit/asmjit/lifetimes_internal.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// Lane counts and dtypes that `isa` cannot hold: unsupported, with the register's name.
Status check_registers(const ir::Kernel& kernel, Isa isa);

class VectorEmitter {
 public:
  VectorEmitter(const ir::Kernel& kernel, Isa isa, asmjit::x86::Compiler& cc, IntegerEmitter& integers);

  template <typename Op>
  void operation(const Op& op) {
    uses_.clear();
    definition_ = -1;
    emit(op);
    if constexpr (std::is_same_v<Op, ir::Const>) {
      if (definition_ >= 0)
        folding_.define_constant(definition_, op.bits, virtual_[static_cast<size_t>(definition_)].template as<Vec>());
    } else {
      record(foldable(op), std::is_same_v<Op, ir::Store>);
    }
  }

  // What was emitted, for liveness. The lowering adds loops and branches.
  Lifetimes& lifetimes() { return lifetimes_; }
  // Loads and constants that need no register; the lowering says where runs end, and when all is emitted.
  void end_run() { folding_.end_run(); }
  void fold();
  // Keeps register elements in memory from `before` to `after` (cursors in front of and behind a loop).
  void keep_in_memory(int element, asmjit::BaseNode* before, asmjit::BaseNode* after);

 private:
  using Vec = asmjit::x86::Vec;
  using KReg = asmjit::x86::KReg;

  void emit(const ir::Const& op);
  void emit(const ir::Load& op);
  void emit(const ir::Broadcast& op);
  void emit(const ir::Store& op);
  void emit(const ir::Binary& op);
  void emit(const ir::Fma& op);
  void emit(const ir::Pairs& op);
  void emit(const ir::DotPairs& op);
  void emit(const ir::Unary& op);
  void emit(const ir::Compare& op);
  void emit(const ir::Select& op);
  void emit(const ir::Permute& op);
  void emit(const ir::LaneMask& op);
  void emit(const ir::Prefetch& op);

  // May the load that was just emitted be an operand of its user?
  bool foldable(const ir::Load& op) const;
  bool foldable(const ir::Broadcast& op) const { return avx512_ && type(op.dst).lanes > 1 && !widens(op.src); }
  template <typename Op>
  bool foldable(const Op&) const {
    return false;
  }
  void record(bool load, bool store);

  const ir::RegType& type(const ir::RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type; }
  // The virtual register of a LoopIR register, as an operand that is read (use) or written (def). An operation takes
  // its uses first.
  enum class Role { kUse, kDef };
  const asmjit::BaseReg& reg(const ir::RegRef& r, Role role);
  const Vec& use(const ir::RegRef& r) { return reg(r, Role::kUse).as<Vec>(); }
  const Vec& def(const ir::RegRef& r) { return reg(r, Role::kDef).as<Vec>(); }
  const KReg& use_k(const ir::RegRef& r) { return reg(r, Role::kUse).as<KReg>(); }
  const KReg& def_k(const ir::RegRef& r) { return reg(r, Role::kDef).as<KReg>(); }
  Vec new_vec(int lanes);

  asmjit::x86::Mem pool(uint32_t bits);                      // one 32-bit constant
  asmjit::x86::Mem pool_vector(const uint32_t (&lanes)[8]);  // AVX2: a whole vector
  asmjit::x86::Mem splat_operand(uint32_t bits, int lanes);  // operand with `bits` in each lane
  Vec memory_mask(const ir::RegRef& mask);                   // AVX2: for vmaskmovps; a scalar's upper lanes are off
  void groups(const ir::Permute& op);
  void load_bytes(const Vec& dst, asmjit::x86::Mem src, bool scalar);
  DType element(const ir::Access& a) const { return kernel_.buffers[static_cast<size_t>(a.buffer)].dtype; }
  bool widens(const ir::Access& a) const { return dtype_bytes(element(a)) != 4; }
  void load_halves(const Vec& dst, const asmjit::x86::Mem& src, DType dtype);
  void broadcast_half(const Vec& dst, const asmjit::x86::Mem& src, DType dtype);

  const ir::Kernel& kernel_;
  asmjit::x86::Compiler& cc_;
  IntegerEmitter& integers_;
  const bool avx512_;
  std::vector<std::vector<int>> elements_;  // per LoopIR register and element: index of virtual_, or -1 until used
  std::vector<asmjit::BaseReg> virtual_;
  std::vector<asmjit::x86::Mem> memory_;  // per virtual register: where keep_in_memory puts it
  Lifetimes lifetimes_;
  Folding folding_;
  std::vector<int> uses_;  // elements, of the operation being emitted
  int definition_ = -1;
};

}  // namespace hone::jit
