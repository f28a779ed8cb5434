// Memory safety for all parameter values: walks the kernel once, carrying the linear facts that hold at each statement
// (facts_internal.h), and asks for each access whether they imply 0 <= index < extent in every dimension.
//
//   loop        v = lo + step * t, t >= 0, v <= hi - 1          let min/max   bounds, and "one of them"
//   let load    0 <= v < below, promised by the caller
//   floor_div   d*q <= e <= d*q + d - 1, e >= 0 proved          specialise    lo <= value <= hi proved, then v == value
//   if          the condition, or its negation in the else branch
//
// Masked accesses: lane i is accessed iff i < count, so count lanes matter where count < lanes, all lanes where it is
// not, none where count < 1. The count is that of the lanes(...) that last wrote the mask on this path; unknown means
// all lanes.
//
// Tasks are disjoint when each parallel variable v of step s keeps the stores to each argument apart in some dimension:
// index - c*v stays within o .. o + c*s - 1 for all stores, with one c and one o. Two tasks that differ in v then store
// to different intervals of that dimension.
#include <algorithm>
#include <optional>

#include "kernels/ir/facts_internal.h"
#include "kernels/ir/task.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify_internal.h"

namespace hone::ir {
namespace {

// A way to tell the tasks along one parallel variable apart.
struct Separation {
  BufferId buffer;
  VarId var;
  size_t dim;
  int64_t coef, offset, step;
  const Stmt* broken_by = nullptr;  // the first store outside its interval
};

// The stores of a kernel and where each loop starts.
struct Stores {
  struct Item {
    const Stmt* stmt;
    const Store* store;
  };
  std::vector<Item> items;
  std::vector<const Affine*> lower;  // by VarId, of loops

  void collect(const Block& statements) {
    for (const Stmt& s : statements) {
      if (const Store* store = std::get_if<Store>(&s.node)) items.push_back({&s, store});
      if (const For* f = std::get_if<For>(&s.node)) lower[static_cast<size_t>(f->var)] = &f->lo, collect(f->body);
      if (const Specialise* p = std::get_if<Specialise>(&s.node)) collect(p->body);
      if (const If* c = std::get_if<If>(&s.node)) collect(c->then_body), collect(c->else_body);
    }
  }
};

// The registers of masks written anywhere in a block.
void masks_written(const Block& statements, std::vector<RegId>& out) {
  for (const Stmt& s : statements) {
    if (const LaneMask* m = std::get_if<LaneMask>(&s.node)) out.push_back(m->dst.reg);
    if (const Compare* c = std::get_if<Compare>(&s.node)) out.push_back(c->dst.reg);
    if (const For* f = std::get_if<For>(&s.node)) masks_written(f->body, out);
    if (const Specialise* p = std::get_if<Specialise>(&s.node)) masks_written(p->body, out);
    if (const If* c = std::get_if<If>(&s.node)) masks_written(c->then_body, out), masks_written(c->else_body, out);
  }
}

class Bounds {
 public:
  explicit Bounds(const Kernel& kernel) : kernel_(kernel), map_(kernel.vars.size(), -1) {
    for (VarId v : kernel.params()) facts_.assume(linear_var(bind(v)));
    find_separations();
  }

  Status run() {
    block(kernel_.body);
    if (status_.ok()) report_overlap();
    return status_;
  }

 private:
  struct KnownMask {
    RegRef reg;
    Affine count;
  };

  // ---- facts ----
  int bind(VarId v) { return map_[static_cast<size_t>(v)] = facts_.add_var(); }

  Linear linear(const Affine& e) const {
    Linear l;
    l.c = e.constant();
    std::vector<Affine::Term> terms = e.terms();
    for (Affine::Term& t : terms) t.var = map_[static_cast<size_t>(t.var)];
    std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.var < b.var; });
    l.valid = terms.size() <= static_cast<size_t>(Linear::kMaxTerms);
    for (const Affine::Term& t : terms)
      if (l.valid) l.terms[static_cast<size_t>(l.n++)] = {t.var, t.coef};
    return l;
  }
  static Linear minus(const Linear& a, const Linear& b) { return combine(a, 1, b, -1); }
  static Linear plus(const Linear& a, int64_t c) { return combine(a, 1, linear_constant(c), 1); }

  void assume_at_least(const Linear& a, const Linear& b) { facts_.assume(minus(a, b)); }
  void assume_equal(const Linear& a, const Linear& b) {
    assume_at_least(a, b);
    assume_at_least(b, a);
  }

