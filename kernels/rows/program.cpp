// See program.h.
#include "kernels/rows/program.h"

#include <bit>

namespace hone::rows {

const StepInfo& step_info(StepOp op) {
  static constexpr StepInfo kInfos[] = {
#define HONE_ROW_STEP(id, name, family, operands) {name, StepFamily::family, operands},
#include "kernels/rows/steps.inc"
#undef HONE_ROW_STEP
  };
  return kInfos[static_cast<size_t>(op)];
}

int ProgramBuilder::operand(Operand operand) {
  program_.operands.push_back(operand);
  return static_cast<int>(program_.operands.size()) - 1;
}

ProgramBuilder::Value ProgramBuilder::push(const Step& step) {
  program_.steps.push_back(step);
  return static_cast<Value>(program_.steps.size()) - 1;
}

int ProgramBuilder::in(Columns columns, DType dtype, int gather) {
  return operand({.role = Role::kIn, .dtype = dtype, .columns = columns, .gather = gather});
}
int ProgramBuilder::out(Columns columns, DType dtype) {
  return operand({.role = Role::kOut, .dtype = dtype, .columns = columns});
}
int ProgramBuilder::scratch() { return operand({.role = Role::kScratch}); }

ProgramBuilder::Value ProgramBuilder::load(int operand, int part) {
  return push({.op = StepOp::kLoad, .operand = operand, .part = part});
}
ProgramBuilder::Value ProgramBuilder::constant(float value) {
  return push({.op = StepOp::kConst, .bits = std::bit_cast<uint32_t>(value)});
}
ProgramBuilder::Value ProgramBuilder::constant_s32(int32_t value) {
  return push({.op = StepOp::kConstS32, .bits = static_cast<uint32_t>(value)});
}
ProgramBuilder::Value ProgramBuilder::apply(StepOp op, Value a, Value b, Value c) {
  return push({.op = op, .args = {a, b, c}});
}
void ProgramBuilder::store(int operand, Value a, Value b) {
  push({.op = StepOp::kStore, .operand = operand, .args = {a, b, -1}});
}

}  // namespace hone::rows
