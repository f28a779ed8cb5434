// What patterns are made of. A pattern is never recognised by names or by the shape of one graph, but by what values
// are: the same number everywhere (uniform), one number for each row (views), a product whatever the brackets.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace hone::passes {

// The node that defines v, if it is an `op`; null otherwise.
const graph::Node* defined_by(const graph::Graph& graph, graph::ValueId v, graph::OpKind op);

// The number that every element of v is.
std::optional<double> uniform(const graph::Graph& graph, graph::ValueId v);
// Equal but for f32 rounding of constants in exporters.
bool is_about(double a, double b);
bool is_uniform(const graph::Graph& graph, graph::ValueId v, double number);

// A value as it is read within an outer value: dimension i of `value` runs along axis axes[i] of the outer one. -1: it
// has one element, which all of an axis reads. Axes of the outer value that are in no list repeat.
struct View {
  graph::ValueId value;
  std::vector<int> axes;
};
View whole(const graph::Graph& graph, graph::ValueId v);
// Down to what is no broadcast, no transpose and no reshape that only adds or drops dimensions of 1.
View peel(const graph::Graph& graph, View view);
// An operand of the op on elements that defines view.value.
View operand_of(const graph::Graph& graph, const View& view, int operand);
// That dimension i runs along axes[i], sizes of 1 aside.
bool runs_along(const graph::Graph& graph, const View& view, const std::vector<int>& axes);
// That it varies along this axis at most.
bool varies_only_along(const graph::Graph& graph, const View& view, int axis);

// factor * values / divisors, whatever the order and the brackets. Inner products belong to it only where nothing else
// reads them.
struct Product {
  double factor = 1;
  std::vector<graph::ValueId> values, divisors;
};
Product product(const graph::Graph& graph, graph::ValueId v);

// a * i + b * j + .. + constant + scalars, of whole numbers: coefficients by axis of the outer value.
struct Affine {
  std::map<int, int64_t> axes;
  std::map<graph::ValueId, int64_t> scalars;  // values of one element
  int64_t constant = 0;
};
std::optional<Affine> affine(const graph::Graph& graph, const View& view);
Affine difference(const Affine& a, const Affine& b);

// The mean of `of` over its last axis, as seen from an outer value of the same rank: sum / n or sum * (1 / n).
std::optional<graph::ValueId> mean_of_rows(const graph::Graph& graph, const View& view);
// reduce {kind} of a value over its last axis alone, its rows lying as those of the outer value do.
std::optional<graph::ValueId> row_reduction(const graph::Graph& graph, const View& view, std::string_view kind);

}  // namespace hone::passes
