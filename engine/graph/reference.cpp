// Node after node. For each, infer_types is asked again with the shapes of this very call: a rule that was left open
// because a size was a symbol is checked here, by the code that has it.
#include "engine/graph/reference.h"

#include <algorithm>
#include <cstring>

#include "engine/base/half.h"
#include "engine/base/memory.h"
#include "engine/base/printable.h"
#include "engine/graph/infer.h"
#include "engine/graph/infer_internal.h"
#include "engine/graph/reference_internal.h"

namespace hone::graph {

namespace {

// Above this a result must fit into memory that is there.
constexpr int64_t kAskFirst = int64_t{1} << 28;

Status check_input(const Value& input, const Tensor& tensor) {
  if (tensor.dtype != input.type.dtype)
    return invalid_argument(fmt::format("input {} is {} and must be {}", input.name, dtype_name(tensor.dtype),
                                        dtype_name(input.type.dtype)));
  const TensorType type{tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}};
  if (const Status s = check_type(type); !s.ok())
    return invalid_argument(fmt::format("input {} {}", input.name, s.message()));
  if (static_cast<int64_t>(tensor.data.size()) != type.bytes())
    return invalid_argument(
        fmt::format("input {} has {} bytes, which is not what its shape says", input.name, tensor.data.size()));
  if (tensor.dtype == DType::kU8) return check_truth_values(input.name, tensor.data);
  return {};
}

Status run_op(const Call& call) {
  const OpKind op = call.node.op;
  if (op < OpKind::broadcast) return evaluate_elements(call);
  if (op < OpKind::reduce) return evaluate_shapes(call);
  if (op < OpKind::matmul) return evaluate_sums(call);
  return evaluate_decoder(call);
}

class Evaluation {
 public:
  Evaluation(const Graph& graph, ReferenceState* state)
      : g_(graph), state_(state), views_(graph.value_count()), made_(graph.value_count()), left_(graph.value_count()) {}

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs) {
    HONE_RETURN_IF_ERROR(start(inputs));
    for (const NodeId id : g_.order()) HONE_RETURN_IF_ERROR(run_node(g_.node(id)));
    std::vector<Tensor> outputs;
    for (const ValueId v : g_.outputs()) {
      const View& view = views_[static_cast<size_t>(v)];
      Tensor t = Tensor::make(view.dtype, view.shape);
      std::copy_n(view.data, t.data.size(), t.data.begin());
      outputs.push_back(std::move(t));
    }
    HONE_RETURN_IF_ERROR(finish());
    return outputs;
  }

