// Writes operations in pretty form, one line each, with the types that follow from the operands. A shape that is not
// static becomes an operand: a vector of sizes, computed from dimensions of inputs.
//
// Every method gives the value that the line defines. A call has one argument that writes a line at most, so that the
// text does not depend on the order in which a compiler evaluates them. What a type cannot say in StableHLO is a Status
// that the emitter keeps (status()); lines after it are of no use.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace hone::graph::stablehlo {

struct Ref {
  std::string name;  // with %
  TensorType type;
  const Dim& dim(int i) const { return type.dims[static_cast<size_t>(i < 0 ? i + type.rank() : i)]; }
};

using Ints = std::vector<int64_t>;

std::string type_text(const TensorType& type);  // "tensor<?x4xf32>"
std::string list_text(std::span<const int64_t> numbers);

class Emitter {
 public:
  const Status& status() const { return status_; }
  void fail(Status status);
  const std::string& text() const { return text_; }
  std::string take_text() { return std::move(text_); }

  // Where the value of a symbol is found: a scalar, or a dimension of an argument.
  void define_symbol(const std::string& symbol, Ref scalar);
  void define_symbol(const std::string& symbol, Ref argument, int dimension);

  // ---- elements ----
  Ref constant(const Constant& constant);
  Ref number(float value, const Shape& shape = {});     // f32
  Ref integer(int64_t value, const Shape& shape = {});  // s32
  Ref unary(std::string_view op, const Ref& x);         // "stablehlo.negate"
  Ref binary(std::string_view op, const Ref& a, const Ref& b);
  Ref add(const Ref& a, const Ref& b) { return binary("stablehlo.add", a, b); }
  Ref sub(const Ref& a, const Ref& b) { return binary("stablehlo.subtract", a, b); }
  Ref mul(const Ref& a, const Ref& b) { return binary("stablehlo.multiply", a, b); }
  Ref div(const Ref& a, const Ref& b) { return binary("stablehlo.divide", a, b); }
  Ref max(const Ref& a, const Ref& b) { return binary("stablehlo.maximum", a, b); }
  Ref compare(std::string_view direction, const Ref& a, const Ref& b);
  Ref select(const Ref& condition, const Ref& a, const Ref& b);
  Ref convert(const Ref& x, DType to);
  Ref erf(const Ref& x);

  // ---- shapes ----
  Ref iota(DType dtype, const Shape& shape, int axis);
  Ref broadcast(const Ref& x, const Ints& dims, const Shape& shape);
  Ref reshape(const Ref& x, const Shape& shape);
  Ref transpose(const Ref& x, const Ints& perm);
  // limit -1: to the end.
  Ref slice(const Ref& x, const Ints& start, const Ints& limit, const Ints& stride);
  // [start, limit) of the last axis.
  Ref slice_last(const Ref& x, int64_t start, int64_t limit);
  Ref concatenate(std::span<const Ref> parts, int axis);
  Ref gather_rows(const Ref& table, const Ref& indices);
  Ref dynamic_slice(std::span<const Ref> operands, const Ints& sizes);
  Ref dynamic_update_slice(std::span<const Ref> operands);

  // ---- sums ----
  Ref reduce(const Ref& x, std::string_view kind, const Ints& axes);  // "sum", "max", "min"
  Ref dot(const Ref& a, const Ref& b, const Ints& a_batch, const Ints& b_batch, const Ints& a_contract,
          const Ints& b_contract);
  std::vector<Ref> top_k(const Ref& x, int64_t k);

  // A scalar i32.
  Ref size(const Dim& dim);
  // The last line gets `loc("name")`; the quotes are the caller's.
  void name_last(std::string_view quoted_name);

 private:
  struct Source {
    Ref ref;
    int dimension = -1;  // -1: ref is the value
  };

  Ref line(std::string_view after_equals, TensorType type);
  Ref shape_operand(const Shape& shape);
  // A constant of the text, written once.
  Ref shared_constant(const std::string& literal, TensorType type);

  std::string text_;
  Status status_;
  int next_ = 0;
  std::map<std::string, Source> symbols_;
  std::map<std::string, Ref> sizes_, shapes_, constants_;
};

}  // namespace hone::graph::stablehlo
