// What a matmul problem means: derived strides, what is legal, and the canonical text. Parsing is in problem_parse.cpp.
//
// Every size is computed in 128 bits, so that "too large" is an answer and never an overflow.
#include "kernels/matmul/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/text/problem_text.h"

namespace hone::matmul {

std::string_view epilogue_name(EpilogueOp op) {
  switch (op) {
    case EpilogueOp::kBias:
      return "+bias";
    case EpilogueOp::kGeluTanh:
      return "+gelu_tanh";
    case EpilogueOp::kGeluErf:
      return "+gelu_erf";
    case EpilogueOp::kSilu:
      return "+silu";
    case EpilogueOp::kRelu:
      return "+relu";
    case EpilogueOp::kGate:
      return "*gate";
    case EpilogueOp::kResidual:
      return "+residual";
    case EpilogueOp::kSwiglu:
      return "+swiglu";
    case EpilogueOp::kRowScale:
      return "*row_scale";
  }
  return "?";
}

std::string_view layout_name(BLayout b) {
  switch (b) {
    case BLayout::kNn:
      return "nn";
    case BLayout::kNt:
      return "nt";
    case BLayout::kPacked:
      return "packed";
  }
  return "?";
}

int64_t MatmulProblem::batch_stride_a() const { return sa >= 0 ? sa : m * row_stride_a(); }
int64_t MatmulProblem::batch_stride_b() const { return sb >= 0 ? sb : (b == BLayout::kNt ? n : k) * row_stride_b(); }
int64_t MatmulProblem::batch_stride_c() const { return sc >= 0 ? sc : m * row_stride_c(); }

bool MatmulProblem::has(EpilogueOp op) const {
  return std::find(epilogue.begin(), epilogue.end(), op) != epilogue.end();
}

namespace {

__extension__ typedef __int128 int128;  // wide enough for a product of two 63-bit sizes

// Empty items cost no memory, but each costs a step of a loop.
constexpr int64_t kMaxBatch = int64_t{1} << 32;

// Elements from the first to one past the last of `batch` matrices of rows x cols; -1 when the bytes overflow 63 bits.
int64_t extent(int64_t batch, int64_t batch_stride, int64_t rows, int64_t row_stride, int64_t cols, int64_t bytes) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  const int128 row_span = static_cast<int128>(rows - 1) * row_stride + cols;
  const int128 stride = batch_stride >= 0 ? batch_stride : static_cast<int128>(rows) * row_stride;
  constexpr int128 kMax = std::numeric_limits<int64_t>::max();
  if (row_span > kMax || stride > kMax) return -1;
  const int128 span = (batch - 1) * stride + row_span;
  return span > kMax / bytes ? -1 : static_cast<int64_t>(span);
}

// The dense batch stride and the product of the sizes must be representable even where the matrix is empty.
bool product_fits(int64_t x, int64_t y, int64_t bytes) {
  return static_cast<int128>(x) * y <= std::numeric_limits<int64_t>::max() / bytes;
}

Status too_large(std::string_view what, const MatmulProblem& p) {
  return invalid_argument(fmt::format("too large: the bytes of {} do not fit 63 bits (batch={}, m={}, n={}, k={})",
                                      what, p.batch, p.m, p.n, p.k));
}

Status check_sizes(const MatmulProblem& p) {
  const std::pair<const char*, int64_t> sizes[] = {{"m", p.m},     {"n", p.n},     {"k", p.k},
                                                   {"lda", p.lda}, {"ldb", p.ldb}, {"ldc", p.ldc}};
  for (const auto& [name, value] : sizes)
    if (value < 0) return invalid_argument(fmt::format("{}={} is negative", name, value));
  if (p.batch < 1) return invalid_argument(fmt::format("batch={} must be at least 1", p.batch));
  if (p.batch > kMaxBatch)
    return invalid_argument(fmt::format("batch={} is too large: at most {} items", p.batch, kMaxBatch));
  if (p.lda != 0 && p.lda < p.k) {
    return invalid_argument(fmt::format("lda={} is less than a row of A (k={})", p.lda, p.k));
  }
  if (p.ldb != 0 && p.b == BLayout::kPacked) {
    return invalid_argument(fmt::format("ldb={} has no meaning with b=packed; leave it out", p.ldb));
  }
  const int64_t b_row = p.b == BLayout::kNt ? p.k : p.n;
  if (p.ldb != 0 && p.ldb < b_row) {
    return invalid_argument(
        fmt::format("ldb={} is less than a row of B ({}={})", p.ldb, p.b == BLayout::kNt ? "k" : "n", b_row));
  }
  if (p.ldc != 0 && p.ldc < p.columns()) {
    return invalid_argument(
        fmt::format("ldc={} is less than a row of C ({}={})", p.ldc, p.swiglu() ? "n/2" : "n", p.columns()));
  }
  return {};
}

Status check_extents(const MatmulProblem& p) {
  constexpr int64_t bytes = sizeof(float);  // of B too, which may be widened
  const bool nt = p.b == BLayout::kNt;
  const int64_t b_rows = nt ? p.n : p.k, b_cols = nt ? p.k : p.n;
  if (!product_fits(p.m, p.row_stride_a(), bytes) || extent(p.batch, p.sa, p.m, p.row_stride_a(), p.k, bytes) < 0) {
    return too_large("A", p);
  }
  // Packing rounds n up to whole panels; 64 more columns cover every panel width.
  if (!product_fits(b_rows, p.row_stride_b(), bytes) || !product_fits(b_rows + 64, b_cols + 64, bytes) ||
      extent(p.batch, p.sb, b_rows, p.row_stride_b(), b_cols, bytes) < 0) {
    return too_large("B", p);
  }
  if (!product_fits(p.m, p.row_stride_c(), bytes) ||
      extent(p.batch, p.sc, p.m, p.row_stride_c(), p.columns(), bytes) < 0) {
    return too_large("C", p);
  }
  return {};
}

Status check_batch_strides(const MatmulProblem& p) {
  const std::pair<const char*, int64_t> strides[] = {{"sa", p.sa}, {"sb", p.sb}, {"sc", p.sc}};
  for (const auto& [name, value] : strides)
    if (value < -1) return invalid_argument(fmt::format("{}={} is negative", name, value));
  if (p.b == BLayout::kPacked && p.sb > 0) {
    return invalid_argument(
        fmt::format("sb={} with b=packed: leave it out (a B for each) or write sb=0 (shared)", p.sb));
  }
  if (p.batch == 1 || p.sc < 0 || p.m == 0 || p.n == 0) return {};
  const int64_t ldc = p.row_stride_c(), n = p.columns();
  const bool apart = p.sc >= static_cast<int128>(p.m - 1) * ldc + n;                   // one C after the other
  const bool woven = p.sc >= n && static_cast<int128>(p.batch - 1) * p.sc + n <= ldc;  // side by side within a row
  if (apart || woven) return {};
  return invalid_argument(fmt::format("sc={} makes the C of two batch items overlap; m={} rows of ldc={} need sc >= {}",
                                      p.sc, p.m, ldc, (p.m - 1) * ldc + n));
}

Status check_swiglu(const MatmulProblem& p) {
  if (p.n % (2 * kSwigluColumns) != 0)
    return invalid_argument(
        fmt::format("n={} is not a multiple of {}: +swiglu takes {} columns of the gate and {} of "
                    "the up projection in turns",
                    p.n, 2 * kSwigluColumns, kSwigluColumns, kSwigluColumns));
  if (p.beta != 0)
    return invalid_argument(fmt::format("beta={} adds C to T, but +swiglu makes C of half as many columns", p.beta));
  if (std::count(p.epilogue.begin(), p.epilogue.end(), EpilogueOp::kSwiglu) > 1)
    return invalid_argument("+swiglu appears twice; the columns pair up once");
  const auto swiglu = std::find(p.epilogue.begin(), p.epilogue.end(), EpilogueOp::kSwiglu);
  for (auto op = p.epilogue.begin(); op != p.epilogue.end(); ++op) {
    if (op < swiglu && *op != EpilogueOp::kBias && *op != EpilogueOp::kRowScale)
      return invalid_argument(
          fmt::format("{} cannot come before +swiglu, only +bias and *row_scale can", epilogue_name(*op)));
    if (op > swiglu && *op == EpilogueOp::kBias)
      return invalid_argument("+bias has an element for each of the n columns, so it has to come before +swiglu");
  }
  return {};
}

Status check_row_scale(const MatmulProblem& p) {
  if (p.epilogue.front() != EpilogueOp::kRowScale)
    return invalid_argument(
        fmt::format("*row_scale comes after {} and has to be the first of the epilogue", epilogue_name(p.epilogue[0])));
  if (p.batch > 1)
    return invalid_argument(
        fmt::format("batch={} with *row_scale: its factors are of one matrix; run the items one by one", p.batch));
  return {};
}

Status check_epilogue(const MatmulProblem& p) {
  if (!std::isfinite(p.alpha)) return invalid_argument("alpha must be finite");
  if (!std::isfinite(p.beta)) return invalid_argument("beta must be finite");
  for (EpilogueOp op : {EpilogueOp::kBias, EpilogueOp::kGate, EpilogueOp::kResidual, EpilogueOp::kRowScale}) {
    if (std::count(p.epilogue.begin(), p.epilogue.end(), op) > 1) {
      return invalid_argument(fmt::format("{} appears twice; its operand exists once", epilogue_name(op)));
    }
  }
  if (p.has(EpilogueOp::kRowScale)) HONE_RETURN_IF_ERROR(check_row_scale(p));
  return p.swiglu() ? check_swiglu(p) : Status();
}

}  // namespace

