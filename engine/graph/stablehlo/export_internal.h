// From nodes to lines. One method for each decoder op; export_*.cpp by kind.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/stablehlo/emitter_internal.h"
#include "engine/graph/stablehlo/export.h"

namespace hone::graph::stablehlo {

class Exporter {
 public:
  Exporter(const Graph& graph, const ExportOptions& options) : graph_(graph), options_(options) {}

  Result<std::string> run();

 private:
  // What a value of the graph is in the text. A cache is the whole state, with the number of rows that matter.
  struct Exported {
    Ref ref;
    std::optional<Dim> rows;
  };

  // ---- export.cpp ----
  Result<std::string> header() const;
  Result<std::string> arguments();
  Result<std::string> results(std::string* types);
  Status node(const Node& node);
  void name_line(const Node& node);
  Status primitive(const Node& node);
  Status check_sizes(const Node& node, const std::vector<Ref>& x) const;
  Result<TensorType> sized(const TensorType& type, std::string_view what) const;
  Dim sized(Dim dim) const;
  Status refuse(const Node& node, std::string_view what) const;
  Result<std::vector<Ref>> operands(const Node& node) const;
  void bind(const Node& node, Ref ref, int result = 0) {
    values_[node.results[static_cast<size_t>(result)]] = {std::move(ref), {}};
  }

  // ---- export_elements.cpp ----
  Status elements(const Node& node, const std::vector<Ref>& x);
  Status shapes(const Node& node, const std::vector<Ref>& x);
  Status sums(const Node& node, const std::vector<Ref>& x);

  // ---- export_decoder.cpp ----
  Status decoder(const Node& node, const std::vector<Ref>& x);
  Status matmul(const Node& node, const std::vector<Ref>& x);
  Status norm(const Node& node, const std::vector<Ref>& x);
  Status rope(const Node& node, const std::vector<Ref>& x);
  Status softmax(const Node& node, const Ref& x);
  Status experts(const Node& node, const std::vector<Ref>& x);
  Status kv_append(const Node& node);
  Ref silu(const Ref& x);
  Ref gelu(const Ref& x, bool tanh);
  Ref swiglu_columns(const Ref& x);
  Ref along_last(const Ref& vector, const Shape& shape);       // [n] to [.., n]
  Ref rows_over_last(const Ref& reduced, const Shape& shape);  // [..] to [.., n]
  std::optional<int64_t> last_size(const Node& node, const Ref& x);

  // ---- export_attention.cpp ----
  struct Attention;
  Status attention(const Node& node);
  Ref scores(const Attention& a);
  Ref visible(const Attention& a);  // [s, t], or nothing where all is
  Ref masked(const Attention& a, Ref scores);
  Ref weighted(const Attention& a, const Ref& scores);
  Ref with_heads_first(const Ref& x, const Dim& batch);

  const Graph& graph_;
  const ExportOptions& options_;
  Emitter e_;
  std::map<ValueId, Exported> values_;
  std::map<ValueId, Ref> states_;  // as the call leaves them
  Ref position_;
};

}  // namespace hone::graph::stablehlo
