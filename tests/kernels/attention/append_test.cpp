// Appending to a blocked cache against a naive loop, through every code generator: odd sizes, at any position, strides
// of heads and rows with gaps, more rows than there is room for. Memory ends at guard pages; what no row belongs to
// keeps its poison.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "engine/base/guarded_buffer.h"
#include "jit/launch.h"
#include "kernels/attention/program.h"

namespace hone::attention {
namespace {

struct Append {
  int64_t kv_heads = 1, d = 1, row_stride = 1;
  int64_t rows = 0, at = 0, groups = 0;
  int64_t src_gap = 0, dst_gap = 0;  // between heads

  int64_t src_head() const { return std::max<int64_t>(rows, 1) * row_stride + src_gap; }
  int64_t dst_head() const { return groups * d * kKeyGroup + dst_gap; }
  // To the last element that is read; to the end of the last head's groups.
  int64_t src_elements() const { return rows == 0 ? 0 : (kv_heads - 1) * src_head() + (rows - 1) * row_stride + d; }
  int64_t dst_elements() const { return (kv_heads - 1) * dst_head() + groups * d * kKeyGroup; }
};

std::string text(const Append& a) {
  return fmt::format("kv_heads={} d={} row_stride={} rows={} at={} groups={} gaps={},{}", a.kv_heads, a.d, a.row_stride,
                     a.rows, a.at, a.groups, a.src_gap, a.dst_gap);
}

// What a cache that held 0xff bytes holds then.
std::vector<float> expected(const Append& a, const float* src) {
  std::vector<float> dst(static_cast<size_t>(a.dst_elements()));
  std::memset(dst.data(), 0xff, dst.size() * sizeof(float));
  for (int64_t g = 0; g < a.kv_heads; ++g)
    for (int64_t r = 0; r < a.rows && a.at + r < a.groups * kKeyGroup; ++r)
      for (int64_t p = 0; p < a.d; ++p) {
        const int64_t key = a.at + r;
        dst[static_cast<size_t>(g * a.dst_head() + (key / kKeyGroup * a.d + p) * kKeyGroup + key % kKeyGroup)] =
            src[g * a.src_head() + r * a.row_stride + p];
      }
  return dst;
}

void expect_appended(const Append& a, const jit::Executable& executable, Guard guard) {
  const GuardedBuffer src = GuardedBuffer::create(a.src_elements() * 4, guard).value();
  const GuardedBuffer dst = GuardedBuffer::create(a.dst_elements() * 4, guard).value();
  const std::span<float> from = src.as<float>();
  for (int64_t g = 0; g < a.kv_heads; ++g)
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t p = 0; p < a.d; ++p)
        from[static_cast<size_t>(g * a.src_head() + r * a.row_stride + p)] =
            static_cast<float>(1 + (g * a.rows + r) * a.d + p);
  void* buffers[] = {src.data(), dst.data()};
  const int64_t params[] = {a.rows, a.at, a.groups, a.src_head(), a.dst_head()};
  jit::Launch launch(executable, buffers, params, nullptr);
  EXPECT_EQ(launch.tasks(), a.kv_heads);
  jit::Launch::run_range(&launch, 0, launch.tasks());
  const std::vector<float> want = expected(a, from.data());
  EXPECT_EQ(std::memcmp(dst.data(), want.data(), want.size() * sizeof(float)), 0);
  EXPECT_TRUE(dst.slack_intact());
}

class AttentionAppend : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    generator_ = jit::find_code_generator(GetParam()).value();
    if (!generator_->targets(isa())) GTEST_SKIP() << GetParam() << " emits no code for this CPU";
  }
  Isa isa() const { return generator_->targets(Isa::kAvx512) ? Isa::kAvx512 : Isa::kAvx2; }

  void expect_all_appended(const Append& kernel_of, std::span<const Append> calls) {
    const Result<ir::Kernel> kernel = lower_append_blocked(kernel_of.kv_heads, kernel_of.d, kernel_of.row_stride);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const Result<jit::Executable> executable = jit::make_executable(*kernel, *generator_, isa());
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    for (const Append& call : calls) {
      for (const Guard guard : {Guard::kAfter, Guard::kBefore}) {
        SCOPED_TRACE(text(call));
        expect_appended(call, *executable, guard);
      }
    }
  }

  jit::CodeGenerator* generator_ = nullptr;
};

