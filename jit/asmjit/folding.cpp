// See folding_internal.h.
#include "jit/asmjit/folding_internal.h"

#include <algorithm>
#include <optional>
#include <set>
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
         id == x86::Inst::kIdVmaxps || id == x86::Inst::kIdVpsubd || id == x86::Inst::kIdVcvtne2ps2bf16;
}

// k0 is no mask.
bool is_masked(const InstNode& user) { return user.hasExtraReg() && user.extraReg().id() != x86::k0.id(); }

// The instruction to use when an operand goes to last place, where x86 takes memory.
struct Form {
  asmjit::InstId id;
  bool swap;  // it is the second now
};

// Of `user` for its operand that is the register `id`; nothing when there is no such form, or it has memory already.
// 231 is a = b * c + a, as are products of pairs; 213 is a = b * a + c; 132 is a = a * c + b.
std::optional<Form> form_with_last(const InstNode& user, uint32_t id) {
  if (user.opCount() != 3 || is_masked(user) || user.op(1).isMem() || user.op(2).isMem()) return std::nullopt;
  const bool second = is_register(user.op(1), id), third = is_register(user.op(2), id);
  const bool fma231 = user.id() == x86::Inst::kIdVfmadd231ps || user.id() == x86::Inst::kIdVdpbf16ps;
  const bool fma213 = user.id() == x86::Inst::kIdVfmadd213ps;
  if (second == third || ((fma231 || fma213) && is_register(user.op(0), id))) return std::nullopt;
  if (!fma231 && !fma213 && !takes_memory(user.id())) return std::nullopt;
  if (third) return Form{user.id(), false};
  if (fma213) return Form{x86::Inst::kIdVfmadd132ps, true};
  if (fma231 || commutes(user.id())) return Form{user.id(), true};
  return std::nullopt;
}

void take_memory(InstNode& user, const Form& form, const x86::Mem& source) {
  user.setId(form.id);
  if (form.swap) std::swap(user.op(1), user.op(2));
  user.setOp(2, source);
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
    constants_.resize(at + 1);
    touched_.resize(at + 1, -1);
  }
  return values_[at];
}

Folding::Constant& Folding::constant_of(int element) {
  value(element);
  return constants_[static_cast<size_t>(element)];
}

void Folding::touch(int element) {
  value(element);
  if (std::exchange(touched_[static_cast<size_t>(element)], run_) != run_) ++current_.elements;
}

void Folding::use(int element, InstNode* user) {
  touch(element);
  current_.uses.push_back({element, user});
  Value& v = value(element);
  if (v.run != run_) {
    crosses_[static_cast<size_t>(element)] = true;
    return;
  }
  ++v.uses;
  v.user = user;
}

void Folding::define(int element, InstNode* load) {
  touch(element);
  constant_of(element).only = false;
  Value& v = value(element);
  if (v.run == run_)
    end(element);
  else
    defined_.push_back(element);
  v = {.load = load, .user = nullptr, .uses = 0, .run = run_};
  if (load != nullptr) open_.push_back(element);
}

void Folding::define_constant(int element, uint32_t bits, const x86::Vec& reg) {
  const Constant before = constant_of(element);
  define(element, nullptr);
  constant_of(element) = {
      .only = before.only && (!before.defined || before.bits == bits), .defined = true, .bits = bits, .reg = reg};
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
  runs_.push_back(std::exchange(current_, {}));
  ++run_;
}

void Folding::apply(x86::Compiler& cc, size_t registers, const ConstantOperand& constant) {
  fold_loads(cc);
  std::set<int> folded;
  for (const Run& run : runs_) fold_constants(run, registers, constant, folded);
  // Elsewhere too, or they would still live through the run that had no register for them.
  for (const int element : folded)
    for (const Run& run : runs_) fold_constant(run, element, constant);
}

void Folding::fold_loads(x86::Compiler& cc) {
  for (const Candidate& c : candidates_) {
    if (crosses_[static_cast<size_t>(c.element)]) continue;
    const x86::Mem source = operand_of(*c.load);
    const std::optional<Form> form = form_with_last(*c.user, c.load->op(0).id());
    if (!form || !address_holds(c.load, c.user, source)) continue;
    take_memory(*c.user, *form, source);
    cc.removeNode(c.load);
  }
}

// Those with the fewest uses first, as many as there are elements too many.
void Folding::fold_constants(const Run& run, size_t registers, const ConstantOperand& constant, std::set<int>& folded) {
  if (run.elements <= registers) return;
  std::vector<std::pair<int, int>> constants;  // uses, element
  for (const Use& use : run.uses) {
    const Constant& c = constants_[static_cast<size_t>(use.element)];
    if (!c.only || !c.defined) continue;
    const auto known =
        std::find_if(constants.begin(), constants.end(), [&](const auto& k) { return k.second == use.element; });
    if (known == constants.end()) {
      constants.emplace_back(1, use.element);
    } else {
      ++known->first;
    }
  }
  std::sort(constants.begin(), constants.end());
  size_t excess = run.elements - registers;
  for (const auto& [uses, element] : constants) {
    if (excess == 0) return;
    if (!fold_constant(run, element, constant)) continue;
    folded.insert(element);
    --excess;
  }
}

// All uses in this run or none: one that stays needs the register.
bool Folding::fold_constant(const Run& run, int element, const ConstantOperand& constant) {
  const Constant& c = constants_[static_cast<size_t>(element)];
  std::vector<std::pair<InstNode*, Form>> users;
  for (const Use& use : run.uses) {
    if (use.element != element) continue;
    const std::optional<Form> form = form_with_last(*use.user, c.reg.id());
    // Factor and addend of one fma: the addend is copied from the register first.
    const bool again = std::any_of(users.begin(), users.end(), [&](const auto& u) { return u.first == use.user; });
    if (!form || again) return false;
    users.emplace_back(use.user, *form);
  }
  for (const auto& [user, form] : users) take_memory(*user, form, constant(c.bits, c.reg));
  return true;
}

}  // namespace hone::jit
