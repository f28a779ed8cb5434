// Builds LoopIR without writing node literals. The builder keeps a stack of open blocks; loops take their body as a
// callable:
//
//   Builder b("copy");
//   VarId n = b.param("n");
//   BufferId x = b.buffer({.name = "x", .scope = Scope::kIn, .extents = {Affine::var(n)}, .strides = {1}});
//   Reg a = b.reg("a", {.lanes = 16});
//   b.serial("i", 0, Affine::var(n), 16, [&](Affine i) { b.load(a, {x, {i}}); ... });
//   Kernel k = b.finish();
#pragma once

#include <functional>
#include <string>

#include "kernels/ir/ir.h"

namespace hone::ir {

class Builder {
 public:
  explicit Builder(std::string kernel_name);

  VarId param(std::string name);
  BufferId buffer(Buffer buffer);
  // Declares a register or tile. A name that is taken gets a numeric suffix.
  RegId reg(std::string name, RegType type, std::vector<int64_t> dims = {});
  static RegRef at(RegId r, std::vector<Affine> index = {}) { return {r, std::move(index)}; }

  using Body = std::function<void(Affine)>;
  void serial(const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body);
  void parallel(const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body);
  void unroll(const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body);
  void specialise(const std::string& name, int64_t lo, int64_t hi, Affine value, const Body& body);
  void if_eq_zero(Affine e, const std::function<void()>& then_body, const std::function<void()>& else_body = {});
  void if_ge_zero(Affine e, const std::function<void()>& then_body, const std::function<void()>& else_body = {});

  Affine let_min(const std::string& name, std::vector<Affine> args);
  Affine let_max(const std::string& name, std::vector<Affine> args);
  Affine let_floor_div(const std::string& name, Affine e, int64_t divisor);
  Affine let_load(const std::string& name, Access table, Affine below);

  void constant(RegRef dst, float value);
  void constant_s32(RegRef dst, int32_t value);
  void load(RegRef dst, Access src, RegRef mask = {});
  void broadcast(RegRef dst, Access src);
  void store(Access dst, RegRef src, RegRef mask = {});
  void binary(BinaryOp op, RegRef dst, RegRef a, RegRef b);
  void fma(RegRef dst, RegRef a, RegRef b, RegRef c);
  void pairs(RegRef dst, RegRef a, RegRef b);
  void dot_pairs(RegRef dst, RegRef a, RegRef b, RegRef c);
  void unary(UnaryOp op, RegRef dst, RegRef src, int imm = 0);
  void compare(CompareOp op, RegRef mask, RegRef a, RegRef b);
  void select(RegRef dst, RegRef mask, RegRef a, RegRef b);
  void permute(PermuteOp op, RegRef dst, RegRef a, RegRef b, int imm = 0);
  void lane_mask(RegRef dst, Affine count);
  void prefetch(Access src, int locality);

  Kernel finish();

 private:
  VarId new_var(const std::string& name, VarKind kind);
  void push(Stmt stmt);
  void loop(VarKind kind, const std::string& name, Affine lo, Affine hi, int64_t step, const Body& body);
  Block collect(const std::function<void()>& body);

  Kernel kernel_;
  std::vector<Block> open_;
};

}  // namespace hone::ir
