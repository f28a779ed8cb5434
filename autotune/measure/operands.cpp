// See operands.h.
#include "autotune/measure/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "autotune/measure/values_internal.h"
#include "engine/base/half.h"
#include "engine/base/math.h"
#include "kernels/matmul/fallback.h"
#include "kernels/matmul/program.h"
#include "kernels/matmul/reference.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::EpilogueOp;
using matmul::MatmulProblem;

int64_t span_of(int64_t batch, int64_t batch_stride, int64_t rows, int64_t row_stride, int64_t cols) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return (batch - 1) * batch_stride + (rows - 1) * row_stride + cols;
}

struct Matrix {
  int64_t batch, batch_stride, rows, row_stride, cols;
};

void fill(std::span<float> values, const Matrix& m, uint64_t key) {
  poison(values);
  const int64_t items = m.batch_stride == 0 ? 1 : m.batch;
  for (int64_t item = 0; item < items; ++item) {
    for (int64_t r = 0; r < m.rows; ++r) {
      const int64_t at = item * m.batch_stride + r * m.row_stride;
      if (m.cols > 0)
        fill_row(values.subspan(static_cast<size_t>(at), static_cast<size_t>(m.cols)),
                 mix(key) + 2 * static_cast<uint64_t>(at));
    }
  }
}

Matrix like_c(const MatmulProblem& p) { return {p.batch, p.batch_stride_c(), p.m, p.row_stride_c(), p.columns()}; }

Matrix rows_of_b(const MatmulProblem& source) {
  const bool nt = source.b == BLayout::kNt;
  return {source.batch, source.batch_stride_b(), nt ? source.n : source.k, source.row_stride_b(),
          nt ? source.k : source.n};
}

int64_t extent(const Matrix& m) { return span_of(m.batch, m.batch_stride, m.rows, m.row_stride, m.cols); }

std::span<const std::byte> bytes_of(const AlignedBuffer& buffer) {
  return {buffer.data(), static_cast<size_t>(buffer.size())};
}

const float* floats(const AlignedBuffer& buffer) { return buffer.as<float>().data(); }

}  // namespace

int64_t elements_a(const MatmulProblem& p) { return span_of(p.batch, p.batch_stride_a(), p.m, p.row_stride_a(), p.k); }
int64_t elements_c(const MatmulProblem& p) { return extent(like_c(p)); }

Result<Operands> Operands::create(const MatmulProblem& problem, uint64_t seed, std::shared_ptr<Weights>* shared) {
  HONE_RETURN_IF_ERROR(matmul::validate(problem));
  Operands operands(problem);
  if (problem.b == BLayout::kPacked) operands.source_.b = BLayout::kNt;
  HONE_RETURN_IF_ERROR(operands.allocate(seed, shared));
  return operands;
}

namespace {

Status make(AlignedBuffer& buffer, const Matrix& matrix, uint64_t key) {
  HONE_ASSIGN_OR_RETURN(buffer, AlignedBuffer::allocate_elements(extent(matrix), sizeof(float), Touch::kNow));
  fill(buffer.as<float>(), matrix, key);
  return {};
}

// Of 16 bits: the same values, rounded.
Status make_weights(AlignedBuffer& buffer, const Matrix& matrix, uint64_t key, DType dtype) {
  if (dtype == DType::kF32) return make(buffer, matrix, key);
  HONE_ASSIGN_OR_RETURN(buffer, AlignedBuffer::allocate_elements(extent(matrix), sizeof(uint16_t), Touch::kNow));
  const std::span<uint16_t> all = buffer.as<uint16_t>();
  std::ranges::fill(all, uint16_t{0xffff});  // NaN
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  const int64_t items = matrix.batch_stride == 0 ? 1 : matrix.batch;
  for (int64_t r = 0; !row.empty() && r < items * matrix.rows; ++r) {
    const int64_t at = r / matrix.rows * matrix.batch_stride + r % matrix.rows * matrix.row_stride;
    fill_row(row, mix(key) + 2 * static_cast<uint64_t>(at));
    std::ranges::transform(row, all.begin() + at, dtype == DType::kBf16 ? f32_to_bf16 : f32_to_f16);
  }
  return {};
}

}  // namespace

Status Operands::use_weights(uint64_t seed, std::shared_ptr<Weights>* shared) {
  const std::string wanted = fmt::format("{} seed {}", matmul::family(p_), seed);
  if (shared != nullptr && *shared != nullptr) {
    if ((*shared)->of == wanted) {
      weights_ = *shared;
      return {};
    }
    shared->reset();
  }
  weights_ = std::make_shared<Weights>();
  weights_->of = wanted;
  HONE_RETURN_IF_ERROR(make_weights(weights_->rows, rows_of_b(source_), mix(seed) ^ 2, p_.dtype));
  if (shared != nullptr) *shared = weights_;
  return {};
}

