// What the two kinds of hone exec share: ops of a package (exec.cpp) and graphs (exec_graph.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "jit/aot/package.h"

namespace hone::cli {

struct ExecArgs {
  std::string package, problem, isa;
  std::vector<std::string> inputs, outputs;
  std::optional<uint64_t> random;
  int threads = 0, repetitions = 1;
  bool check = false, json = false;
  // Of graphs.
  std::vector<int64_t> calls;
  std::vector<std::string> sizes;
};

// Runs a graph: of a package that was opened, or, where that is null, of the file args.package, which is compiled now.
Status exec_graph(const ExecArgs& args, const std::shared_ptr<const jit::Package>& package);

}  // namespace hone::cli
