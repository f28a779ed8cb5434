// Top-k: the interpreter against a stable sort, then every generator against the interpreter on guarded memory.
#include "kernels/rows/topk.h"

#include <gmock/gmock.h>

#include <bit>
#include <limits>
#include <vector>

#include "engine/base/random.h"
#include "jit/fuzz/differential.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"

namespace hone::rows {
namespace {

constexpr int64_t kRows = 5;

// Few distinct values, so that there are ties; among them what orders unlike numbers.
std::vector<float> rows_of(int64_t n, uint64_t seed) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kHard[] = {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf, 0.0F, -0.0F, 1e-45F};
  Random random(seed);
  const int hard = random.one_of({0, 5, 60, 100});
  const int64_t distinct = random.one_of<int64_t>({2, 9, 1000});
  std::vector<float> x;
  for (int64_t i = 0; i < kRows * n; ++i)
    x.push_back(random.chance(hard) ? random.element(kHard) : static_cast<float>(random.below(distinct)) - 3);
  return x;
}

struct Outcome {
  std::vector<uint32_t> values;
  std::vector<int32_t> indices;
};

// NaN as one pattern: its payload is left open.
Outcome outcome(const std::vector<float>& values, std::vector<int32_t> indices) {
  Outcome o{.indices = std::move(indices)};
  for (const float v : values) o.values.push_back(v != v ? 0x7fc00000U : std::bit_cast<uint32_t>(v));
  return o;
}

template <typename Run>
Outcome run(const TopK& problem, const std::vector<float>& x, const Run& run_on) {
  std::vector<float> values(static_cast<size_t>(kRows * (problem.k + 1)), 77.0F);
  std::vector<int32_t> indices(static_cast<size_t>(kRows * problem.k), 77);
  run_on({.rows = kRows,
          .x = x.data(),
          .x_stride = problem.n,
          .values = values.data(),
          .values_stride = problem.k + 1,
          .indices = indices.data(),
          .indices_stride = problem.k});
  return outcome(values, indices);
}

std::vector<TopK> problems() {
  return {{1, 1}, {8, 2}, {5, 5}, {16, 16}, {17, 3}, {64, 8}, {33, 33}, {130, 64}, {2048, 4}, {1, 1}, {3, 1}, {4, 2}};
}

TEST(RowsTopK, AsAStableSort) {
  for (const TopK& problem : problems()) {
    for (const Isa isa : all_isas()) {
      const Result<ir::Kernel> kernel = lower(problem, isa);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      const Status legal = ir::verify(*kernel);
      ASSERT_TRUE(legal.ok()) << legal.message() << "\n" << ir::print(*kernel);
      const ir::Interpreter interpreter(*kernel);
      for (uint64_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(kernel_name(problem, isa) + ", seed " + std::to_string(seed));
        const std::vector<float> x = rows_of(problem.n, seed);
        const Outcome want = run(problem, x, [&](const TopKArgs& args) { EXPECT_TRUE(reference(problem, args).ok()); });
        const Outcome got = run(problem, x, [&](const TopKArgs& args) {
          const TopKArguments arguments = bind(args);
          const ir::TaskSpace space = ir::task_space(ir::task_bounds(*kernel), arguments.params.data());
          std::vector<float> workspace(static_cast<size_t>(ir::workspace_size(*kernel)) / 4 + 1);
          for (int64_t task = 0; task < space.count; ++task) {
            int64_t value = 0;
            space.values(task, &value);
            interpreter.run(arguments.buffers.data(), arguments.params.data(), &value, workspace.data());
          }
        });
        ASSERT_EQ(got.indices, want.indices);
        ASSERT_EQ(got.values, want.values);
      }
    }
  }
}

TEST(RowsTopK, EveryGeneratorAsTheInterpreter) {
  for (const TopK& problem : problems()) {
    for (const jit::Target& target : jit::all_targets()) {
      if (!target.generator->targets(target.isa)) continue;
      const Result<ir::Kernel> kernel = lower(problem, target.isa);
      ASSERT_TRUE(kernel.ok());
      const std::vector<std::vector<int64_t>> params = {
          {0, 0, 0, 0}, {1, 0, 0, 0}, {17, problem.n + 3, problem.k + 1, problem.k}, {3, 0, problem.k, problem.k + 5}};
      Result<jit::Differential> differential = jit::Differential::create(*kernel, params, 9);
      ASSERT_TRUE(differential.ok()) << differential.status().message();
      const Status same = differential->check(target);
      EXPECT_TRUE(same.ok()) << kernel->name << ": " << same.message();
    }
  }
}

TEST(RowsTopK, ProblemsAndArgumentsAreChecked) {
  using testing::HasSubstr;
  EXPECT_THAT(validate({.n = 0, .k = 1}).message(), HasSubstr("n is 0"));
  EXPECT_THAT(validate({.n = 8, .k = 9}).message(), HasSubstr("k is 9, expected 1..8"));
  EXPECT_THAT(validate({.n = 800, .k = 65}).message(), HasSubstr("expected 1..64"));
  EXPECT_FALSE(lower({.n = 8, .k = 0}, Isa::kAvx2).ok());
  float x[8] = {}, values[4];
  int32_t indices[4];
  TopKArgs args{
      .rows = 2, .x = x, .x_stride = 4, .values = values, .values_stride = 2, .indices = indices, .indices_stride = 1};
  EXPECT_THAT(check({.n = 4, .k = 2}, args).message(), HasSubstr("stride of an output is 1, expected 2"));
  args.indices_stride = 2;
  EXPECT_TRUE(check({.n = 4, .k = 2}, args).ok());
  args.values = nullptr;
  EXPECT_THAT(check({.n = 4, .k = 2}, args).message(), HasSubstr("null"));
}

}  // namespace
}  // namespace hone::rows
