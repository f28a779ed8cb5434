// Is the verifier right? Kernels with random mistakes are judged twice: by verify(), symbolically, and here by running
// every loop for real and checking every access as it happens. Whatever verify() accepts must run clean for all
// parameters tried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "tests/kernels/ir/sample_kernels.h"

namespace hone::ir {
namespace {

// Executes control flow only. Lanes of unknown masks all count as active; registers are sets of written slots.
class Trial {
 public:
  Trial(const Kernel& kernel, const std::vector<int64_t>& params)
      : kernel_(kernel),
        values_(kernel.vars.size()),
        written_(kernel.registers.size() * 4096),
        active_(kernel.registers.size() * 4096) {
    for (size_t i = 0; i < params.size(); ++i) values_[static_cast<size_t>(kernel.params()[i])] = params[i];
  }

  // What went wrong, or "".
  std::string run() {
    block(kernel_.body);
    return promise_broken_ ? "" : error_;
  }

 private:
  static constexpr int64_t kAllLanes = 1000;

  void fail(const Stmt& s, const std::string& what) {
    if (error_.empty()) error_ = print_head(kernel_, s) + ": " + what;
  }
  int64_t eval(const Affine& e) const {
    int64_t v = e.constant();
    for (const Affine::Term& t : e.terms()) v += t.coef * values_[static_cast<size_t>(t.var)];
    return v;
  }
  size_t slot(const Stmt& s, const RegRef& r) {
    const Register& reg = kernel_.registers[static_cast<size_t>(r.reg)];
    int64_t at = 0;
    for (size_t d = 0; d < reg.dims.size(); ++d) {
      const int64_t i = eval(r.index[d]);
      if (i < 0 || i >= reg.dims[d]) fail(s, "register index");
      at = at * reg.dims[d] + std::clamp<int64_t>(i, 0, reg.dims[d] - 1);
    }
    return static_cast<size_t>(r.reg) * 4096 + static_cast<size_t>(at);
  }
  void read(const Stmt& s, const RegRef& r) {
    if (r.valid() && !written_[slot(s, r)]) fail(s, "register read before it is written");
  }
  void write(const Stmt& s, const RegRef& r) {
    const size_t at = slot(s, r);
    written_[at] = 1;
    active_[at] = kAllLanes;
  }

  void access(const Stmt& s, const Access& a, int64_t lanes, const RegRef& mask, bool store) {
    if (mask.valid()) lanes = std::min(lanes, active_[slot(s, mask)]);
    if (lanes < 1) return;
    const Buffer& b = kernel_.buffers[static_cast<size_t>(a.buffer)];
    int64_t at = 0;
    for (size_t d = 0; d < a.index.size(); ++d) {
      const int64_t extent = eval(b.extents[d]), first = eval(a.index[d]);
      const int64_t last = d + 1 == a.index.size() ? first + lanes - 1 : first;
      if (first < 0 || last >= extent) return fail(s, "dimension " + std::to_string(d) + " out of bounds");
      at = at * extent + first;
    }
    if (!store || b.scope == Scope::kWorkspace) return;
    std::vector<int>& owners = owners_[a.buffer];
    if (owners.size() < static_cast<size_t>(at + lanes)) owners.resize(static_cast<size_t>(at + lanes), -1);
    for (int64_t l = 0; l < lanes; ++l) {
      int& owner = owners[static_cast<size_t>(at + l)];
      if (owner >= 0 && owner != task_) fail(s, "two tasks store to one element");
      owner = task_;
    }
  }
  int64_t lanes(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type.lanes; }

  void block(const Block& statements) {
    for (const Stmt& s : statements) {
      if (!error_.empty()) return;
      std::visit([&](const auto& node) { step(s, node); }, s.node);
    }
  }
  void step(const Stmt& s, const Const& n) { write(s, n.dst); }
  void step(const Stmt& s, const Load& n) {
    read(s, n.mask), access(s, n.src, lanes(n.dst), n.mask, false), write(s, n.dst);
  }
  void step(const Stmt& s, const Broadcast& n) { access(s, n.src, 1, {}, false), write(s, n.dst); }
  void step(const Stmt& s, const Store& n) {
    read(s, n.src), read(s, n.mask), access(s, n.dst, lanes(n.src), n.mask, true);
  }
  void step(const Stmt& s, const Binary& n) { read(s, n.a), read(s, n.b), write(s, n.dst); }
  void step(const Stmt& s, const Fma& n) { read(s, n.a), read(s, n.b), read(s, n.c), write(s, n.dst); }
  void step(const Stmt& s, const Unary& n) { read(s, n.src), write(s, n.dst); }
  void step(const Stmt& s, const Compare& n) { read(s, n.a), read(s, n.b), write(s, n.dst); }
  void step(const Stmt& s, const Select& n) { read(s, n.mask), read(s, n.a), read(s, n.b), write(s, n.dst); }
  void step(const Stmt& s, const Permute& n) { read(s, n.a), read(s, n.b), write(s, n.dst); }
  void step(const Stmt& s, const LaneMask& n) {
    write(s, n.dst);
    active_[slot(s, n.dst)] = eval(n.count);
  }
  void step(const Stmt&, const Prefetch&) {}
  void step(const Stmt&, const For& n) {
    const bool parallel = kernel_.vars[static_cast<size_t>(n.var)].kind == VarKind::kParallel;
    const int64_t hi = eval(n.hi);
    for (int64_t v = eval(n.lo); v < hi && error_.empty(); v += n.step) {
      values_[static_cast<size_t>(n.var)] = v;
      if (parallel) ++task_, std::fill(written_.begin(), written_.end(), uint8_t{0});
      block(n.body);
    }
  }
  void step(const Stmt& s, const Let& n) {
    int64_t v = eval(n.args.front());
    for (const Affine& e : n.args) v = n.op == LetOp::kMax ? std::max(v, eval(e)) : std::min(v, eval(e));
    if (n.op == LetOp::kFloorDiv && v < 0) fail(s, "negative dividend");
    values_[static_cast<size_t>(n.var)] = v / n.divisor;
  }
  void step(const Stmt& s, const LetLoad& n) {
    access(s, n.table, 1, {}, false);
    const int64_t below = eval(n.below);
    if (below < 1) promise_broken_ = true;
    values_[static_cast<size_t>(n.var)] = below < 1 ? 0 : (eval(n.table.index.front()) * 7 + 3) % below;
  }
  void step(const Stmt& s, const Specialise& n) {
    const int64_t v = values_[static_cast<size_t>(n.var)] = eval(n.value);
    if (v < n.lo || v > n.hi) return fail(s, "value outside its range");
    block(n.body);
  }
  void step(const Stmt&, const If& n) {
    const int64_t v = eval(n.expr);
    block((n.op == CondOp::kEqZero ? v == 0 : v >= 0) ? n.then_body : n.else_body);
  }

