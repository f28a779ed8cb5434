// The operands of a problem as arrays with names, for who runs it from files. One class for each op (exec_matmul.cpp,
// exec_attention.cpp): what it wants, how arrays lie in the memory that kernels read, what must come out.
//
// Arrays have the logical shape of the operand, without padding: strides of the problem (lda=.., ldq=..) are how this
// lays them out, with NaN in the gaps. Constant weights (b=packed) are given as model files store them and are packed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/schedule.h"
#include "jit/launch.h"
#include "kernels/numeric/comparison.h"
#include "kernels/op/op.h"
#include "tools/hone/npy.h"

namespace hone::cli {

struct OperandInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // -1: any size
  // Dimensions that are missing in front, or 1, are the same for all, as NumPy broadcasts them.
  bool broadcasts = false;
};

using Arrays = std::map<std::string, NpyArray>;

class ExecWork {
 public:
  virtual ~ExecWork() = default;

  std::vector<OperandInfo> inputs, outputs;

  // Some array for an input: uniform in [-1, 1), or what the operand can be (page tables, masks).
  virtual Result<NpyArray> random(const OperandInfo& input, uint64_t seed) const = 0;
  // Takes all inputs, whose names, types and shapes are right. Error: what check of the operands says.
  virtual Status take(const Arrays& arrays) = 0;
  // One call.
  virtual Status run(const std::vector<jit::Executable>& kernels, runtime::Schedule& schedule,
                     jit::WorkspacePool& workspaces) = 0;
  // After run().
  virtual Result<NpyArray> output(const std::string& name) const = 0;
  // What came out against the naive reference of the program's numerics class, bit for bit.
  virtual Result<numeric::Comparison> check() const = 0;
};

Result<std::unique_ptr<ExecWork>> make_exec_work(const op::Problem& problem, const op::Program& program);

// ok, or what is wrong with the array for this operand.
Status check_array(const OperandInfo& operand, const NpyArray& array);

// ---- for the ops ----

Result<std::unique_ptr<ExecWork>> make_work_of(const matmul::MatmulProblem& problem,
                                               const matmul::TransformProgram& program);
Result<std::unique_ptr<ExecWork>> make_work_of(const attention::AttentionProblem& problem,
                                               const attention::AttentionProgram& program);

// Uniform in [-1, 1).
Result<NpyArray> random_floats(const std::vector<int64_t>& shape, uint64_t seed, std::string_view name);
// Bits from a seed, the name of an operand and a counter.
uint64_t random_bits(uint64_t seed, std::string_view name, uint64_t at);

// `floats` of NaN.
Result<AlignedBuffer> poisoned(int64_t floats);

}  // namespace hone::cli
