// See facts.h.
#include <algorithm>
#include <tuple>

#include "jit/inspect/facts.h"

#ifdef HONE_WITH_LLVM
#include "jit/inspect/flow_internal.h"
#include "jit/inspect/frame_internal.h"
#endif

namespace hone::jit {

namespace {

#ifdef HONE_WITH_LLVM
void count(const Classes& c, Counts& into) {
  ++into.total;
  into.vector += c.vector;
  into.fma += c.fma;
  into.load += c.load;
  into.store += c.store;
  into.branch += c.branch;
  into.address += c.address;
  into.stack += c.stack;
  into.spills += c.spill;
  into.reloads += c.reload;
  into.vector_spills += c.spill && c.of_vector;
  into.vector_reloads += c.reload && c.of_vector;
}

void add_loops(const FlowGraph& graph, CodeFacts& facts) {
  for (const NaturalLoop& natural : natural_loops(graph)) {
    const int index = static_cast<int>(facts.loops.size());
    Loop& loop = facts.loops.emplace_back();
    loop.parent = natural.parent;
    if (loop.parent >= 0) {  // the outer ones come first
      loop.depth = facts.loops[static_cast<size_t>(loop.parent)].depth + 1;
      facts.loops[static_cast<size_t>(loop.parent)].innermost = false;
    }
    for (int b : natural.blocks)
      for (int i = graph.blocks[b].first; i < graph.blocks[b].last; ++i) {
        Instruction& instruction = facts.instructions[static_cast<size_t>(i)];
        instruction.loop = index;  // an inner loop comes later and wins
        count(instruction.classes, loop.counts);
      }
    const Instruction& first = facts.instructions[static_cast<size_t>(graph.blocks[natural.blocks.front()].first)];
    const Instruction& last = facts.instructions[static_cast<size_t>(graph.blocks[natural.blocks.back()].last - 1)];
    loop.begin = first.offset;
    loop.end = last.offset + static_cast<size_t>(last.size);
  }
}

int hottest(const std::vector<Loop>& loops) {
  const auto work = [](const Loop& l) { return std::tuple(l.counts.fma, l.counts.vector, l.counts.total); };
  int best = -1;
  for (size_t i = 0; i < loops.size(); ++i)
    if (loops[i].innermost && (best < 0 || work(loops[i]) > work(loops[static_cast<size_t>(best)])))
      best = static_cast<int>(i);
  return best;
}
#endif

}  // namespace

std::string class_names(const Classes& c) {
  std::string names;
  const auto add = [&](bool is, std::string_view name) {
    if (is) names.append(names.empty() ? "" : " ").append(name);
  };
  add(c.vector, "vector");
  add(c.fma, "fma");
  add(c.load, "load");
  add(c.store, "store");
  add(c.branch, "branch");
  add(c.address, "address");
  add(c.stack, "stack");
  add(c.spill, "spill");
  add(c.reload, "reload");
  return names;
}

#ifdef HONE_WITH_LLVM
Result<CodeFacts> inspect(std::span<const std::byte> code, Isa isa) { return inspect(code, isa_info(isa).arch); }

Result<CodeFacts> inspect(std::span<const std::byte> code, Arch arch) {
  HONE_ASSIGN_OR_RETURN(std::vector<Operation> operations, decode(code, arch));
  const FlowGraph graph = flow_graph(operations);
  find_spills(operations, graph, arch);
  CodeFacts facts{.bytes = code.size()};
  for (Operation& op : operations) {
    count(op.instruction.classes, facts.counts);
    facts.instructions.push_back(std::move(op.instruction));
  }
  add_loops(graph, facts);
  facts.hottest = hottest(facts.loops);
  return facts;
}
#else
Result<CodeFacts> inspect(std::span<const std::byte>, Isa) {
  return unsupported("this build cannot read machine code: configure with HONE_WITH_LLVM=ON");
}

Result<StaticThroughput> static_throughput(std::span<const std::byte>, Isa, const std::string&) {
  return unsupported("this build has no machine models: configure with HONE_WITH_LLVM=ON");
}

std::string host_cpu() { return ""; }
#endif

std::vector<std::byte> loop_code(std::span<const std::byte> code, const CodeFacts& facts, int loop) {
  std::vector<std::byte> bytes;
  for (const Instruction& i : facts.instructions) {
    int around = i.loop;
    while (around >= 0 && around != loop) around = facts.loops[static_cast<size_t>(around)].parent;
    if (loop < 0 || around != loop) continue;
    const auto piece = code.subspan(i.offset, static_cast<size_t>(i.size));
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

}  // namespace hone::jit
