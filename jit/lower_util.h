// What a compiling code generator works out of LoopIR before it emits anything, whatever library emits it: which
// variables are compile-time constants at the current point of the expansion, and what an access is once they are
// folded away.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/ir/task.h"

namespace hone::jit {

// A kernel that expands to more statements than this is refused: it is a blocking mistake, not a kernel (L1 instruction
// caches hold about 5 000 vector instructions), and code generators take time and memory in proportion.
inline constexpr int64_t kMaxExpandedStatements = 200'000;

// Values of the variables that are constants here: unrolled and specialised variables, lets of constants, loops that
// run once.
class ConstEnv {
 public:
  explicit ConstEnv(size_t num_vars) : values_(num_vars) {}

  void bind(ir::VarId v, int64_t value) { values_[static_cast<size_t>(v)] = value; }
  void unbind(ir::VarId v) { values_[static_cast<size_t>(v)].reset(); }
  std::optional<int64_t> value(ir::VarId v) const { return values_[static_cast<size_t>(v)]; }
  // The value of e when all its variables are bound.
  std::optional<int64_t> constant(const ir::Affine& e) const;
  // e with the bound variables replaced by their values.
  ir::Affine fold(const ir::Affine& e) const;

 private:
  std::vector<std::optional<int64_t>> values_;
};

// The constant result of a let, when its arguments decide it.
std::optional<int64_t> constant_let(const ir::Let& let, const ConstEnv& env);

// Element number within the flattened tile (last dimension fastest). Indices must be constant in env.
size_t register_element(const ir::Register& reg, const ir::RegRef& ref, const ConstEnv& env);
// Number of elements of a register or tile.
size_t register_elements(const ir::Register& reg);

// Byte address of an access: base + sum(terms) + sum(products) + offset. Accesses that differ only in `offset` share a
// pointer; that is what makes an unrolled register tile cheap to address.
struct Address {
  // coef * value(stride) * value(index): a runtime stride times a variable.
  struct Product {
    ir::VarId stride, index;
    int64_t coef;
    bool operator==(const Product&) const = default;
  };
  static constexpr ir::BufferId kWorkspace = -1;

  ir::BufferId base = kWorkspace;       // an argument buffer, or the workspace (all workspace buffers share one base)
  std::vector<ir::Affine::Term> terms;  // sorted by variable, coefficients in bytes, never 0
  std::vector<Product> products;
  int64_t offset = 0;
};

class AddressResolver {
 public:
  explicit AddressResolver(const ir::Kernel& kernel) : kernel_(kernel), offsets_(ir::workspace_offsets(kernel)) {}
  // Overwrites `out` (an argument, so that its vectors are allocated once per kernel and not once per access).
  void resolve(const ir::Access& access, const ConstEnv& env, Address& out) const;

 private:
  const ir::Kernel& kernel_;
  std::vector<int64_t> offsets_;
};

// n / d is (n * factor) >> (64 + shift) for 0 <= n < 2^63, where a division would cost ten times as much. d >= 2 and no
// power of two.
struct Reciprocal {
  uint64_t factor;
  int shift;
};
Reciprocal reciprocal(uint64_t d);

// Arithmetic on byte offsets. A prefetch may name any address, so overflow wraps instead of being undefined.
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace hone::jit