Status validate(const MatmulProblem& p) {
  if (std::ranges::find(kMatmulDTypes, p.dtype) == kMatmulDTypes.end())
    return unsupported(fmt::format("matmul of {} is not supported; dtypes: f32, bf16, f16", dtype_name(p.dtype)));
  HONE_RETURN_IF_ERROR(check_sizes(p));
  HONE_RETURN_IF_ERROR(check_extents(p));
  HONE_RETURN_IF_ERROR(check_batch_strides(p));
  return check_epilogue(p);
}

MatmulProblem canonical(MatmulProblem p) {
  if (p.lda == p.k) p.lda = 0;
  if (p.ldb == (p.b == BLayout::kNt ? p.k : p.n)) p.ldb = 0;
  if (p.ldc == p.columns()) p.ldc = 0;
  if (p.batch == 1) p.sa = p.sb = p.sc = -1;
  const MatmulProblem dense = [&] {
    MatmulProblem d = p;
    d.sa = d.sb = d.sc = -1;
    return d;
  }();
  if (p.sa > 0 && p.sa == dense.batch_stride_a()) p.sa = -1;
  if (p.sb > 0 && p.sb == dense.batch_stride_b()) p.sb = -1;
  if (p.sc > 0 && p.sc == dense.batch_stride_c()) p.sc = -1;
  p.alpha += 0.0f;  // -0 becomes +0
  p.beta += 0.0f;
  return p;
}