  void fail(const std::string& what) {
    if (status_.ok()) status_ = refuse(kernel_, *at_, what);
  }

  // ---- walk ----
  void block(const Block& statements) {
    for (const Stmt& s : statements) {
      if (!status_.ok()) return;
      at_ = &s;
      std::visit([&](const auto& node) { statement(node); }, s.node);
    }
  }

  template <typename T>
  void statement(const T&) {}  // registers only

  void statement(const Load& s) {
    check_access(s.src, lanes(s.dst), s.mask);
    check_separations(s.src, lanes(s.dst), s.mask);
  }
  void statement(const Broadcast& s) {
    check_access(s.src, 1, {});
    check_separations(s.src, 1, {});
  }
  void statement(const Store& s) {
    check_access(s.dst, lanes(s.src), s.mask);
    check_separations(s.dst, lanes(s.src), s.mask);
  }
  void statement(const LaneMask& s) {
    forget_mask(s.dst.reg, &s.dst);
    masks_.push_back({s.dst, s.count});
  }
  void statement(const Compare& s) { forget_mask(s.dst.reg, &s.dst); }

  void statement(const For& s) {
    forget_masks_of(s.body);
    const std::vector<KnownMask> before = masks_;
    const Facts::Mark mark = facts_.mark();
    const Linear lo = linear(s.lo), hi = linear(s.hi);
    if (s.step == 1) {
      const Linear v = linear_var(bind(s.var));
      assume_at_least(v, lo);
      assume_at_least(hi, plus(v, 1));
    } else {
      const Linear t = linear_var(facts_.add_var());
      const Linear v = combine(lo, 1, t, s.step);
      facts_.assume(t);
      assume_at_least(hi, plus(v, 1));
      assume_equal(linear_var(bind(s.var)), v);
    }
    block(s.body);
    facts_.forget(mark);
    masks_ = before;
  }

  void statement(const Let& s) {
    std::vector<Linear> args;
    for (const Affine& e : s.args) args.push_back(linear(e));
    if (s.op == LetOp::kFloorDiv) {
      if (!facts_.proves(args.front())) return fail("cannot prove that the dividend is at least 0");
      facts_.assume(args.front());
      const Linear q = linear_var(bind(s.var));
      const Linear rest = combine(args.front(), 1, q, -s.divisor);
      facts_.assume(rest);
      facts_.assume(minus(linear_constant(s.divisor - 1), rest));
      facts_.assume(q);
      return;
    }
    const int v = bind(s.var);
    s.op == LetOp::kMin ? facts_.assume_min(v, args) : facts_.assume_max(v, args);
    // Most lets are counts; knowing so at once saves a case for each later question.
    for (int64_t least : {1, 0}) {
      const Linear at_least = plus(linear_var(v), -least);
      if (facts_.proves_quickly(at_least)) return facts_.assume(at_least);
    }
  }

  void statement(const LetLoad& s) {
    check_access(s.table, 1, {});
    const Linear v = linear_var(bind(s.var));
    facts_.assume(v);
    assume_at_least(linear(s.below), plus(v, 1));
  }

  void statement(const Specialise& s) {
    const Linear value = linear(s.value);
    if (!facts_.proves(plus(value, -s.lo)))
      return fail("cannot prove " + print_affine(kernel_, s.value) + " >= " + std::to_string(s.lo));
    if (!facts_.proves(minus(linear_constant(s.hi), value)))
      return fail("cannot prove " + print_affine(kernel_, s.value) + " <= " + std::to_string(s.hi));
    const Facts::Mark mark = facts_.mark();
    const Linear v = linear_var(bind(s.var));
    assume_at_least(v, linear_constant(s.lo));
    assume_at_least(linear_constant(s.hi), v);
    assume_equal(v, value);
    const std::vector<KnownMask> before = masks_;
    block(s.body);
    facts_.forget(mark);
    keep_masks_of(before);  // counts of masks written inside may use variables that end here
  }

