// What random kernels are for: all of LoopIR occurs in them, and equal seeds give equal ones.
#include "kernels/ir/random.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "kernels/ir/edit.h"
#include "kernels/ir/text.h"

namespace hone::ir {
namespace {

constexpr uint64_t kKernels = 5000;

std::string spelling(const char* name, int op) { return std::string(name) + std::to_string(op); }

// What a statement is, as far as code generators tell statements apart.
std::string kind_of(const Kernel& kernel, const Stmt& s) {
  auto type = [&](const RegRef& r) -> const RegType& { return kernel.registers[static_cast<size_t>(r.reg)].type; };
  auto dtype = [&](const RegRef& r) { return std::string(type(r).dtype == DType::kF32 ? " f32" : " s32"); };
  if (const auto* n = std::get_if<Const>(&s.node)) return "const" + dtype(n->dst);
  if (const auto* n = std::get_if<Load>(&s.node)) {
    const DType element = kernel.buffers[static_cast<size_t>(n->src.buffer)].dtype;
    if (dtype_bytes(element) != 4) return "load " + std::string(dtype_name(element));
    return (n->mask.valid() ? "masked load" : "load") + dtype(n->dst);
  }
  if (const auto* n = std::get_if<Broadcast>(&s.node)) {
    const DType element = kernel.buffers[static_cast<size_t>(n->src.buffer)].dtype;
    return "broadcast " + std::string(dtype_name(element));
  }
  if (const auto* n = std::get_if<Store>(&s.node)) return (n->mask.valid() ? "masked store" : "store") + dtype(n->src);
  if (const auto* n = std::get_if<Binary>(&s.node)) return spelling("binary", static_cast<int>(n->op)) + dtype(n->dst);
  if (std::get_if<Fma>(&s.node)) return "fma";
  if (std::get_if<Pairs>(&s.node)) return "pairs";
  if (std::get_if<DotPairs>(&s.node)) return "dot pairs";
  if (const auto* n = std::get_if<Unary>(&s.node)) return spelling("unary", static_cast<int>(n->op)) + dtype(n->dst);
  if (const auto* n = std::get_if<Compare>(&s.node)) return spelling("compare", static_cast<int>(n->op));
  if (const auto* n = std::get_if<Select>(&s.node)) return "select" + dtype(n->dst);
  if (const auto* n = std::get_if<Permute>(&s.node))
    return spelling("permute", static_cast<int>(n->op)) + dtype(n->dst);
  if (std::get_if<LaneMask>(&s.node)) return "lanes";
  if (const auto* n = std::get_if<Prefetch>(&s.node)) return spelling("prefetch", n->locality);
  if (const auto* n = std::get_if<For>(&s.node))
    return spelling("for", static_cast<int>(kernel.vars[static_cast<size_t>(n->var)].kind));
  if (const auto* n = std::get_if<Let>(&s.node)) return spelling("let", static_cast<int>(n->op));
  if (std::get_if<LetLoad>(&s.node)) return "let load";
  if (std::get_if<Specialise>(&s.node)) return "specialise";
  const auto& branch = std::get<If>(s.node);
  return spelling(branch.else_body.empty() ? "if" : "if else", static_cast<int>(branch.op));
}

TEST(IrRandom, EverythingOccurs) {
  std::map<std::string, int> kinds;
  std::set<int> lanes;
  std::set<size_t> parallel_loops;
  std::set<int64_t> alignments;
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    Kernel kernel = random_kernel(seed, 16, seed % 2 == 1).kernel;
    if (seed % 2 == 0) {
      EXPECT_EQ(required_features(kernel), FeatureSet{}) << seed;
    }
    size_t parallel = 0;
    each_statement(kernel.body, [&](Stmt& s) {
      ++kinds[kind_of(kernel, s)];
      const For* loop = std::get_if<For>(&s.node);
      if (loop != nullptr && kernel.vars[static_cast<size_t>(loop->var)].kind == VarKind::kParallel) ++parallel;
      each_register(s, [&](RegRef& r) { lanes.insert(kernel.registers[static_cast<size_t>(r.reg)].type.lanes); });
    });
    parallel_loops.insert(parallel);
    for (const Buffer& b : kernel.buffers) alignments.insert(b.align);
  }
  EXPECT_EQ(lanes, (std::set<int>{1, 4, 8, 16}));
  EXPECT_EQ(parallel_loops, (std::set<size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(alignments, (std::set<int64_t>{1, 2, 4, 16, 64}));
  std::vector<std::string> expected = {
      "const f32",        "const s32",       "load f32",  "load s32",       "load u8",
      "masked load f32",  "masked load s32", "store f32", "store s32",      "masked store f32",
      "masked store s32", "broadcast f32",   "fma",       "lanes",          "broadcast s32",
      "select f32",       "select s32",      "let load",  "specialise",     "binary0 s32",
      "binary1 s32",      "load bf16",       "load f16",  "broadcast bf16", "broadcast f16"};
  for (int i = 0; i < 6; ++i) expected.push_back(spelling("binary", i) + " f32");
  for (int i = 0; i < 4; ++i) expected.push_back(spelling("unary", i) + " f32");
  for (int i : {0, 4, 6, 7}) expected.push_back(spelling("unary", i) + " s32");
  for (int i : {5, 6, 8}) expected.push_back(spelling("unary", i) + " f32");
  for (int i = 0; i < 3; ++i)
    expected.insert(expected.end(), {spelling("compare", i), spelling("prefetch", i), spelling("let", i)});
  for (int i = 0; i < 5; ++i)
    expected.insert(expected.end(), {spelling("permute", i) + " f32", spelling("permute", i) + " s32"});
  expected.insert(expected.end(), {"pairs", "dot pairs"});
  for (int i : {1, 2, 3}) expected.push_back(spelling("for", i));
  for (int i : {0, 1}) expected.insert(expected.end(), {spelling("if", i), spelling("if else", i)});
  for (const std::string& kind : expected) EXPECT_GE(kinds[kind], 20) << kind;
  EXPECT_EQ(kinds.size(), expected.size()) << "a kind of statement that this list lacks";
}

TEST(IrRandom, EqualSeedsGiveEqualKernels) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const RandomKernel one = random_kernel(seed), two = random_kernel(seed);
    EXPECT_EQ(print(one.kernel), print(two.kernel));
    EXPECT_EQ(one.runs, two.runs);
    EXPECT_NE(hash(one.kernel), hash(random_kernel(seed + 1000).kernel));
  }
}

TEST(IrRandom, LanesAreLimited) {
  for (uint64_t seed = 0; seed < 300; ++seed)
    for (const Register& r : random_kernel(seed, 4).kernel.registers) EXPECT_LE(r.type.lanes, 4);
}

}  // namespace
}  // namespace hone::ir
