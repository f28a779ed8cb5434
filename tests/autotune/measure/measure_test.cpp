// Real kernels, small: what the gate lets through and what it stops, and that the ceilings are ceilings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>

#include "autotune/measure/flush.h"
#include "autotune/measure/gate.h"
#include "autotune/measure/kernel_racer.h"
#include "autotune/measure/operands.h"
#include "autotune/measure/peak.h"
#include "kernels/ir/verify.h"
#include "kernels/matmul/reference.h"

namespace hone::autotune {
namespace {

using matmul::MatmulProblem;
using testing::HasSubstr;

MatmulProblem problem(std::string_view text) {
  Result<MatmulProblem> p = matmul::parse_problem(text);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return *p;
}

std::vector<float> right_output(const Operands& operands) {
  const MatmulProblem& p = operands.problem();
  std::vector<float> c(operands.c().size());
  operands.reset_c(p, c);
  for (int64_t item = 0; item < p.batch; ++item) {
    Cells cells{.item = item, .rows = {}, .cols = {}};
    for (int64_t i = 0; i < p.m; ++i) cells.rows.push_back(i);
    for (int64_t j = 0; j < p.n; ++j) cells.cols.push_back(j);
    const std::vector<float> values = operands.reference(cells);
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j)
        c[static_cast<size_t>(item * p.batch_stride_c() + i * p.row_stride_c() + j)] =
            values[static_cast<size_t>(i * p.n + j)];
  }
  return c;
}

TEST(Operands, GapsArePoisonAndValuesRepeat) {
  const MatmulProblem p = problem("matmul:f32:m=3,n=5,k=4,lda=6,ldb=7,ldc=8,batch=2:+bias*gate");
  Result<Operands> x = Operands::create(p, 9), y = Operands::create(p, 9), z = Operands::create(p, 10);
  ASSERT_TRUE(x.ok() && y.ok() && z.ok());
  const float* a = x->view().a;
  for (int64_t item = 0; item < 2; ++item)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t k = 0; k < (item == 1 && i == 2 ? 4 : 6); ++k)
        EXPECT_EQ(std::isnan(a[item * p.batch_stride_a() + i * 6 + k]), k >= 4);
  EXPECT_EQ(x->view().a[1], y->view().a[1]);
  EXPECT_NE(x->view().a[1], z->view().a[1]);
  for (float c : x->c()) EXPECT_TRUE(std::isnan(c));
}

TEST(Operands, ReferenceOfCellsIsTheReference) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const MatmulProblem p = problem("matmul:" + std::string(dtype) + ":m=5,n=9,k=11,b=nn:+bias+gelu*gate+residual");
    Result<Operands> operands = Operands::create(p, 3);
    ASSERT_TRUE(operands.ok());
    EXPECT_EQ(operands->b().size(), static_cast<size_t>(9 * 11 * dtype_bytes(p.dtype)));
    matmul::ordered_f32(p, operands->view());
    const std::vector<float> some = operands->reference({0, {1, 4}, {0, 8, 3}});
    const std::span<float> c = operands->c();
    EXPECT_EQ(some[0], c[9]) << dtype;
    EXPECT_EQ(some[1], c[9 + 8]) << dtype;
    EXPECT_EQ(some[5], c[4 * 9 + 3]) << dtype;
  }
}

// Columns of C that make no whole group of 16, in any order.
TEST(Operands, ReferenceOfCellsOfPairedColumns) {
  const MatmulProblem p = problem("matmul:f32:m=5,n=96,k=11,b=nt:*row_scale+bias+swiglu+residual");
  Result<Operands> operands = Operands::create(p, 3);
  ASSERT_TRUE(operands.ok());
  matmul::ordered_f32(p, operands->view());
  const std::span<float> c = operands->c();
  ASSERT_EQ(c.size(), 5u * 48u);
  const Cells cells{0, {1, 4}, {47, 0, 17}};
  std::vector<float> want;
  for (int64_t i : cells.rows)
    for (int64_t j : cells.cols) want.push_back(c[static_cast<size_t>(i * 48 + j)]);
  EXPECT_EQ(operands->reference(cells), want);
}

