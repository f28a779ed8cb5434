// See checked_run.h.
#include "kernels/ir/checked_run.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "kernels/ir/text.h"

namespace hone::ir {
namespace {

using Verdict = RunCheck::Verdict;

// Executes control flow only. Registers are sets of written slots.
class CheckedRun {
 public:
  CheckedRun(const Kernel& kernel, std::span<const int64_t> params, const ReadTable& table, int64_t max_steps)
      : kernel_(kernel), table_(table), max_steps_(max_steps), values_(kernel.vars.size()) {
    const std::vector<VarId> ids = kernel.params();
    for (size_t i = 0; i < params.size() && i < ids.size(); ++i) values_[static_cast<size_t>(ids[i])] = params[i];
    size_t slots = 0;
    for (const Register& r : kernel.registers) {
      base_.push_back(slots);
      int64_t size = 1;
      for (int64_t d : r.dims) size *= d;
      slots += static_cast<size_t>(size);
    }
    written_.resize(slots);
    active_.resize(slots);
    owners_.resize(kernel.buffers.size());
  }

  RunCheck run() {
    block(kernel_.body);
    return result_;
  }

 private:
  static constexpr int64_t kAllLanes = 1000;

  bool stopped() const { return result_.verdict != Verdict::kClean; }
  void stop(Verdict verdict) {
    if (!stopped()) result_.verdict = verdict;
  }
  void fail(const Stmt& s, const std::string& what) {
    if (stopped()) return;
    result_.verdict = Verdict::kFault;
    result_.text = print_head(kernel_, s) + ": " + what;
  }

  // As machines add and multiply: where a value leaves 64 bits, that is no fault of the run.
  int64_t eval(const Affine& e) const {
    auto v = static_cast<uint64_t>(e.constant());
    for (const Affine::Term& t : e.terms())
      v += static_cast<uint64_t>(t.coef) * static_cast<uint64_t>(values_[static_cast<size_t>(t.var)]);
    return static_cast<int64_t>(v);
  }
  size_t slot(const Stmt& s, const RegRef& r) {
    const Register& reg = kernel_.registers[static_cast<size_t>(r.reg)];
    int64_t at = 0;
    for (size_t d = 0; d < reg.dims.size(); ++d) {
      const int64_t i = eval(r.index[d]);
      if (i < 0 || i >= reg.dims[d]) fail(s, "register index");
      at = at * reg.dims[d] + std::clamp<int64_t>(i, 0, reg.dims[d] - 1);
    }
    return base_[static_cast<size_t>(r.reg)] + static_cast<size_t>(at);
  }
  void read(const Stmt& s, const RegRef& r) {
    if (r.valid() && !written_[slot(s, r)]) fail(s, "register read before it is written");
  }
  void write(const Stmt& s, const RegRef& r) {
    const size_t at = slot(s, r);
    written_[at] = 1;
    active_[at] = kAllLanes;
  }
  int64_t lanes(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type.lanes; }

  void access(const Stmt& s, const Access& a, int64_t lanes, const RegRef& mask, bool store) {
    if (mask.valid()) lanes = std::min(lanes, active_[slot(s, mask)]);
    if (lanes < 1) return;
    const Buffer& b = kernel_.buffers[static_cast<size_t>(a.buffer)];
    uint64_t at = 0;
    for (size_t d = 0; d < a.index.size(); ++d) {
      const int64_t extent = eval(b.extents[d]), first = eval(a.index[d]);
      const int64_t width = d + 1 == a.index.size() ? lanes : 1;
      if (first < 0 || width > extent || first > extent - width)
        return fail(s, "dimension " + std::to_string(d) + " out of bounds");
      at = at * static_cast<uint64_t>(extent) + static_cast<uint64_t>(first);
    }
    if (!store || b.scope == Scope::kWorkspace) return;
    std::unordered_map<uint64_t, int64_t>& owners = owners_[static_cast<size_t>(a.buffer)];
    for (int64_t l = 0; l < lanes; ++l)
      if (owners.emplace(at + static_cast<uint64_t>(l), task_).first->second != task_)
        fail(s, "two tasks store to one element");
  }

  void block(const Block& statements) {
    for (const Stmt& s : statements) {
      if (++result_.steps > max_steps_) stop(Verdict::kTooLong);
      if (stopped()) return;
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
  void step(const Stmt& s, const Pairs& n) { read(s, n.a), read(s, n.b), write(s, n.dst); }
  void step(const Stmt& s, const DotPairs& n) { read(s, n.a), read(s, n.b), read(s, n.c), write(s, n.dst); }
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
    int64_t& value = values_[static_cast<size_t>(n.var)];
    for (int64_t v = eval(n.lo); v < hi && !stopped();) {
      if (++result_.steps > max_steps_) stop(Verdict::kTooLong);
      value = v;
      if (parallel) ++task_, std::fill(written_.begin(), written_.end(), uint8_t{0});
      block(n.body);
      if (__builtin_add_overflow(v, n.step, &v)) break;
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
    if (below < 1) stop(Verdict::kPromise);
    if (!stopped()) values_[static_cast<size_t>(n.var)] = table_(n.table.buffer, eval(n.table.index.front()), below);
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
  const ReadTable& table_;
  const int64_t max_steps_;
  std::vector<int64_t> values_;
  std::vector<size_t> base_;                                   // by register: its first slot
  std::vector<uint8_t> written_;                               // by register slot
  std::vector<int64_t> active_;                                // by slot of masks: leading lanes that may be active
  std::vector<std::unordered_map<uint64_t, int64_t>> owners_;  // by buffer and element: the task that stored it
  int64_t task_ = 0;
  RunCheck result_;
};

}  // namespace

RunCheck check_run(const Kernel& kernel, std::span<const int64_t> params, const ReadTable& table, int64_t max_steps) {
  return CheckedRun(kernel, params, table, max_steps).run();
}

}  // namespace hone::ir
