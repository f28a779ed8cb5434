// Ops that move elements. Sizes are worked out as sums of symbols; where a number is needed and there is a symbol, the
// rule is left to the call (reference.h, guards of a plan).
#include <algorithm>
#include <numeric>

#include "engine/graph/infer_internal.h"

namespace hone::graph {

namespace {

using enum DType;

Result<Types> infer_broadcast(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.needs_wanted());
  TensorType type = *r.wanted();
  type.dtype = r.x(0).dtype;
  const std::vector<int64_t> dims = r.integers("dims");
  if (dims.size() != r.x(0).dims.size())
    return r.fail("dims has {} entries for {} of operand 0", dims.size(), to_string(r.x(0)));
  HONE_RETURN_IF_ERROR(r.axes("dims", dims, type.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim& from = r.x(0).dims[i];
    Dim& to = type.dims[static_cast<size_t>(dims[i])];
    if (from.is_static() && from.value() == 1) continue;
    // A symbol may turn out to be 1, and then repeats.
    if (from.is_static() && !possibly_equal(from, to))
      return r.fail("operand 0 is {}: dimension {} is {} and must be 1 or {}, dimension {} of the result",
                    to_string(r.x(0)), i, to_string(from), to_string(to), dims[i]);
    if (to.is_unknown() || (from.is_static() && !to.is_static())) to = surer(to, from);
  }
  return Types{type};
}

// A product of dimensions: a number times those that are none.
struct Product {
  int64_t number = 1;
  Shape others;
};

Product product_of(const Shape& dims) {
  Product p;
  for (const Dim& d : dims) {
    if (d.is_static()) {
      p.number *= d.value();  // check_type bounds it
    } else if (!d.is_unknown()) {
      p.others.push_back(d);
    }
  }
  return p;
}

// What is in both products leaves them.
void cancel(Product* a, Product* b) {
  for (auto at = a->others.begin(); at != a->others.end();) {
    const auto same = std::find(b->others.begin(), b->others.end(), *at);
    if (same == b->others.end()) {
      ++at;
    } else {
      b->others.erase(same);
      at = a->others.erase(at);
    }
  }
  const int64_t common = std::gcd(a->number, b->number);
  if (common > 1) a->number /= common, b->number /= common;
}

// The one unknown dimension of a reshape: from / to, where that is a sum of symbols.
Dim quotient(const Product& from, const Product& to) {
  if (!to.others.empty() || from.others.size() > 1 || to.number == 0) return Dim::unknown();
  const Dim all = from.others.empty() ? Dim(from.number) : from.others[0] * Dim(from.number);
  return Dim::divide(all, to.number).value_or(Dim::unknown());
}

Result<Types> infer_reshape(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.needs_wanted());
  TensorType type = *r.wanted();
  type.dtype = r.x(0).dtype;
  Product from = product_of(r.x(0).dims), to = product_of(type.dims);
  const auto unknown = [](const Shape& dims) {
    return std::count_if(dims.begin(), dims.end(), [](const Dim& d) { return d.is_unknown(); });
  };
  if (unknown(r.x(0).dims) > 0) return Types{type};
  const auto wrong = [&] {
    return r.fail("operand 0 is {} and the result {}: not as many elements", to_string(r.x(0)), to_string(type));
  };
  cancel(&from, &to);
  const int64_t missing = unknown(type.dims);
  if (missing == 1) {
    const Dim found = quotient(from, to);
    if (found.is_unknown() && from.others.empty() && to.others.empty() && to.number != 0) return wrong();
    for (Dim& d : type.dims)
      if (d.is_unknown()) d = found;
  } else if (missing == 0 && from.others.size() <= 1 && to.others.size() <= 1) {
    const auto value = [](const Product& p) { return p.others.empty() ? Dim(p.number) : p.others[0] * Dim(p.number); };
    if (!possibly_equal(value(from), value(to))) return wrong();
  }
  return Types{type};
}

Result<Types> infer_transpose(const Rules& r) {
  const std::vector<int64_t> perm = r.integers("perm");
  if (perm.size() != r.x(0).dims.size())
    return r.fail("perm has {} entries for {} of operand 0", perm.size(), to_string(r.x(0)));
  HONE_RETURN_IF_ERROR(r.axes("perm", perm, r.x(0).rank()));
  TensorType type{r.x(0).dtype, {}};
  for (const int64_t axis : perm) type.dims.push_back(r.dim(0, static_cast<int>(axis)));
  return Types{type};
}

// Of one dimension: [start, limit) in steps.
Result<Dim> sliced(const Rules& r, int axis, int64_t start, int64_t limit, int64_t stride) {
  const Dim& dim = r.dim(0, axis);
  const auto wrong = [&](std::string_view rule) {
    return r.fail("dimension {} of {}: start {}, limit {}, stride {}: {}", axis, to_string(r.x(0)), start, limit,
                  stride, rule);
  };
  if (start < 0 || start > kMaxElements || limit < -1 || limit > kMaxElements)
    return wrong("start must be 0 or more, limit too, or -1");
  if (stride < 1 || stride > kMaxElements) return wrong("stride must be 1 or more");
  if (limit == -1 && !dim.is_static()) {
    if (stride == 1) return dim - Dim(start);
    if (dim.is_unknown()) return Dim::unknown();
    return wrong("stride must be 1 where the length is a symbol and limit -1");
  }
  const int64_t end = limit == -1 ? dim.value() : limit;
  if (start > end) return wrong("start is beyond the limit");
  if (dim.is_static() && end > dim.value()) return wrong("limit is beyond the dimension");
  return Dim((end - start + stride - 1) / stride);
}

Result<Types> infer_slice(const Rules& r) {
  const std::vector<int64_t> start = r.integers("start"), limit = r.integers("limit");
  std::vector<int64_t> stride = r.integers("stride");
  const size_t rank = r.x(0).dims.size();
  if (!r.has("stride")) stride.assign(rank, 1);
  if (start.size() != rank || limit.size() != rank || stride.size() != rank)
    return r.fail("start, limit and stride must have one entry for each of the {} dimensions of operand 0", rank);
  TensorType type{r.x(0).dtype, {}};
  for (size_t i = 0; i < rank; ++i) {
    HONE_ASSIGN_OR_RETURN(Dim d, sliced(r, static_cast<int>(i), start[i], limit[i], stride[i]));
    type.dims.push_back(std::move(d));
  }
  return Types{type};
}

Result<Types> infer_concatenate(const Rules& r) {
  TensorType type = r.x(0);
  const int64_t axis = r.integer("axis");
  HONE_RETURN_IF_ERROR(r.axis("axis", axis, type.rank()));
  for (int i = 1; i < r.count(); ++i) {
    if (r.x(i).dtype != type.dtype || r.x(i).rank() != type.rank())
      return r.fail("operand {} is {} and must be as operand 0, {}", i, to_string(r.x(i)), to_string(type));
    for (int a = 0; a < type.rank(); ++a) {
      Dim& dim = type.dims[static_cast<size_t>(a)];
      if (a == axis) {
        dim += r.dim(i, a);
      } else {
        HONE_RETURN_IF_ERROR(r.agree(i, a, &dim, "as in operand 0"));
      }
    }
  }
  return Types{type};
}

Result<Types> infer_gather(const Rules& r) {
  HONE_RETURN_IF_ERROR(r.rank(0, 1, -1));
  HONE_RETURN_IF_ERROR(r.dtype(1, {kS32}));
  TensorType type{is_16bit_float(r.x(0).dtype) ? kF32 : r.x(0).dtype, r.x(1).dims};
  type.dims.insert(type.dims.end(), r.x(0).dims.begin() + 1, r.x(0).dims.end());
  return Types{type};
}

// One scalar for each dimension of x, from operand `first` on.
Status check_starts(const Rules& r, int first) {
  if (r.count() - first != r.x(0).rank())
    return r.fail("has {} starts for {} of operand 0", r.count() - first, to_string(r.x(0)));
  for (int i = first; i < r.count(); ++i) HONE_RETURN_IF_ERROR(r.scalar_s32(i));
  return {};
}

Result<Types> infer_dynamic_slice(const Rules& r) {
  HONE_RETURN_IF_ERROR(check_starts(r, 1));
  const std::vector<int64_t> sizes = r.integers("sizes");
  if (sizes.size() != r.x(0).dims.size())
    return r.fail("sizes has {} entries for {} of operand 0", sizes.size(), to_string(r.x(0)));
  TensorType type{r.x(0).dtype, {}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Dim& dim = r.x(0).dims[i];
    if (sizes[i] < 0 || sizes[i] > kMaxElements || (dim.is_static() && sizes[i] > dim.value()))
      return r.fail("size {} of dimension {} is not in 0..{}", sizes[i], i, to_string(dim));
    type.dims.emplace_back(sizes[i]);
  }
  return Types{type};
}

Result<Types> infer_dynamic_update_slice(const Rules& r) {
  HONE_RETURN_IF_ERROR(check_starts(r, 2));
  if (r.x(1).dtype != r.x(0).dtype || r.x(1).rank() != r.x(0).rank())
    return r.fail("operand 1 (update) is {} and must have dtype and rank of operand 0 (x), {}", to_string(r.x(1)),
                  to_string(r.x(0)));
  for (int i = 0; i < r.x(0).rank(); ++i) {
    const Dim &whole = r.dim(0, i), &part = r.dim(1, i);
    if (whole.is_static() && part.is_static() && part.value() > whole.value())
      return r.fail("operand 1 (update) is {}: dimension {} must be at most {}", to_string(r.x(1)), i,
                    to_string(whole));
  }
  return Types{r.x(0)};
}

}  // namespace

Result<Types> infer_shapes(const Rules& r) {
  switch (r.op()) {
    case OpKind::broadcast:
      return infer_broadcast(r);
    case OpKind::reshape:
      return infer_reshape(r);
    case OpKind::transpose:
      return infer_transpose(r);
    case OpKind::slice:
      return infer_slice(r);
    case OpKind::concatenate:
      return infer_concatenate(r);
    case OpKind::gather:
      return infer_gather(r);
    case OpKind::dynamic_slice:
      return infer_dynamic_slice(r);
    default:
      return infer_dynamic_update_slice(r);
  }
}

}  // namespace hone::graph
