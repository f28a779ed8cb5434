// See vectors_internal.h.
#include "jit/asmjit/vectors_internal.h"

#include <algorithm>

namespace hone::jit {

namespace x86 = asmjit::x86;

namespace {

constexpr uint32_t kSignBit = 0x80000000u;

// vcmpps predicates: ordered (false on NaN), quiet.
int predicate(ir::CompareOp op) {
  switch (op) {
    case ir::CompareOp::kLt:
      return 0x11;
    case ir::CompareOp::kLe:
      return 0x12;
    case ir::CompareOp::kEq:
      return 0x00;
  }
  return 0;
}

}  // namespace

Status check_registers(const ir::Kernel& kernel, Isa isa) {
  const IsaInfo& info = isa_info(isa);
  for (const ir::Register& r : kernel.registers) {
    const int lanes = r.type.lanes;
    const std::string where = "register '" + r.name + "' of kernel '" + kernel.name + "'";
    if (lanes > info.lanes_f32())
      return unsupported(where + " has " + std::to_string(lanes) + " lanes; " + std::string(info.name) +
                         " has at most " + std::to_string(info.lanes_f32()) + " of 32 bits");
    if (lanes != 1 && lanes != 4 && lanes != 8 && lanes != 16)
      return unsupported(where + " has " + std::to_string(lanes) + " lanes; asmjit emits 1, 4, 8 or 16");
    if (!r.type.mask && r.type.dtype != DType::kF32 && r.type.dtype != DType::kS32)
      return unsupported(where + " holds " + std::string(dtype_name(r.type.dtype)) + "; asmjit emits f32 and s32");
  }
  return {};
}

VectorEmitter::VectorEmitter(const ir::Kernel& kernel, Isa isa, x86::Compiler& cc, IntegerEmitter& integers)
    : kernel_(kernel), cc_(cc), integers_(integers), avx512_(isa_info(isa).mask_registers) {
  for (const ir::Register& r : kernel.registers) elements_.emplace_back(register_elements(r), -1);
}

void VectorEmitter::emit(const ir::Const& op) {
  const Vec dst = def(op.dst);
  if (op.bits == 0) {
    cc_.vxorps(dst, dst, dst);
  } else {
    cc_.vbroadcastss(dst, pool(op.bits));
  }
}

void VectorEmitter::emit(const ir::Load& op) {
  const Vec dst = def(op.dst);
  const x86::Mem src = integers_.address(op.src);
  const bool scalar = type(op.dst).lanes == 1;
  if (element(op.src) == DType::kU8) {
    load_bytes(dst, src, scalar);
  } else if (is_16bit_float(element(op.src))) {
    scalar ? broadcast_half(dst, src, element(op.src)) : load_halves(dst, src, element(op.src));
  } else if (!op.mask.valid()) {
    scalar ? cc_.vmovss(dst.xmm(), src) : cc_.vmovups(dst, src);
  } else if (!avx512_) {
    cc_.vmaskmovps(dst, memory_mask(op.mask), src);
  } else {
    cc_.k(use_k(op.mask)).z();
    scalar ? cc_.vmovss(dst.xmm(), src) : cc_.vmovups(dst, src);
  }
}

void VectorEmitter::load_bytes(const Vec& dst, x86::Mem src, bool scalar) {
  if (!scalar) {
    cc_.vpmovzxbd(dst, src);
    return;
  }
  const x86::Gp wide = integers_.value().r32();
  src.setSize(1);
  cc_.movzx(wide, src);
  cc_.vmovd(dst.xmm(), wide);
}

// bf16 are the upper halves of f32. Both are exact for denormals, whatever MXCSR says: integer operations do not look
// at it, and vcvtph2ps takes no notice of DAZ.
void VectorEmitter::load_halves(const Vec& dst, const x86::Mem& src, DType dtype) {
  if (dtype == DType::kF16) {
    cc_.vcvtph2ps(dst, src);
    return;
  }
  cc_.vpmovzxwd(dst, src);
  cc_.vpslld(dst, dst, 16);
}

// A lane of 32 bits then holds the element twice: shifted, once.
void VectorEmitter::broadcast_half(const Vec& dst, const x86::Mem& src, DType dtype) {
  if (dtype == DType::kBf16) {
    cc_.vpbroadcastw(dst, src);
    cc_.vpslld(dst, dst, 16);
    return;
  }
  const Vec narrow = dst.size() == 64 ? Vec(dst.ymm()) : Vec(dst.xmm());
  cc_.vpbroadcastw(narrow, src);
  cc_.vcvtph2ps(dst, narrow);
}

void VectorEmitter::emit(const ir::Broadcast& op) {
  const Vec dst = def(op.dst);
  const x86::Mem src = integers_.address(op.src);
  if (widens(op.src)) {
    broadcast_half(dst, src, element(op.src));
  } else if (type(op.dst).lanes == 1) {
    cc_.vmovss(dst.xmm(), src);
  } else {
    cc_.vbroadcastss(dst, src);
  }
}

void VectorEmitter::emit(const ir::Store& op) {
  const Vec src = use(op.src);
  const x86::Mem dst = integers_.address(op.dst);
  const bool scalar = type(op.src).lanes == 1;
  if (op.mask.valid() && !avx512_) {
    cc_.vmaskmovps(dst, memory_mask(op.mask), src);
    return;
  }
  if (op.mask.valid()) cc_.k(use_k(op.mask));
  scalar ? cc_.vmovss(dst, src.xmm()) : cc_.vmovups(dst, src);
}

void VectorEmitter::emit(const ir::Binary& op) {
  const Vec a = use(op.a), b = use(op.b), dst = def(op.dst);
  const bool s32 = type(op.dst).dtype == DType::kS32;
  switch (op.op) {
    case ir::BinaryOp::kAdd:
      s32 ? cc_.vpaddd(dst, a, b) : cc_.vaddps(dst, a, b);
      break;
    case ir::BinaryOp::kSub:
      s32 ? cc_.vpsubd(dst, a, b) : cc_.vsubps(dst, a, b);
      break;
    case ir::BinaryOp::kMul:
      cc_.vmulps(dst, a, b);
      break;
    case ir::BinaryOp::kDiv:
      cc_.vdivps(dst, a, b);
      break;
    case ir::BinaryOp::kMin:
      cc_.vminps(dst, a, b);
      break;
    case ir::BinaryOp::kMax:
      cc_.vmaxps(dst, a, b);
      break;
  }
}

void VectorEmitter::emit(const ir::Fma& op) {
  const Vec a = use(op.a), b = use(op.b), c = use(op.c), dst = def(op.dst);
  if (dst.id() == c.id()) {
    cc_.vfmadd231ps(dst, a, b);
  } else if (dst.id() == a.id()) {
    cc_.vfmadd213ps(dst, b, c);
  } else if (dst.id() == b.id()) {
    cc_.vfmadd213ps(dst, a, c);
  } else {
    cc_.vmovaps(dst, c);
    cc_.vfmadd231ps(dst, a, b);
  }
}

// The elements of the last operand come first.
void VectorEmitter::emit(const ir::Pairs& op) {
  const Vec a = use(op.a), b = use(op.b), dst = def(op.dst);
  cc_.vcvtne2ps2bf16(dst, b, a);
}

void VectorEmitter::emit(const ir::DotPairs& op) {
  const Vec a = use(op.a), b = use(op.b), c = use(op.c), dst = def(op.dst);
  if (dst.id() != c.id()) cc_.vmovaps(dst, c);
  // asmjit takes dst for written only. Of an instruction that merges under a mask it knows better, and k0 is no mask.
  cc_.k(x86::k0).vdpbf16ps(dst, a, b);
}

void VectorEmitter::emit(const ir::Unary& op) {
  const Vec src = use(op.src), dst = def(op.dst);
  const int lanes = type(op.dst).lanes;
  switch (op.op) {
    case ir::UnaryOp::kMove:
    case ir::UnaryOp::kBitcast:
      if (dst.id() != src.id()) cc_.vmovaps(dst, src);
      break;
    case ir::UnaryOp::kNeg:
      cc_.vxorps(dst, src, splat_operand(kSignBit, lanes));
      break;
    case ir::UnaryOp::kAbs:
      cc_.vandps(dst, src, splat_operand(~kSignBit, lanes));
      break;
    case ir::UnaryOp::kRound:
      // imm 8: to nearest even whatever MXCSR says, no precision exception.
      avx512_ ? cc_.vrndscaleps(dst, src, 8) : cc_.vroundps(dst, src, 8);
      break;
    case ir::UnaryOp::kToInt:
      // Rounds as MXCSR says: to nearest even unless the caller changed it, which the C API does not support.
      cc_.vcvtps2dq(dst, src);
      break;
    case ir::UnaryOp::kToFloat:
      cc_.vcvtdq2ps(dst, src);
      break;
    case ir::UnaryOp::kShl:
      cc_.vpslld(dst, src, op.imm);
      break;
    case ir::UnaryOp::kSqrt:
      cc_.vsqrtps(dst, src);
      break;
  }
}

void VectorEmitter::emit(const ir::Compare& op) {
  const Vec a = use(op.a), b = use(op.b);
  if (avx512_) {
    cc_.vcmpps(def_k(op.dst), a, b, predicate(op.op));
  } else {
    cc_.vcmpps(def(op.dst), a, b, predicate(op.op));
  }
}

void VectorEmitter::emit(const ir::Select& op) {
  const Vec a = use(op.a), b = use(op.b), dst = def(op.dst);
  if (!avx512_) {
    cc_.vblendvps(dst, b, a, use(op.mask));
  } else {
    // The mask selects, nothing is merged: without overwrite() the allocator would keep the old dst alive up to here.
    cc_.overwrite().k(use_k(op.mask)).vblendmps(dst, b, a);
  }
}

void VectorEmitter::emit(const ir::Permute& op) {
  const Vec a = use(op.a), b = use(op.b), dst = def(op.dst);
  switch (op.op) {
    case ir::PermuteOp::kUnpackLo32:
      cc_.vunpcklps(dst, a, b);
      break;
    case ir::PermuteOp::kUnpackHi32:
      cc_.vunpckhps(dst, a, b);
      break;
    case ir::PermuteOp::kUnpackLo64:
      cc_.vunpcklpd(dst, a, b);
      break;
    case ir::PermuteOp::kUnpackHi64:
      cc_.vunpckhpd(dst, a, b);
      break;
    case ir::PermuteOp::kGroups:
      groups(op);
      break;
  }
}

void VectorEmitter::groups(const ir::Permute& op) {
  const Vec a = use(op.a), b = use(op.b), dst = def(op.dst);
  const int lanes = type(op.dst).lanes;
  const int first = op.imm & 3, second = (op.imm >> 4) & 3;  // of (a0, a1, b0, b1)
  if (lanes == 16) {
    cc_.vshuff32x4(dst, a, b, op.imm & 0xff);
  } else if (avx512_) {
    // vperm2f128 has no EVEX form (registers 16 and up); vshuff32x4 takes one group from each operand, so name them
    // freely.
    cc_.vshuff32x4(dst, first < 2 ? a : b, second < 2 ? a : b, (first & 1) | (second & 1) << 1);
  } else {
    cc_.vperm2f128(dst, a, b, op.imm & 0x33);
  }
}

void VectorEmitter::emit(const ir::LaneMask& op) {
  const int lanes = type(op.dst).lanes;
  const std::optional<int64_t> known = integers_.env().constant(op.count);
  const x86::Gp &count = integers_.value(), &limit = integers_.other();
  if (!known) {
    // Counts beyond the lanes are legal: clamp before narrowing.
    integers_.eval(count, op.count);
    cc_.mov(limit, lanes);
    cc_.cmp(count, limit);
    cc_.cmovg(count, limit);
    cc_.xor_(limit.r32(), limit.r32());
    cc_.test(count, count);
    cc_.cmovs(count, limit);
  }
  const int64_t fixed = known ? std::clamp<int64_t>(*known, 0, lanes) : 0;
  if (avx512_) {
    const x86::Gpd bits = limit.r32();
    cc_.mov(bits, known ? (1 << fixed) - 1 : -1);
    if (!known) cc_.bzhi(bits, bits, count.r32());
    cc_.kmovw(def_k(op.dst), bits);
    return;
  }
  if (known) {
    uint32_t mask[8];
    for (int i = 0; i < 8; ++i) mask[i] = i < fixed ? ~0u : 0u;
    cc_.vmovups(def(op.dst), pool_vector(mask));
    return;
  }
  const x86::Xmm narrow = cc_.newXmm();
  const Vec wide = new_vec(lanes);
  cc_.vmovd(narrow, count.r32());
  cc_.vpbroadcastd(wide, narrow);
  cc_.vpcmpgtd(def(op.dst), wide, pool_vector({0, 1, 2, 3, 4, 5, 6, 7}));
}

void VectorEmitter::emit(const ir::Prefetch& op) {
  const x86::Mem src = integers_.address(op.src);
  switch (op.locality) {
    case 0:
      cc_.prefetcht0(src);
      break;
    case 1:
      cc_.prefetcht1(src);
      break;
    default:
      cc_.prefetcht2(src);
  }
}

const asmjit::BaseReg& VectorEmitter::reg(const ir::RegRef& r, Role role) {
  const ir::Register& decl = kernel_.registers[static_cast<size_t>(r.reg)];
  int& element = elements_[static_cast<size_t>(r.reg)][register_element(decl, r, integers_.env())];
  const bool mask_register = decl.type.mask && avx512_;
  if (element < 0) {
    element = static_cast<int>(virtual_.size());
    virtual_.push_back(mask_register ? asmjit::BaseReg(cc_.newKw()) : asmjit::BaseReg(new_vec(decl.type.lanes)));
  }
  if (!mask_register && role == Role::kUse) {
    lifetimes_.use(element);
    uses_.push_back(element);
  } else if (!mask_register) {
    lifetimes_.define(element);
    definition_ = element;
  }
  return virtual_[static_cast<size_t>(element)];
}

bool VectorEmitter::foldable(const ir::Load& op) const {
  return !op.mask.valid() && type(op.dst).lanes > 1 && !widens(op.src);
}

void VectorEmitter::record(bool load, bool store) {
  asmjit::BaseNode* const last = cc_.cursor();
  if (!last->isInst()) return;  // after an error, which is reported in the end
  for (const int element : uses_) folding_.use(element, last->as<asmjit::InstNode>());
  if (definition_ >= 0) folding_.define(definition_, load ? last->as<asmjit::InstNode>() : nullptr);
  if (store) folding_.store();
}

void VectorEmitter::fold() {
  const size_t registers = avx512_ ? 32 : 16;
  folding_.apply(cc_, registers, [this](uint32_t bits, const Vec& reg) {
    return splat_operand(bits, static_cast<int>(reg.size() / sizeof(float)));
  });
}

void VectorEmitter::keep_in_memory(int element, asmjit::BaseNode* before, asmjit::BaseNode* after) {
  if (before == after) return;  // no code in between (a move to itself is none): nothing to make room for
  const auto at = static_cast<size_t>(element);
  const Vec reg = virtual_[at].as<Vec>();
  memory_.resize(virtual_.size());
  if (!memory_[at].hasBase()) memory_[at] = cc_.newStack(reg.size(), reg.size());
  asmjit::BaseNode* here = cc_.setCursor(before);
  cc_.vmovups(memory_[at], reg);
  cc_.setCursor(after);
  cc_.vmovups(reg, memory_[at]);
  cc_.setCursor(here);
}

VectorEmitter::Vec VectorEmitter::new_vec(int lanes) {
  if (lanes == 16) return cc_.newZmm();
  if (lanes == 8) return cc_.newYmm();
  return cc_.newXmm();
}

x86::Mem VectorEmitter::pool(uint32_t bits) { return cc_.newUInt32Const(asmjit::ConstPoolScope::kGlobal, bits); }

x86::Mem VectorEmitter::pool_vector(const uint32_t (&lanes)[8]) {
  return cc_.newConst(asmjit::ConstPoolScope::kGlobal, lanes, sizeof(lanes));
}

x86::Mem VectorEmitter::splat_operand(uint32_t bits, int lanes) {
  if (!avx512_) return pool_vector({bits, bits, bits, bits, bits, bits, bits, bits});
  if (lanes == 16) return pool(bits)._1to16();
  if (lanes == 8) return pool(bits)._1to8();
  return pool(bits)._1to4();
}

VectorEmitter::Vec VectorEmitter::memory_mask(const ir::RegRef& mask) {
  const Vec lanes = use(mask);
  if (type(mask).lanes != 1) return lanes;
  // Only lane 0 of a scalar's mask is defined; vmaskmovps would act on the others.
  const x86::Xmm lane0 = cc_.newXmm();
  cc_.vinsertps(lane0, lanes.xmm(), lanes.xmm(), 0x0e);
  return lane0;
}

}  // namespace hone::jit