TEST_P(AttentionAppend, OneRowAtEachPosition) {
  const Append one{.kv_heads = 3, .d = 7, .row_stride = 9, .rows = 1, .groups = 3};
  std::vector<Append> calls;
  for (int64_t at = 0; at < 3 * kKeyGroup; ++at) {
    calls.push_back(one);
    calls.back().at = at;
  }
  expect_all_appended(one, calls);
}

TEST_P(AttentionAppend, OddSizesAtAnyPosition) {
  std::mt19937_64 rng(11);
  auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
  for (const int64_t d : {1, 5, 16, 33, 80}) {
    const int64_t kv_heads = 1 + below(4), row_stride = d + below(2) * below(20);
    std::vector<Append> calls;
    for (int i = 0; i < 20; ++i) {
      Append a{.kv_heads = kv_heads, .d = d, .row_stride = row_stride};
      a.rows = below(40);
      a.at = below(50);
      a.groups = (a.at + a.rows + kKeyGroup - 1) / kKeyGroup + below(2);
      a.src_gap = below(2) * below(17);
      a.dst_gap = below(2) * below(17);
      calls.push_back(a);
    }
    expect_all_appended(calls.front(), calls);
  }
}

// A page has room for so many, a whole cache too: what does not fit is left out, nothing is written past the end.
TEST_P(AttentionAppend, RowsThatDoNotFitAreLeftOut) {
  const Append a{.kv_heads = 2, .d = 6, .row_stride = 6, .rows = 20, .at = 10, .groups = 1};
  Append full = a, beyond = a, none = a;
  full.at = kKeyGroup;
  beyond.at = 5 * kKeyGroup;
  none.at = 0, none.groups = 0;
  const Append calls[] = {a, full, beyond, none};
  expect_all_appended(a, calls);
}

// Row after row and all at once leave the same cache.
TEST_P(AttentionAppend, KeepsWhatIsThere) {
  constexpr int64_t kD = 5, kRows = 37, kGroups = 3;
  const Result<jit::Executable> executable =
      jit::make_executable(lower_append_blocked(1, kD, kD).value(), *generator_, isa());
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  std::vector<float> src(kRows * kD), all(kGroups * kD * kKeyGroup, -1.0F), steps = all;
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<float>(i);
  auto append = [&](std::vector<float>& to, int64_t first, int64_t rows) {
    void* buffers[] = {src.data() + first * kD, to.data()};
    const int64_t params[] = {rows, first, kGroups, 0, 0};
    jit::Launch launch(*executable, buffers, params, nullptr);
    jit::Launch::run_range(&launch, 0, launch.tasks());
  };
  append(all, 0, kRows);
  for (int64_t first = 0, rows = 1; first < kRows; first += rows++) append(steps, first, std::min(rows, kRows - first));
  EXPECT_EQ(all, steps);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionAppend, testing::ValuesIn([] {
                           std::vector<std::string_view> names;
                           for (const jit::CodeGenerator* g : jit::code_generators()) names.push_back(g->name());
                           return names;
                         }()),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(AttentionAppendLowering, RefusesSizesThatAreNone) {
  for (const auto& [heads, d, stride] : {std::array<int64_t, 3>{0, 8, 8}, {2, 0, 8}, {2, 8, 7}}) {
    const Result<ir::Kernel> kernel = lower_append_blocked(heads, d, stride);
    ASSERT_FALSE(kernel.ok());
    EXPECT_EQ(kernel.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(kernel.status().message(), testing::HasSubstr("append"));
  }
}

}  // namespace
}  // namespace hone::attention