TEST(Gate, AcceptsTheRightOutputAndFindsOneWrongElement) {
  const MatmulProblem p = problem("matmul:f32:m=6,n=40,k=30,ldc=44,batch=2");
  Result<Operands> operands = Operands::create(p, 3);
  ASSERT_TRUE(operands.ok());
  const std::vector<float> right = right_output(*operands);
  bool refuted = false;
  for (bool first_is_right : {true, false}) {
    OutputCheck check(*operands, 1);
    if (first_is_right) {
      EXPECT_TRUE(check.check(p, right, &refuted).ok());
    }
    std::vector<float> wrong = right;
    wrong[2 * 44 + 17] = std::nextafter(wrong[2 * 44 + 17], 10.0f);
    const Status status = check.check(p, wrong, &refuted);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("C[0, 2, 17]"));
  }
}

TEST(Gate, NanAndUnwrittenElementsAreWrong) {
  const MatmulProblem p = problem("matmul:f32:m=2,n=16,k=8");
  Result<Operands> operands = Operands::create(p, 3);
  ASSERT_TRUE(operands.ok());
  OutputCheck check(*operands, 1);
  bool refuted = false;
  std::vector<float> poison(operands->c().begin(), operands->c().end());
  EXPECT_FALSE(check.check(p, poison, &refuted).ok());
  std::vector<float> right = right_output(*operands);
  right[31] = NAN;
  EXPECT_FALSE(check.check(p, right, &refuted).ok());
}

TEST(Gate, WritesBetweenRowsAreFound) {
  const MatmulProblem p = problem("matmul:f32:m=3,n=10,k=8,ldc=16");
  Result<Operands> operands = Operands::create(p, 3);
  ASSERT_TRUE(operands.ok());
  OutputCheck check(*operands, 1);
  bool refuted = false;
  std::vector<float> c = right_output(*operands);
  c[16 + 12] = 0;
  EXPECT_THAT(check.check(p, c, &refuted).message(), HasSubstr("between rows"));
}

TEST(Gate, RowsOfWovenBatchItemsAreNotGaps) {
  const MatmulProblem p = problem("matmul:f32:m=4,n=8,k=8,ldc=20,batch=2,sc=10");
  Result<Operands> operands = Operands::create(p, 3);
  ASSERT_TRUE(operands.ok());
  OutputCheck check(*operands, 1);
  bool refuted = false;
  std::vector<float> c = right_output(*operands);
  EXPECT_TRUE(check.check(p, c, &refuted).ok()) << check.check(p, c, &refuted).message();
  c[20 + 8] = 0;
  EXPECT_THAT(check.check(p, c, &refuted).message(), HasSubstr("element 28 of C lies between rows"));
}

TEST(Gate, TheReferenceArbitratesBetweenCandidates) {
  // Large enough that not every element is compared with the reference: the first output has its fault elsewhere.
  const MatmulProblem p = problem("matmul:f32:m=64,n=2000,k=1200");
  Result<Operands> operands = Operands::create(p, 3);
  ASSERT_TRUE(operands.ok());
  operands->reset_c();
  // Values that agree with the reference only where it is asked: computed with the library's own chain per element.
  std::vector<float> right = right_output(*operands);
  OutputCheck check(*operands, 1);
  bool refuted = false;
  int passed_wrong = -1;
  for (int j = 300; j < 340 && passed_wrong < 0; ++j) {
    std::vector<float> wrong = right;
    wrong[static_cast<size_t>(31 * 2000 + j)] += 1;
    OutputCheck fresh(*operands, 1);
    if (!fresh.check(p, wrong, &refuted).ok()) continue;
    passed_wrong = j;
    EXPECT_TRUE(fresh.check(p, right, &refuted).ok());
    EXPECT_TRUE(refuted) << "the reference sides with the second";
    EXPECT_FALSE(fresh.check(p, wrong, &refuted).ok());
  }
  EXPECT_GE(passed_wrong, 0) << "the sample should leave out something in 128 000 elements";
}

TEST(Flush, AnyRange) {
  std::vector<std::byte> memory(1000, std::byte{7});
  const std::span<const std::byte> all(memory);
  const std::span<const std::byte> ranges[] = {all.subspan(3, 500), all.subspan(999), all.subspan(0, 0)};
  flush_caches(ranges);
  EXPECT_EQ(memory[3], std::byte{7});
}

TEST(Peak, KernelsAreVerifiedLoopIr) {
  EXPECT_TRUE(ir::verify(dot_kernel(16, 20, 3)).ok()) << ir::verify(dot_kernel(16, 20, 3)).message();
  for (int lanes : {8, 16}) {
    EXPECT_TRUE(ir::verify(fma_kernel(lanes, 12, 3)).ok()) << ir::verify(fma_kernel(lanes, 12, 3)).message();
    for (int streams : {1, 4})
      for (bool prefetch : {false, true}) {
        const Status s = ir::verify(read_kernel(lanes, streams, prefetch));
        EXPECT_TRUE(s.ok()) << s.message();
      }
  }
}

