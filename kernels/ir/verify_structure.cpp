// Ids, names, ranks, types, scopes and the shape of the nest. The kernel may come from text or from a builder with a
// bug: nothing is assumed here, everything is checked before it is used as an index.
#include <algorithm>
#include <bit>
#include <set>

#include "kernels/ir/spelling_internal.h"
#include "kernels/ir/task.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify_internal.h"

namespace hone::ir {
namespace {

__extension__ typedef __int128 Wide;

constexpr size_t kMaxRank = 8;
constexpr int64_t kMaxSlots = 4096;                    // vector registers, tiles included
constexpr Wide kMaxWorkspaceElements = Wide{1} << 36;  // also bounds what an interpreter's caller allocates

Status refuse_kernel(const Kernel& kernel, const std::string& what) {
  return invalid_argument("kernel '" + kernel.name + "': " + what);
}

// A constant or exactly one parameter.
bool is_size(const Kernel& kernel, const Affine& e) {
  if (e.is_constant()) return e.constant() >= 0 && e.constant() <= kMaxConstant;
  if (e.terms().size() != 1 || e.constant() != 0 || e.terms().front().coef != 1) return false;
  const VarId v = e.terms().front().var;
  return v >= 0 && static_cast<size_t>(v) < kernel.vars.size() &&
         kernel.vars[static_cast<size_t>(v)].kind == VarKind::kParam;
}

template <typename T>
Status check_names(const Kernel& kernel, const std::vector<T>& items, const char* what) {
  std::set<std::string_view> seen;
  for (const T& item : items) {
    if (!is_name(item.name))
      return refuse_kernel(kernel, std::string(what) + " '" + item.name + "' is not a name the text form can spell");
    if (!seen.insert(item.name).second)
      return refuse_kernel(kernel, "two " + std::string(what) + "s are named '" + item.name + "'");
  }
  return {};
}

// Distinct indices must be distinct elements: each dimension steps over all those with smaller strides. Runtime
// strides, and what lies beyond a runtime extent, are the caller's promise.
bool overlaps_itself(const Buffer& b) {
  constexpr int64_t kRuntime = -1;
  struct Dim {
    int64_t stride, extent;
  };
  std::vector<Dim> dims;
  for (size_t d = 0; d < b.extents.size(); ++d) {
    const int64_t extent = b.extents[d].is_constant() ? b.extents[d].constant() : kRuntime;
    if (extent == 0) return false;
    if (extent != 1 && b.strides[d].is_constant()) dims.push_back({b.strides[d].constant(), extent});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& x, const Dim& y) { return x.stride < y.stride; });
  Wide span = 0;  // of the dimensions so far
  for (const Dim& d : dims) {
    if (d.stride <= span) return true;
    if (d.extent == kRuntime) return false;
    span += Wide{d.stride} * (d.extent - 1);
  }
  return false;
}

Status check_buffer(const Kernel& kernel, const Buffer& b) {
  const auto bad = [&](const std::string& what) { return refuse_kernel(kernel, "buffer '" + b.name + "': " + what); };
  if (b.extents.empty() || b.extents.size() > kMaxRank)
    return bad("has " + std::to_string(b.extents.size()) + " dimensions, expected 1.." + std::to_string(kMaxRank));
  if (b.strides.size() != b.extents.size())
    return bad("has " + std::to_string(b.extents.size()) + " extents but " + std::to_string(b.strides.size()) +
               " strides");
  if (dtype_bytes(b.dtype) != 4 && b.scope != Scope::kIn)
    return bad(std::string(dtype_name(b.dtype)) + " is for `in` buffers");
  if (b.align <= 0 || !std::has_single_bit(static_cast<uint64_t>(b.align)))
    return bad("alignment " + std::to_string(b.align) + " is not a power of two");
  if (!(b.strides.back() == Affine(1)))
    return bad("the last stride is " + print_affine(kernel, b.strides.back()) + ", expected 1");
  const bool workspace = b.scope == Scope::kWorkspace;
  Wide span = 1;
  for (size_t d = 0; d < b.extents.size(); ++d) {
    for (const Affine* e : {&b.extents[d], &b.strides[d]}) {
      if (!is_size(kernel, *e)) return bad("`" + print_affine(kernel, *e) + "` is neither a size nor a parameter");
      if (workspace && !e->is_constant()) return bad("a workspace needs constant sizes");
    }
    if (b.extents[d].is_constant() && b.strides[d].is_constant())
      span += Wide{std::max<int64_t>(b.extents[d].constant() - 1, 0)} * b.strides[d].constant();
  }
  if (span > kMaxConstant || (workspace && span > kMaxWorkspaceElements)) return bad("is too large");
  if (workspace && b.align > kWorkspaceAlign)
    return bad("a workspace is aligned to " + std::to_string(kWorkspaceAlign) + " bytes at most");
  if (b.scope != Scope::kIn && overlaps_itself(b))
    return bad("is written, but its strides make different indices the same element");
  return {};
}

Status check_registers(const Kernel& kernel) {
  Wide slots = 0;
  for (const Register& r : kernel.registers) {
    const auto bad = [&](const std::string& what) {
      return refuse_kernel(kernel, "register '" + r.name + "': " + what);
    };
    const int lanes = r.type.lanes;
    if (lanes != 1 && lanes != 4 && lanes != 8 && lanes != 16)
      return bad(std::to_string(lanes) + " lanes, expected 1, 4, 8 or 16");
    if (!r.type.mask && dtype_bytes(r.type.dtype) != 4) return bad("its element type is not supported");
    if (r.dims.size() > kMaxRank) return bad("too many dimensions");
    Wide size = 1;
    for (int64_t d : r.dims) {
      if (d < 1 || d > kMaxSlots)
        return bad("dimension " + std::to_string(d) + " is not in 1.." + std::to_string(kMaxSlots));
      size = std::min(size * d, Wide{kMaxSlots} + 1);
    }
    slots += size;
    if (slots > kMaxSlots) return bad("more than " + std::to_string(kMaxSlots) + " registers");
  }
  return {};
}

// Checks statements, with the variables in scope at hand. Each check returns "" or what is wrong.
class Structure {
 public:
  explicit Structure(const Kernel& kernel)
      : kernel_(kernel), scope_(kernel.vars.size(), 0), defined_(kernel.vars.size(), 0) {
    for (VarId v : kernel.params()) scope_[static_cast<size_t>(v)] = defined_[static_cast<size_t>(v)] = 1;
    // task_nest() itself trusts the ids.
    for (const Block* b = &kernel.body; b->size() == 1; b = &(*task_loops_.rbegin())->body) {
      const For* loop = std::get_if<For>(&b->front().node);
      if (loop == nullptr || !var_ok(loop->var) || kind(loop->var) != VarKind::kParallel) break;
      task_loops_.push_back(loop);  // more than kMaxParallelLoops are refused when they are reached
    }
  }

