// See exec_calls.h.
#include "tools/hone/exec_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

#include "engine/base/printable.h"
#include "tools/hone/exec_work.h"

namespace hone::cli {
namespace {

using graph::Tensor;
using graph::ValueId;

// Elements of one random input at most: who needs more has files.
constexpr int64_t kMaxRandom = int64_t{1} << 32;

Result<Tensor> to_tensor(const NpyArray& array) {
  Tensor tensor = Tensor::make(array.dtype, array.shape);
  if (!tensor.data.empty()) std::memcpy(tensor.data.data(), array.data.data(), tensor.data.size());
  return tensor;
}

// Bytes in front of, and within, one index of an axis.
struct Blocks {
  int64_t outer = 1, bytes = 1;
  Blocks(const Tensor& t, size_t axis) : bytes(dtype_bytes(t.dtype)) {
    for (size_t i = 0; i < axis; ++i) outer *= t.shape[i];
    for (size_t i = axis + 1; i < t.shape.size(); ++i) bytes *= t.shape[i];
  }
};

Tensor cut(const Tensor& whole, size_t axis, int64_t begin, int64_t count) {
  std::vector<int64_t> shape = whole.shape;
  shape[axis] = count;
  Tensor part = Tensor::make(whole.dtype, shape);
  const Blocks b(whole, axis);
  for (int64_t o = 0; o < b.outer && count * b.bytes > 0; ++o)
    std::memcpy(part.data.data() + o * count * b.bytes, whole.data.data() + (o * whole.shape[axis] + begin) * b.bytes,
                static_cast<size_t>(count * b.bytes));
  return part;
}

// Numbers that an s32 input may have without leaving the tables that it chooses rows of.
int64_t index_bound(const graph::Graph& g, ValueId v) {
  int64_t bound = INT64_MAX;
  for (const graph::Use& use : g.value(v).uses) {
    const graph::Node& n = g.node(use.node);
    const bool gathers = n.op == graph::OpKind::gather && use.operand == 1;
    const bool routes = n.op == graph::OpKind::experts && use.operand == 1;
    if (!gathers && !routes) continue;
    const graph::Dim& rows = g.value(n.operands[gathers ? 0 : 3]).type.dims[0];
    if (rows.is_static()) bound = std::min(bound, rows.value());
  }
  return bound == INT64_MAX ? 2 : std::max<int64_t>(bound, 1);
}

class Maker {
 public:
  Maker(const graph::Graph& g, const CallArgs& args) : g_(g), args_(args), given_(g.inputs().size()) {}

  Result<std::vector<GraphCall>> run() {
    HONE_RETURN_IF_ERROR(read());
    HONE_RETURN_IF_ERROR(count());
    HONE_RETURN_IF_ERROR(set_sizes());
    for (size_t i = 0; i < given_.size(); ++i) HONE_RETURN_IF_ERROR(given_[i].empty() ? add_random(i) : add_given(i));
    return std::move(calls_);
  }

 private:
  const graph::Value& input(size_t i) const { return g_.value(g_.inputs()[i]); }
  std::optional<size_t> axis(size_t i) const { return token_axis(g_, input(i).type); }
  std::string names() const {
    std::string all;
    for (size_t i = 0; i < given_.size(); ++i) all += (i ? ", " : "") + input(i).name;
    return all.empty() ? "none" : all;
  }

  Status read() {
    for (const std::string& text : args_.inputs) {
      const size_t equals = text.find('=');
      size_t i = 0;
      if (equals == std::string::npos) {
        while (i < given_.size() && !given_[i].empty()) ++i;
        if (i == given_.size())
          return invalid_argument(fmt::format("--input '{}': every input has one; they are {}", text, names()));
      } else {
        while (i < given_.size() && input(i).name != text.substr(0, equals)) ++i;
        if (i == given_.size())
          return invalid_argument(
              fmt::format("--input '{}': there is no '{}'; inputs are {}", text, text.substr(0, equals), names()));
      }
      const Result<NpyArray> array = read_npy(equals == std::string::npos ? text : text.substr(equals + 1));
      if (!array.ok()) return invalid_argument(array.status().message());
      if (array->dtype != input(i).type.dtype)
        return invalid_argument(fmt::format("input {} must be {}, got {}", input(i).name,
                                            dtype_name(input(i).type.dtype), dtype_name(array->dtype)));
      HONE_ASSIGN_OR_RETURN(Tensor tensor, to_tensor(*array));
      given_[i].push_back(std::move(tensor));
    }
    return {};
  }

