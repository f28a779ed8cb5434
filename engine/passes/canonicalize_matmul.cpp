// dot_general with a matrix on the right is a matmul: leading dimensions are rows, contracted ones collapse into k and
// those left of the right side into n. A weight that is transposed first is read in its other layout.
//
// Products with batch dimensions stay dot_general: no weight serves all of them.
#include <algorithm>

#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/match_internal.h"

namespace hone::passes {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

std::vector<int64_t> list(std::span<const int64_t> span) { return {span.begin(), span.end()}; }

// from, from + 1, ..
bool is_run(const std::vector<int64_t>& axes, size_t from) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<int64_t>(from + i)) return false;
  return true;
}

Dim size_of(const Shape& dims, size_t from, size_t to) {
  Dim d(1);
  for (size_t i = from; i < to; ++i) d = d * dims[i];
  return d;
}

class Matmuls {
 public:
  explicit Matmuls(Rewriter& r) : r_(r), g_(r.g) {}

  int run() {
    int count = 0;
    const std::vector<NodeId> order = g_.order();
    for (const NodeId id : order)
      if (g_.is_live(id) && g_.node(id).op == OpKind::dot_general) count += rewrite(id);
    return count;
  }

 private:
  const Shape& dims(ValueId v) const { return g_.value(v).type.dims; }

  bool rewrite(NodeId id) {
    const Node n = g_.node(id);
    if (!n.integers("lhs_batch").empty()) return false;
    std::vector<int64_t> lc = list(n.integers("lhs_contract")), rc = list(n.integers("rhs_contract"));
    ValueId a = n.operands[0], b = n.operands[1];
    if (lc.empty()) return false;
    r_.before(id);
    look_through_transpose(b, rc);
    look_through_transpose(a, lc);
    if (a != n.operands[0] && !is_run(lc, dims(a).size() - lc.size()))
      a = n.operands[0], lc = list(n.integers("lhs_contract"));
    // The chain over k goes through the contracted dimensions in their order.
    if (lc.size() == 1 && dims(a).size() == 2 && lc[0] == 0) {
      a = r_.transpose(a, {1, 0});
      lc = {1};
    }
    const size_t rank = dims(b).size(), k_axes = rc.size(), rows = dims(a).size() - lc.size();
    const bool nn = is_run(rc, 0), nt = is_run(rc, rank - k_axes);
    const Shape result = dims(n.results[0]);
    const bool matrix = is_run(lc, rows) && (nn || nt) && rank > k_axes && dims(a).size() >= 1;
    if (!matrix || rows + rank - k_axes != result.size()) return false;
    const Dim k = size_of(dims(b), nn ? 0 : rank - k_axes, nn ? k_axes : rank);
    const Dim columns = size_of(dims(b), nn ? k_axes : 0, nn ? rank : rank - k_axes);
    if (k.is_unknown() || columns.is_unknown()) return false;
    Shape left(dims(a).begin(), dims(a).begin() + static_cast<ptrdiff_t>(rows));
    left.push_back(k);
    const ValueId w = r_.reshape(b, nn ? Shape{k, columns} : Shape{columns, k});
    const ValueId product =
        r_.add(OpKind::matmul, {r_.reshape(a, left), w}, {{"layout", std::string(nn ? "nn" : "nt")}});
    r_.note(n.name, "matmul", nn ? "its right side is a matrix [k, n]" : "its right side is a matrix [n, k]");
    r_.replace(id, r_.reshape(product, result), product);
    return true;
  }

  // A transpose of two dimensions is the other layout.
  void look_through_transpose(ValueId& v, std::vector<int64_t>& contract) const {
    const Node* t = defined_by(g_, v, OpKind::transpose);
    if (t == nullptr || dims(v).size() != 2 || contract.size() != 1) return;
    contract[0] = 1 - contract[0];
    v = t->operands[0];
  }

  Rewriter& r_;
  Graph& g_;
};

}  // namespace

int recognise_matmuls(Rewriter& r) { return Matmuls(r).run(); }

}  // namespace hone::passes