  Status run() {
    block(kernel_.body, 0);
    return status_;
  }

 private:
  using Text = std::string;

  void block(const Block& statements, int depth) {
    std::vector<VarId> lets;
    for (const Stmt& s : statements) {
      if (!status_.ok()) return;
      if (depth > kMaxDepth) {
        status_ = refuse_kernel(kernel_, "blocks nest deeper than " + std::to_string(kMaxDepth));
        return;
      }
      const Text wrong = std::visit([&](const auto& node) { return check(node); }, s.node);
      if (!wrong.empty()) {
        status_ = refuse(kernel_, s, wrong);
        return;
      }
      if (const Let* let = std::get_if<Let>(&s.node)) lets.push_back(let->var);
      if (const LetLoad* let = std::get_if<LetLoad>(&s.node)) lets.push_back(let->var);
      if (const For* f = std::get_if<For>(&s.node)) scoped(f->var, f->body, depth);
      if (const Specialise* p = std::get_if<Specialise>(&s.node)) scoped(p->var, p->body, depth);
      if (const If* c = std::get_if<If>(&s.node)) block(c->then_body, depth + 1), block(c->else_body, depth + 1);
    }
    for (VarId v : lets) scope_[static_cast<size_t>(v)] = 0;
  }
  void scoped(VarId v, const Block& body, int depth) {
    block(body, depth + 1);
    scope_[static_cast<size_t>(v)] = 0;
  }

