// See builder.h.
#include "kernels/ir/builder.h"

#include <algorithm>
#include <bit>

namespace hone::ir {

Builder::Builder(std::string kernel_name) : open_(1) { kernel_.name = std::move(kernel_name); }

VarId Builder::param(std::string name) { return new_var(name, VarKind::kParam); }

BufferId Builder::buffer(Buffer buffer) {
  kernel_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

RegId Builder::reg(std::string name, RegType type, std::vector<int64_t> dims) {
  auto taken = [&](const std::string& n) {
    return std::any_of(kernel_.registers.begin(), kernel_.registers.end(),
                       [&](const Register& r) { return r.name == n; });
  };
  std::string unique = name;
  for (int i = 1; taken(unique); ++i) unique = name + "_" + std::to_string(i);
  kernel_.registers.push_back({std::move(unique), type, std::move(dims)});
  return static_cast<RegId>(kernel_.registers.size() - 1);
}

void Builder::serial(const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body) {
  loop(VarKind::kLoop, name, std::move(lo), std::move(hi), step, body);
}
void Builder::parallel(const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body) {
  loop(VarKind::kParallel, name, std::move(lo), std::move(hi), step, body);
}
void Builder::unroll(const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body) {
  loop(VarKind::kUnrolled, name, std::move(lo), std::move(hi), step, body);
}

void Builder::loop(VarKind kind, const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body) {
  const VarId v = new_var(name, kind);
  Block block = collect([&] { body(Affine::var(v)); });
  push({For{v, std::move(lo), std::move(hi), step, std::move(block)}});
}

void Builder::specialise(const std::string& name, int64_t lo, int64_t hi, Affine value, const Body& body) {
  const VarId v = new_var(name, VarKind::kSpecialised);
  Block block = collect([&] { body(Affine::var(v)); });
  push({Specialise{v, lo, hi, std::move(value), std::move(block)}});
}

void Builder::if_eq_zero(Affine e, const std::function<void()>& then_body, const std::function<void()>& else_body) {
  Block then_block = collect(then_body);
  Block else_block = else_body ? collect(else_body) : Block{};
  push({If{CondOp::kEqZero, std::move(e), std::move(then_block), std::move(else_block)}});
}

void Builder::if_ge_zero(Affine e, const std::function<void()>& then_body, const std::function<void()>& else_body) {
  Block then_block = collect(then_body);
  Block else_block = else_body ? collect(else_body) : Block{};
  push({If{CondOp::kGeZero, std::move(e), std::move(then_block), std::move(else_block)}});
}

Affine Builder::let_min(const std::string& name, std::vector<Affine> args) {
  const VarId v = new_var(name, VarKind::kLet);
  push({Let{v, LetOp::kMin, std::move(args), 1}});
  return Affine::var(v);
}

Affine Builder::let_max(const std::string& name, std::vector<Affine> args) {
  const VarId v = new_var(name, VarKind::kLet);
  push({Let{v, LetOp::kMax, std::move(args), 1}});
  return Affine::var(v);
}

Affine Builder::let_floor_div(const std::string& name, Affine e, int64_t divisor) {
  const VarId v = new_var(name, VarKind::kLet);
  push({Let{v, LetOp::kFloorDiv, {std::move(e)}, divisor}});
  return Affine::var(v);
}

Affine Builder::let_load(const std::string& name, Access table, Affine below) {
  const VarId v = new_var(name, VarKind::kLet);
  push({LetLoad{v, std::move(table), std::move(below)}});
  return Affine::var(v);
}

void Builder::constant(RegRef dst, float value) { push({Const{std::move(dst), std::bit_cast<uint32_t>(value)}}); }
void Builder::constant_s32(RegRef dst, int32_t value) { push({Const{std::move(dst), static_cast<uint32_t>(value)}}); }
void Builder::load(RegRef dst, Access src, RegRef mask) {
  push({Load{std::move(dst), std::move(src), std::move(mask)}});
}
void Builder::broadcast(RegRef dst, Access src) { push({Broadcast{std::move(dst), std::move(src)}}); }
void Builder::store(Access dst, RegRef src, RegRef mask) {
  push({Store{std::move(dst), std::move(src), std::move(mask)}});
}
void Builder::binary(BinaryOp op, RegRef dst, RegRef a, RegRef b) {
  push({Binary{op, std::move(dst), std::move(a), std::move(b)}});
}
void Builder::fma(RegRef dst, RegRef a, RegRef b, RegRef c) {
  push({Fma{std::move(dst), std::move(a), std::move(b), std::move(c)}});
}
void Builder::unary(UnaryOp op, RegRef dst, RegRef src, int imm) {
  push({Unary{op, std::move(dst), std::move(src), imm}});
}
void Builder::compare(CompareOp op, RegRef mask, RegRef a, RegRef b) {
  push({Compare{op, std::move(mask), std::move(a), std::move(b)}});
}
void Builder::select(RegRef dst, RegRef mask, RegRef a, RegRef b) {
  push({Select{std::move(dst), std::move(mask), std::move(a), std::move(b)}});
}
void Builder::permute(PermuteOp op, RegRef dst, RegRef a, RegRef b, int imm) {
  push({Permute{op, std::move(dst), std::move(a), std::move(b), imm}});
}
void Builder::lane_mask(RegRef dst, Affine count) { push({LaneMask{std::move(dst), std::move(count)}}); }
void Builder::prefetch(Access src, int locality) { push({Prefetch{std::move(src), locality}}); }

Kernel Builder::finish() {
  kernel_.body = std::move(open_.front());
  return std::move(kernel_);
}

VarId Builder::new_var(const std::string& name, VarKind kind) {
  auto taken = [&](const std::string& n) {
    return std::any_of(kernel_.vars.begin(), kernel_.vars.end(), [&](const Var& v) { return v.name == n; });
  };
  std::string unique = name;
  for (int i = 1; taken(unique); ++i) unique = name + "_" + std::to_string(i);
  kernel_.vars.push_back({std::move(unique), kind});
  return static_cast<VarId>(kernel_.vars.size() - 1);
}

void Builder::push(Stmt stmt) { open_.back().push_back(std::move(stmt)); }

Block Builder::collect(const std::function<void()>& body) {
  open_.emplace_back();
  body();
  Block block = std::move(open_.back());
  open_.pop_back();
  return block;
}

}  // namespace hone::ir
