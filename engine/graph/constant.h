// Elements that a graph knows. They are never copied by those who pass them on: a model's weights stay where they lie,
// in the mapped file, and what passes join of them is a list of the runs that it consists of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/type.h"

namespace hone::graph {

using Bytes = std::span<const std::byte>;

// Immutable elements, row-major and dense; shared by the graphs that use them. A splat stores one element.
struct Constant {
  TensorType type;  // static
  bool splat = false;
  std::shared_ptr<const void> owner;  // keeps the elements alive
  Bytes data;                         // all of them, where they lie together
  // Otherwise the runs that they are, in order, each of whole elements; `data` is empty then.
  std::shared_ptr<const std::vector<Bytes>> runs = nullptr;
  // What the elements are, of whoever can say it without looking at them: "MODEL:offset+length". Equal keys, equal
  // bytes. "": nobody can.
  std::string content_key = {};

  static Constant copy_of(TensorType type, Bytes elements);
  static Constant f32(TensorType type, std::span<const float> elements);
  static Constant s32(TensorType type, std::span<const int32_t> elements);
  static Constant splat_f32(TensorType type, float value);
  // Neighbours that touch become one, and one run alone is `data`.
  static Constant of_runs(TensorType type, std::vector<Bytes> runs, std::shared_ptr<const void> owner);

  // What is stored, whatever form it has: one run, or several.
  std::span<const Bytes> pieces() const;
  int64_t stored_bytes() const;
  // Writes every element to `to`, which has type.bytes().
  void write_out(std::byte* to) const;
  // Itself where the elements lie together (or are one), else a copy that does.
  Constant contiguous() const;

  // Element i, in row-major order, of an f32 constant.
  float f32_at(int64_t i) const;
  int32_t s32_at(int64_t i) const;
  uint16_t bits16_at(int64_t i) const;  // of a bf16 or f16 constant
  uint8_t u8_at(int64_t i) const;
  double number_at(int64_t i) const;  // of any

 private:
  const std::byte* at(int64_t i) const;
};

// Cuts runs out of a constant's pieces, from the first to the last element; positions only go up.
class RunCutter {
 public:
  explicit RunCutter(std::span<const Bytes> pieces) : pieces_(pieces) {}
  void skip(int64_t bytes);
  void take(int64_t bytes, std::vector<Bytes>* to);

 private:
  void move(int64_t bytes, std::vector<Bytes>* to);

  std::span<const Bytes> pieces_;
  size_t piece_ = 0;
  int64_t at_ = 0;  // in it
};

}  // namespace hone::graph
