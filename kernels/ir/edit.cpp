// See edit.h.
#include <algorithm>

#include "kernels/ir/edit.h"

namespace hone::ir {
namespace {

// The registers, accesses and other affine values of each kind of statement. A list for each, so that a new statement
// is missed by the compiler and not by a shrinker.
struct Parts {
  std::vector<RegRef*> registers;
  std::vector<Access*> accesses;
  std::vector<Affine*> values;
};

Parts parts(Const& s) { return {{&s.dst}, {}, {}}; }
Parts parts(Load& s) { return {{&s.dst, &s.mask}, {&s.src}, {}}; }
Parts parts(Broadcast& s) { return {{&s.dst}, {&s.src}, {}}; }
Parts parts(Store& s) { return {{&s.src, &s.mask}, {&s.dst}, {}}; }
Parts parts(Binary& s) { return {{&s.dst, &s.a, &s.b}, {}, {}}; }
Parts parts(Fma& s) { return {{&s.dst, &s.a, &s.b, &s.c}, {}, {}}; }
Parts parts(Pairs& s) { return {{&s.dst, &s.a, &s.b}, {}, {}}; }
Parts parts(DotPairs& s) { return {{&s.dst, &s.a, &s.b, &s.c}, {}, {}}; }
Parts parts(Unary& s) { return {{&s.dst, &s.src}, {}, {}}; }
Parts parts(Compare& s) { return {{&s.dst, &s.a, &s.b}, {}, {}}; }
Parts parts(Select& s) { return {{&s.dst, &s.mask, &s.a, &s.b}, {}, {}}; }
Parts parts(Permute& s) { return {{&s.dst, &s.a, &s.b}, {}, {}}; }
Parts parts(LaneMask& s) { return {{&s.dst}, {}, {&s.count}}; }
Parts parts(Prefetch& s) { return {{}, {&s.src}, {}}; }
Parts parts(For& s) { return {{}, {}, {&s.lo, &s.hi}}; }
Parts parts(Let& s) {
  Parts p;
  for (Affine& e : s.args) p.values.push_back(&e);
  return p;
}
Parts parts(LetLoad& s) { return {{}, {&s.table}, {&s.below}}; }
Parts parts(Specialise& s) { return {{}, {}, {&s.value}}; }
Parts parts(If& s) { return {{}, {}, {&s.expr}}; }

Parts parts_of(Stmt& s) {
  return std::visit([](auto& node) { return parts(node); }, s.node);
}

VarId& variable_of(Stmt& s) {
  static VarId none;
  if (For* f = std::get_if<For>(&s.node)) return f->var;
  if (Let* l = std::get_if<Let>(&s.node)) return l->var;
  if (LetLoad* l = std::get_if<LetLoad>(&s.node)) return l->var;
  if (Specialise* p = std::get_if<Specialise>(&s.node)) return p->var;
  return none = -1;
}

// New ids of those that are used, in order; -1 for the others.
std::vector<int> renumbered(const std::vector<uint8_t>& used) {
  std::vector<int> to(used.size(), -1);
  int next = 0;
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) to[i] = next++;
  return to;
}
template <typename T>
void keep(std::vector<T>& items, const std::vector<uint8_t>& used) {
  size_t i = 0;
  std::erase_if(items, [&](const T&) { return !used[i++]; });
}

Affine with_variables(const Affine& e, const std::vector<int>& to) {
  Affine renamed = e.constant();
  for (const Affine::Term& t : e.terms()) renamed += Affine::var(to[static_cast<size_t>(t.var)], t.coef);
  return renamed;
}

}  // namespace

void each_block(Block& block, const std::function<void(Block&)>& visit) {
  visit(block);
  for (Stmt& s : block)
    for (Block* body : bodies(s)) each_block(*body, visit);
}

void each_statement(Block& block, const std::function<void(Stmt&)>& visit) {
  for (Stmt& s : block) {
    visit(s);
    for (Block* body : bodies(s)) each_statement(*body, visit);
  }
}

void each_register(Stmt& s, const std::function<void(RegRef&)>& visit) {
  for (RegRef* r : parts_of(s).registers)
    if (r->valid()) visit(*r);
}

void each_access(Stmt& s, const std::function<void(Access&)>& visit) {
  for (Access* a : parts_of(s).accesses) visit(*a);
}

void each_affine(Stmt& s, const std::function<void(Affine&)>& visit) {
  const Parts all = parts_of(s);
  for (Affine* e : all.values) visit(*e);
  for (Access* a : all.accesses)
    for (Affine& e : a->index) visit(e);
  for (RegRef* r : all.registers)
    for (Affine& e : r->index) visit(e);
}

VarId defined_variable(const Stmt& s) { return variable_of(const_cast<Stmt&>(s)); }

Declarations used(const Kernel& kernel) {
  Declarations found{std::vector<uint8_t>(kernel.vars.size()), std::vector<uint8_t>(kernel.buffers.size()),
                     std::vector<uint8_t>(kernel.registers.size())};
  auto use = [&](const Affine& e) {
    for (const Affine::Term& t : e.terms()) found.vars[static_cast<size_t>(t.var)] = 1;
  };
  each_statement(const_cast<Kernel&>(kernel).body, [&](Stmt& s) {
    if (const VarId v = defined_variable(s); v >= 0) found.vars[static_cast<size_t>(v)] = 1;
    each_affine(s, use);
    each_register(s, [&](const RegRef& r) { found.registers[static_cast<size_t>(r.reg)] = 1; });
    each_access(s, [&](const Access& a) { found.buffers[static_cast<size_t>(a.buffer)] = 1; });
  });
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    if (!found.buffers[b]) continue;
    for (const Affine& e : kernel.buffers[b].extents) use(e);
    for (const Affine& e : kernel.buffers[b].strides) use(e);
  }
  return found;
}

void keep_only(Kernel& kernel, const Declarations& those) {
  const std::vector<int> var = renumbered(those.vars), buffer = renumbered(those.buffers),
                         reg = renumbered(those.registers);
  each_statement(kernel.body, [&](Stmt& s) {
    if (VarId& v = variable_of(s); v >= 0) v = var[static_cast<size_t>(v)];
    each_affine(s, [&](Affine& e) { e = with_variables(e, var); });
    each_register(s, [&](RegRef& r) { r.reg = reg[static_cast<size_t>(r.reg)]; });
    each_access(s, [&](Access& a) { a.buffer = buffer[static_cast<size_t>(a.buffer)]; });
  });
  keep(kernel.vars, those.vars);
  keep(kernel.buffers, those.buffers);
  keep(kernel.registers, those.registers);
  for (Buffer& b : kernel.buffers) {
    for (Affine& e : b.extents) e = with_variables(e, var);
    for (Affine& e : b.strides) e = with_variables(e, var);
  }
}

}  // namespace hone::ir
