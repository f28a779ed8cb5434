// See folding_internal.h.
#include "jit/asmjit/folding_internal.h"

#include <algorithm>
#include <span>
#include <utility>

namespace hone::jit {

namespace x86 = asmjit::x86;
using asmjit::InstNode;
using asmjit::Operand;

namespace {

std::span<const Operand> operands(const InstNode& node) { return {node.operands(), node.opCount()}; }

bool is_register(const Operand& op, uint32_t id) { return op.isReg() && op.as<asmjit::BaseReg>().id() == id; }

// Nothing between the two writes (or names at all) the registers that the address is made of.
bool address_holds(const InstNode* load, const InstNode* user, const x86::Mem& source) {
  for (const asmjit::BaseNode* node = load->next(); node != user; node = node->next()) {
    if (node == nullptr) return false;
    if (!node->isInst()) continue;
    for (const Operand& op : operands(*node->as<InstNode>()))
      if ((source.hasBaseReg() && is_register(op, source.baseId())) ||
          (source.hasIndexReg() && is_register(op, source.indexId())))
        return false;
  }
  return true;
}

// dst = a op b with b in memory, where a and b may change places.
bool commutes(asmjit::InstId id) {
  return id == x86::Inst::kIdVaddps || id == x86::Inst::kIdVmulps || id == x86::Inst::kIdVpaddd;
}
bool takes_memory(asmjit::InstId id) {
  return commutes(id) || id == x86::Inst::kIdVsubps || id == x86::Inst::kIdVdivps || id == x86::Inst::kIdVminps ||
         id == x86::Inst::kIdVmaxps || id == x86::Inst::kIdVpsubd;
}

// Brings the operand that is the register `id` into last place, where x86 takes memory. False: this instruction has no
// such form. 231 is a = b * c + a; 213 is a = b * a + c; 132 is a = a * c + b.
bool move_last(InstNode& user, uint32_t id) {
  if (user.opCount() != 3 || user.hasExtraReg()) return false;
  Operand& second = user.op(1);
  Operand& third = user.op(2);
  const bool fma231 = user.id() == x86::Inst::kIdVfmadd231ps, fma213 = user.id() == x86::Inst::kIdVfmadd213ps;
  if ((fma231 || fma213) && is_register(user.op(0), id)) return false;
  if (!fma231 && !fma213 && !takes_memory(user.id())) return false;
  if (is_register(third, id)) return true;
  if (!is_register(second, id)) return false;
  if (fma213)
    user.setId(x86::Inst::kIdVfmadd132ps);
  else if (!fma231 && !commutes(user.id()))
    return false;
  std::swap(second, third);
  return true;
}

x86::Mem operand_of(const InstNode& load) {
  x86::Mem source = load.op(1).as<x86::Mem>();
  if (load.id() != x86::Inst::kIdVbroadcastss) return source;
  source.setSize(4);
  switch (load.op(0).as<x86::Vec>().size()) {
    case 16:
      return source._1to4();
    case 32:
      return source._1to8();
    default:
      return source._1to16();
  }
}

}  // namespace

Folding::Value& Folding::value(int element) {
  const auto at = static_cast<size_t>(element);
  if (at >= values_.size()) {
    values_.resize(at + 1);
    crosses_.resize(at + 1, false);
  }
  return values_[at];
}

void Folding::use(int element, InstNode* user) {
  Value& v = value(element);
  if (v.run != run_) {
    crosses_[static_cast<size_t>(element)] = true;
    return;
  }
  ++v.uses;
  v.user = user;
}

void Folding::define(int element, InstNode* load) {
  Value& v = value(element);
  if (v.run == run_)
    end(element);
  else
    defined_.push_back(element);
  v = {.load = load, .user = nullptr, .uses = 0, .run = run_};
  if (load != nullptr) open_.push_back(element);
}

void Folding::store() {
  for (const int element : open_)
    if (Value& v = value(element); v.uses == 0) v.load = nullptr;
  open_.clear();
}

void Folding::end(int element) {
  const Value& v = value(element);
  if (v.load != nullptr && v.uses == 1) candidates_.push_back({element, v.load, v.user});
}

void Folding::end_run() {
  for (const int element : defined_) end(element);
  defined_.clear();
  open_.clear();
  ++run_;
}

void Folding::apply(x86::Compiler& cc) {
  for (const Candidate& c : candidates_) {
    if (crosses_[static_cast<size_t>(c.element)]) continue;
    const uint32_t id = c.load->op(0).id();
    const x86::Mem source = operand_of(*c.load);
    const std::span<const Operand> ops = operands(*c.user);
    const bool has_memory = std::any_of(ops.begin(), ops.end(), [](const Operand& op) { return op.isMem(); });
    if (has_memory || !address_holds(c.load, c.user, source) || !move_last(*c.user, id)) continue;
    c.user->setOp(2, source);
    cc.removeNode(c.load);
  }
}

}  // namespace hone::jit
