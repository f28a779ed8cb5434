// Attention as two products with a softmax between them. Query heads that share a head of K and V are a dimension of
// their own: q [b, G, R, s, d], k and v [b, G, t, d], both products with batch dimensions [0, 1] x [0, 1].
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "engine/graph/stablehlo/export_internal.h"

namespace hone::graph::stablehlo {

struct Exporter::Attention {
  const Node& node;
  Ref q, k, v, mask;  // q [b, G, R, s, d]; k and v [b, G, t, d], t all rows that there are
  Dim s, t, keys;     // keys: those that matter, the first of t
  bool causal = false, cached = false;
  int64_t window = 0;
  bool may_see_nothing = false;  // a row: its result is zeros
};

// [(b,) s, H, d] to [b, H, s, d]
Ref Exporter::with_heads_first(const Ref& x, const Dim& batch) {
  Shape four = x.type.dims;
  if (four.size() == 3) four.insert(four.begin(), batch);
  return e_.transpose(e_.reshape(x, four), {0, 2, 1, 3});
}

Status Exporter::attention(const Node& n) {
  Exported given[3];
  for (size_t i = 0; i < 3; ++i) {
    const auto at = values_.find(n.operands[i]);
    if (at == values_.end() || (i == 0 && at->second.rows)) return refuse(n, "reads a cache as its queries");
    given[i] = at->second;
  }
  Attention a{.node = n,
              .q = {},
              .k = {},
              .v = {},
              .mask = {},
              .s = given[0].ref.dim(-3),
              .t = given[1].ref.dim(-3),
              .keys = {}};
  if (!given[1].rows && !given[2].rows) {
    HONE_ASSIGN_OR_RETURN(const std::vector<Ref> all, operands(n));
    if (!options_.sizes.empty()) HONE_RETURN_IF_ERROR(check_sizes(n, all));
  }
  if (given[1].rows.has_value() != given[2].rows.has_value())
    return refuse(n, "reads a cache as one of keys and values only");
  a.cached = given[1].rows.has_value();
  a.keys = a.cached ? *given[1].rows : a.t;
  a.causal = n.flag("causal");
  a.window = n.integer("window");
  if (n.operands.size() > 3) {
    if (a.cached) return refuse(n, "has a mask over a cache, whose size grows with the position");
    a.mask = values_.at(n.operands[3]).ref;
  }
  const Dim heads = given[0].ref.dim(-2), groups = given[1].ref.dim(-2), d = given[0].ref.dim(-1);
  if (!heads.is_static() || !groups.is_static() || !d.is_static())
    return refuse(n, "heads and their size must be numbers: give their sizes");
  if (groups.value() < 1 || heads.value() % groups.value() != 0)
    return refuse(n, fmt::format("{} heads of q are no multiple of the {} of k and v", heads.value(), groups.value()));
  const Dim before = a.keys - a.s;  // rows of k before the first of q
  const bool surely_before = a.cached || (before.is_static() && before.value() >= 0);
  a.may_see_nothing = !a.mask.name.empty() || (a.causal && !surely_before) || (a.window > 0 && !surely_before);
  const bool four = given[0].ref.type.rank() == 4;
  const Dim batch = four ? given[0].ref.dim(0) : Dim(1);
  const double scale = n.number("scale") != 0 ? n.number("scale") : 1 / std::sqrt(static_cast<double>(d.value()));
  const Ref q =
      with_heads_first(e_.mul(given[0].ref, e_.number(static_cast<float>(scale), given[0].ref.type.dims)), batch);
  a.q = e_.reshape(q, {batch, groups, Dim(heads.value() / groups.value()), a.s, d});
  a.k = with_heads_first(given[1].ref, batch);
  a.v = with_heads_first(given[2].ref, batch);
  const Ref out = weighted(a, masked(a, scores(a)));  // [b, G, R, s, dv]
  name_line(n);
  const Dim dv = given[2].ref.dim(-1);
  const Ref rows = e_.transpose(e_.reshape(out, {batch, heads, a.s, dv}), {0, 2, 1, 3});
  bind(n, four ? rows : e_.reshape(rows, {a.s, heads, dv}));
  return {};
}

// [b, G, R, s, t]
Ref Exporter::scores(const Attention& a) {
  Ref t = e_.dot(a.q, a.k, {0, 1}, {0, 1}, {4}, {3});
  const double cap = a.node.number("softcap");
  if (cap > 0) {
    const Ref bound = e_.number(static_cast<float>(cap), t.type.dims);
    t = e_.mul(bound, e_.unary("stablehlo.tanh", e_.div(t, bound)));
  }
  return t;
}

// Row i, at position i + keys - s, sees key j: causal j <= position; window position - W < j, and without causal
// j < position + W. A cache has rows beyond `keys` that nobody sees.
Ref Exporter::visible(const Attention& a) {
  Ref seen;
  const auto also = [&](const Ref& condition) {
    seen = seen.name.empty() ? condition : e_.binary("stablehlo.and", seen, condition);
  };
  const Shape shape{a.s, a.t};
  if (!a.causal && a.window == 0 && !a.cached) return seen;
  const auto everywhere = [&](const Ref& scalar) { return e_.broadcast(scalar, {}, shape); };
  const Ref key = e_.iota(DType::kS32, shape, 1);
  if (a.cached && !a.causal) also(e_.compare("LT", key, everywhere(e_.size(a.keys))));
  if (!a.causal && a.window == 0) return seen;
  Ref position = e_.iota(DType::kS32, shape, 0);
  const Dim before = a.keys - a.s;
  if (before != Dim(0)) position = e_.add(position, everywhere(e_.size(before)));
  if (a.causal) also(e_.compare("LE", key, position));
  if (a.window > 0) {
    const Ref width = everywhere(e_.integer(std::min<int64_t>(a.window, std::numeric_limits<int32_t>::max() / 2)));
    also(e_.compare("GT", key, e_.sub(position, width)));
    if (!a.causal) also(e_.compare("LT", key, e_.add(position, width)));
  }
  return seen;
}

Ref Exporter::masked(const Attention& a, Ref scores) {
  const Shape& shape = scores.type.dims;
  const auto hide = [&](const Ref& seen, const Ints& dims) {
    const Ref everywhere = e_.broadcast(seen, dims, shape);
    return e_.select(everywhere, scores, e_.number(-INFINITY, shape));
  };
  if (!a.mask.name.empty()) {
    const Ints dims = a.mask.type.rank() == 3 ? Ints{0, 3, 4} : Ints{3, 4};
    scores = a.mask.type.dtype == DType::kU8 ? hide(a.mask, dims) : e_.add(scores, e_.broadcast(a.mask, dims, shape));
  }
  const Ref seen = visible(a);
  return seen.name.empty() ? scores : hide(seen, {3, 4});
}

// softmax along t, then the product with v: [b, G, R, s, dv]
Ref Exporter::weighted(const Attention& a, const Ref& scores) {
  const Shape& shape = scores.type.dims;
  const Ints row{0, 1, 2, 3};
  Ref most = e_.reduce(scores, "max", {4});
  // exp(-inf - -inf) is no 0.
  if (a.may_see_nothing) most = e_.max(most, e_.number(-std::numeric_limits<float>::max(), most.type.dims));
  const Ref weights = e_.unary("stablehlo.exponential", e_.sub(scores, e_.broadcast(most, row, shape)));
  Ref sum = e_.reduce(weights, "sum", {4});
  if (a.may_see_nothing) {
    const Ref none = e_.compare("EQ", sum, e_.number(0, sum.type.dims));
    sum = e_.select(none, e_.number(1, sum.type.dims), sum);
  }
  return e_.dot(e_.div(weights, e_.broadcast(sum, row, shape)), a.v, {0, 1}, {0, 1}, {4}, {2});
}

}  // namespace hone::graph::stablehlo
