// Registers are initialised before use and tile indices are in range: walks the kernel the way a code generator unrolls
// it, with the values of unrolled and specialised variables at hand, and keeps the set of registers written so far.
//
//   serial loop    the body is walked once from the state at entry (later iterations know more); it may run zero times,
//   so
//                  afterwards only what was known before holds, unless constant bounds say otherwise
//   if             both branches from the same state; afterwards what both wrote. Constant conditions are not folded,
//                  because a generator need not fold them
//   specialise     every version from the same state; afterwards what all wrote
//
// The walk also bounds the code: a kernel that would unroll into more than kMaxUnrolled statements is refused.
#include <algorithm>
#include <optional>

#include "kernels/ir/text.h"
#include "kernels/ir/verify_internal.h"

namespace hone::ir {
namespace {

__extension__ typedef __int128 Wide;

// A 28x16 tile of versions 1..28 with k unrolled 8 times expands to some 30 000 statements.
constexpr int64_t kMaxUnrolled = 1'000'000;

using State = std::vector<uint8_t>;  // by slot: written on every path so far?

class Walk {
 public:
  explicit Walk(const Kernel& kernel) : kernel_(kernel), values_(kernel.vars.size()) {
    int64_t slots = 0;
    for (const Register& r : kernel.registers) {
      base_.push_back(slots);
      int64_t size = 1;
      for (int64_t d : r.dims) size *= d;
      slots += size;
    }
    state_.assign(static_cast<size_t>(slots), 0);
  }

  Status run() {
    block(kernel_.body);
    return status_;
  }

 private:
  bool stopped() const { return !status_.ok(); }
  void fail(const std::string& what) {
    if (status_.ok()) status_ = refuse(kernel_, *at_, what);
  }

  Wide value(const Affine& e) const {
    Wide v = e.constant();
    for (const Affine::Term& t : e.terms()) v += Wide{t.coef} * values_[static_cast<size_t>(t.var)];
    return v;
  }

  std::string name(const RegRef& r, const std::vector<int64_t>& index) const {
    std::string out = kernel_.registers[static_cast<size_t>(r.reg)].name;
    for (size_t d = 0; d < index.size(); ++d) out += (d ? ", " : "[") + std::to_string(index[d]);
    return out + (index.empty() ? "" : "]");
  }

  std::optional<size_t> slot(const RegRef& r) {
    const Register& reg = kernel_.registers[static_cast<size_t>(r.reg)];
    int64_t at = 0;
    for (size_t d = 0; d < r.index.size(); ++d) {
      const Wide i = value(r.index[d]);
      if (i < 0 || i >= reg.dims[d]) {
        fail("register '" + reg.name + "': index " + std::to_string(d) + " (" + print_affine(kernel_, r.index[d]) +
             ") is " + std::to_string(static_cast<int64_t>(i)) + " here, outside 0.." +
             std::to_string(reg.dims[d] - 1));
        return std::nullopt;
      }
      at = at * reg.dims[d] + static_cast<int64_t>(i);
    }
    return static_cast<size_t>(base_[static_cast<size_t>(r.reg)] + at);
  }
  void read(const RegRef& r) {
    if (!r.valid()) return;
    const std::optional<size_t> s = slot(r);
    if (!s || state_[*s]) return;
    std::vector<int64_t> index;
    for (const Affine& e : r.index) index.push_back(static_cast<int64_t>(value(e)));
    fail("register " + name(r, index) + " is read before it is written on every path");
  }
  void write(const RegRef& r) {
    if (const std::optional<size_t> s = slot(r)) state_[*s] = 1;
  }

  void block(const Block& statements) {
    for (const Stmt& s : statements) {
      if (stopped()) return;
      at_ = &s;
      count();
      std::visit([&](const auto& node) { statement(node); }, s.node);
    }
  }
  void count() {
    if (++visited_ == kMaxUnrolled)
      fail("unrolled and specialised code grows beyond " + std::to_string(kMaxUnrolled) + " statements");
  }

  void statement(const Const& s) { write(s.dst); }
  void statement(const Load& s) { read(s.mask), write(s.dst); }
  void statement(const Broadcast& s) { write(s.dst); }
  void statement(const Store& s) { read(s.src), read(s.mask); }
  void statement(const Binary& s) { read(s.a), read(s.b), write(s.dst); }
  void statement(const Fma& s) { read(s.a), read(s.b), read(s.c), write(s.dst); }
  void statement(const Pairs& s) { read(s.a), read(s.b), write(s.dst); }
  void statement(const DotPairs& s) { read(s.a), read(s.b), read(s.c), write(s.dst); }
  void statement(const Unary& s) { read(s.src), write(s.dst); }
  void statement(const Compare& s) { read(s.a), read(s.b), write(s.dst); }
  void statement(const Select& s) { read(s.mask), read(s.a), read(s.b), write(s.dst); }
  void statement(const Permute& s) { read(s.a), read(s.b), write(s.dst); }
  void statement(const LaneMask& s) { write(s.dst); }
  void statement(const Prefetch&) {}
  void statement(const Let&) {}
  void statement(const LetLoad&) {}

  void statement(const For& s) {
    if (kernel_.vars[static_cast<size_t>(s.var)].kind == VarKind::kUnrolled) {
      const Wide lo = value(s.lo), hi = value(s.hi);
      if (std::max({lo, -lo, hi, -hi}) > kMaxConstant) return fail("a bound is beyond 2^60");
      for (auto v = static_cast<int64_t>(lo); v < hi && !stopped(); v += s.step) {
        values_[static_cast<size_t>(s.var)] = v;
        count();
        block(s.body);
      }
      return;
    }
    const bool surely_runs = s.lo.is_constant() && s.hi.is_constant() && s.lo.constant() < s.hi.constant();
    State before = state_;
    block(s.body);
    if (!surely_runs) state_ = std::move(before);
  }
  void statement(const Specialise& s) {
    const Stmt* here = at_;
    const State before = state_;
    std::optional<State> all;
    for (int64_t v = s.lo; v <= s.hi && !stopped(); ++v) {
      at_ = here;
      state_ = before;
      values_[static_cast<size_t>(s.var)] = v;
      count();
      block(s.body);
      if (!all) all = state_;
      keep_common(*all, state_);
    }
    if (all) state_ = std::move(*all);
  }
  void statement(const If& s) {
    const State before = state_;
    block(s.then_body);
    State after_then = std::move(state_);
    state_ = before;
    block(s.else_body);
    keep_common(state_, after_then);
  }
  static void keep_common(State& into, const State& other) {
    std::transform(into.begin(), into.end(), other.begin(), into.begin(), [](uint8_t a, uint8_t b) { return a & b; });
  }

  const Kernel& kernel_;
  std::vector<int64_t> values_;  // of unrolled and specialised variables
  std::vector<int64_t> base_;    // first slot by register
  State state_;
  Status status_;
  const Stmt* at_ = nullptr;
  int64_t visited_ = 0;
};

}  // namespace

Status verify_registers(const Kernel& kernel) { return Walk(kernel).run(); }

}  // namespace hone::ir