  // How many calls there are, and the tokens of each.
  Status count() {
    const bool fixed = g_.tokens.is_static() && !g_.position.empty();
    if (!args_.calls.empty() && !fixed && !g_.tokens.as_symbol())
      return invalid_argument("--calls: this graph keeps nothing from call to call, so there is nothing to cut");
    for (const int64_t tokens : args_.calls)
      if (fixed && tokens != g_.tokens.value())
        return invalid_argument(
            fmt::format("--calls {}: each call of this graph has {} token(s)", tokens, g_.tokens.value()));
    size_t most = 1;
    for (const std::vector<Tensor>& arrays : given_) most = std::max(most, arrays.size());
    calls_.resize(args_.calls.empty() ? most : args_.calls.size());
    for (size_t i = 0; i < given_.size(); ++i)
      if (given_[i].size() > 1 && given_[i].size() != calls_.size())
        return invalid_argument(
            fmt::format("input {} is given {} times and there are {} calls: give it once, or for each", input(i).name,
                        given_[i].size(), calls_.size()));
    for (size_t c = 0; c < args_.calls.size(); ++c) calls_[c].tokens = args_.calls[c];
    return {};
  }

  // What symbols are in each call.
  Status set_sizes() {
    for (const graph::Symbol& s : g_.symbols)
      sizes_[s.name] = (std::max(s.min, s.multiple_of) + s.multiple_of - 1) / s.multiple_of * s.multiple_of;
    for (const std::string& text : args_.sizes) {
      const size_t equals = text.find('=');
      int64_t value = 0;
      const auto [end, error] =
          std::from_chars(text.data() + std::min(equals, text.size() - 1) + 1, text.data() + text.size(), value);
      const std::string name = text.substr(0, equals);
      if (equals == std::string::npos || error != std::errc() || end != text.data() + text.size() || value < 0)
        return invalid_argument(fmt::format("--size '{}': write symbol=number", text));
      if (!sizes_.contains(name) || name == g_.position)
        return invalid_argument(fmt::format("--size '{}': the graph has no size called '{}'", text, name));
      sizes_[name] = value;
    }
    for (size_t i = 0; i < given_.size(); ++i)
      for (size_t d = 0; !given_[i].empty() && d < input(i).type.dims.size() && d < given_[i][0].shape.size(); ++d)
        if (const auto name = input(i).type.dims[d].as_symbol(); name && *name != g_.tokens.as_symbol())
          sizes_[*name] = given_[i][0].shape[d];
    set_tokens();
    return {};
  }

  void set_tokens() {
    const auto symbol = g_.tokens.as_symbol();
    if (g_.tokens.is_static())
      for (GraphCall& call : calls_) call.tokens = g_.tokens.value();
    if (!symbol || !args_.calls.empty()) return;
    for (size_t c = 0; c < calls_.size(); ++c) {
      calls_[c].tokens = sizes_[*symbol];
      for (size_t i = 0; i < given_.size(); ++i) {
        const auto along = axis(i);
        if (!along || given_[i].empty()) continue;
        const Tensor& array = given_[i].size() == 1 ? given_[i][0] : given_[i][c];
        if (*along < array.shape.size()) calls_[c].tokens = array.shape[*along];
      }
    }
  }

  Status add_given(size_t i) {
    const auto along = axis(i);
    const std::vector<Tensor>& arrays = given_[i];
    if (arrays.size() == 1 && along && !args_.calls.empty() && *along < arrays[0].shape.size()) {
      const int64_t all = std::accumulate(args_.calls.begin(), args_.calls.end(), int64_t{0});
      if (arrays[0].shape[*along] != all)
        return invalid_argument(fmt::format("input {}, dimension {} is {}, and --calls adds up to {}", input(i).name,
                                            *along, arrays[0].shape[*along], all));
      return add_cuts(arrays[0], *along);
    }
    for (size_t c = 0; c < calls_.size(); ++c) calls_[c].inputs.push_back(arrays[arrays.size() == 1 ? 0 : c]);
    return {};
  }

  Status add_cuts(const Tensor& whole, size_t along) {
    int64_t at = 0;
    for (GraphCall& call : calls_) {
      call.inputs.push_back(cut(whole, along, at, call.tokens));
      at += call.tokens;
    }
    return {};
  }

