// Walking the parts of a kernel to change them.
#pragma once

#include <functional>
#include <vector>

#include "kernels/ir/ir.h"

namespace hone::ir {

// The bodies of a statement: of a branch both, else at most one.
inline std::vector<Block*> bodies(Stmt& s) {
  if (For* f = std::get_if<For>(&s.node)) return {&f->body};
  if (Specialise* p = std::get_if<Specialise>(&s.node)) return {&p->body};
  if (If* c = std::get_if<If>(&s.node)) return {&c->then_body, &c->else_body};
  return {};
}

// All blocks, outer before inner.
void each_block(Block& block, const std::function<void(Block&)>& visit);
// All statements, outer before inner.
void each_statement(Block& block, const std::function<void(Stmt&)>& visit);

// The operands of one statement, not of those inside it.
void each_register(Stmt& s, const std::function<void(RegRef&)>& visit);
void each_access(Stmt& s, const std::function<void(Access&)>& visit);
// Bounds, conditions, counts and indices of buffers and registers.
void each_affine(Stmt& s, const std::function<void(Affine&)>& visit);

// What the statement defines, or -1.
VarId defined_variable(const Stmt& s);

// By id: is it there, is it used, is it to stay.
struct Declarations {
  std::vector<uint8_t> vars, buffers, registers;
};
Declarations used(const Kernel& kernel);
// The others, which nothing uses, go, and ids become dense.
void keep_only(Kernel& kernel, const Declarations& those);

}  // namespace hone::ir