Status Operands::allocate(uint64_t seed, std::shared_ptr<Weights>* shared) {
  c_elements_ = static_cast<size_t>(elements_c(p_));
  auto key = [seed](uint64_t stream) { return mix(seed) ^ stream; };
  HONE_RETURN_IF_ERROR(make(a_, {p_.batch, p_.batch_stride_a(), p_.m, p_.row_stride_a(), p_.k}, key(1)));
  HONE_RETURN_IF_ERROR(use_weights(seed, shared));
  HONE_ASSIGN_OR_RETURN(c_, AlignedBuffer::allocate_elements(elements_c(p_), sizeof(float), Touch::kNow));
  if (p_.has(EpilogueOp::kBias)) HONE_RETURN_IF_ERROR(make(bias_, {1, 0, 1, p_.n, p_.n}, key(3)));
  if (p_.has(EpilogueOp::kGate)) HONE_RETURN_IF_ERROR(make(gate_, like_c(p_), key(4)));
  if (p_.has(EpilogueOp::kResidual)) HONE_RETURN_IF_ERROR(make(residual_, like_c(p_), key(5)));
  if (p_.has(EpilogueOp::kRowScale)) HONE_RETURN_IF_ERROR(make(row_scale_, {1, 0, p_.m, 1, 1}, key(6)));
  reset_c();
  return {};
}

matmul::PackedB Operands::layout(int64_t width, int64_t kr) const {
  const int64_t each = matmul::packed_elements(p_.n, p_.k, width, kr);
  return {.width = width, .batch_stride = source_.batch_stride_b() == 0 ? 0 : each, .kr = kr};
}

Status Operands::pack(int64_t width, int64_t kr, jit::CodeGenerator& generator, Isa isa) {
  if (weights_->packed.contains({width, kr})) return {};
  MatmulProblem source = source_;
  source.epilogue.clear();
  source.ldc = 0, source.sc = -1;  // of a C that may be narrower than without its epilogue
  const matmul::PackedB packed = layout(width, kr);
  const int64_t each = packed.elements(p_.n, p_.k);
  const int64_t items = packed.batch_stride == 0 ? 1 : p_.batch;
  HONE_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                        AlignedBuffer::allocate_elements(items * each, p_.bytes_b(), Touch::kNow));
  poison(buffer.as<float>());
  jit::WorkspacePool workspaces;
  std::optional<jit::Executable> executable;
  if (p_.dtype == DType::kF32) {
    HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, matmul::lower_pack_b(source, width, isa));
    HONE_ASSIGN_OR_RETURN(executable, jit::make_executable(kernel, generator, isa));
  }
  for (int64_t item = 0; item < items; ++item) {
    std::byte* source_item = weights_->rows.data() + item * source_.batch_stride_b() * p_.bytes_b();
    std::byte* packed_item = buffer.data() + item * each * p_.bytes_b();
    if (!executable) {
      matmul::fallback_pack_b(source, source_item, packed_item, packed, 0, ceil_div(p_.n, width));
      continue;
    }
    void* buffers[] = {source_item, packed_item};
    jit::Launch launch(*executable, buffers, nullptr, &workspaces);
    jit::Launch::run_range(&launch, 0, launch.tasks());
    if (launch.out_of_memory()) return resource_exhausted("no memory for the workspace of packing");
  }
  weights_->packed.emplace(std::pair(width, kr), std::move(buffer));
  return {};
}

std::span<const std::byte> Operands::b(const matmul::PackedB& packed) const {
  return bytes_of(p_.b == BLayout::kPacked ? weights_->packed.at({packed.width, packed.kr}) : weights_->rows);
}

matmul::MatmulOperands Operands::view(const matmul::PackedB& packed) const {
  return {.a = floats(a_),
          .b = b(packed).data(),
          .c = c_.as<float>().data(),
          .bias = floats(bias_),
          .gate = floats(gate_),
          .residual = floats(residual_),
          .row_scale = floats(row_scale_)};
}

std::vector<std::span<const std::byte>> Operands::ranges(const matmul::PackedB& packed) const {
  return {bytes_of(a_),    b(packed),           bytes_of(c_),        bytes_of(bias_),
          bytes_of(gate_), bytes_of(residual_), bytes_of(row_scale_)};
}

float Operands::initial_c(int64_t item, int64_t i, int64_t j) const {
  const uint64_t at = (static_cast<uint64_t>(item) << 48) ^ (static_cast<uint64_t>(i) << 24) ^ static_cast<uint64_t>(j);
  return unit(static_cast<uint32_t>(mix(at)));
}

