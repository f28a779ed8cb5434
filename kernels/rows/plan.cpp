// From steps to types and passes; every rule that a program must meet is checked here.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "kernels/ir/ir.h"
#include "kernels/rows/plan_internal.h"

namespace hone::rows {
namespace {

bool is_label(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class Planner {
 public:
  explicit Planner(const RowProgram& program) : p_(program) {}

  Result<RowPlan> run() {
    HONE_RETURN_IF_ERROR(check_head());
    for (size_t i = 0; i < p_.operands.size(); ++i) HONE_RETURN_IF_ERROR(check_operand(i));
    stored_.assign(p_.operands.size(), -1);
    for (at_ = 0; at_ < p_.steps.size(); ++at_) HONE_RETURN_IF_ERROR(step(p_.steps[at_]));
    for (size_t i = 0; i < p_.operands.size(); ++i)
      if (p_.operands[i].role == Role::kOut && stored_[i] < 0)
        return program_error(fmt::format("operand {} is an output that no step stores", i));
    make_passes();
    HONE_RETURN_IF_ERROR(check_overwritten());
    return std::move(plan_);
  }

 private:
  // ---- the head ----
  Status program_error(const std::string& what) const {
    return invalid_argument(fmt::format("row program '{}': {}", printable(p_.name), what));
  }
  Status step_error(const std::string& what) const { return program_error(fmt::format("step {}: {}", at_, what)); }

  Status check_head() const {
    if (!is_label(p_.name)) return program_error("a name is 1 to 64 of a-z, 0-9 and _");
    if (p_.outer < 0 || p_.outer > kMaxOuter)
      return program_error(fmt::format("{} outer dimensions, expected 0..{}", p_.outer, kMaxOuter));
    if (p_.n != kRuntime && (p_.n < 1 || p_.n > kMaxColumns))
      return program_error(fmt::format("{} columns, expected 1..{} or n", p_.n, kMaxColumns));
    if (p_.operands.empty() || p_.operands.size() > kMaxOperands)
      return program_error(fmt::format("{} operands, expected 1..{}", p_.operands.size(), kMaxOperands));
    if (p_.steps.empty() || p_.steps.size() > kMaxSteps)
      return program_error(fmt::format("{} steps, expected 1..{}", p_.steps.size(), kMaxSteps));
    return {};
  }

  Status check_operand(size_t i) const {
    const Operand& o = p_.operands[i];
    auto wrong = [&](const char* what) { return program_error(fmt::format("operand {}: {}", i, what)); };
    if (dtype_bytes(o.dtype) != 4 &&
        (o.role != Role::kIn || (o.columns != Columns::kDense && o.columns != Columns::kStrided)))
      return wrong("u8, bf16 and f16 are for dense or strided inputs");
    if (o.role == Role::kScratch && (o.dtype != DType::kF32 || o.columns != Columns::kDense || p_.n == kRuntime))
      return wrong("scratch is dense f32 of a constant n");
    if (has_two_parts(o.columns) && p_.n == kRuntime) return wrong("halves and pairs need a constant n");
    if (o.gather != -1 && (o.role != Role::kIn || o.gather < 0 || o.gather >= p_.outer))
      return wrong("gather is for inputs, and names an outer dimension");
    return {};
  }

  // ---- steps ----
  const ValueInfo& info(int value) const { return plan_.values[static_cast<size_t>(value)]; }
  const Operand& operand(const Step& s) const { return p_.operands[static_cast<size_t>(s.operand)]; }

  Status check_args(const Step& s, int count) const {
    for (int i = 0; i < 3; ++i) {
      const int arg = s.args[static_cast<size_t>(i)];
      if (i >= count) {
        if (arg != -1) return step_error(fmt::format("{} takes {} values", step_info(s.op).name, count));
        continue;
      }
      if (arg < 0 || static_cast<size_t>(arg) >= at_ || info(arg).type == ValueType::kNone)
        return step_error(fmt::format("'%{}' is not a value of an earlier step", arg));
    }
    return {};
  }
  bool all(const Step& s, int from, int to, ValueType type) const {
    for (int i = from; i < to; ++i)
      if (info(s.args[static_cast<size_t>(i)]).type != type) return false;
    return true;
  }

  Status step(const Step& s) {
    if (static_cast<size_t>(s.op) > static_cast<size_t>(StepOp::kStore)) return step_error("no such operation");
    const StepInfo& of = step_info(s.op);
    const bool moves = of.family == StepFamily::kLoad || of.family == StepFamily::kStore;
    if (moves ? s.operand < 0 || static_cast<size_t>(s.operand) >= p_.operands.size() : s.operand != -1)
      return step_error("no such operand");
    if (s.part < 0 || s.part > (of.family == StepFamily::kLoad && has_two_parts(operand(s).columns) ? 1 : 0))
      return step_error(fmt::format("there is no part {}", s.part));
    if (of.family != StepFamily::kConst && s.bits != 0) return step_error("only const has bits");
    const int count = is_store(s) && has_two_parts(operand(s).columns) ? 2 : of.operands;
    HONE_RETURN_IF_ERROR(check_args(s, count));
    HONE_ASSIGN_OR_RETURN(ValueInfo made, result(s, of, count));
    plan_.values.push_back(made);
    if (is_store(s)) stored_[static_cast<size_t>(s.operand)] = static_cast<int>(at_);
    return {};
  }

  Result<ValueInfo> result(const Step& s, const StepInfo& of, int count) const {
    ValueInfo made{ValueType::kF32, true, 0};
    for (int i = 0; i < count; ++i) {
      const ValueInfo& arg = info(s.args[static_cast<size_t>(i)]);
      made.per_row = made.per_row && arg.per_row;
      made.pass = std::max(made.pass, arg.pass);
    }
    auto expect = [&](bool right, const char* what) {
      return right ? Status() : step_error(fmt::format("{} takes {}", of.name, what));
    };
    const ValueType first = count > 0 ? info(s.args[0]).type : ValueType::kNone;
    switch (of.family) {
      case StepFamily::kLoad:
        return load(s);
      case StepFamily::kConst:
        if (s.op == StepOp::kConstS32) made.type = ValueType::kS32;
        return made;
      case StepFamily::kUnary:
      case StepFamily::kTernary:
        HONE_RETURN_IF_ERROR(expect(all(s, 0, count, ValueType::kF32), "f32"));
        return made;
      case StepFamily::kToFloat:
        HONE_RETURN_IF_ERROR(expect(first == ValueType::kS32 || first == ValueType::kMask, "s32 or a mask"));
        return made;
      case StepFamily::kToInt:
        HONE_RETURN_IF_ERROR(expect(first == ValueType::kF32, "f32"));
        made.type = ValueType::kS32;
        return made;
      case StepFamily::kLogic:
        HONE_RETURN_IF_ERROR(expect(all(s, 0, count, ValueType::kMask), "masks"));
        made.type = ValueType::kMask;
        return made;
      case StepFamily::kBinary:
        made.type = first;
        if (first == ValueType::kS32 && (s.op == StepOp::kAdd || s.op == StepOp::kSub)) {
          HONE_RETURN_IF_ERROR(expect(all(s, 0, 2, ValueType::kS32), "two values of one type"));
          return made;
        }
        HONE_RETURN_IF_ERROR(expect(all(s, 0, 2, ValueType::kF32), "f32"));
        return made;
      case StepFamily::kCompare:
        HONE_RETURN_IF_ERROR(expect(first != ValueType::kMask && all(s, 0, 2, first), "two numbers of one type"));
        made.type = ValueType::kMask;
        return made;
      case StepFamily::kSelect:
        made.type = info(s.args[1]).type;
        HONE_RETURN_IF_ERROR(
            expect(first == ValueType::kMask && made.type != ValueType::kMask && made.type == info(s.args[2]).type,
                   "a mask and two values of one type"));
        return made;
      case StepFamily::kReduce:
        HONE_RETURN_IF_ERROR(expect(all(s, 0, count, ValueType::kF32), "f32"));
        return ValueInfo{ValueType::kF32, true, made.pass + 1};
      case StepFamily::kStore:
        return store(s, count, made);
    }
    return step_error("no such operation");
  }

  Result<ValueInfo> load(const Step& s) const {
    const Operand& o = operand(s);
    ValueInfo made{ir::register_dtype(o.dtype) == DType::kF32 ? ValueType::kF32 : ValueType::kS32,
                   o.columns == Columns::kOne, 0};
    if (o.role == Role::kIn) return made;
    const int before = stored_[static_cast<size_t>(s.operand)];
    if (before < 0) return step_error(fmt::format("operand {} is loaded before it is stored", s.operand));
    if (o.columns == Columns::kOne) return step_error("what is stored once a row is not loaded again: use the value");
    made.pass = info(before).pass;
    return made;
  }

  Result<ValueInfo> store(const Step& s, int count, ValueInfo made) const {
    const Operand& o = operand(s);
    if (o.role == Role::kIn) return step_error(fmt::format("operand {} is an input", s.operand));
    if (!all(s, 0, count, o.dtype == DType::kF32 ? ValueType::kF32 : ValueType::kS32))
      return step_error(fmt::format("operand {} holds {}", s.operand, dtype_name(o.dtype)));
    if (o.columns == Columns::kOne && !made.per_row)
      return step_error(fmt::format("operand {} has one element a row, the value one a column", s.operand));
    made.type = ValueType::kNone;
    made.per_row = o.columns == Columns::kOne;
    if (const int before = stored_[static_cast<size_t>(s.operand)]; before >= 0)
      made.pass = std::max(made.pass, info(before).pass);
    return made;
  }

  // ---- passes ----
  // What the loop of a pass is for.
  bool is_root(size_t i, int pass) const {
    const ValueInfo& v = plan_.values[i];
    if (is_reduction(p_.steps[i])) return v.pass == pass + 1;
    return is_store(p_.steps[i]) && !v.per_row && v.pass == pass;
  }

  void make_passes() {
    int last = 0;
    for (const ValueInfo& v : plan_.values) last = std::max(last, v.pass);
    for (int pass = 0; pass <= last; ++pass) {
      std::vector<int> per_row, columns;
      std::vector<bool> needed(p_.steps.size(), false);
      for (size_t i = p_.steps.size(); i-- > 0;) {
        if (!needed[i] && !is_root(i, pass)) continue;
        columns.push_back(static_cast<int>(i));
        for (const int arg : p_.steps[i].args)
          if (arg >= 0 && !info(arg).per_row) needed[static_cast<size_t>(arg)] = true;
      }
      std::reverse(columns.begin(), columns.end());
      for (size_t i = 0; i < p_.steps.size(); ++i) {
        const ValueInfo& v = plan_.values[i];
        if (v.per_row && v.pass == pass && !is_reduction(p_.steps[i]) && !is_constant(p_.steps[i]))
          per_row.push_back(static_cast<int>(i));
      }
      plan_.per_row.push_back(std::move(per_row));
      plan_.columns.push_back(std::move(columns));
    }
  }

  // What is loaded from an output is what the store before it left there: no pass may look for it after the next.
  Status check_overwritten() {
    for (size_t pass = 0; pass < plan_.columns.size(); ++pass) {
      for (const int i : plan_.columns[pass]) {
        const Step& load = p_.steps[static_cast<size_t>(i)];
        if (load.op != StepOp::kLoad || operand(load).role == Role::kIn) continue;
        for (size_t j = static_cast<size_t>(i) + 1; j < p_.steps.size(); ++j) {
          if (!is_store(p_.steps[j]) || p_.steps[j].operand != load.operand) continue;
          if (info(static_cast<int>(j)).pass < static_cast<int>(pass)) {
            at_ = static_cast<size_t>(i);
            return step_error(fmt::format("pass {} needs what step {} has overwritten; store it elsewhere", pass, j));
          }
        }
      }
    }
    return {};
  }

  const RowProgram& p_;
  RowPlan plan_;
  std::vector<int> stored_;  // by operand: the last store so far
  size_t at_ = 0;
};

}  // namespace

Result<RowPlan> make_plan(const RowProgram& program) { return Planner(program).run(); }

Status validate(const RowProgram& program) { return make_plan(program).status(); }

bool may_share(const RowProgram& program, size_t in, size_t out) {
  const Result<RowPlan> plan = make_plan(program);
  if (!plan.ok() || in >= program.operands.size() || out >= program.operands.size()) return false;
  const Operand &i = program.operands[in], &o = program.operands[out];
  if (i.role != Role::kIn || o.role != Role::kOut || i.gather >= 0) return false;
  if (i.columns != o.columns || dtype_bytes(i.dtype) != dtype_bytes(o.dtype)) return false;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& store = program.steps[s];
    if (!is_store(store) || static_cast<size_t>(store.operand) != out) continue;
    const auto stored_in = static_cast<size_t>(plan->values[s].pass);
    for (size_t pass = 0; pass < plan->columns.size(); ++pass)
      for (const auto* list : {&plan->per_row[pass], &plan->columns[pass]})
        for (const int l : *list) {
          const Step& load = program.steps[static_cast<size_t>(l)];
          const bool reads = load.op == StepOp::kLoad && static_cast<size_t>(load.operand) == in;
          // Passes are the order of the kernel, the list is that of reference(): both must agree.
          if (reads && (pass > stored_in || static_cast<size_t>(l) > s)) return false;
        }
  }
  return true;
}

}  // namespace hone::rows
