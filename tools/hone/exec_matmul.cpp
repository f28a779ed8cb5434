// Matmul from arrays: a [m, k], b [k, n] (nn) or [n, k] (nt, packed), c [m, n] where beta reads it, bias [n], gate and
// residual like c; each with the batch in front where it has one; row_scale [m]. swiglu: c, gate and residual have n /
// 2 columns. b is given as f32; where the problem has weights of 16 bits it is rounded to them.
#include <algorithm>

#include "engine/base/half.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/fallback.h"
#include "kernels/matmul/reference.h"
#include "tools/hone/exec_work.h"

namespace hone::cli {
namespace {

using matmul::BLayout;
using matmul::EpilogueOp;
using matmul::MatmulProblem;

// Rows of a batch of matrices in memory.
struct Place {
  int64_t items = 1, rows = 0, columns = 0, row_stride = 0, item_stride = 0;

  std::vector<int64_t> shape(bool batched) const {
    return batched ? std::vector<int64_t>{items, rows, columns} : std::vector<int64_t>{rows, columns};
  }
  int64_t elements() const {
    if (items == 0 || rows == 0 || columns == 0) return 0;
    return (items - 1) * item_stride + (rows - 1) * row_stride + columns;
  }
  template <typename Visit>
  void each_row(Visit visit) const {
    for (int64_t b = 0; b < items; ++b)
      for (int64_t i = 0; i < rows; ++i) visit((b * rows + i) * columns, b * item_stride + i * row_stride);
  }
};

class MatmulWork final : public ExecWork {
 public:
  MatmulWork(const MatmulProblem& problem, const matmul::TransformProgram& program)
      : p_(problem), source_(problem), dot_(program.dot), packed_(matmul::layout_of(program)) {
    if (p_.b == BLayout::kPacked) source_.b = BLayout::kNt;
    c_ = {p_.batch, p_.m, p_.columns(), p_.row_stride_c(), p_.batch_stride_c()};
    a_ = {p_.sa == 0 ? 1 : p_.batch, p_.m, p_.k, p_.row_stride_a(), p_.batch_stride_a()};
    const bool nt = source_.b == BLayout::kNt;
    b_ = {p_.sb == 0 ? 1 : p_.batch, nt ? p_.n : p_.k, nt ? p_.k : p_.n, source_.row_stride_b(),
          source_.batch_stride_b()};
    const bool batched = p_.batch > 1;
    if (p_.alpha != 0) {
      inputs.push_back({"a", DType::kF32, a_.shape(batched && p_.sa != 0)});
      inputs.push_back({"b", DType::kF32, b_.shape(batched && p_.sb != 0)});
    }
    if (p_.beta != 0) inputs.push_back({"c", DType::kF32, c_.shape(batched)});
    if (p_.has(EpilogueOp::kBias)) inputs.push_back({"bias", DType::kF32, {p_.n}});
    if (p_.has(EpilogueOp::kGate)) inputs.push_back({"gate", DType::kF32, c_.shape(batched)});
    if (p_.has(EpilogueOp::kResidual)) inputs.push_back({"residual", DType::kF32, c_.shape(batched)});
    if (p_.has(EpilogueOp::kRowScale)) inputs.push_back({"row_scale", DType::kF32, {p_.m}});
    outputs.push_back({"c", DType::kF32, c_.shape(batched)});
  }

  Result<NpyArray> random(const OperandInfo& input, uint64_t seed) const override {
    return random_floats(input.shape, seed, input.name);
  }

  Status take(const Arrays& arrays) override {
    HONE_RETURN_IF_ERROR(lay_out(arrays, "a", a_, memory_["a"]));
    HONE_RETURN_IF_ERROR(lay_out(arrays, "b", b_, memory_["b"]));
    if (p_.dtype != DType::kF32 && arrays.contains("b")) HONE_RETURN_IF_ERROR(narrow(memory_["b"]));
    HONE_RETURN_IF_ERROR(lay_out(arrays, "c", c_, initial_c_));
    HONE_RETURN_IF_ERROR(lay_out(arrays, "gate", c_, memory_["gate"]));
    HONE_RETURN_IF_ERROR(lay_out(arrays, "residual", c_, memory_["residual"]));
    HONE_RETURN_IF_ERROR(lay_out(arrays, "bias", {1, 1, p_.n, p_.n, 0}, memory_["bias"]));
    HONE_RETURN_IF_ERROR(lay_out(arrays, "row_scale", {1, 1, p_.m, p_.m, 0}, memory_["row_scale"]));
    if (p_.b == BLayout::kPacked && arrays.contains("b")) HONE_RETURN_IF_ERROR(pack());
    HONE_ASSIGN_OR_RETURN(result_, poisoned(c_.elements()));
    return matmul::check_overlap(p_, operands(result_), packed_);
  }