TEST(Peak, IsPlausible) {
  const Result<Machine> machine = detect_machine();
  ASSERT_TRUE(machine.ok());
  const Result<Peak> peak = measure_peak(*machine, {.seconds = 0.2, .dram_bytes = int64_t{32} << 20});
  if (!peak.ok() && peak.status().code() == Code::kUnsupported) GTEST_SKIP() << peak.status().message();
  ASSERT_TRUE(peak.ok()) << peak.status().message();
  RecordProperty("f32_gflops_1t", std::to_string(peak->f32_gflops_1t));
  EXPECT_GT(peak->f32_gflops_1t, 1);
  EXPECT_LT(peak->f32_gflops_1t, 1000);
  EXPECT_GT(peak->read_gbs_1t, 0.1);
  EXPECT_LT(peak->read_gbs_1t, 500);
  EXPECT_GT(peak->l2_gbs_1t, 1);
  EXPECT_GE(peak->gflops(2, 2), peak->f32_gflops_1t);
  const bool dots = machine->supports(Isa::kAvx512) && machine->features.has(Feature::kAvx512Bf16);
  EXPECT_EQ(peak->bf16_gflops_1t > 0, dots);
  if (dots) {
    EXPECT_GT(peak->gflops(1, 1, "bf16"), peak->gflops(1, 1)) << "a dot product is two fma";
  }
}

class Racing : public testing::Test {
 protected:
  void SetUp() override {
    const Result<Machine> machine = detect_machine();
    ASSERT_TRUE(machine.ok());
    target_.caches = blocking_caches(*machine);
    target_.threads = {1, 2};
    for (Isa isa : all_isas())
      if (machine->supports(isa)) target_.isas.push_back(isa);
    if (target_.isas.empty()) GTEST_SKIP() << "no ISA of this build on this CPU";
    for (jit::CodeGenerator* g : jit::code_generators())
      if (g->targets(target_.isas.back())) target_.codegens.emplace_back(g->name());
  }

  Target target_;
  SteadyClock clock_;
};

TEST_F(Racing, EveryLayoutAndModeRuns) {
  for (std::string_view text :
       {"matmul:f32:m=3,n=70,k=40,b=nn,ldb=80:+bias", "matmul:f32:m=20,n=33,k=40,b=nt,lda=48,ldc=40:+gelu",
        "matmul:f32:m=9,n=50,k=17,b=packed,batch=2:*gate+residual", "matmul:f32:m=1,n=1,k=0:+bias",
        "matmul:bf16:m=3,n=50,k=33,b=packed,batch=2:+bias", "matmul:f16:m=9,n=64,k=17,b=packed:+swiglu",
        "matmul:f32:m=9,n=160,k=17,b=packed,ldc=85:*row_scale+bias+swiglu+residual", "matmul:f32:m=0,n=5,k=3"}) {
    for (CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
      const std::vector<Candidate> all = enumerate(problem(text), target_).candidates;
      std::vector<Candidate> some;
      for (size_t i = 0; i < all.size(); i += std::max<size_t>(1, all.size() / 12)) some.push_back(all[i]);
      Result<std::unique_ptr<KernelRacer>> racer =
          KernelRacer::create(problem(text), some, clock_, {.cache = mode, .seed = 2});
      ASSERT_TRUE(racer.ok()) << racer.status().message();
      for (int c = 0; c < static_cast<int>(some.size()); ++c) {
        const Prepared prepared = (*racer)->prepare(c);
        const std::string what = std::string(text) + " " + op::to_string(some[static_cast<size_t>(c)].program) + " " +
                                 some[static_cast<size_t>(c)].codegen;
        ASSERT_EQ(prepared.outcome, db::Outcome::kMeasured) << what << ": " << prepared.detail;
        const Timing timing = (*racer)->round(std::span(&c, 1)).front();
        ASSERT_EQ(timing.outcome, db::Outcome::kMeasured) << what << ": " << timing.detail;
        EXPECT_GT(timing.ns, 0);
        EXPECT_GE(timing.wall_ns, timing.ns);
        (*racer)->release(c);
      }
    }
  }
}

