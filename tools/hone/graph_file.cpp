// See graph_file.h.
#include "tools/hone/graph_file.h"

#include <fmt/format.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/base/printable.h"
#include "engine/graph/stablehlo/import.h"
#include "engine/graph/text.h"
#include "tools/hone/new_file.h"
#include "tools/hone/npy.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

// Text of a model with its weights as hex; what is longer belongs into files of their own.
constexpr uintmax_t kMaxText = uintmax_t{4} << 30;

Status in_file(const std::string& path, const Status& status) {
  return {status.code(), fmt::format("{}: {}", printable(path), status.message())};
}

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return not_found(fmt::format("there is no file {}", printable(path)));
  if (!fs::is_regular_file(path, error))
    return invalid_argument(fmt::format("{} is no file: a graph is a file of text", printable(path)));
  const uintmax_t bytes = fs::file_size(path, error);
  if (error || bytes > kMaxText)
    return invalid_argument(fmt::format("{} has more than {} bytes", printable(path), kMaxText));
  std::ifstream in(path, std::ios::binary);
  std::string text(bytes, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(bytes)))
    return invalid_argument(fmt::format("cannot read {}: {}", printable(path), std::strerror(errno)));
  return text;
}

// The first word behind blanks and comments.
std::string_view first_word(std::string_view text) {
  for (;;) {
    const size_t at = text.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at);
    if (!text.starts_with("//")) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return text.substr(0, text.find_first_of(" \t\r\n@{("));
}

// ---- constants of graph text ----

std::string constant_path(const std::string& graph, std::string_view name) {
  std::string file;
  for (const char c : name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || (c == '.' && !file.empty());
    file += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return fmt::format("{}.constants/{}.npy", graph, file);
}

Result<graph::Constant> read_constant(const std::string& graph, const std::string& name,
                                      const graph::TensorType& type) {
  HONE_ASSIGN_OR_RETURN(NpyArray array, read_npy(constant_path(graph, name)));
  graph::TensorType found{array.dtype, graph::Shape(array.shape.begin(), array.shape.end())};
  if (found != type)
    return invalid_argument(fmt::format("{} is {}, the graph says {}", printable(constant_path(graph, name)),
                                        to_string(found), to_string(type)));
  const auto owner = std::make_shared<const NpyArray>(std::move(array));
  return graph::Constant{.type = std::move(found),
                         .splat = false,
                         .owner = owner,
                         .data = {owner->data.data(), static_cast<size_t>(type.bytes())}};
}

Status write_constant(const std::string& graph, const graph::Node& node) {
  const graph::Constant& constant = *node.constant;
  if (is_16bit_float(constant.type.dtype))
    return unsupported(fmt::format("constant {} is {}: files of constants (.npy) have f32, s32 and u8",
                                   printable(node.name), to_string(constant.type)));
  std::vector<int64_t> shape;
  for (const graph::Dim& d : constant.type.dims) shape.push_back(d.value());
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(constant.type.dtype, shape));
  if (!constant.splat) constant.write_out(reinterpret_cast<std::byte*>(array.data.data()));
  return write_npy(constant_path(graph, node.name), array);
}

// ---- StableHLO ----

Result<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return invalid_argument(fmt::format("'{}' is not a whole number", printable(text, 40)));
  return value;
}

// "arg0:0=s:1..4096"
Result<graph::stablehlo::NamedDimension> parse_dimension(const std::string& text) {
  const auto wrong = [&] {
    return invalid_argument(fmt::format(
        "--dimension '{}': write input:dimension=symbol:least..most, such as arg0:0=s:1..4096", printable(text)));
  };
  const size_t colon = text.find(':'), equals = text.find('=');
  if (colon == std::string::npos || equals == std::string::npos || colon == 0 || equals < colon) return wrong();
  graph::stablehlo::NamedDimension dimension{.input = text.substr(0, colon), .dimension = 0, .symbol = {}};
  const Result<int64_t> axis = number(std::string_view(text).substr(colon + 1, equals - colon - 1));
  const size_t range = text.find(':', equals);
  dimension.symbol.name = text.substr(equals + 1, range == std::string::npos ? range : range - equals - 1);
  if (!axis.ok() || *axis < 0 || *axis > 64 || dimension.symbol.name.empty()) return wrong();
  dimension.dimension = static_cast<int>(*axis);
  if (range == std::string::npos) return dimension;
  const size_t dots = text.find("..", range);
  if (dots == std::string::npos) return wrong();
  const Result<int64_t> least = number(std::string_view(text).substr(range + 1, dots - range - 1));
  const Result<int64_t> most = number(std::string_view(text).substr(dots + 2));
  if (!least.ok() || !most.ok() || *least < 0 || *most < *least) return wrong();
  dimension.symbol.min = *least;
  dimension.symbol.max = *most;
  return dimension;
}

Result<graph::Graph> import(const std::string& text, const GraphFileOptions& options, std::vector<std::string>& notes) {
  graph::stablehlo::ImportOptions import{
      .function = options.function.empty() ? "main" : options.function, .dimensions = {}, .notes = &notes};
  for (const std::string& d : options.dimensions) {
    HONE_ASSIGN_OR_RETURN(graph::stablehlo::NamedDimension dimension, parse_dimension(d));
    import.dimensions.push_back(std::move(dimension));
  }
  return graph::stablehlo::import_stablehlo(text, import);
}

}  // namespace

bool names_graph(const std::string& word) {
  std::error_code error;
  return word.ends_with(".mlir") || word.ends_with(".graph") || fs::is_regular_file(word, error);
}

Result<GraphFile> read_graph(const std::string& path, const GraphFileOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  const std::string_view word = first_word(text);
  GraphFile file;
  Result<graph::Graph> graph = invalid_argument(
      "is neither graph text, which begins with 'graph @name {', nor StableHLO text, which begins with 'module'");
  if (word == "graph") {
    file.format = "graph";
    graph = !options.dimensions.empty()
                ? invalid_argument("--dimension is for StableHLO: graph text declares its symbols")
                : graph::parse(text, [&](const std::string& name, const graph::TensorType& type) {
                    return read_constant(path, name, type);
                  });
  } else if (word == "module" || word.starts_with("func") || word.starts_with("#loc") ||
             word.find("builtin.module") != std::string_view::npos) {
    file.format = "stablehlo";
    graph = import(text, options, file.notes);
  }
  if (!graph.ok()) return in_file(path, graph.status());
  file.graph = std::move(*graph);
  return file;
}

Status write_graph(const std::string& path, const graph::Graph& graph) {
  bool any = false;
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    if (!node.constant || node.constant->splat || node.constant->type.elements() <= graph::kInlineElements) continue;
    std::error_code error;
    if (!any) fs::create_directories(path + ".constants", error);
    any = true;
    if (error) return invalid_argument(fmt::format("cannot make {}.constants: {}", printable(path), error.message()));
    HONE_RETURN_IF_ERROR(write_constant(path, node));
  }
  HONE_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path, "layer.graph"));
  HONE_RETURN_IF_ERROR(file.write(graph::print(graph)));
  return file.commit();
}

}  // namespace hone::cli
