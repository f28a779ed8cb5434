// The memory that a problem's candidates are measured and checked on. All candidates of a problem see the same values,
// so their outputs must agree bit for bit.
//
// Values are uniform in [-1, 1), from a seed. Everything that is not an element (gaps between rows and batch items) is
// NaN: who reads it shows it, who writes it is found. Pages are present before anything is timed.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "jit/launch.h"
#include "kernels/matmul/operands.h"
#include "kernels/matmul/problem.h"
#include "kernels/matmul/program.h"

namespace hone::autotune {

// A sample of output elements: rows x columns of one batch item.
struct Cells {
  int64_t item = 0;
  std::vector<int64_t> rows, cols;
};

// B and its packed copies.
struct Weights {
  std::string of;  // family and seed that they are made for
  AlignedBuffer rows;
  std::map<std::pair<int64_t, int64_t>, AlignedBuffer> packed;  // by panel width and kr
};

class Operands {
 public:
  // `shared` may hold the weights of an earlier problem: those are used again if only m differs, else freed before
  // others are made, and left there for the next problem. To touch and fill 2 GB takes longer than to measure on it.
  // Error: resource_exhausted naming the size.
  static Result<Operands> create(const matmul::MatmulProblem& problem, uint64_t seed,
                                 std::shared_ptr<Weights>* shared = nullptr);

  const matmul::MatmulProblem& problem() const { return p_; }
  // B packed in panels of `width` and `kr` by a kernel of `generator`, once each. For b=packed only.
  Status pack(int64_t width, int64_t kr, jit::CodeGenerator& generator, Isa isa);
  matmul::PackedB layout(int64_t width, int64_t kr) const;

  // What a call gets. `packed` is read for b=packed only, and must have been packed.
  matmul::MatmulOperands view(const matmul::PackedB& packed = {}) const;
  std::span<const std::byte> b(const matmul::PackedB& packed = {}) const;  // elements of the problem's dtype
  std::span<float> c() const { return c_.as<float>().first(c_elements_); }
  // C as it is before a call: NaN everywhere, and the values that beta reads where it reads them.
  void reset_c() const { reset_c(p_, c()); }
  void reset_c(const matmul::MatmulProblem& shape, std::span<float> c) const;

  // Fills `a`, and what is laid out like C, for the first shape.m rows of each item (shape is the problem with fewer
  // rows).
  void copy_a(const matmul::MatmulProblem& shape, std::span<float> a) const;
  void copy_like_c(const matmul::MatmulProblem& shape, const float* from, std::span<float> to) const;

  // Bytes that a call reads and writes, to be flushed.
  std::vector<std::span<const std::byte>> ranges(const matmul::PackedB& packed = {}) const;

  // The bits that the class of `dot` gives for the cells, row after row, from the naive reference.
  std::vector<float> reference(const Cells& cells, matmul::Dot dot = matmul::Dot::kNone) const;

 private:
  explicit Operands(const matmul::MatmulProblem& problem) : p_(problem), source_(problem) {}
  Status allocate(uint64_t seed, std::shared_ptr<Weights>* shared);
  Status use_weights(uint64_t seed, std::shared_ptr<Weights>* shared);
  float initial_c(int64_t item, int64_t i, int64_t j) const;

  matmul::MatmulProblem p_;
  matmul::MatmulProblem source_;  // the same with B as rows (nt) where p_ has it packed
  size_t c_elements_ = 0;
  AlignedBuffer a_, c_, bias_, gate_, residual_, row_scale_;
  std::shared_ptr<Weights> weights_;
};

// Elements from the first to one past the last of A, and of C and what is laid out like it.
int64_t elements_a(const matmul::MatmulProblem& p);
int64_t elements_c(const matmul::MatmulProblem& p);

}  // namespace hone::autotune
