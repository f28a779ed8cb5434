// See shrink.h. Delta debugging, with what is known of LoopIR as the list of things to try: large steps before small
// ones, outer blocks before inner ones, and all of it again until a round changes nothing.
#include "kernels/ir/shrink.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "kernels/ir/edit.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "kernels/ir/verify_internal.h"

namespace hone::ir {
namespace {

class Shrinker {
 public:
  Shrinker(Specimen specimen, const ShowsFault& shows_fault)
      : now_(std::move(specimen)), shows_fault_(shows_fault), provable_(verify(now_.kernel).ok()) {}

  Specimen run() {
    fewer_runs();
    constexpr int kRounds = 12;
    for (int round = 0; round < kRounds; ++round) {
      const int64_t before = kept_;
      drop_statements();
      unwrap();
      drop_declarations();
      simplify_operations();
      simplify_values();
      fewer_lanes();
      smaller_tiles();
      smaller_buffers();
      constant_parameters();
      smaller_parameters();
      if (kept_ == before) break;
    }
    return now_;
  }

 private:
  // Keeps the candidate if it is another kernel, a valid one, and shows the fault.
  bool attempt(Specimen candidate) {
    std::string key = print(candidate.kernel);
    for (const std::vector<int64_t>& run : candidate.runs)
      for (const int64_t v : run) key += " " + std::to_string(v);
    if (!tried_.insert(std::hash<std::string>()(key)).second) return false;
    if (!valid(candidate.kernel) || !shows_fault_(candidate)) return false;
    now_ = std::move(candidate);
    ++kept_;
    return true;
  }
  bool valid(const Kernel& kernel) const {
    if (provable_) return verify(kernel).ok();
    return verify_structure(kernel).ok() && verify_registers(kernel).ok();
  }

  // change(kernel) on a copy, or false when there is nothing to change.
  bool attempt(const std::function<bool(Kernel&)>& change) {
    Specimen candidate = now_;
    return change(candidate.kernel) && attempt(std::move(candidate));
  }

  // The n-th statement in the order of each_statement(), and the block that it is in.
  struct Place {
    Block* block = nullptr;
    size_t index = 0;
    Stmt& statement() const { return (*block)[index]; }
  };
  static Place find(Block& block, size_t& n) {
    for (size_t i = 0; i < block.size(); ++i) {
      if (n-- == 0) return {&block, i};
      for (Block* body : bodies(block[i]))
        if (const Place inside = find(*body, n); inside.block != nullptr) return inside;
    }
    return {};
  }
  size_t statements() { return static_cast<size_t>(count_statements(now_.kernel)); }

  // Tries fn(kernel, place) for each statement, from the last to the first.
  void each_place(const std::function<bool(Kernel&, const Place&)>& change) {
    for (size_t n = statements(); n-- > 0;)
      attempt([&](Kernel& kernel) {
        size_t left = n;
        const Place place = find(kernel.body, left);
        return place.block != nullptr && change(kernel, place);
      });
  }

  void drop_statements() {
    for (size_t b = 0;; ++b) {
      size_t size = 0, blocks = 0;
      each_block(now_.kernel.body, [&](Block& block) {
        if (blocks++ == b) size = block.size();
      });
      if (b >= blocks) return;
      for (size_t chunk = size; chunk >= 1; chunk /= 2)
        for (size_t end = size; end > 0;) {
          const size_t begin = end > chunk ? end - chunk : 0;
          if (attempt([&](Kernel& kernel) { return erase(kernel, b, begin, end); })) size -= end - begin;
          end = begin;
        }
    }
  }
  static bool erase(Kernel& kernel, size_t block_number, size_t begin, size_t end) {
    size_t blocks = 0;
    bool erased = false;
    each_block(kernel.body, [&](Block& block) {
      if (blocks++ != block_number || erased || end > block.size()) return;
      const auto at = block.begin();
      block.erase(at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(end));
      erased = true;
    });
    return erased;
  }