  // ---- pieces ----
  bool var_ok(VarId v) const { return v >= 0 && static_cast<size_t>(v) < kernel_.vars.size(); }
  VarKind kind(VarId v) const { return kernel_.vars[static_cast<size_t>(v)].kind; }

  Text affine(const Affine& e) const {
    bool small = e.constant() <= kMaxConstant && e.constant() >= -kMaxConstant;
    for (const Affine::Term& t : e.terms()) {
      if (!var_ok(t.var) || !scope_[static_cast<size_t>(t.var)])
        return "`" + print_affine(kernel_, e) + "` uses a variable that has no value here";
      small = small && t.coef <= kMaxConstant && t.coef >= -kMaxConstant;
    }
    return small ? "" : "a number is beyond 2^60";
  }
  // Only unrolled and specialised variables: constant once code is generated.
  Text constant_affine(const Affine& e) const {
    if (Text wrong = affine(e); !wrong.empty()) return wrong;
    for (const Affine::Term& t : e.terms())
      if (kind(t.var) != VarKind::kUnrolled && kind(t.var) != VarKind::kSpecialised)
        return "`" + print_affine(kernel_, e) + "` is not a compile-time constant: '" +
               kernel_.vars[static_cast<size_t>(t.var)].name + "' is neither unrolled nor specialised";
    return "";
  }
  Text define(VarId v, std::initializer_list<VarKind> kinds) {
    if (!var_ok(v)) return "no such variable";
    if (std::find(kinds.begin(), kinds.end(), kind(v)) == kinds.end()) return "the variable is of another kind";
    if (defined_[static_cast<size_t>(v)]) return "the variable is defined twice";
    scope_[static_cast<size_t>(v)] = defined_[static_cast<size_t>(v)] = 1;
    return "";
  }
  Text reg(const RegRef& r) const {
    if (r.reg < 0 || static_cast<size_t>(r.reg) >= kernel_.registers.size()) return "no such register";
    const Register& decl = kernel_.registers[static_cast<size_t>(r.reg)];
    if (r.index.size() != decl.dims.size())
      return "register '" + decl.name + "' has " + std::to_string(decl.dims.size()) + " dimensions, not " +
             std::to_string(r.index.size());
    for (const Affine& e : r.index)
      if (Text wrong = constant_affine(e); !wrong.empty()) return wrong;
    return "";
  }
  const RegType& type(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type; }
  const Text& reg_name(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].name; }

  // Every register exists and is a vector of this type.
  Text vectors(RegType want, std::initializer_list<const RegRef*> regs) const {
    for (const RegRef* r : regs) {
      if (Text wrong = reg(*r); !wrong.empty()) return wrong;
      const RegType& t = type(*r);
      if (t.mask != want.mask || t.lanes != want.lanes || (!t.mask && t.dtype != want.dtype))
        return "register '" + reg_name(*r) + "' is " + spell(t) + ", expected " + spell(want);
    }
    return "";
  }
  static Text spell(const RegType& t) {
    return (t.mask ? "mask" : std::string(dtype_name(t.dtype)) + "x") + std::to_string(t.lanes);
  }
  Text mask(const RegRef& m, int lanes) const { return vectors({.lanes = lanes, .mask = true}, {&m}); }
  Text optional_mask(const RegRef& m, int lanes) const { return m.valid() ? mask(m, lanes) : ""; }
  // The type all operands of an f32 op share: the lanes of dst.
  Text floats(const RegRef& dst, std::initializer_list<const RegRef*> others) const {
    if (Text wrong = reg(dst); !wrong.empty()) return wrong;
    const RegType want{.dtype = DType::kF32, .lanes = type(dst).lanes};
    if (Text wrong = vectors(want, {&dst}); !wrong.empty()) return wrong;
    return vectors(want, others);
  }

