// What a mask hides, from the conditions that it is made of.
#pragma once

#include <optional>
#include <vector>

#include "engine/passes/match_internal.h"

namespace hone::passes {

// A key is seen where `rule` is 0 or more; axes are those of the scores.
struct HalfPlane {
  Affine rule;
};
// All of them hold: what a truth value says, where it is made of comparisons of whole numbers.
std::optional<std::vector<HalfPlane>> half_planes(const graph::Graph& graph, const View& condition, bool inverted);

// Rows and keys of the scores.
struct Scores {
  int row_axis = -1;  // -1: there is one row
  int key_axis = -1;
  graph::Dim rows, keys;
};
// j <= i + keys - rows: the last row sees the last key.
bool is_causal(const HalfPlane& plane, const Scores& scores);
// j <= i + `position`, or j <= `position` for one row: the value that is added, if that is all that is added.
std::optional<graph::ValueId> is_causal_from(const HalfPlane& plane, const Scores& scores);
// j > i + keys - rows - W: W.
std::optional<int64_t> window_of(const HalfPlane& plane, const Scores& scores);
// The same of j > i + position - W.
std::optional<int64_t> window_from(const HalfPlane& plane, const Scores& scores, graph::ValueId position);

// One of the things that are done to scores to hide keys.
struct Mask {
  View view;               // of u8, or of f32 to be added
  bool condition = false;  // u8
  bool inverted = false;   // true hides
  double hidden = 0;       // what hidden scores become, or get added
};
// An f32 that is added: a condition, if it is 0 where a key is seen and very negative elsewhere.
Mask added_mask(const graph::Graph& graph, const View& view);
// Scores of a select become this when they are hidden.
bool hides(std::optional<double> number);
// Every element of a dense constant says j <= i + keys - rows.
bool is_causal_constant(const graph::Graph& graph, const Mask& mask, const Scores& scores);

}  // namespace hone::passes