  // Loops, versions and branches become what is in them, lets the value that they may have.
  void unwrap() {
    for (const int which : {0, 1}) each_place([&](Kernel& kernel, const Place& p) { return unwrap(kernel, p, which); });
  }
  static bool unwrap(Kernel& kernel, const Place& place, int which) {
    Stmt& s = place.statement();
    const VarId v = defined_variable(s);
    Block inner;
    Affine value;
    if (For* f = std::get_if<For>(&s.node)) {
      value = which == 0 ? f->lo : f->hi - 1;
      inner = std::move(f->body);
    } else if (Specialise* p = std::get_if<Specialise>(&s.node)) {
      value = which == 0 ? p->value : Affine(p->lo);
      inner = std::move(p->body);
    } else if (If* c = std::get_if<If>(&s.node)) {
      inner = std::move(which == 0 ? c->then_body : c->else_body);
    } else if (Let* l = std::get_if<Let>(&s.node)) {
      value = which == 0 ? l->args.front() : Affine(0);
    } else if (std::get_if<LetLoad>(&s.node) != nullptr) {
      value = which == 0 ? Affine(0) : Affine(1);
    } else {
      return false;
    }
    place.block->erase(place.block->begin() + static_cast<std::ptrdiff_t>(place.index));
    place.block->insert(place.block->begin() + static_cast<std::ptrdiff_t>(place.index),
                        std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
    if (v < 0) return true;
    substitute(kernel, v, value);
    return true;
  }
  static void substitute(Kernel& kernel, VarId v, const Affine& value) {
    each_statement(kernel.body, [&](Stmt& s) { each_affine(s, [&](Affine& e) { e = e.substitute(v, value); }); });
  }

  // All that nothing uses; or, if the fault needs some of it, what it can do without.
  void drop_declarations() {
    if (attempt(without_unused(now_))) return;
    auto one_by_one = [&](std::vector<uint8_t> Declarations::*kind) {
      for (size_t i = (used(now_.kernel).*kind).size(); i-- > 0;) {
        const Declarations now = used(now_.kernel);
        if ((now.*kind)[i]) continue;
        Declarations rest{std::vector<uint8_t>(now.vars.size(), 1), std::vector<uint8_t>(now.buffers.size(), 1),
                          std::vector<uint8_t>(now.registers.size(), 1)};
        (rest.*kind)[i] = 0;
        attempt(with_only(now_, rest));
      }
    };
    one_by_one(&Declarations::registers);
    one_by_one(&Declarations::buffers);
    one_by_one(&Declarations::vars);
  }
  static Specimen without_unused(Specimen specimen) {
    const Declarations those = used(specimen.kernel);
    return with_only(std::move(specimen), those);
  }
  // Values of parameters that go, go too.
  static Specimen with_only(Specimen specimen, const Declarations& those) {
    const std::vector<VarId> params = specimen.kernel.params();
    for (std::vector<int64_t>& run : specimen.runs) {
      size_t i = 0;
      std::erase_if(run, [&](int64_t) { return !those.vars[static_cast<size_t>(params[i++])]; });
    }
    keep_only(specimen.kernel, those);
    return specimen;
  }

  // What an operation gives becomes a constant or one of its operands; masks go.
  void simplify_operations() {
    each_place([](Kernel& kernel, const Place& p) { return to_constant(kernel, p.statement()); });
    for (const int operand : {1, 2, 3})
      each_place([&](Kernel& kernel, const Place& p) { return to_move(kernel, p.statement(), operand); });
    each_place([](Kernel&, const Place& p) {
      if (Load* l = std::get_if<Load>(&p.statement().node)) return std::exchange(l->mask, RegRef{}).valid();
      if (Store* s = std::get_if<Store>(&p.statement().node)) return std::exchange(s->mask, RegRef{}).valid();
      return false;
    });
  }
  static const RegRef* destination(Stmt& s) {
    if (bodies(s).size() + (defined_variable(s) >= 0 ? 1 : 0) > 0 || std::get_if<Store>(&s.node)) return nullptr;
    const RegRef* dst = nullptr;
    each_register(s, [&](RegRef& r) { dst = dst == nullptr ? &r : dst; });
    return dst;
  }
  static bool to_constant(const Kernel& kernel, Stmt& s) {
    const RegRef* dst = destination(s);
    if (dst == nullptr || std::get_if<Const>(&s.node) != nullptr) return false;
    const RegType& type = kernel.registers[static_cast<size_t>(dst->reg)].type;
    if (type.mask) {
      if (std::get_if<LaneMask>(&s.node) != nullptr) return false;
      s = {LaneMask{*dst, type.lanes}};
    } else {
      s = {Const{*dst, type.dtype == DType::kF32 ? 0x3f800000u : 1u}};
    }
    return true;
  }
  static bool to_move(const Kernel& kernel, Stmt& s, int operand) {
    const RegRef* dst = destination(s);
    if (dst == nullptr || kernel.registers[static_cast<size_t>(dst->reg)].type.mask) return false;
    std::vector<RegRef> registers;
    each_register(s, [&](RegRef& r) { registers.push_back(r); });
    const Unary* unary = std::get_if<Unary>(&s.node);
    if (static_cast<size_t>(operand) >= registers.size() || (unary != nullptr && unary->op == UnaryOp::kMove))
      return false;
    s = {Unary{UnaryOp::kMove, registers.front(), registers[static_cast<size_t>(operand)], 0}};
    return true;
  }

  void simplify_values() {
    each_place([](Kernel&, const Place& p) {
      For* f = std::get_if<For>(&p.statement().node);
      return f != nullptr && std::exchange(f->hi, f->lo + 1) != f->hi;
    });
    each_place([](Kernel&, const Place& p) {
      For* f = std::get_if<For>(&p.statement().node);
      return f != nullptr && std::exchange(f->step, 1) != 1;
    });
    for (size_t n = statements(); n-- > 0;)
      for (size_t value = 0; simplify_value(n, value); ++value) {
      }
  }
  // False when statement n has no such value.
  bool simplify_value(size_t n, size_t value) {
    bool there = false;
    auto change_to = [&](const std::function<Affine(const Affine&)>& simpler) {
      return attempt([&](Kernel& kernel) {
        size_t left = n, at = 0;
        const Place place = find(kernel.body, left);
        if (place.block == nullptr) return false;
        bool changed = false;
        each_affine(place.statement(), [&](Affine& e) {
          if (at++ != value) return;
          there = true;
          const Affine with = simpler(e);
          changed = with != e;
          e = with;
        });
        return changed;
      });
    };
    if (change_to([](const Affine&) { return Affine(0); })) return there;
    change_to([](const Affine& e) { return Affine(e.constant()); });
    for (size_t t = 0; t < 4; ++t)
      change_to([&](const Affine& e) {
        return t < e.terms().size() ? e - Affine::var(e.terms()[t].var, e.terms()[t].coef) : e;
      });
    change_to([](const Affine& e) { return e - e.constant(); });
    change_to([](const Affine& e) { return e - (e.constant() - e.constant() / 2); });
    return there;
  }

  void fewer_lanes() {
    for (const int from : {16, 8, 4})
      for (const int to : {1, 4, 8}) {
        if (to >= from) continue;
        attempt([&](Kernel& kernel) {
          bool changed = false;
          for (Register& r : kernel.registers)
            if (r.type.lanes == from) r.type.lanes = to, changed = true;
          each_statement(kernel.body, [&](Stmt& s) {
            LaneMask* m = std::get_if<LaneMask>(&s.node);
            if (m != nullptr && m->count == Affine(from)) m->count = to;
          });
          return changed;
        });
      }
  }

  // A tile has only the registers that are used, becomes one register, or its first dimension goes.
  void smaller_tiles() {
    for (size_t r = 0; r < now_.kernel.registers.size(); ++r) {
      attempt([&](Kernel& kernel) { return pack_tile(kernel, r); });
      auto change = [&](const std::function<void(std::vector<int64_t>&)>& dims, bool drop) {
        return attempt([&](Kernel& kernel) {
          if (kernel.registers[r].dims.empty()) return false;
          dims(kernel.registers[r].dims);
          each_statement(kernel.body, [&](Stmt& s) {
            each_register(s, [&](RegRef& ref) {
              if (static_cast<size_t>(ref.reg) == r && drop) ref.index.erase(ref.index.begin());
            });
          });
          return true;
        });
      };
      while (change([](std::vector<int64_t>& d) { d.erase(d.begin()); }, true)) {
      }
      change([](std::vector<int64_t>& d) { d.assign(d.size(), 1); }, false);
      change([](std::vector<int64_t>& d) { std::ranges::for_each(d, [](int64_t& n) { n = (n + 1) / 2; }); }, false);
    }
  }

  // Where all indices are constants.
  static bool pack_tile(Kernel& kernel, size_t r) {
    std::map<std::vector<int64_t>, int64_t> used;
    bool constant = true;
    auto each = [&](const std::function<void(RegRef&, const std::vector<int64_t>&)>& visit) {
      each_statement(kernel.body, [&](Stmt& s) {
        each_register(s, [&](RegRef& ref) {
          if (static_cast<size_t>(ref.reg) != r) return;
          std::vector<int64_t> index;
          for (const Affine& e : ref.index) constant = constant && e.is_constant(), index.push_back(e.constant());
          visit(ref, index);
        });
      });
    };
    each([&](RegRef&, const std::vector<int64_t>& index) { used.emplace(index, 0); });
    if (!constant || used.empty() || kernel.registers[r].dims.empty()) return false;
    int64_t next = 0;
    for (auto& [index, to] : used) to = next++;
    each([&](RegRef& ref, const std::vector<int64_t>& index) { ref.index = {Affine(used.at(index))}; });
    kernel.registers[r].dims = {next};
    return true;
  }

  // A dimension goes, or becomes shorter, and rows lie close together.
  void smaller_buffers() {
    for (size_t b = 0; b < now_.kernel.buffers.size(); ++b) {
      for (size_t d = 0; d + 1 < now_.kernel.buffers[b].extents.size();)
        if (!attempt([&](Kernel& kernel) { return drop_dimension(kernel, b, d); })) ++d;
      for (size_t d = 0; d < now_.kernel.buffers[b].extents.size(); ++d) {
        for (const int64_t extent : {1, 4, 8, 16, 32})
          if (attempt([&](Kernel& kernel) { return shorten(kernel.buffers[b], d, extent); })) break;
        attempt([&](Kernel& kernel) { return shorten(kernel.buffers[b], d, -1); });
      }
    }
  }
  static bool drop_dimension(Kernel& kernel, size_t b, size_t d) {
    Buffer& buffer = kernel.buffers[b];
    buffer.extents.erase(buffer.extents.begin() + static_cast<std::ptrdiff_t>(d));
    buffer.strides.erase(buffer.strides.begin() + static_cast<std::ptrdiff_t>(d));
    each_statement(kernel.body, [&](Stmt& s) {
      each_access(s, [&](Access& a) {
        if (static_cast<size_t>(a.buffer) == b) a.index.erase(a.index.begin() + static_cast<std::ptrdiff_t>(d));
      });
    });
    return true;
  }
  // extent < 0: the stride of the dimension becomes as long as a row.
  static bool shorten(Buffer& b, size_t d, int64_t extent) {
    if (extent >= 0) {
      const bool shorter = !b.extents[d].is_constant() || b.extents[d].constant() > extent;
      b.extents[d] = extent;
      return shorter;
    }
    if (d + 1 >= b.extents.size() || !b.extents[d + 1].is_constant() || !b.strides[d + 1].is_constant()) return false;
    const Affine close = b.extents[d + 1].constant() * b.strides[d + 1].constant();
    return std::exchange(b.strides[d], close) != close;
  }

  void fewer_runs() {
    for (size_t i = 0; i < now_.runs.size() && now_.runs.size() > 1; ++i) {
      Specimen one = now_;
      one.runs = {now_.runs[i]};
      if (attempt(std::move(one))) return;
    }
  }

  // A parameter becomes the value that it has, when there is only one run.
  void constant_parameters() {
    if (now_.runs.size() != 1) return;
    for (size_t i = now_.kernel.params().size(); i-- > 0;) {
      Specimen candidate = now_;
      const VarId v = candidate.kernel.params()[i];
      const Affine value = now_.runs.front()[i];
      substitute(candidate.kernel, v, value);
      for (Buffer& b : candidate.kernel.buffers) {
        for (Affine& e : b.extents) e = e.substitute(v, value);
        for (Affine& e : b.strides) e = e.substitute(v, value);
      }
      Declarations rest{std::vector<uint8_t>(candidate.kernel.vars.size(), 1),
                        std::vector<uint8_t>(candidate.kernel.buffers.size(), 1),
                        std::vector<uint8_t>(candidate.kernel.registers.size(), 1)};
      rest.vars[static_cast<size_t>(v)] = 0;
      attempt(with_only(std::move(candidate), rest));
    }
  }

  void smaller_parameters() {
    for (size_t run = 0; run < now_.runs.size(); ++run)
      for (size_t i = 0; i < now_.runs[run].size(); ++i)
        for (const int64_t to : {int64_t{0}, int64_t{1}, now_.runs[run][i] / 2, now_.runs[run][i] - 1}) {
          if (to < 0 || to >= now_.runs[run][i]) continue;
          Specimen candidate = now_;
          candidate.runs[run][i] = to;
          if (attempt(std::move(candidate))) break;
        }
  }

  Specimen now_;
  const ShowsFault& shows_fault_;
  const bool provable_;
  std::unordered_set<size_t> tried_;
  int64_t kept_ = 0;
};

}  // namespace

Specimen shrink(Specimen specimen, const ShowsFault& shows_fault) {
  return Shrinker(std::move(specimen), shows_fault).run();
}

int64_t count_statements(const Kernel& kernel) {
  int64_t n = 0;
  each_statement(const_cast<Kernel&>(kernel).body, [&](Stmt&) { ++n; });
  return n;
}

}  // namespace hone::ir