namespace {

std::string text_of(const MatmulProblem& given, bool with_m) {
  const MatmulProblem p = canonical(given);
  std::string s = fmt::format("matmul:{}:", dtype_name(p.dtype));
  if (with_m) s += fmt::format("m={},", p.m);
  s += fmt::format("n={},k={}", p.n, p.k);
  if (p.b != BLayout::kNn) s += fmt::format(",b={}", layout_name(p.b));
  if (p.lda != 0) s += fmt::format(",lda={}", p.lda);
  if (p.ldb != 0) s += fmt::format(",ldb={}", p.ldb);
  if (p.ldc != 0) s += fmt::format(",ldc={}", p.ldc);
  if (p.batch != 1) s += fmt::format(",batch={}", p.batch);
  if (p.sa >= 0) s += fmt::format(",sa={}", p.sa);
  if (p.sb >= 0) s += fmt::format(",sb={}", p.sb);
  if (p.sc >= 0) s += fmt::format(",sc={}", p.sc);
  if (p.alpha != 1) s += ",alpha=" + text::float_text(p.alpha);
  if (p.beta != 0) s += ",beta=" + text::float_text(p.beta);
  if (!p.epilogue.empty()) s += ':';
  for (EpilogueOp op : p.epilogue) s += epilogue_name(op);
  return s;
}

}  // namespace

std::string to_string(const MatmulProblem& problem) { return text_of(problem, true); }
std::string family(const MatmulProblem& problem) { return text_of(problem, false); }

}  // namespace hone::matmul