  Status run(const std::vector<jit::Executable>& kernels, runtime::Schedule& schedule,
             jit::WorkspacePool& workspaces) override {
    reset(result_);
    const matmul::Arguments args = matmul::bind(p_, operands(result_), packed_);
    jit::Launch launch(kernels.front(), args.buffers.data(), args.params.data(), &workspaces);
    const std::string node = matmul::to_string(p_);
    schedule.for_range({"matmul", node}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
    if (launch.out_of_memory()) return resource_exhausted("no memory for a workspace");
    return {};
  }

  Result<NpyArray> output(const std::string&) const override {
    HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(DType::kF32, outputs.front().shape));
    c_.each_row([&](int64_t dense, int64_t there) {
      std::copy_n(result_.as<float>().data() + there, c_.columns, array.as<float>().data() + dense);
    });
    return array;
  }

  Result<numeric::Comparison> check() const override {
    HONE_ASSIGN_OR_RETURN(const AlignedBuffer expected, poisoned(c_.elements()));
    reset(expected);
    matmul::class_f32(p_, operands(expected), packed_, dot_);
    return matmul::compare_bits(p_, result_.as<float>().data(), expected.as<float>().data());
  }

 private:
  Status lay_out(const Arrays& arrays, const std::string& name, const Place& place, AlignedBuffer& memory) {
    const auto at = arrays.find(name);
    if (at == arrays.end()) return {};
    HONE_ASSIGN_OR_RETURN(memory, poisoned(place.elements()));
    place.each_row([&](int64_t dense, int64_t there) {
      std::copy_n(at->second.as<float>().data() + dense, place.columns, memory.as<float>().data() + there);
    });
    return {};
  }

  Status narrow(AlignedBuffer& memory) const {
    const std::span<const float> wide = memory.as<float>();
    HONE_ASSIGN_OR_RETURN(AlignedBuffer made, AlignedBuffer::allocate_elements(std::ssize(wide), sizeof(uint16_t)));
    std::ranges::transform(wide, made.as<uint16_t>().begin(), p_.dtype == DType::kBf16 ? f32_to_bf16 : f32_to_f16);
    memory = std::move(made);
    return {};
  }

  Status pack() {
    const int64_t item = (packed_.elements(p_.n, p_.k) + 31) / 32 * 32;  // whole vectors are stored
    packed_.batch_stride = b_.items == 1 ? 0 : item;
    HONE_ASSIGN_OR_RETURN(AlignedBuffer panels, AlignedBuffer::allocate_elements(item * b_.items, p_.bytes_b()));
    for (int64_t i = 0; i < b_.items; ++i)
      matmul::fallback_pack_b(source_, memory_["b"].data() + i * b_.item_stride * p_.bytes_b(),
                              panels.data() + i * item * p_.bytes_b(), packed_, 0, packed_.panels(p_.n));
    memory_["b"] = std::move(panels);
    return {};
  }

  // C as before a call.
  void reset(const AlignedBuffer& c) const {
    if (!initial_c_.empty()) std::copy_n(initial_c_.data(), initial_c_.size(), c.data());
  }
  const float* operand(const char* name) const {
    const auto at = memory_.find(name);
    return at == memory_.end() ? nullptr : at->second.as<float>().data();
  }
  matmul::MatmulOperands operands(const AlignedBuffer& c) const {
    return {.a = operand("a"),
            .b = operand("b"),
            .c = c.as<float>().data(),
            .bias = operand("bias"),
            .gate = operand("gate"),
            .residual = operand("residual"),
            .row_scale = operand("row_scale")};
  }

  const MatmulProblem p_;
  MatmulProblem source_;  // with B as it is given
  matmul::Dot dot_;
  matmul::PackedB packed_;
  Place a_, b_, c_;
  std::map<std::string, AlignedBuffer, std::less<>> memory_;
  AlignedBuffer initial_c_, result_;
};

}  // namespace

Result<std::unique_ptr<ExecWork>> make_work_of(const MatmulProblem& problem, const matmul::TransformProgram& program) {
  HONE_RETURN_IF_ERROR(matmul::validate(problem));
  return std::unique_ptr<ExecWork>(std::make_unique<MatmulWork>(problem, program));
}

}  // namespace hone::cli
