// See rows_testing.h.
#include "tests/kernels/rows/rows_testing.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/random.h"
#include "jit/fuzz/arguments.h"
#include "jit/launch.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "kernels/numeric/trial_values.h"
#include "kernels/rows/lower.h"
#include "kernels/rows/reference.h"

namespace hone::rows {
namespace {

int64_t row_elements(const Operand& o, int64_t n, int64_t column_stride) {
  switch (o.columns) {
    case Columns::kDense:
      return n;
    case Columns::kOne:
      return 1;
    case Columns::kStrided:
      return n == 0 ? 0 : (n - 1) * column_stride + 1;
    default:
      return 2 * n;
  }
}

const Style& style_of(const RowCase& test, size_t operand) {
  static const Style kPlain;
  return operand < test.styles.size() ? test.styles[operand] : kPlain;
}

void fill(GuardedBuffer& memory, DType dtype, Random& random, int specials) {
  numeric::TrialValues values(random, specials);
  if (dtype == DType::kF32)
    for (float& f : memory.as<float>()) f = 4 * values.next();
  if (dtype == DType::kS32)
    for (int32_t& i : memory.as<int32_t>()) i = static_cast<int32_t>(random.next());
  if (dtype == DType::kU8)
    for (uint8_t& b : memory.as<uint8_t>()) b = static_cast<uint8_t>(random.below(3));
  if (is_16bit_float(dtype))  // of all bits: denormals, infinities and NaN are among them
    for (uint16_t& b : memory.as<uint16_t>()) b = static_cast<uint16_t>(random.next());
}

}  // namespace

std::string RowCase::text() const {
  return fmt::format("{} | extents {} n {}", to_string(program), fmt::join(extents, " "), n);
}

RowMemory::RowMemory(const RowCase& test, uint64_t seed) {
  Random random(seed);
  args_.extents = test.extents;
  args_.n = test.n;
  for (size_t i = 0; i < test.program.operands.size(); ++i) {
    const Operand& o = test.program.operands[i];
    const Style& style = style_of(test, i);
    Tensor& t = args_.operands[i];
    const int64_t elements = place(i, test);
    if (o.role == Role::kScratch) continue;
    if (style.same_as >= 0) {
      t.data = args_.operands[static_cast<size_t>(style.same_as)].data;
      continue;
    }
    const Guard guard = random.chance(70) ? Guard::kAfter : Guard::kBefore;
    Result<GuardedBuffer> memory = GuardedBuffer::create(elements * dtype_bytes(o.dtype), guard);
    if (!memory.ok()) {
      ADD_FAILURE() << memory.status().message();
      return;
    }
    if (o.role == Role::kIn) fill(*memory, o.dtype, random, test.specials);
    t.data = memory->data();
    held_.push_back({std::move(*memory), o.dtype});
    if (o.gather < 0) continue;
    std::vector<int32_t> table;
    for (int64_t r = 0; r < test.extents[static_cast<size_t>(o.gather)]; ++r)
      table.push_back(static_cast<int32_t>(random.below(style.table_rows)));
    tables_.push_back(std::move(table));
    t.table = tables_.back().data();
    t.rows = style.table_rows;
  }
}

// Strides of an operand; returns the elements from its first to its last.
int64_t RowMemory::place(size_t operand, const RowCase& test) {
  const RowProgram& p = test.program;
  const Operand& o = p.operands[operand];
  const Style& style = style_of(test, operand);
  Tensor& t = args_.operands[operand];
  t.column_stride = style.column_stride;
  const int64_t row = row_elements(o, p.n == kRuntime ? test.n : p.n, style.column_stride);
  int64_t stride = row + style.pad, last = row;
  for (int d = p.outer; d-- > 0;) {
    const auto dim = static_cast<size_t>(d);
    const int64_t extent = d == o.gather ? style.table_rows : test.extents[dim];
    if (extent == 0) return 0;
    if ((style.shared_rows >> d & 1) != 0) continue;
    t.strides[dim] = stride;
    last += (extent - 1) * stride;
    stride *= extent;
  }
  return last;
}

std::string RowMemory::difference(const RowMemory& expected) const {
  for (size_t h = 0; h < held_.size(); ++h) {
    const Held &got = held_[h], &want = expected.held_[h];
    if (!got.memory.slack_intact()) return fmt::format("buffer {}: a store outside it", h);
    if (dtype_bytes(got.dtype) != 4) {
      if (!std::ranges::equal(got.memory.as<uint8_t>(), want.memory.as<uint8_t>()))
        return fmt::format("buffer {}: was written", h);
      continue;
    }
    const auto a = got.memory.as<uint32_t>(), b = want.memory.as<uint32_t>();
    for (size_t i = 0; i < a.size(); ++i)
      if (!jit::same_value(a[i], b[i], got.dtype))
        return fmt::format("buffer {} element {}: {} (0x{:08x}), the reference has {} (0x{:08x})", h, i,
                           std::bit_cast<float>(a[i]), a[i], std::bit_cast<float>(b[i]), b[i]);
  }
  return "";
}

namespace {

// run(buffers, params, task, workspace) for each task.
template <typename Run>
void each_task(const ir::Kernel& kernel, const RowCase& test, const RowMemory& memory, bool mirrored, const Run& run) {
  Arguments arguments;
  bind(test.program, memory.args(), &arguments);
  const ir::TaskSpace space = ir::task_space(ir::task_bounds(kernel), arguments.params.data());
  Result<GuardedBuffer> workspace = GuardedBuffer::create(ir::workspace_size(kernel) / 64 * 64 + 64);
  ASSERT_TRUE(workspace.ok()) << workspace.status().message();
  std::array<int64_t, ir::kMaxParallelLoops> values{};
  for (int64_t i = 0; i < space.count; ++i) {
    space.values(mirrored ? space.count - 1 - i : i, values.data());
    workspace->poison();
    run(arguments.buffers.data(), arguments.params.data(), values.data(), static_cast<void*>(workspace->data()));
  }
}

}  // namespace

void run_kernel(const ir::Kernel& kernel, const RowCase& test, RowMemory& memory, bool mirrored) {
  const ir::Interpreter interpreter(kernel);
  each_task(kernel, test, memory, mirrored, [&](auto... all) { interpreter.run(all...); });
}

void expect_like_reference(const RowCase& test, uint64_t seed) {
  SCOPED_TRACE(test.text() + fmt::format(" | seed {}", seed));
  RowMemory expected(test, seed);
  const Status ran = reference(test.program, expected.args());
  ASSERT_TRUE(ran.ok()) << ran.message();
  for (const Isa isa : all_isas()) {
    SCOPED_TRACE(std::string(isa_info(isa).name));
    const Result<ir::Kernel> kernel = lower(test.program, isa);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const Status legal = ir::verify(*kernel);
    ASSERT_TRUE(legal.ok()) << legal.message() << "\n" << ir::print(*kernel);
    RowMemory interpreted(test, seed);
    run_kernel(*kernel, test, interpreted, true);
    EXPECT_EQ(interpreted.difference(expected), "") << "interpreter\n" << ir::print(*kernel);
    for (jit::CodeGenerator* generator : jit::compiling_generators()) {
      if (!generator->targets(isa)) continue;
      const auto compiled = generator->compile(*kernel, isa, {.cached = false});
      ASSERT_TRUE(compiled.ok()) << generator->name() << ": " << compiled.status().message();
      RowMemory got(test, seed);
      each_task(*kernel, test, got, false, [&](auto... all) { (*compiled)->run(all...); });
      EXPECT_EQ(got.difference(expected), "") << generator->name() << "\n" << ir::print(*kernel);
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace hone::rows