  Text access(const Access& a) const {
    if (a.buffer < 0 || static_cast<size_t>(a.buffer) >= kernel_.buffers.size()) return "no such buffer";
    const Buffer& b = kernel_.buffers[static_cast<size_t>(a.buffer)];
    if (a.index.size() != b.extents.size())
      return "buffer '" + b.name + "' has " + std::to_string(b.extents.size()) + " dimensions, not " +
             std::to_string(a.index.size());
    for (size_t d = 0; d < a.index.size(); ++d) {
      if (Text wrong = affine(a.index[d]); !wrong.empty()) return wrong;
      if (!b.strides[d].is_constant()) continue;
      for (const Affine::Term& t : a.index[d].terms())
        if (std::max(Wide{t.coef}, -Wide{t.coef}) * b.strides[d].constant() > kMaxConstant)
          return "an address is beyond 2^60";
    }
    return "";
  }
  DType element(const Access& a) const { return kernel_.buffers[static_cast<size_t>(a.buffer)].dtype; }
  bool narrow(const Access& a) const { return dtype_bytes(element(a)) != 4; }
  Text only_loaded(const Access& a) const {
    return "'" + kernel_.buffers[static_cast<size_t>(a.buffer)].name + "' holds " +
           std::string(dtype_name(element(a))) + ", which is only loaded" +
           (element(a) == DType::kU8 ? "" : " or broadcast") + " without a mask";
  }
  // Buffer element type against register type.
  Text moves(const Access& a, const RegRef& r) const {
    if (Text wrong = access(a); !wrong.empty()) return wrong;
    if (Text wrong = reg(r); !wrong.empty()) return wrong;
    if (narrow(a)) return only_loaded(a);
    return vectors({.dtype = element(a), .lanes = type(r).lanes}, {&r});
  }
  Text widens(const Access& a, const RegRef& r) const {
    if (Text wrong = access(a); !wrong.empty()) return wrong;
    if (Text wrong = reg(r); !wrong.empty()) return wrong;
    return vectors({.dtype = register_dtype(element(a)), .lanes = type(r).lanes}, {&r});
  }