void Operands::reset_c(const MatmulProblem& shape, std::span<float> c) const {
  poison(c);
  if (p_.beta == 0) return;
  for (int64_t item = 0; item < shape.batch; ++item)
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.columns(); ++j)
        c[static_cast<size_t>(item * shape.batch_stride_c() + i * shape.row_stride_c() + j)] = initial_c(item, i, j);
}

void Operands::copy_a(const MatmulProblem& shape, std::span<float> a) const {
  poison(a);
  if (shape.k == 0) return;
  for (int64_t item = 0; item < shape.batch; ++item)
    for (int64_t i = 0; i < shape.m; ++i)
      std::copy_n(floats(a_) + item * p_.batch_stride_a() + i * p_.row_stride_a(), shape.k,
                  a.data() + item * shape.batch_stride_a() + i * shape.row_stride_a());
}

void Operands::copy_like_c(const MatmulProblem& shape, const float* from, std::span<float> to) const {
  poison(to);
  if (from == nullptr) return;
  for (int64_t item = 0; item < shape.batch; ++item)
    for (int64_t i = 0; i < shape.m; ++i)
      std::copy_n(from + item * p_.batch_stride_c() + i * p_.row_stride_c(), shape.columns(),
                  to.data() + item * shape.batch_stride_c() + i * shape.row_stride_c());
}

// The cells as a problem of their own. With swiglu its columns are whole groups, the last filled up with the last cell,
// as gate and up columns: what comes of the filling is dropped.
std::vector<float> Operands::reference(const Cells& cells, matmul::Dot dot) const {
  const bool pairs = p_.swiglu();
  std::vector<int64_t> cols = cells.cols;
  if (pairs && !cols.empty())
    cols.resize(static_cast<size_t>(round_up(std::ssize(cols), matmul::kSwigluColumns)), cols.back());
  std::vector<int64_t> b_cols = cols;
  if (pairs) {
    b_cols.resize(2 * cols.size());
    for (int64_t j = 0; j < std::ssize(cols); ++j) {
      b_cols[static_cast<size_t>(matmul::gate_column(j))] = matmul::gate_column(cols[static_cast<size_t>(j)]);
      b_cols[static_cast<size_t>(matmul::up_column(j))] = matmul::up_column(cols[static_cast<size_t>(j)]);
    }
  }
  MatmulProblem sub = p_;
  sub.dtype = DType::kF32;
  sub.m = std::ssize(cells.rows), sub.n = std::ssize(b_cols), sub.b = BLayout::kNt;
  sub.lda = sub.ldb = sub.ldc = 0;
  sub.batch = 1, sub.sa = sub.sb = sub.sc = -1;
  std::vector<float> a, b, bias, gate, residual, row_scale, c;
  for (int64_t i : cells.rows) {
    const float* row = floats(a_) + cells.item * p_.batch_stride_a() + i * p_.row_stride_a();
    a.insert(a.end(), row, row + p_.k);
    if (!row_scale_.empty()) row_scale.push_back(floats(row_scale_)[i]);
    for (int64_t j : cols) {
      const int64_t at = cells.item * p_.batch_stride_c() + i * p_.row_stride_c() + j;
      c.push_back(initial_c(cells.item, i, j));
      if (!gate_.empty()) gate.push_back(floats(gate_)[at]);
      if (!residual_.empty()) residual.push_back(floats(residual_)[at]);
    }
  }
  const int64_t b_item = cells.item * source_.batch_stride_b();
  for (int64_t j : b_cols) {
    if (!bias_.empty()) bias.push_back(floats(bias_)[j]);
    for (int64_t p = 0; p < p_.k; ++p)
      b.push_back(matmul::element_b(
          p_.dtype, weights_->rows.data(),
          b_item + (source_.b == BLayout::kNt ? j * source_.row_stride_b() + p : p * source_.row_stride_b() + j)));
  }
  const matmul::MatmulOperands operands{.a = a.data(),
                                        .b = b.data(),
                                        .c = c.data(),
                                        .bias = bias.data(),
                                        .gate = gate.data(),
                                        .residual = residual.data(),
                                        .row_scale = row_scale.data()};
  matmul::class_f32(sub, operands, {}, dot);
  // Rows of the filled width, cut to the cells.
  const size_t wide = cols.size(), asked = cells.cols.size();
  for (size_t i = 1; wide != asked && i < cells.rows.size(); ++i)
    std::copy_n(c.begin() + static_cast<int64_t>(i * wide), asked, c.begin() + static_cast<int64_t>(i * asked));
  c.resize(cells.rows.size() * asked);
  return c;
}

}  // namespace hone::autotune