  const Kernel& kernel_;
  std::vector<int64_t> values_;
  std::vector<uint8_t> written_;                 // by register slot
  std::vector<int64_t> active_;                  // by slot of masks: leading lanes that may be active
  std::map<BufferId, std::vector<int>> owners_;  // by element: the task that stored it
  int task_ = 0;
  std::string error_;
  bool promise_broken_ = false;  // by the caller: no element is below 0
};

// Changes one number after the declarations by a little, or swaps two words.
std::string mutate(std::string text, std::mt19937& random) {
  std::vector<size_t> numbers;
  for (size_t i = text.find("parallel"); i < text.size(); ++i)
    if (isdigit(text[i]) && !isalnum(text[i - 1]) && text[i - 1] != '_') numbers.push_back(i);
  const size_t at = numbers[random() % numbers.size()];
  size_t end = at;
  while (isdigit(text[end])) ++end;
  const int64_t was = std::stoll(text.substr(at, end - at));
  const int64_t deltas[] = {-16, -4, -2, -1, 1, 1, 2, 4, 16};
  return text.replace(at, end - at, std::to_string(std::max<int64_t>(0, was + deltas[random() % 9])));
}

struct Verdicts {
  int accepted = 0, refused_rightly = 0, refused_warily = 0;
};

Verdicts judge(const std::vector<std::string>& sources, const std::vector<std::vector<int64_t>>& params, int rounds,
               uint32_t seed) {
  std::mt19937 random(seed);
  Verdicts out;
  for (int round = 0; round < rounds; ++round) {
    std::string text = sources[random() % sources.size()];
    for (size_t edits = 1 + random() % 2; edits-- > 0;) text = mutate(text, random);
    const Result<Kernel> kernel = parse(text);
    if (!kernel.ok()) continue;
    const Status status = verify(*kernel);
    // Beyond structure there is a meaning to run.
    if (!status.ok() && status.message().find("cannot prove") == std::string::npos &&
        status.message().find("tasks that differ") == std::string::npos &&
        status.message().find("read before") == std::string::npos)
      continue;
    std::string wrong;
    for (const std::vector<int64_t>& p : params)
      if (wrong.empty()) wrong = Trial(*kernel, p).run();
    EXPECT_TRUE(!status.ok() || wrong.empty()) << "accepted, but " << wrong << "\n" << text;
    ++(status.ok() ? out.accepted : wrong.empty() ? out.refused_warily : out.refused_rightly);
  }
  return out;
}

TEST(IrVerifyProperty, WhatIsAcceptedRunsClean) {
  const std::vector<std::string> one = {kAxpyText, print(sample_matmul({})),
                                        print(sample_matmul({.k = 24, .kc = 8, .split_tail = true}))};
  const Verdicts v = judge(one, {{0}, {1}, {7}, {8}, {9}, {17}, {64}, {65}, {79}, {80}, {81}}, 700, 20261129);
  const Verdicts w = judge({print(sample_matmul({.n = 64, .batch = true, .split_tail = true}))},
                           {{0, 0, 0}, {5, 400, 900}, {9, 400, 900}}, 150, 7);
  // Rows that a table names, in blocks: the page table of attention in small.
  const std::string paged = R"(kernel paged {
  param n
  param pages
  in T: s32[12] stride [1] align 4
  in x: f32[pages, 16] stride [16, 1] align 4
  out y: f32[n] stride [1] align 4
  reg a: f32x4
  reg m: mask4
  parallel i in 0..n step 8 {
    let e = min(8, n - i)
    for j in 0..e step 4 {
      let block = (j) / 4
      let v = load T[block + 3] below pages
      let w = max(v - 1, 0)
      m = lanes(e - j)
      a = load x[v, 12]
      a = load x[w, 2*j] if m
      store y[i + j] = a if m
    }
  }
}
)";
  const Verdicts p = judge({paged}, {{0, 1}, {5, 2}, {8, 3}, {9, 1}, {16, 4}}, 300, 30);
  EXPECT_GT(p.accepted, 30);
  EXPECT_GT(p.refused_rightly, 30);
  std::cout << "accepted " << v.accepted + w.accepted << ", refused " << v.refused_rightly + w.refused_rightly
            << ", refused although it ran clean " << v.refused_warily + w.refused_warily << "\n";
  EXPECT_GT(v.accepted, 100);
  EXPECT_GT(v.refused_rightly, 150);
  // Not a promise, but a verifier that refuses what is right gets in the way.
  EXPECT_LT(v.refused_warily + w.refused_warily, (v.refused_rightly + w.refused_rightly) / 2);
}

}  // namespace
}  // namespace hone::ir
