// The sizes of a call, from the shapes of its inputs: each dimension of an input is an equation, and those with one
// unknown symbol are solved until none is left.
#include <fmt/format.h>

#include "engine/graph/reference.h"

namespace hone::graph {

namespace {

constexpr int64_t kMost = int64_t{1} << 40;

struct Equation {
  std::string what;  // "input x, dimension 0"
  const Dim* dim;
  int64_t value;
  bool solved = false;
};

// "and must be 2048", "and must be p + s = 12".
std::string must_be(const Dim& dim, std::optional<int64_t> value) {
  if (dim.is_static() || !value) return fmt::format("and must be {}", to_string(dim));
  return fmt::format("and must be {} = {}", to_string(dim), *value);
}

Status check_symbol(const Symbol& s, int64_t value, const std::string& from) {
  if (value < s.min || value > s.max)
    return invalid_argument(fmt::format("{}: {} is {} and must be in {}..{}", from, s.name, value, s.min, s.max));
  if (value % s.multiple_of != 0)
    return invalid_argument(
        fmt::format("{}: {} is {} and must be a multiple of {}", from, s.name, value, s.multiple_of));
  return {};
}

class Solver {
 public:
  Solver(const Graph& graph, int64_t position) : g_(graph), position_(position) {}

  Result<Bindings> run(std::span<const std::vector<int64_t>> shapes) {
    if (!g_.position.empty())
      HONE_RETURN_IF_ERROR(bind(g_.position, position_, fmt::format("the position, {}", g_.position)));
    HONE_RETURN_IF_ERROR(collect(shapes));
    for (bool progress = true; progress;) {
      progress = false;
      for (Equation& e : equations_) {
        if (e.solved) continue;
        HONE_RETURN_IF_ERROR(solve(&e));
        progress |= e.solved;
      }
    }
    for (const Equation& e : equations_)
      if (!e.solved)
        return invalid_argument(fmt::format("{} is {}, and nothing says which symbols of {} make it so", e.what,
                                            e.value, to_string(*e.dim)));
    return std::move(bindings_);
  }

 private:
  Status bind(const std::string& name, int64_t value, const std::string& from) {
    const Symbol* s = g_.find_symbol(name);
    if (s == nullptr) return invalid_argument(fmt::format("{}: symbol {} is not declared", from, name));
    bindings_.emplace(name, value);
    return check_symbol(*s, value, from);
  }

  Status collect(std::span<const std::vector<int64_t>> shapes) {
    if (shapes.size() != g_.inputs().size())
      return invalid_argument(
          fmt::format("there are {} inputs and graph {} has {}", shapes.size(), g_.name, g_.inputs().size()));
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Value& input = g_.value(g_.inputs()[i]);
      if (shapes[i].size() != input.type.dims.size())
        return invalid_argument(fmt::format("input {} has {} dimensions and must be {}", input.name, shapes[i].size(),
                                            to_string(input.type)));
      for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
        const std::string what = fmt::format("input {}, dimension {}", input.name, axis);
        const int64_t value = shapes[i][axis];
        if (value < 0 || value > kMost)
          return invalid_argument(fmt::format("{} is {} and must be in 0..2^40", what, value));
        if (!input.type.dims[axis].is_unknown()) equations_.push_back({what, &input.type.dims[axis], value});
      }
    }
    return {};
  }

  Status solve(Equation* e) {
    const std::pair<const std::string, int64_t>* unknown = nullptr;
    for (const auto& term : e->dim->terms()) {
      if (bindings_.contains(term.first)) continue;
      if (unknown != nullptr) return {};  // two: later
      unknown = &term;
    }
    e->solved = true;
    Dim rest = *e->dim;
    if (unknown != nullptr) rest = rest.substitute(unknown->first, 0);
    HONE_ASSIGN_OR_RETURN(const int64_t known, rest.evaluate(bindings_));
    if (unknown == nullptr) {
      if (known == e->value) return {};
      return invalid_argument(fmt::format("{} is {} {}", e->what, e->value, must_be(*e->dim, known)));
    }
    const int64_t factor = unknown->second;
    int64_t difference = 0;  // of a size that is not negative: never INT64_MIN, which % -1 would trap on
    if (__builtin_sub_overflow(e->value, known, &difference) || difference % factor != 0 || difference / factor < 0)
      return invalid_argument(fmt::format("{} is {} {}: no {} gives that", e->what, e->value,
                                          must_be(*e->dim, std::nullopt), unknown->first));
    return bind(unknown->first, difference / factor, e->what);
  }

  const Graph& g_;
  int64_t position_;
  std::vector<Equation> equations_;
  Bindings bindings_;
};

}  // namespace

Result<Bindings> bind_symbols(const Graph& graph, std::span<const std::vector<int64_t>> shapes, int64_t position) {
  return Solver(graph, position).run(shapes);
}

}  // namespace hone::graph