  // ---- statements ----
  Text check(const Const& s) const {
    if (Text wrong = reg(s.dst); !wrong.empty()) return wrong;
    return type(s.dst).mask ? "a mask has no constant; use lanes(...)" : "";
  }
  Text check(const Load& s) const {
    if (Text wrong = access(s.src); !wrong.empty()) return wrong;
    if (narrow(s.src) && s.mask.valid()) return only_loaded(s.src);
    if (Text wrong = widens(s.src, s.dst); !wrong.empty()) return wrong;
    return optional_mask(s.mask, type(s.dst).lanes);
  }
  Text check(const Broadcast& s) const {
    if (Text wrong = access(s.src); !wrong.empty()) return wrong;
    return element(s.src) == DType::kU8 ? only_loaded(s.src) : widens(s.src, s.dst);
  }
  Text check(const Store& s) const {
    if (Text wrong = moves(s.dst, s.src); !wrong.empty()) return wrong;
    const Buffer& b = kernel_.buffers[static_cast<size_t>(s.dst.buffer)];
    if (b.scope == Scope::kIn) return "buffer '" + b.name + "' is read only";
    return optional_mask(s.mask, type(s.src).lanes);
  }
  Text check(const Binary& s) const {
    if (Text wrong = reg(s.dst); !wrong.empty()) return wrong;
    const bool integer = type(s.dst).dtype == DType::kS32 && !type(s.dst).mask;
    if (!integer) return floats(s.dst, {&s.a, &s.b});
    if (s.op != BinaryOp::kAdd && s.op != BinaryOp::kSub) return "s32 has add and sub only";
    return vectors(type(s.dst), {&s.a, &s.b});
  }
  Text check(const Fma& s) const { return floats(s.dst, {&s.a, &s.b, &s.c}); }
  // `pairs` and `floats` have as many lanes as `dst`, which AVX512_BF16 has instructions for.
  Text check_pairs(const RegRef& dst, std::initializer_list<const RegRef*> pairs,
                   std::initializer_list<const RegRef*> floats) const {
    if (Text wrong = reg(dst); !wrong.empty()) return wrong;
    const int lanes = type(dst).lanes;
    if (Text wrong = vectors({.dtype = DType::kS32, .lanes = lanes}, pairs); !wrong.empty()) return wrong;
    if (Text wrong = vectors({.dtype = DType::kF32, .lanes = lanes}, floats); !wrong.empty()) return wrong;
    return lanes < 4 ? "pairs of bf16 have 4, 8 or 16 lanes, not " + std::to_string(lanes) : "";
  }
  Text check(const Pairs& s) const { return check_pairs(s.dst, {&s.dst}, {&s.a, &s.b}); }
  Text check(const DotPairs& s) const { return check_pairs(s.dst, {&s.a, &s.b}, {&s.dst, &s.c}); }
  Text check(const Unary& s) const {
    if (Text wrong = reg(s.dst); !wrong.empty()) return wrong;
    if (Text wrong = reg(s.src); !wrong.empty()) return wrong;
    const RegType f32{.dtype = DType::kF32, .lanes = type(s.dst).lanes},
        s32{.dtype = DType::kS32, .lanes = type(s.dst).lanes};
    if (s.op != UnaryOp::kShl && s.imm != 0) return "only shl has a number";
    auto types = [&](const RegType& dst, const RegType& src) {
      Text wrong = vectors(dst, {&s.dst});
      return wrong.empty() ? vectors(src, {&s.src}) : wrong;
    };
    switch (s.op) {
      case UnaryOp::kMove:
        return type(s.dst).mask ? "masks are not moved" : vectors(type(s.dst), {&s.src});
      case UnaryOp::kNeg:
      case UnaryOp::kAbs:
      case UnaryOp::kRound:
      case UnaryOp::kSqrt:
        return types(f32, f32);
      case UnaryOp::kToInt:
        return types(s32, f32);
      case UnaryOp::kToFloat:
        return types(f32, s32);
      case UnaryOp::kBitcast:
        return type(s.dst).dtype == DType::kF32 ? types(f32, s32) : types(s32, f32);
      case UnaryOp::kShl:
        return s.imm < 0 || s.imm > 31 ? "a shift is 0..31" : types(s32, s32);
    }
    return "unknown operation";
  }
  Text check(const Compare& s) const {
    if (Text wrong = floats(s.a, {&s.b}); !wrong.empty()) return wrong;
    return mask(s.dst, type(s.a).lanes);
  }
  Text check(const Select& s) const {
    if (Text wrong = reg(s.dst); !wrong.empty()) return wrong;
    if (type(s.dst).mask) return "select chooses between vectors, not masks";
    if (Text wrong = vectors(type(s.dst), {&s.a, &s.b}); !wrong.empty()) return wrong;
    return mask(s.mask, type(s.dst).lanes);
  }
  Text check(const Permute& s) const {
    if (Text wrong = reg(s.dst); !wrong.empty()) return wrong;
    const RegType& t = type(s.dst);
    if (t.mask) return "masks are not permuted";
    if (t.lanes < 4 || (s.op == PermuteOp::kGroups && t.lanes < 8)) return "too few lanes to permute";
    if (s.op == PermuteOp::kGroups ? (s.imm & ~(t.lanes == 8 ? 0x33 : 0xff)) != 0 : s.imm != 0)
      return "the choice of groups has bits that mean nothing";
    return vectors(t, {&s.a, &s.b});
  }
  Text check(const LaneMask& s) const {
    if (Text wrong = reg(s.dst); !wrong.empty()) return wrong;
    if (Text wrong = mask(s.dst, type(s.dst).lanes); !wrong.empty()) return wrong;
    return affine(s.count);
  }
  Text check(const Prefetch& s) const {
    if (s.locality < 0 || s.locality > 2) return "locality is 0, 1 or 2";
    if (Text wrong = access(s.src); !wrong.empty()) return wrong;
    return element(s.src) == DType::kU8 ? only_loaded(s.src) : "";
  }