 private:
  Status start(std::span<const Tensor> inputs) {
    if (!g_.position.empty() && state_ == nullptr)
      return failed_precondition(fmt::format("graph {} has a position: a state must be given", g_.name));
    if (state_ != nullptr && !g_.position.empty()) position_ = state_->position;
    std::vector<std::vector<int64_t>> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape);
    HONE_ASSIGN_OR_RETURN(bindings_, bind_symbols(g_, shapes, position_));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId v = g_.inputs()[i];
      HONE_RETURN_IF_ERROR(check_input(g_.value(v), inputs[i]));
      views_[static_cast<size_t>(v)] = view_of(inputs[i]);
    }
    for (const ValueId v : g_.states()) HONE_RETURN_IF_ERROR(start_state(g_.value(v)));
    for (size_t v = 0; v < left_.size(); ++v) left_[v] = g_.value(static_cast<ValueId>(v)).uses.size();
    for (const ValueId v : g_.outputs()) ++left_[static_cast<size_t>(v)];
    return {};
  }

  // The rows so far are the caller's; a state of the first call is zeros that nobody reads.
  Status start_state(const Value& v) {
    std::vector<int64_t> shape;
    for (const Dim& d : v.type.dims) shape.push_back(d.value());
    const auto kept = state_->states.find(v.name);
    if (kept == state_->states.end()) {
      made_[static_cast<size_t>(v.id)] = Tensor::make(v.type.dtype, shape);
      views_[static_cast<size_t>(v.id)] = view_of(made_[static_cast<size_t>(v.id)]);
      return {};
    }
    if (kept->second.dtype != v.type.dtype || kept->second.shape != shape)
      return invalid_argument(fmt::format("state {} that was given is not {}", v.name, to_string(v.type)));
    views_[static_cast<size_t>(v.id)] = view_of(kept->second);
    return {};
  }

  // A recorded type with the sizes of this call; ? where they are not known, or not yet: some symbols stand for sizes
  // that only a result has.
  Result<TensorType> sized(const TensorType& type) const {
    TensorType out{type.dtype, {}};
    for (const Dim& d : type.dims) {
      const bool known = !d.is_unknown() && std::all_of(d.terms().begin(), d.terms().end(),
                                                        [&](const auto& t) { return bindings_.contains(t.first); });
      if (!known) {
        out.dims.push_back(Dim::unknown());
        continue;
      }
      HONE_ASSIGN_OR_RETURN(const int64_t n, d.evaluate(bindings_));
      if (n < 0)
        return invalid_argument(fmt::format("{} has a dimension of {} = {}", to_string(type), to_string(d), n));
      out.dims.emplace_back(n);
    }
    return out;
  }

  // A symbol that has no value yet and is the size of this result has it from now on.
  void learn(const TensorType& recorded, const TensorType& found) {
    for (size_t axis = 0; axis < recorded.dims.size(); ++axis)
      if (const std::optional<std::string> symbol = recorded.dims[axis].as_symbol())
        bindings_.emplace(*symbol, found.dims[axis].value());
  }

  Result<std::vector<TensorType>> result_types(const Node& n) const {
    std::vector<TensorType> operands;
    for (const ValueId v : n.operands) {
      const View& view = views_[static_cast<size_t>(v)];
      operands.push_back({view.dtype, {view.shape.begin(), view.shape.end()}});
    }
    HONE_ASSIGN_OR_RETURN(const TensorType wanted, sized(g_.value(n.results[0]).type));
    HONE_ASSIGN_OR_RETURN(std::vector<TensorType> types,
                          infer_types({n.op, operands, n.attributes, &wanted, Dim(position_)}));
    for (size_t i = 0; i < types.size(); ++i) {
      const TensorType& recorded = g_.value(n.results[i]).type;
      HONE_ASSIGN_OR_RETURN(const TensorType expected, sized(recorded));
      for (size_t axis = 0; axis < types[i].dims.size(); ++axis)
        if (!possibly_equal(types[i].dims[axis], expected.dims[axis]))
          return invalid_argument(fmt::format("dimension {} of result {} is {} and must be {}", axis, i,
                                              to_string(types[i].dims[axis]),
                                              must_be(recorded.dims[axis], expected.dims[axis])));
      if (!types[i].is_static())
        return failed_precondition(
            fmt::format("its result is {}, and nothing says how long ? is", to_string(types[i])));
    }
    return types;
  }

  static std::string must_be(const Dim& recorded, const Dim& expected) {
    if (recorded.is_static()) return to_string(expected);
    return fmt::format("{} = {}", to_string(recorded), to_string(expected));
  }

  Status run_node(const Node& n) {
    if (n.op == OpKind::constant) return run_constant(n);
    Result<std::vector<TensorType>> types = result_types(n);
    if (!types.ok())
      return Status(types.status().code(), fmt::format("{}: {}", printable(n.name), types.status().message()));
    std::vector<Tensor> results;
    for (size_t i = 0; i < types->size(); ++i) {
      const TensorType& type = (*types)[i];
      learn(g_.value(n.results[i]).type, type);
      if (type.bytes() > kAskFirst && type.bytes() > available_memory(""))
        return resource_exhausted(fmt::format("{}: there is no memory for {}", printable(n.name), to_string(type)));
      std::vector<int64_t> shape;
      for (const Dim& d : type.dims) shape.push_back(d.value());
      results.push_back(Tensor::make(type.dtype, std::move(shape)));
    }
    std::vector<View> operands;
    for (const ValueId v : n.operands) operands.push_back(views_[static_cast<size_t>(v)]);
    HONE_RETURN_IF_ERROR(run_op({n, std::move(operands), results, bindings_, position_}));
    for (size_t i = 0; i < results.size(); ++i) keep(n.results[i], std::move(results[i]));
    for (const ValueId v : n.operands) release(v);
    return {};
  }

  Status run_constant(const Node& n) {
    const Constant& c = *n.constant;
    std::vector<int64_t> shape;
    for (const Dim& d : c.type.dims) shape.push_back(d.value());
    if (!c.splat && !c.runs) {
      views_[static_cast<size_t>(n.results[0])] = {c.type.dtype, std::move(shape), c.data.data()};
      return {};
    }
    if (c.type.bytes() > kAskFirst && c.type.bytes() > available_memory(""))
      return resource_exhausted(fmt::format("{}: there is no memory for {}", printable(n.name), to_string(c.type)));
    Tensor t = Tensor::make(c.type.dtype, std::move(shape));
    c.write_out(t.data.data());
    keep(n.results[0], std::move(t));
    return {};
  }

  void keep(ValueId v, Tensor tensor) {
    made_[static_cast<size_t>(v)] = std::move(tensor);
    views_[static_cast<size_t>(v)] = view_of(made_[static_cast<size_t>(v)]);
  }

  void release(ValueId v) {
    if (--left_[static_cast<size_t>(v)] == 0 && g_.value(v).kind == ValueKind::kResult) {
      // Rows that were appended are needed once more, when the call has ended well.
      const Node* n = g_.definition(v);
      if (n->op != OpKind::kv_append) made_[static_cast<size_t>(v)] = {};
    }
  }

  // What the call leaves behind: its rows in the states, and the position.
  Status finish() {
    if (g_.position.empty()) return {};
    HONE_ASSIGN_OR_RETURN(const int64_t tokens, g_.tokens.evaluate(bindings_));
    for (const ValueId v : g_.states()) {
      const int64_t rows = views_[static_cast<size_t>(appended_to(v))].shape[0] - position_;
      if (rows != tokens)
        return invalid_argument(fmt::format("state {}: {} rows are appended and the position goes up by {} = {}",
                                            g_.value(v).name, rows, to_string(g_.tokens), tokens));
    }
    for (const ValueId v : g_.states()) {
      const Value& value = g_.value(v);
      const ValueId appended = appended_to(v);
      Tensor kept = Tensor::make(value.type.dtype, views_[static_cast<size_t>(v)].shape);
      std::copy_n(views_[static_cast<size_t>(v)].data, kept.data.size(), kept.data.begin());
      const std::vector<std::byte>& rows = made_[static_cast<size_t>(appended)].data;
      std::copy(rows.begin(), rows.end(), kept.data.begin());
      state_->states[value.name] = std::move(kept);
    }
    state_->position += tokens;
    return {};
  }

  ValueId appended_to(ValueId state) const { return g_.result(g_.value(state).uses[0].node); }

  const Graph& g_;
  ReferenceState* state_;
  int64_t position_ = 0;
  Bindings bindings_;
  std::vector<View> views_;   // by value
  std::vector<Tensor> made_;  // what views lie in, where it is nobody else's
  std::vector<size_t> left_;  // uses to come
};

}  // namespace

View view_of(const Tensor& tensor) { return {tensor.dtype, tensor.shape, tensor.data.data()}; }

std::vector<float> widened(const View& weights) {
  std::vector<float> wide(static_cast<size_t>(weights.elements()));
  for (size_t i = 0; i < wide.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, weights.data + i * sizeof bits, sizeof bits);
    wide[i] = weights.dtype == DType::kBf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
  }
  return wide;
}

int64_t View::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

Status Call::wrong(const std::string& what) const {
  return invalid_argument(fmt::format("{} {}: {}", op_info(node.op).name, printable(node.name), what));
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs, ReferenceState* state) {
  return Evaluation(graph, state).run(inputs);
}

}  // namespace hone::graph
