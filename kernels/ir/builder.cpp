// See builder.h.
#include "kernels/ir/builder.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>

namespace hone::ir {
namespace {

// `name`, or with the first of _1, _2 .. behind it that no entry has. In one pass over the list: lowering calls it for
// every variable, many of which have one name.
template <typename Named>
std::string unlike(const std::vector<Named>& list, const std::string& name) {
  std::vector<bool> taken(list.size() + 2);  // by number; 0 is the name alone
  for (const Named& entry : list) {
    std::string_view rest = entry.name;
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    if (rest.empty()) taken[0] = true;
    if (rest.size() < 2 || rest[0] != '_' || rest[1] == '0') continue;
    size_t number = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    if (error == std::errc() && end == rest.data() + rest.size() && number < taken.size()) taken[number] = true;
  }
  const auto number = std::find(taken.begin(), taken.end(), false) - taken.begin();
  return number == 0 ? name : name + "_" + std::to_string(number);
}

}  // namespace

Builder::Builder(std::string kernel_name) : open_(1) { kernel_.name = std::move(kernel_name); }

VarId Builder::param(std::string name) { return new_var(name, VarKind::kParam); }

BufferId Builder::buffer(Buffer buffer) {
  kernel_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(kernel_.buffers.size() - 1);
}

RegId Builder::reg(std::string name, RegType type, std::vector<int64_t> dims) {
  kernel_.registers.push_back({unlike(kernel_.registers, name), type, std::move(dims)});
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
void Builder::pairs(RegRef dst, RegRef a, RegRef b) { push({Pairs{std::move(dst), std::move(a), std::move(b)}}); }
void Builder::dot_pairs(RegRef dst, RegRef a, RegRef b, RegRef c) {
  push({DotPairs{std::move(dst), std::move(a), std::move(b), std::move(c)}});
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
  kernel_.vars.push_back({unlike(kernel_.vars, name), kind});
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