  void statement(const If& s) {
    const Linear e = linear(s.expr), minus_e = combine(e, -1, linear_constant(0), 0);
    const std::vector<KnownMask> before = masks_;
    Facts::Mark mark = facts_.mark();
    facts_.assume_condition(e);
    if (s.op == CondOp::kEqZero) facts_.assume_condition(minus_e);
    block(s.then_body);
    facts_.forget(mark);
    std::vector<KnownMask> after_then = std::move(masks_);
    masks_ = before;

    mark = facts_.mark();
    if (s.op == CondOp::kGeZero) {
      facts_.assume_condition(plus(minus_e, -1));
    } else if (facts_.proves_quickly(e)) {
      facts_.assume_condition(plus(e, -1));
    } else if (facts_.proves_quickly(minus_e)) {
      facts_.assume_condition(plus(minus_e, -1));
    } else {
      facts_.assume_any({plus(e, -1), plus(minus_e, -1)});
    }
    block(s.else_body);
    facts_.forget(mark);
    keep_masks_of(after_then);
  }

  // ---- masks ----
  // Entries that a write to `written` may change; all of the register without it.
  void forget_mask(RegId reg, const RegRef* written) {
    std::erase_if(masks_, [&](const KnownMask& m) {
      if (m.reg.reg != reg) return false;
      if (written == nullptr) return true;
      for (size_t d = 0; d < m.reg.index.size(); ++d) {
        const Affine difference = m.reg.index[d] - written->index[d];
        if (difference.is_constant() && difference.constant() != 0) return false;
      }
      return true;
    });
  }
  void forget_masks_of(const Block& body) {
    std::vector<RegId> written;
    masks_written(body, written);
    for (RegId r : written) forget_mask(r, nullptr);
  }
  // Drops what `other` does not agree with.
  void keep_masks_of(const std::vector<KnownMask>& other) {
    std::erase_if(masks_, [&](const KnownMask& m) {
      return std::none_of(other.begin(), other.end(), [&](const KnownMask& o) {
        return o.reg.reg == m.reg.reg && o.reg.index == m.reg.index && o.count == m.count;
      });
    });
  }
  const Affine* mask_count(const RegRef& mask) const {
    for (const KnownMask& m : masks_)
      if (m.reg.reg == mask.reg && m.reg.index == mask.index) return &m.count;
    return nullptr;
  }

  // ---- accesses ----
  int lanes(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type.lanes; }

  // Does `low <= index` and `index + (active lanes - 1) <= high` hold? Returns the side that cannot be proved.
  enum class Side { kNone, kLow, kHigh };
  Side outside(const Linear& index, int lanes, const RegRef& mask, const Linear& low, const Linear& high) {
    const Affine* count = mask.valid() ? mask_count(mask) : nullptr;
    auto within = [&](const Linear& last) {
      if (!facts_.proves(minus(index, low))) return Side::kLow;
      return facts_.proves(minus(high, last)) ? Side::kNone : Side::kHigh;
    };
    if (count == nullptr) return within(plus(index, lanes - 1));
    const Linear n = linear(*count);
    const Facts::Mark mark = facts_.mark();
    facts_.assume(plus(n, -lanes));  // all lanes
    Side side = within(plus(index, lanes - 1));
    facts_.forget(mark);
    if (side != Side::kNone) return side;
    facts_.assume(plus(n, -1));  // 1 .. lanes - 1 of them
    facts_.assume(minus(linear_constant(lanes - 1), n));
    side = within(plus(combine(index, 1, n, 1), -1));
    facts_.forget(mark);
    return side;
  }

  void check_access(const Access& access, int count, const RegRef& mask) {
    const Buffer& b = kernel_.buffers[static_cast<size_t>(access.buffer)];
    for (size_t d = 0; d < access.index.size(); ++d) {
      const bool last = d + 1 == access.index.size();
      // A mask without active lanes excuses any index, so every dimension asks about it.
      const Side side = outside_dimension(access.index[d], last ? count : 1, count, mask, b.extents[d]);
      if (side == Side::kNone) continue;
      const std::string index = print_affine(kernel_, access.index[d]);
      std::string bound = index + " >= 0";
      if (side == Side::kHigh) {
        const std::string width = !last || count == 1 ? ""
                                  : !mask.valid()     ? " + " + std::to_string(count - 1)
                                                      : " + (active lanes - 1)";
        bound = index + width + " < " + print_affine(kernel_, b.extents[d]);
      }
      return fail("dimension " + std::to_string(d) + " of '" + b.name + "': cannot prove " + bound);
    }
  }
  Side outside_dimension(const Affine& index, int width, int count, const RegRef& mask, const Affine& extent) {
    const Linear high = plus(linear(extent), -1);
    if (width == count) return outside(linear(index), count, mask, linear_constant(0), high);
    const Affine* active = mask.valid() ? mask_count(mask) : nullptr;
    const Facts::Mark mark = facts_.mark();
    if (active != nullptr) facts_.assume(plus(linear(*active), -1));
    const Side side = outside(linear(index), 1, {}, linear_constant(0), high);
    facts_.forget(mark);
    return side;
  }

