// TransformProgram: text round-trips, bad text says where, legality says why.
#include "kernels/matmul/program.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "kernels/ir/text.h"

namespace hone::matmul {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText =
    "vectorize(avx512,16) register_tile(14,32) tile(112,512,384) order(ij) pack_a(rows) pack_b(block) panel(16) "
    "unroll_k(2) prefetch_b(8) parallel(n)";

MatmulProblem problem(int64_t m, int64_t n, int64_t k, BLayout b) {
  MatmulProblem p;
  p.m = m, p.n = n, p.k = k, p.b = b;
  return p;
}

TEST(MatmulProgram, TextRoundTrips) {
  const Result<TransformProgram> p = parse_program(kText);
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(to_string(*p), kText);
  EXPECT_EQ(p->mr, 14);
  EXPECT_EQ(p->kc, 384);
  EXPECT_EQ(p->order, TileOrder::kIj);
  EXPECT_EQ(p->pack_b, PackB::kBlock);
  EXPECT_EQ(p->prefetch_b, 8);
  EXPECT_EQ(p->parallel, ParallelDim::kN);
}

struct BadText {
  std::string text;
  std::string why;
};

class MatmulProgramBadText : public ::testing::TestWithParam<BadText> {};

TEST_P(MatmulProgramBadText, SaysWhatAndWhere) {
  const Result<TransformProgram> p = parse_program(GetParam().text);
  ASSERT_FALSE(p.ok());
  EXPECT_EQ(p.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(p.status().message(), HasSubstr(GetParam().why));
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kText;
  return text.replace(text.find(from), from.size(), to);
}

INSTANTIATE_TEST_SUITE_P(
    All, MatmulProgramBadText,
    ::testing::Values(BadText{"", "step vectorize(...) is missing at column 1"},
                      BadText{"vectorize", "expected 'step(arguments)' at column 1"},
                      BadText{"vectorize(avx512,16", "'(' without ')' at column 10"},
                      BadText{replaced("avx512,", "sse9,"), "unknown ISA 'sse9'"},
                      BadText{replaced("register_tile(14,32)", "register_tile(14)"), "takes 2 arguments, got 1"},
                      BadText{replaced("tile(112,512,384)", "tile(112,512,-4)"),
                              "integer from 1 to 1099511627776, got '-4'"},
                      BadText{replaced("tile(112,512,384)", "tile(112,512,99999999999999999999)"), "needs an integer"},
                      BadText{replaced("order(ij)", "order(up)"), "order takes one of ji, ij, got 'up'"},
                      BadText{replaced("pack_a(rows)", "pack_b(rows)"), "expected pack_a(...), got 'pack_b'"},
                      BadText{std::string(kText) + " extra(1)", "unexpected step 'extra'"}));

struct Illegal {
  MatmulProblem problem;
  std::string from, to;
  std::string why;
};

class MatmulProgramIllegal : public ::testing::TestWithParam<Illegal> {};

TEST_P(MatmulProgramIllegal, SaysWhy) {
  const Illegal& c = GetParam();
  const Result<TransformProgram> p = parse_program(replaced(c.from, c.to));
  ASSERT_TRUE(p.ok()) << p.status().message();
  const Status s = legal(c.problem, *p);
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.message(), HasSubstr(c.why));
  EXPECT_FALSE(lower(c.problem, *p).ok());
}

MatmulProblem with_beta(float beta) {
  MatmulProblem p = problem(128, 512, 4096, BLayout::kNn);
  p.beta = beta;
  return p;
}

MatmulProblem with_swiglu(int64_t k) {
  MatmulProblem p = problem(128, 512, k, BLayout::kNn);
  p.epilogue = {EpilogueOp::kSwiglu};
  return p;
}

INSTANTIATE_TEST_SUITE_P(
    All, MatmulProgramIllegal,
    ::testing::Values(
        Illegal{problem(64, 64, 64, BLayout::kNn), "avx512,16", "avx2,8",
                "avx2: tile 14x32 needs 61 vector registers, has 16"},
        Illegal{problem(64, 64, 64, BLayout::kNn), "register_tile(14,32)", "register_tile(1099511627776,1099511627776)",
                "at most 4096 a side"},
        Illegal{problem(64, 64, 64, BLayout::kNn), "avx512,16", "avx512,8", "vectors of 16 f32 lanes"},
        Illegal{problem(64, 64, 64, BLayout::kNn), "register_tile(14,32)", "register_tile(14,40)",
                "nr=40 is not a multiple"},
        Illegal{problem(64, 64, 64, BLayout::kNn), "tile(112,", "tile(100,", "mc=100 is not a multiple of mr=14"},
        Illegal{problem(64, 64, 64, BLayout::kNn), ",512,", ",500,", "nc=500 is not a multiple of nr=32"},
        Illegal{problem(64, 64, 64, BLayout::kNt), "pack_b(block)", "pack_b(none)", "b=nt cannot be read in place"},
        Illegal{problem(64, 64, 64, BLayout::kPacked), "order(ij)", "order(ji)", "packed already"},
        Illegal{problem(640, 64, 64, BLayout::kNn), "parallel(n)", "parallel(mn)", "use parallel(n)"},
        Illegal{with_beta(0.5F), "order(ij)", "order(ji)", "kc must be at least k=4096"},
        Illegal{with_swiglu(4096), "order(ij)", "order(ji)", "no room for partial sums in C: kc must be at least k"},
        Illegal{with_swiglu(64), "register_tile(14,32) tile(112,512", "register_tile(14,16) tile(112,512",
                "nr=16 is not a multiple of 32"},
        Illegal{problem(1000, 1000, 1000, BLayout::kNn), "unroll_k(2)", "unroll_k(100)", "fma, at most"}));

// 2^40 rows x 2^22 k x 4 bytes are 0 modulo 2^64.
TEST(MatmulProgram, WorkspacesThatOverflowAreRefused) {
  const MatmulProblem p = problem(16, 32, int64_t{1} << 22, BLayout::kNn);
  const Result<TransformProgram> program = parse_program(
      "vectorize(avx512,16) register_tile(1,32) tile(1099511627776,32,4194304) order(ij) pack_a(rows) pack_b(none) "
      "panel(16) unroll_k(1) prefetch_b(0) parallel(n)");
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_THAT(legal(p, *program).message(), HasSubstr("packed blocks of"));
}

// Strips of B leave A packed for all of k, however small kc is.
TEST(MatmulProgram, RowsPackedBesideStripsCountWithAllOfK) {
  const MatmulProblem p = problem(1120, 32, int64_t{1} << 20, BLayout::kNt);
  const Result<TransformProgram> program = parse_program(replaced("pack_b(block)", "pack_b(strip)"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_GT(packed_bytes(p, *program), int64_t{112} << 22);
  EXPECT_FALSE(legal(p, *program).ok());
}

// Case m18: M=9 N=48 K=16, lda=16, ldb=ldc=624: a kernel exists.
TEST(MatmulProgram, WideRowsAreLegal_m18) {
  MatmulProblem p = problem(9, 48, 16, BLayout::kNn);
  p.lda = 16, p.ldb = 624, p.ldc = 624;
  const Result<TransformProgram> program = parse_program(kText);
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(legal(p, *program).ok()) << legal(p, *program).message();
  EXPECT_TRUE(lower(p, *program).ok());
}

// Every knob reaches the code: changing it alone changes the LoopIR.
TEST(MatmulProgram, EveryKnobChangesTheLoopIr) {
  const MatmulProblem p = problem(1000, 1000, 1000, BLayout::kNn);
  auto hash_of = [&](const std::string& text) {
    const Result<TransformProgram> program = parse_program(text);
    EXPECT_TRUE(program.ok()) << program.status().message();
    const Result<ir::Kernel> kernel = lower(p, *program);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel.ok() ? ir::hash(*kernel) : 0;
  };
  const uint64_t base = hash_of(kText);
  EXPECT_EQ(base, hash_of(kText)) << "replay gives the same LoopIR";
  const std::vector<std::pair<std::string, std::string>> changes = {{"register_tile(14,32)", "register_tile(14,16)"},
                                                                    {"tile(112,", "tile(56,"},
                                                                    {",512,", ",256,"},
                                                                    {",384)", ",256)"},
                                                                    {"order(ij)", "order(ji)"},
                                                                    {"pack_a(rows)", "pack_a(none)"},
                                                                    {"pack_b(block)", "pack_b(none)"},
                                                                    {"pack_b(block)", "pack_b(strip)"},
                                                                    {"unroll_k(2)", "unroll_k(4)"},
                                                                    {"prefetch_b(8)", "prefetch_b(16)"},
                                                                    {"prefetch_b(8)", "prefetch_b(0)"},
                                                                    {"parallel(n)", "parallel(m)"}};
  std::vector<uint64_t> seen = {base};
  for (const auto& [from, to] : changes) {
    const uint64_t h = hash_of(replaced(from, to));
    EXPECT_THAT(seen, ::testing::Not(::testing::Contains(h))) << from << " -> " << to;
    seen.push_back(h);
  }
}

// Programs that are told apart without lowering them are exactly those that lower to different LoopIR. Random programs
// with few values a knob, so that most of them have a twin.
TEST(MatmulProgram, IdentitiesAreEqualExactlyWhenTheLoopIrIs) {
  std::mt19937 random(7);
  auto pick = [&](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[random() % sizeof...(values)];
  };
  for (std::string_view text :
       {"matmul:f32:m=40,n=100,k=70", "matmul:f32:m=40,n=20,k=70:+bias", "matmul:f32:m=3,n=64,k=33,b=nt",
        "matmul:f32:m=40,n=20,k=70,b=packed", "matmul:f32:m=8,n=64,k=0", "matmul:f32:m=8,n=7,k=9,batch=2:+gelu",
        "matmul:f32:m=1,n=96,k=1,b=packed:*gate", "matmul:f32:m=5,n=1,k=4", "alpha=0", "beta=0.5"}) {
    MatmulProblem p = problem(8, 100, 70, BLayout::kNn);
    if (text == "alpha=0") {
      p.alpha = 0;
    } else if (text == "beta=0.5") {
      p.beta = 0.5F;
    } else {
      p = *parse_problem(text);
    }
    std::map<TransformProgram, std::string> ir_of;
    std::map<std::string, TransformProgram> program_of;
    int twins = 0;
    for (int i = 0; i < 400; ++i) {
      TransformProgram t{.isa = Isa::kAvx512, .lanes = 16};
      t.mr = pick(1, 4), t.nr = pick(16, 32);
      t.mc = t.mr * pick(1, 100), t.nc = t.nr * pick(1, 2, 100), t.kc = pick(32, 100);
      t.order = pick(TileOrder::kJi, TileOrder::kIj);
      t.pack_a = pick(PackA::kNone, PackA::kRows);
      t.pack_b = p.b == BLayout::kPacked ? PackB::kNone : pick(PackB::kNone, PackB::kBlock, PackB::kStrip);
      t.panel = 16, t.unroll_k = pick(1, 4), t.prefetch_b = pick(0, 8), t.prefetch_next = pick(false, true),
      t.prefetch_c = pick(false, true);
      t.parallel = pick(ParallelDim::kM, ParallelDim::kN, ParallelDim::kMn);
      if (!legal(p, t).ok()) continue;
      Result<ir::Kernel> kernel = lower(p, t);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      kernel->name = "same";
      const std::string ir = ir::print(*kernel);
      const TransformProgram identity = lowering_identity(p, t);
      const auto [same_identity, new_identity] = ir_of.emplace(identity, ir);
      EXPECT_EQ(same_identity->second, ir) << text << ": equal identities, different LoopIR: " << to_string(t);
      const auto [same_ir, new_ir] = program_of.emplace(ir, identity);
      EXPECT_EQ(same_ir->second, identity) << text << ": equal LoopIR, different identities: " << to_string(t);
      twins += new_identity ? 0 : 1;
    }
    EXPECT_GT(twins, 5) << text;
  }
}

}  // namespace
}  // namespace hone::matmul
