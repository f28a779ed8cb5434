// What the rules of ops are written with: the operands and attributes of one op, and checks whose errors name them.
// The rules of each section of ops.inc are in a file of their own.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "engine/graph/infer.h"

namespace hone::graph {

using Types = std::vector<TensorType>;

class Rules {
 public:
  explicit Rules(const OpDescription& description) : d_(description) {}

  OpKind op() const { return d_.op; }
  int count() const { return static_cast<int>(d_.operands.size()); }
  const TensorType& x(int i) const { return d_.operands[static_cast<size_t>(i)]; }
  const Dim& dim(int i, int axis) const { return x(i).dims[static_cast<size_t>(axis)]; }
  const Dim& last(int i) const { return x(i).dims.back(); }
  const TensorType* wanted() const { return d_.wanted; }
  const Dim& position() const { return d_.position; }

  // Attributes, which check_attributes has been over; a missing one gives the default.
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double number(std::string_view name, double otherwise = 0) const;
  std::string text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  bool has(std::string_view name) const { return d_.attributes.contains(name); }

  // "operand 1 (b)".
  std::string operand(int i) const;

  template <typename... Args>
  Status fail(fmt::format_string<Args...> text, Args&&... args) const {
    return wrong(fmt::format(text, std::forward<Args>(args)...));
  }
  Status wrong(const std::string& what) const;

  Status dtype(int i, std::initializer_list<DType> allowed) const;
  // Both inclusive; most -1: any.
  Status rank(int i, int least, int most) const;
  Status rank(int i, int exactly) const { return rank(i, exactly, exactly); }
  // The dimension may equal *dim, which becomes the surer of the two. `of` says where *dim is from.
  Status agree(int i, int axis, Dim* dim, std::string_view of) const;
  // Shape and, unless `shapes_only`, dtype of operand i against *type.
  Status agree(int i, TensorType* type, std::string_view of, bool shapes_only = false) const;
  Status scalar_s32(int i) const;
  // A list attribute of distinct axes of a tensor of this rank.
  Status axes(std::string_view name, const std::vector<int64_t>& list, int rank) const;
  Status axis(std::string_view name, int64_t value, int rank) const;
  // One of the words.
  Status word(std::string_view name, std::initializer_list<std::string_view> words) const;
  // eps >= 0 and the like.
  Status not_negative(std::string_view name) const;
  Status needs_wanted() const;

 private:
  const OpDescription& d_;
};

// The surer of two dimensions that may be equal: a number, then a sum of symbols, then ?.
Dim surer(const Dim& a, const Dim& b);

// Each for the ops of one section of ops.inc.
Result<Types> infer_elements(const Rules& r);
Result<Types> infer_shapes(const Rules& r);
Result<Types> infer_sums(const Rules& r);
Result<Types> infer_decoder(const Rules& r);

// A type that a tensor may have: rank, sizes within bounds. The error says what is wrong, without a subject.
Status check_type(const TensorType& type);

// `recorded` may be surer or less sure than `inferred`, not another type. Error: "is f32[4] and must be f32[5]".
Status check_recorded(const TensorType& recorded, const TensorType& inferred);

inline constexpr int kMaxRank = 12;
inline constexpr size_t kMaxTerms = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

}  // namespace hone::graph
