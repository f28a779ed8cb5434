// The passes from a graph to a plan, in order; passes.inc is the table of contents. Each is a function of the
// Compilation so far in a file pair of its own, and leaves a graph that graph::verify accepts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/passes/compilation.h"

namespace hone::passes {

struct Pass {
  std::string_view name;     // "shape_inference"
  std::string_view summary;  // one line
  Status (*run)(Compilation& compilation);
};
std::span<const Pass> passes();

struct PassTime {
  std::string_view pass;
  int64_t ns = 0;
  size_t nodes = 0;  // that the graph has after it
};

struct RunOptions {
  // After each pass that ran; for --print-after.
  std::function<void(const Pass& pass, const Compilation& compilation)> after;
  std::string_view first;    // begin with this pass, over what those before it left; "": all
  std::string_view last;     // stop after this pass; "": all
  std::string_view without;  // leave this one out, where the others can do without it: for tests of what it is good for
};

// Runs them over a verified graph. The graph is verified after each. Errors: what a pass says (about the graph);
// internal, naming the pass, when it left a graph that verify refuses.
Result<std::vector<PassTime>> run_passes(Compilation& compilation, const RunOptions& options = {});

std::string to_string(const Guard& guard);  // "p + s <= 4096"

// All that a compilation holds so far as text: graph, guards, layouts, dispatches, buffers, memory, notes of `pass`.
std::string print(const Compilation& compilation, std::string_view pass = {});

}  // namespace hone::passes