// A counter that has gone 1000 further at every second reading: a stretch between start and stop.
PerfSystem thousand_a_stretch(uint64_t& readings) {
  return {.open = [](Counter counter, int) { return counter == Counter::kCycles ? 7 : -ENOENT; },
          .read =
              [&readings](int, std::array<uint64_t, 3>& numbers) {
                numbers = {1000 * ((readings++ + 1) / 2), readings, readings};
                return true;
              },
          .close = [](int) {},
          .paranoid = [] { return std::string("2"); }};
}

TEST_F(Racing, CountsAreOfOneCall) {
  const MatmulProblem p = problem("matmul:f32:m=4,n=16,k=8");
  const std::vector<Candidate> one = {default_candidate(p, target_)};
  for (CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
    uint64_t readings = 0;
    PerfCounters counters = PerfCounters::of_this_thread(thousand_a_stretch(readings));
    Result<std::unique_ptr<KernelRacer>> racer = KernelRacer::create(p, one, clock_, {.cache = mode, .seed = 2});
    ASSERT_TRUE(racer.ok());
    EXPECT_EQ((*racer)->count(0, counters).status().code(), Code::kFailedPrecondition) << "not prepared";
    ASSERT_EQ((*racer)->prepare(0).outcome, db::Outcome::kMeasured);
    const Result<CounterReading> reading = (*racer)->count(0, counters);
    ASSERT_TRUE(reading.ok()) << reading.status().message();
    const double calls = 1000.0 * static_cast<double>(readings / 2) / (*reading)[Counter::kCycles].value();
    EXPECT_GE(calls, 1);
    EXPECT_NEAR(calls, std::round(calls), 1e-6);
    // Cold, the flush between two calls is not to count; warm, all calls are one stretch.
    EXPECT_EQ(readings / 2, mode == CacheMode::kCold ? static_cast<uint64_t>(std::llround(calls)) : 1);
    EXPECT_FALSE((*reading)[Counter::kInstructions].has_value()) << "not granted, so not counted";
  }
}

constexpr int kFirst[] = {0};

TEST_F(Racing, AbovePeakIsRefused) {
  const MatmulProblem p = problem("matmul:f32:m=32,n=64,k=64");
  const std::vector<Candidate> one = {default_candidate(p, target_)};
  Result<std::unique_ptr<KernelRacer>> racer = KernelRacer::create(
      p, one, clock_, {.cache = CacheMode::kWarm, .seed = 2, .peak = {.f32_gflops_1t = 1e-6, .f32_gflops_all = 1e-6}});
  ASSERT_TRUE(racer.ok());
  ASSERT_EQ((*racer)->prepare(0).outcome, db::Outcome::kMeasured);
  const Timing timing = (*racer)->round(kFirst).front();
  EXPECT_EQ(timing.outcome, db::Outcome::kRefused);
  EXPECT_THAT(timing.detail, HasSubstr("above this machine's peak"));
}

class FrozenClock final : public Clock {
 public:
  int64_t now_ns() override { return 0; }
};

TEST_F(Racing, ATimeOfZeroIsRefused_d4) {
  const MatmulProblem p = problem("matmul:f32:m=4,n=16,k=8");
  const std::vector<Candidate> one = {default_candidate(p, target_)};
  FrozenClock frozen;
  for (CacheMode mode : {CacheMode::kCold, CacheMode::kWarm}) {
    Result<std::unique_ptr<KernelRacer>> racer = KernelRacer::create(p, one, frozen, {.cache = mode, .seed = 2});
    ASSERT_TRUE(racer.ok());
    ASSERT_EQ((*racer)->prepare(0).outcome, db::Outcome::kMeasured);
    const Timing timing = (*racer)->round(kFirst).front();
    EXPECT_EQ(timing.outcome, db::Outcome::kRefused);
    EXPECT_THAT(timing.detail, HasSubstr("a time of 0"));
  }
}

TEST_F(Racing, CandidateThatCannotCompileIsRefused) {
  const MatmulProblem p = problem("matmul:f32:m=32,n=64,k=64");
  std::vector<Candidate> one = {default_candidate(p, target_)};
  one[0].codegen = "none such";
  Result<std::unique_ptr<KernelRacer>> racer = KernelRacer::create(p, one, clock_, {});
  ASSERT_TRUE(racer.ok());
  EXPECT_EQ((*racer)->prepare(0).outcome, db::Outcome::kRefused);
}

}  // namespace
}  // namespace hone::autotune
