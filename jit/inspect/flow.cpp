// See flow_internal.h. Dominators by iteration over reverse post-order (Cooper, Harvey and Kennedy, "A simple, fast
// dominance algorithm"); a kernel has at most some thousand blocks.
#include "jit/inspect/flow_internal.h"

#include <algorithm>
#include <iterator>

namespace hone::jit {

namespace {

// Index of the operation at an offset, or -1.
int operation_at(std::span<const Operation> operations, int64_t offset) {
  const auto at = std::lower_bound(operations.begin(), operations.end(), offset, [](const Operation& op, int64_t o) {
    return static_cast<int64_t>(op.instruction.offset) < o;
  });
  if (at == operations.end() || static_cast<int64_t>(at->instruction.offset) != offset) return -1;
  return static_cast<int>(at - operations.begin());
}

void cut_into_blocks(std::span<const Operation> operations, FlowGraph& graph) {
  const int count = static_cast<int>(operations.size());
  std::vector<bool> leads(operations.size() + 1, false);
  leads[0] = true;
  for (int i = 0; i < count; ++i) {
    const Operation& op = operations[i];
    if (op.flow == Flow::kNext) continue;
    leads[i + 1] = true;
    if (const int target = operation_at(operations, op.instruction.target); target >= 0) leads[target] = true;
  }
  graph.block_of.resize(operations.size());
  for (int i = 0; i < count; ++i) {
    if (leads[i]) graph.blocks.push_back({.first = i, .last = i});
    graph.blocks.back().last = i + 1;
    graph.block_of[i] = static_cast<int>(graph.blocks.size()) - 1;
  }
}

void connect(FlowGraph& graph, int from, int to) {
  std::vector<int>& next = graph.blocks[from].next;
  if (std::find(next.begin(), next.end(), to) != next.end()) return;
  next.push_back(to);
  graph.blocks[to].previous.push_back(from);
}

void add_direct_edges(std::span<const Operation> operations, FlowGraph& graph) {
  for (int b = 0; b < static_cast<int>(graph.blocks.size()); ++b) {
    const int last = graph.blocks[b].last;
    const Operation& op = operations[last - 1];
    if (op.flow == Flow::kBranch || op.flow == Flow::kJump)
      if (const int target = operation_at(operations, op.instruction.target); target >= 0)
        connect(graph, b, graph.block_of[target]);
    if ((op.flow == Flow::kNext || op.flow == Flow::kBranch) && last < static_cast<int>(operations.size()))
      connect(graph, b, graph.block_of[last]);
  }
}

// Marks what can be reached from a block; what it marks is appended in post-order.
void visit(const FlowGraph& graph, int from, std::vector<char>& seen, std::vector<int>& post_order) {
  std::vector<std::pair<int, size_t>> path{{from, 0}};  // block, and how many of its successors are done
  seen[from] = 1;
  while (!path.empty()) {
    auto& [block, done] = path.back();
    if (done == graph.blocks[block].next.size()) {
      post_order.push_back(block);
      path.pop_back();
      continue;
    }
    const int next = graph.blocks[block].next[done++];
    if (seen[next]) continue;
    seen[next] = 1;
    path.emplace_back(next, 0);
  }
}

void add_indirect_edges(std::span<const Operation> operations, FlowGraph& graph) {
  const auto jumps = [&](int b) { return operations[graph.blocks[b].last - 1].flow == Flow::kIndirect; };
  std::vector<char> seen(graph.blocks.size(), 0);
  std::vector<int> reached, targets, from;
  visit(graph, 0, seen, reached);
  if (std::none_of(reached.begin(), reached.end(), jumps)) return;
  for (int b = 0; b < static_cast<int>(graph.blocks.size()); ++b) {
    if (seen[b]) continue;
    targets.push_back(b);
    visit(graph, b, seen, reached);
  }
  std::copy_if(reached.begin(), reached.end(), std::back_inserter(from), jumps);
  for (int jump : from)
    for (int target : targets) {
      graph.blocks[jump].next.push_back(target);
      graph.blocks[target].previous.push_back(jump);
    }
}

void order_blocks(FlowGraph& graph) {
  std::vector<char> seen(graph.blocks.size(), 0);
  visit(graph, 0, seen, graph.order);
  std::reverse(graph.order.begin(), graph.order.end());
}

void find_dominators(FlowGraph& graph) {
  std::vector<int> rank(graph.blocks.size(), -1);
  for (size_t i = 0; i < graph.order.size(); ++i) rank[graph.order[i]] = static_cast<int>(i);
  std::vector<int>& idom = graph.dominator;
  idom.assign(graph.blocks.size(), -1);
  const int entry = graph.order.front();
  idom[entry] = entry;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      while (rank[a] > rank[b]) a = idom[a];
      while (rank[b] > rank[a]) b = idom[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int b : graph.order) {
      if (b == entry) continue;
      int best = -1;
      for (int p : graph.blocks[b].previous)
        if (rank[p] >= 0 && idom[p] >= 0) best = best < 0 ? p : meet(best, p);
      if (best == idom[b]) continue;
      idom[b] = best;
      changed = true;
    }
  }
  idom[entry] = -1;
}

// The blocks from which `from` can be reached without passing the header.
std::vector<int> body_of(const FlowGraph& graph, int header, const std::vector<int>& sources) {
  std::vector<int> body{header}, open;
  std::vector<char> inside(graph.blocks.size(), 0);
  inside[header] = 1;
  const auto enter = [&](int b) {
    if (inside[b]) return;
    inside[b] = 1;
    body.push_back(b);
    open.push_back(b);
  };
  for (int s : sources) enter(s);
  while (!open.empty()) {
    const int b = open.back();
    open.pop_back();
    for (int p : graph.blocks[b].previous)
      if (p == 0 || graph.dominator[p] >= 0) enter(p);
  }
  std::sort(body.begin(), body.end());
  return body;
}

}  // namespace

bool FlowGraph::dominates(int a, int b) const {
  while (b >= 0 && b != a) b = dominator[b];
  return b == a;
}

FlowGraph flow_graph(std::span<const Operation> operations) {
  FlowGraph graph;
  if (operations.empty()) return graph;
  cut_into_blocks(operations, graph);
  add_direct_edges(operations, graph);
  add_indirect_edges(operations, graph);
  order_blocks(graph);
  find_dominators(graph);
  return graph;
}

std::vector<NaturalLoop> natural_loops(const FlowGraph& graph) {
  std::vector<NaturalLoop> loops;
  for (int header : graph.order) {
    std::vector<int> sources;
    for (int p : graph.blocks[header].previous)
      if (graph.dominates(header, p)) sources.push_back(p);
    if (!sources.empty()) loops.push_back({.header = header, .blocks = body_of(graph, header, sources)});
  }
  // Loops with different headers are disjoint or nested, so one around another has more blocks.
  std::stable_sort(loops.begin(), loops.end(), [](const NaturalLoop& a, const NaturalLoop& b) {
    return a.blocks.front() != b.blocks.front() ? a.blocks.front() < b.blocks.front()
                                                : a.blocks.size() > b.blocks.size();
  });
  for (size_t i = 0; i < loops.size(); ++i)
    for (size_t j = 0; j < loops.size(); ++j) {
      const std::vector<int>& around = loops[j].blocks;
      if (i == j || around.size() <= loops[i].blocks.size()) continue;
      if (!std::binary_search(around.begin(), around.end(), loops[i].header)) continue;
      const int parent = loops[i].parent;
      if (parent < 0 || around.size() < loops[parent].blocks.size()) loops[i].parent = static_cast<int>(j);
    }
  return loops;
}

}  // namespace hone::jit