  // ---- tasks ----
  void find_separations() {
    Stores stores;
    stores.lower.resize(kernel_.vars.size());
    stores.collect(kernel_.body);
    const TaskNest nest = task_nest(kernel_);
    for (const For* loop : nest.loops) {
      const Linear once = minus(linear_lo_plus_step(*loop), linear(loop->hi));
      if (facts_.proves_quickly(once)) continue;  // one iteration at most
      for (const Stores::Item& item : stores.items) {
        const Access& to = item.store->dst;
        if (kernel_.buffers[static_cast<size_t>(to.buffer)].scope == Scope::kWorkspace) continue;
        wanted_.push_back({to.buffer, loop->var, item.stmt});
        for (size_t d = 0; d < to.index.size(); ++d) add_separations(to, d, *loop, stores);
      }
    }
  }
  Linear linear_lo_plus_step(const For& loop) const { return plus(linear(loop.lo), loop.step); }

  void add_separations(const Access& to, size_t d, const For& loop, const Stores& stores) {
    const int64_t c = to.index[d].coef(loop.var);
    if (c <= 0) return;
    Affine first = to.index[d] - Affine::var(loop.var, c);
    for (size_t v = kernel_.vars.size(); v-- > 0;)
      if (stores.lower[v] != nullptr) first = first.substitute(static_cast<VarId>(v), *stores.lower[v]);
    std::vector<int64_t> offsets = {0};
    if (first.is_constant() && first.constant() != 0) offsets.push_back(first.constant());
    for (int64_t o : offsets) {
      const bool known = std::any_of(separations_.begin(), separations_.end(), [&](const Separation& s) {
        return s.buffer == to.buffer && s.var == loop.var && s.dim == d && s.coef == c && s.offset == o;
      });
      if (!known) separations_.push_back({to.buffer, loop.var, d, c, o, loop.step});
    }
  }

  // Stores, and loads too: what one task stores another must not read, or the result depends on who was first. Only
  // buffers that are stored to have separations.
  void check_separations(const Access& access, int access_lanes, const RegRef& mask) {
    for (Separation& s : separations_) {
      if (s.buffer != access.buffer || s.broken_by != nullptr) continue;
      int64_t width;
      if (__builtin_mul_overflow(s.coef, s.step, &width)) width = 0;
      const Linear index = linear(access.index[s.dim] - Affine::var(s.var, s.coef));
      const bool last = s.dim + 1 == access.index.size();
      const Side side = outside(index, last ? access_lanes : 1, last ? mask : RegRef{}, linear_constant(s.offset),
                                linear_constant(s.offset + width - 1));
      if (side != Side::kNone) s.broken_by = at_;
    }
  }

  struct Wanted {
    BufferId buffer;
    VarId var;
    const Stmt* store;
  };
  void report_overlap() {
    for (const Wanted& w : wanted_) {
      const Stmt* culprit = w.store;
      bool apart = false;
      for (const Separation& s : separations_) {
        if (s.buffer != w.buffer || s.var != w.var) continue;
        if (s.broken_by == nullptr) apart = true;
        if (s.broken_by != nullptr) culprit = s.broken_by;
      }
      if (apart) continue;
      const std::string& var = kernel_.vars[static_cast<size_t>(w.var)].name;
      status_ = refuse(kernel_, *culprit,
                       "tasks that differ in '" + var + "' may touch the same elements of '" +
                           kernel_.buffers[static_cast<size_t>(w.buffer)].name +
                           "': in no dimension does everything stay within the steps of '" + var + "'");
      return;
    }
  }

  const Kernel& kernel_;
  Facts facts_;
  std::vector<int> map_;  // VarId -> variable of facts_
  std::vector<KnownMask> masks_;
  std::vector<Separation> separations_;
  std::vector<Wanted> wanted_;
  Status status_;
  const Stmt* at_ = nullptr;
};

}  // namespace

Status verify_bounds(const Kernel& kernel) { return Bounds(kernel).run(); }

}  // namespace hone::ir