  Status add_random(size_t i) {
    if (!args_.random)
      return invalid_argument(
          fmt::format("input '{0}' is missing: give --input {0}=file.npy, or --random SEED", input(i).name));
    const auto symbol = g_.tokens.as_symbol();
    const bool moves = std::ranges::any_of(input(i).type.dims, [&](const graph::Dim& d) {
      return !d.as_symbol() && ((symbol && d.uses(*symbol)) || (!g_.position.empty() && d.uses(g_.position)));
    });
    graph::Bindings values = sizes_;
    if (!g_.position.empty()) values[g_.position] = 0;
    if (const auto along = axis(i); along && !moves) {
      values[*symbol] = 0;
      for (const GraphCall& call : calls_) values[*symbol] += call.tokens;
      HONE_ASSIGN_OR_RETURN(const Tensor whole, random(i, values, 0));
      return add_cuts(whole, *along);
    }
    for (size_t c = 0; c < calls_.size(); ++c) {
      if (symbol) values[*symbol] = calls_[c].tokens;
      HONE_ASSIGN_OR_RETURN(Tensor tensor, random(i, values, moves ? c : 0));
      calls_[c].inputs.push_back(std::move(tensor));
      if (!g_.position.empty()) values[g_.position] += calls_[c].tokens;
    }
    return {};
  }

  Result<Tensor> random(size_t i, const graph::Bindings& values, uint64_t variant) const {
    std::vector<int64_t> shape;
    int64_t elements = 1;
    for (const graph::Dim& d : input(i).type.dims) {
      HONE_ASSIGN_OR_RETURN(const int64_t size, d.evaluate(values));
      if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMaxRandom)
        return invalid_argument(fmt::format("input {}: {} is too large for --random", input(i).name, to_string(d)));
      shape.push_back(size);
    }
    Tensor tensor = Tensor::make(input(i).type.dtype, shape);
    const uint64_t seed = *args_.random + variant;
    const std::string& name = input(i).name;
    if (tensor.dtype == DType::kF32) {
      HONE_ASSIGN_OR_RETURN(const NpyArray floats, random_floats(shape, seed, name));
      return to_tensor(floats);
    }
    const auto below = [&](size_t at, int64_t bound) {
      return static_cast<int64_t>(random_bits(seed, name, at) >> 33) % bound;
    };
    const int64_t bound = index_bound(g_, g_.inputs()[i]);
    for (size_t at = 0; at < static_cast<size_t>(elements); ++at) {
      if (tensor.dtype == DType::kS32) {
        tensor.as<int32_t>()[at] = static_cast<int32_t>(below(at, bound));
      } else {
        tensor.data[at] = static_cast<std::byte>(below(at, 2));
      }
    }
    return tensor;
  }

  const graph::Graph& g_;
  const CallArgs& args_;
  std::vector<std::vector<Tensor>> given_;  // by input
  graph::Bindings sizes_;
  std::vector<GraphCall> calls_;
};

}  // namespace

Result<std::vector<GraphCall>> make_calls(const graph::Graph& graph, const CallArgs& args) {
  return Maker(graph, args).run();
}

std::optional<size_t> token_axis(const graph::Graph& graph, const graph::TensorType& type) {
  const std::optional<std::string> tokens = graph.tokens.as_symbol();
  for (size_t i = 0; tokens && i < type.dims.size(); ++i)
    if (type.dims[i].as_symbol() == tokens) return i;
  return std::nullopt;
}

graph::Tensor joined(std::span<const graph::Tensor> tensors, std::optional<size_t> axis) {
  if (!axis || tensors.size() == 1) return tensors.back();
  std::vector<int64_t> shape = tensors[0].shape;
  shape[*axis] = 0;
  for (const Tensor& t : tensors) shape[*axis] += t.shape[*axis];
  Tensor all = Tensor::make(tensors[0].dtype, shape);
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    const Blocks b(t, *axis);
    const int64_t bytes = t.shape[*axis] * b.bytes;
    for (int64_t o = 0; o < b.outer && bytes > 0; ++o)
      std::memcpy(all.data.data() + (o * shape[*axis] + at) * b.bytes, t.data.data() + o * bytes,
                  static_cast<size_t>(bytes));
    at += t.shape[*axis];
  }
  return all;
}

Result<NpyArray> to_npy(const graph::Tensor& tensor) {
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(tensor.dtype, tensor.shape));
  if (!tensor.data.empty()) std::memcpy(array.data.data(), tensor.data.data(), tensor.data.size());
  return array;
}

}  // namespace hone::cli
