// Graphs in files: text of our own (engine/graph/text.h) or StableHLO, told apart by how they begin.
//
// Elements of constants that are too many for graph text lie beside it, in FILE.constants/NAME.npy. Bytes of a name
// other than letters, digits, '_', '-' and '.' are %XX there, and so is a '.' at its beginning, so that no name leads
// out of the folder.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace hone::cli {

// Whether a word of a command line is meant as a graph: a file that is there, or a name as graphs have (.mlir, .graph).
bool names_graph(const std::string& word);

struct GraphFileOptions {
  // "arg0:0=s" or "arg0:0=s:1..4096": a symbol for a dimension that StableHLO text leaves open.
  std::vector<std::string> dimensions;
  std::string function;  // of StableHLO text; "": main
};

struct GraphFile {
  graph::Graph graph;
  std::string format;              // "graph", "stablehlo"
  std::vector<std::string> notes;  // what a reader should know and no error says
};

// Errors name the file, and the line where there is one.
Result<GraphFile> read_graph(const std::string& path, const GraphFileOptions& options = {});

// As graph text, with its constants. Each file is whole or as it was.
Status write_graph(const std::string& path, const graph::Graph& graph);

}  // namespace hone::cli