  Text check(const For& s) {
    for (const Affine* e : {&s.lo, &s.hi})
      if (Text wrong = affine(*e); !wrong.empty()) return wrong;
    if (s.step < 1 || s.step > kMaxConstant) return "a step is at least 1";
    if (Text wrong = define(s.var, {VarKind::kLoop, VarKind::kParallel, VarKind::kUnrolled}); !wrong.empty())
      return wrong;
    if (kind(s.var) == VarKind::kUnrolled) {
      Text wrong = constant_affine(s.lo);
      return wrong.empty() ? constant_affine(s.hi) : wrong;
    }
    if (kind(s.var) != VarKind::kParallel) return "";
    if (std::find(task_loops_.begin(), task_loops_.end(), &s) == task_loops_.end())
      return "parallel loops must be outermost, one directly inside the other, with nothing beside them";
    if (task_loops_.size() > static_cast<size_t>(kMaxParallelLoops))
      return "more than " + std::to_string(kMaxParallelLoops) + " parallel loops";
    for (const Affine* e : {&s.lo, &s.hi})
      for (const Affine::Term& t : e->terms())
        if (kind(t.var) != VarKind::kParam) return "the bounds of parallel loops use parameters and constants only";
    return "";
  }
  Text check(const Let& s) {
    if (s.args.empty() || s.args.size() > 8 || (s.op == LetOp::kFloorDiv && s.args.size() != 1))
      return "wrong number of arguments";
    if (s.divisor < 1 || s.divisor > kMaxConstant || (s.op != LetOp::kFloorDiv && s.divisor != 1))
      return "a divisor is at least 1";
    for (const Affine& e : s.args)
      if (Text wrong = affine(e); !wrong.empty()) return wrong;
    return define(s.var, {VarKind::kLet});
  }
  Text check(const LetLoad& s) {
    if (Text wrong = access(s.table); !wrong.empty()) return wrong;
    const Buffer& b = kernel_.buffers[static_cast<size_t>(s.table.buffer)];
    if (b.scope != Scope::kIn || b.dtype != DType::kS32 || b.extents.size() != 1)
      return "a table of indices is an `in` buffer of s32 with one dimension, which '" + b.name + "' is not";
    if (Text wrong = affine(s.below); !wrong.empty()) return wrong;
    for (const Affine::Term& t : s.below.terms())
      if (kind(t.var) != VarKind::kParam) return "the bound of a loaded index uses parameters and constants only";
    return define(s.var, {VarKind::kLet});
  }
  Text check(const Specialise& s) {
    if (Text wrong = affine(s.value); !wrong.empty()) return wrong;
    if (s.lo > s.hi || s.lo < -kMaxConstant || s.hi > kMaxConstant) return "the range of values is empty or too large";
    return define(s.var, {VarKind::kSpecialised});
  }
  Text check(const If& s) const { return affine(s.expr); }

  const Kernel& kernel_;
  std::vector<uint8_t> scope_, defined_;  // by VarId
  std::vector<const For*> task_loops_;
  Status status_;
};

}  // namespace

Status verify_structure(const Kernel& kernel) {
  if (!is_name(kernel.name)) return refuse_kernel(kernel, "its name is not one the text form can spell");
  HONE_RETURN_IF_ERROR(check_names(kernel, kernel.vars, "variable"));
  HONE_RETURN_IF_ERROR(check_names(kernel, kernel.buffers, "buffer"));
  HONE_RETURN_IF_ERROR(check_names(kernel, kernel.registers, "register"));
  for (const Buffer& b : kernel.buffers) HONE_RETURN_IF_ERROR(check_buffer(kernel, b));
  HONE_RETURN_IF_ERROR(check_registers(kernel));
  return Structure(kernel).run();
}

}  // namespace hone::ir
