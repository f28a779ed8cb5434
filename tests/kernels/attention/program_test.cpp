// AttentionProgram: text round-trips, bad text says where, legality says why, every knob reaches the code, and there is
// a legal default for every problem, ISA and numerics class.
#include "kernels/attention/program.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "engine/base/isa.h"
#include "kernels/attention/blocking.h"
#include "kernels/ir/text.h"
#include "tests/kernels/attention/attention_testing.h"

namespace hone::attention {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kText =
    "vectorize(avx512,16) attention(online) block(8,256) heads(group) tile_rows(14) score_tile(14,32) "
    "value_tile(14,32) value_depth(128) pack_k(block) pack_v(none) parallel(hq)";
// Few enough rows for K and V to be announced.
constexpr std::string_view kDecode =
    "vectorize(avx512,16) attention(split) splits(4) block(1,256) heads(group) tile_rows(4) score_tile(4,64) "
    "value_tile(4,64) value_depth(256) pack_k(strip) pack_v(none) prefetch(256,2) parallel(hq)";

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const size_t at = result.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in " << text;
  return at == std::string::npos ? result : result.replace(at, from.size(), to);
}

AttentionProblem problem(std::string_view text) { return parse_problem(text).value(); }
AttentionProblem prefill() { return problem("attention:f32:b=1,hq=8,hkv=2,q=100,kv=1000,d=64:causal"); }
AttentionProblem decode() { return problem("attention:f32:b=1,hq=8,hkv=2,q=1,kv=4096,d=64"); }

TEST(AttentionProgramText, RoundTrips) {
  const Result<AttentionProgram> p = parse_program(kText);
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(to_string(*p), kText);
  EXPECT_EQ(p->algorithm, Algorithm::kOnline);
  EXPECT_EQ(p->bq, 8);
  EXPECT_EQ(p->bk, 256);
  EXPECT_TRUE(p->group);
  EXPECT_EQ(p->value_depth, 128);
  const Result<AttentionProgram> d = parse_program(kDecode);
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(to_string(*d), kDecode);
  EXPECT_EQ(d->splits, 4);
  EXPECT_EQ(d->pack_k, PackK::kStrip);
  EXPECT_EQ(d->prefetch, 256);
  EXPECT_EQ(d->lead, 2);
}

TEST(AttentionProgramText, RandomProgramsRoundTrip) {
  int seen = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const AttentionProblem p = random_problem(seed, {.max_q = 40, .max_kv = 300, .max_d = 130});
    const std::optional<AttentionProgram> program = random_program(p, seed, seed % 2 ? Isa::kAvx512 : Isa::kAvx2);
    if (!program) continue;
    ++seen;
    const Result<AttentionProgram> parsed = parse_program(to_string(*program));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, *program) << to_string(*program);
  }
  EXPECT_GT(seen, 150);
}

struct BadText {
  std::string text;
  std::string why;
};

class AttentionProgramBadText : public ::testing::TestWithParam<BadText> {};

TEST_P(AttentionProgramBadText, SaysWhatAndWhere) {
  const Result<AttentionProgram> p = parse_program(GetParam().text);
  ASSERT_FALSE(p.ok());
  EXPECT_EQ(p.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(p.status().message(), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionProgramBadText,
    ::testing::Values(
        BadText{"", "step vectorize(...) is missing at column 1"},
        BadText{replaced(kText, "avx512,", "sse9,"), "unknown ISA 'sse9' at column 1"},
        BadText{replaced(kText, "(online)", "(flash)"),
                "attention takes one of materialised, tiled, online, split, got 'flash' at column 22"},
        BadText{replaced(kText, "(online)", "(split)"), "expected splits(...), got 'block' at column 39"},
        BadText{replaced(kText, "block(8,", "splits(2) block(8,"), "expected block(...), got 'splits' at column 40"},
        BadText{replaced(kDecode, "splits(4)", "splits(1)"),
                "splits needs an integer from 2 to 1099511627776, got '1' at column 39"},
        BadText{replaced(kText, "block(8,256)", "block(8)"), "takes 2 arguments, got 1 at column 40"},
        BadText{replaced(kText, "block(8,256)", "block(0,256)"),
                "block needs an integer from 1 to 1099511627776, got '0' at column 40"},
        BadText{replaced(kText, "256)", "99999999999999999999)"), "block needs an integer from 1 to 1099511627776"},
        BadText{replaced(kText, "(group)", "(all)"), "heads takes one of one, group, got 'all' at column 53"},
        BadText{replaced(kText, "tile_rows(14)", "tile_rows(x)"),
                "tile_rows needs an integer from 1 to 1099511627776, got 'x'"},
        BadText{replaced(kText, "score_tile", "value_tile"), "expected score_tile(...), got 'value_tile'"},
        BadText{replaced(kText, "value_tile(14,32)", "value_tile(14,-32)"),
                "value_tile needs an integer from 1 to 1099511627776"},
        BadText{replaced(kText, "value_depth(128)", "value_depth()"), "value_depth"},
        BadText{replaced(kText, "pack_k(block)", "pack_k(rows)"), "pack_k takes one of block, strip, none, got 'rows'"},
        BadText{replaced(kText, "pack_v(none)", "pack_v(block)"), "pack_v takes one of none, rows, got 'block'"},
        BadText{replaced(kDecode, "prefetch(256,2)", "prefetch(0,2)"),
                "prefetch needs an integer from 1 to 1099511627776, got '0'"},
        BadText{replaced(kText, "parallel(hq)", "parallel(q)"), "parallel takes one of h, hq, got 'q'"},
        BadText{replaced(kText, " parallel(hq)", ""), "step parallel(...) is missing"},
        BadText{std::string(kText) + " extra(1)", "unexpected step 'extra'"}));

struct Illegal {
  AttentionProblem problem;
  std::string program;
  std::string why;
};

class AttentionProgramIllegal : public ::testing::TestWithParam<Illegal> {};

TEST_P(AttentionProgramIllegal, SaysWhy) {
  const Illegal& c = GetParam();
  const Result<AttentionProgram> p = parse_program(c.program);
  ASSERT_TRUE(p.ok()) << p.status().message();
  const Status s = legal(c.problem, *p);
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.message(), HasSubstr(c.why));
  EXPECT_FALSE(lower(c.problem, *p).ok());
}

AttentionProblem blocked() { return problem("attention:f32:b=1,hq=8,hkv=2,q=100,kv=1000,d=64,k=blocked"); }
AttentionProblem no_heads() {
  AttentionProblem p = prefill();
  p.kv_heads = 3;
  return p;
}
// Rows of V end within a vector, which takes a register for the mask where there are no mask registers.
AttentionProblem odd_values() { return problem("attention:f32:b=1,hq=8,hkv=2,q=100,kv=1000,d=64,dv=20"); }
std::string avx2(std::string_view tiles) {
  std::string text = replaced(kText, "avx512,16", "avx2,8");
  text = replaced(text, "tile_rows(14)", "tile_rows(12)");
  return replaced(text, "score_tile(14,32) value_tile(14,32)", tiles);
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionProgramIllegal,
    ::testing::Values(
        Illegal{no_heads(), std::string(kText), "hq=8 is no multiple of hkv=3"},
        Illegal{prefill(), replaced(kText, "avx512,16", "avx512,8"), "avx512: vectors of 16 f32 lanes, asked for 8"},
        Illegal{prefill(), replaced(kText, "score_tile(14,32)", "score_tile(14,24)"),
                "score_tile: nr=24 is not a multiple of 16"},
        Illegal{prefill(), replaced(kText, "value_tile(14,32)", "value_tile(14,40)"),
                "value_tile: vn=40 is not a multiple of 16 lanes"},
        Illegal{prefill(), replaced(kText, "block(8,256)", "block(8,250)"), "block: bk=250 is not a multiple of 16"},
        Illegal{prefill(), replaced(kText, "tile_rows(14)", "tile_rows(21)"),
                "tile_rows=21 is not a multiple of mr=14 and vr=14"},
        Illegal{prefill(), replaced(kText, "value_tile(14,32)", "value_tile(4,32)"),
                "tile_rows=14 is not a multiple of mr=14 and vr=4"},
        Illegal{prefill(), replaced(kText, "value_tile(14,32)", "value_tile(1099511627776,1099511627776)"),
                "at most 4096 a side"},
        Illegal{prefill(), avx2("score_tile(6,32) value_tile(6,16)"),
                "avx2: score_tile 6x32 needs 29 vector registers, has 16"},
        Illegal{prefill(), avx2("score_tile(6,16) value_tile(6,24)"),
                "avx2: value_tile 6x24 needs 22 vector registers, has 16"},
        Illegal{odd_values(), avx2("score_tile(4,16) value_tile(4,24)"),
                "avx2: value_tile 4x24 needs 17 vector registers, has 16"},
        Illegal{blocked(), std::string(kText), "k=blocked lies transposed already"},
        Illegal{prefill(), replaced(kText, "pack_k(block)", "pack_k(none)"), "k=rows cannot be read in place"},
        Illegal{decode(), replaced(kDecode, "splits(4)", "splits(257)"), "splits must be from 2 to 256, got 257"},
        Illegal{decode(), replaced(kDecode, "prefetch(256,2)", "prefetch(256,65)"), "leads by 0 to 64 keys, got 65"},
        Illegal{prefill(), replaced(kText, "pack_k(block)", "pack_k(strip)"), "a task has 32 rows, tile_rows is 14"},
        Illegal{problem("attention:f32:b=1,hq=8,hkv=2,q=10000,kv=100000,d=64"),
                replaced(replaced(kText, "(online)", "(materialised)"), "block(8,", "block(8000,"),
                "a task needs a workspace of "}));

// Programs of the tuner are made, not parsed.
TEST(AttentionProgramLegal, ProgramsThatNoTextGives) {
  AttentionProgram p = parse_program(kText).value();
  for (int64_t AttentionProgram::*size :
       {&AttentionProgram::bq, &AttentionProgram::bk, &AttentionProgram::tile_rows, &AttentionProgram::mr,
        &AttentionProgram::nr, &AttentionProgram::vr, &AttentionProgram::vn, &AttentionProgram::value_depth}) {
    AttentionProgram bad = p;
    bad.*size = 0;
    EXPECT_THAT(legal(prefill(), bad).message(), HasSubstr("must be at least 1"));
  }
  p.algorithm = Algorithm::kSplit;
  p.splits = 1;
  EXPECT_THAT(legal(prefill(), p).message(), HasSubstr("splits must be from 2"));
}

// 4 x 10^12 rows of 2^22 keys.
TEST(AttentionProgramLegal, WorkspacesThatOverflowAreRefused) {
  AttentionProblem p = prefill();
  p.q = int64_t{1} << 40;
  p.kv = int64_t{1} << 41;
  AttentionProgram program = parse_program(kText).value();
  program.algorithm = Algorithm::kMaterialised;
  program.bq = p.q;
  EXPECT_EQ(workspace_bytes(p, program), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(legal(p, program).ok());
}

TEST(AttentionProgramNumerics, NamesTheClass) {
  auto name = [](std::string_view from, std::string_view to) {
    return numerics(parse_program(replaced(kText, from, to)).value());
  };
  EXPECT_EQ(name("(online)", "(online)"), "online(256)");
  EXPECT_EQ(name("block(8,256)", "block(8,512)"), "online(512)");
  EXPECT_EQ(name("(online)", "(materialised)"), "ordered");
  EXPECT_EQ(name("(online)", "(tiled)"), "ordered");
  EXPECT_EQ(name("(online)", "(split) splits(7)"), "split(256,7)");
  for (const auto& [from, to] : std::map<std::string, std::string>{{"block(8,", "block(1,"},
                                                                   {"heads(group)", "heads(one)"},
                                                                   {"value_depth(128)", "value_depth(16)"},
                                                                   {"pack_v(none)", "pack_v(rows)"},
                                                                   {"parallel(hq)", "parallel(h)"}})
    EXPECT_EQ(name(from, to), "online(256)") << from << " -> " << to;
}

// Cutting a program to a problem keeps its class, and a second time changes nothing.
TEST(AttentionProgramCanonical, KeepsTheClass) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const AttentionProblem p = random_problem(seed, {.max_q = 40, .max_kv = 300, .max_d = 130});
    const std::optional<AttentionProgram> program =
        random_program(random_problem(seed + 1000, {.max_q = 400, .max_kv = 3000, .max_d = 130}), seed, Isa::kAvx512);
    if (!program) continue;
    const AttentionProgram cut = canonical(p, *program);
    EXPECT_EQ(numerics(cut), numerics(*program)) << to_string(*program);
    EXPECT_EQ(canonical(p, cut), cut) << to_string(*program);
    EXPECT_EQ(legal(p, cut).ok(), legal(p, *program).ok()) << to_string(p) << " | " << to_string(*program);
  }
}

uint64_t hash_of(const AttentionProblem& p, const AttentionProgram& program) {
  const Result<std::vector<ir::Kernel>> kernels = lower(p, program);
  EXPECT_TRUE(kernels.ok()) << kernels.status().message() << " of " << to_string(program);
  if (!kernels.ok()) return 0;
  uint64_t hash = 0;
  for (const ir::Kernel& kernel : *kernels) hash = hash * 31 + ir::hash(kernel);
  return hash;
}

struct Change {
  std::string from, to;
};

void expect_all_differ(const AttentionProblem& p, std::string_view base, std::span<const Change> changes) {
  std::map<uint64_t, std::string> seen = {{hash_of(p, parse_program(base).value()), "none"}};
  EXPECT_EQ(seen.begin()->first, hash_of(p, parse_program(base).value())) << "replay gives the same LoopIR";
  for (const auto& [from, to] : changes) {
    const Result<AttentionProgram> program = parse_program(replaced(base, from, to));
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto [other, is_new] = seen.emplace(hash_of(p, *program), from + " -> " + to);
    EXPECT_TRUE(is_new) << from << " -> " << to << " gives the LoopIR of " << other->second;
  }
}

// Every knob reaches the code: changing it alone changes the LoopIR.
TEST(AttentionProgramKnobs, EachChangesTheLoopIr) {
  const Change of_prefill[] = {{"(online)", "(tiled)"},
                               {"(online)", "(materialised)"},
                               {"(online)", "(split) splits(2)"},
                               {"(online)", "(split) splits(3)"},
                               {"block(8,", "block(4,"},
                               {"block(8,256)", "block(8,128)"},
                               {"heads(group)", "heads(one)"},
                               {"tile_rows(14)", "tile_rows(28)"},
                               {"score_tile(14,", "score_tile(7,"},
                               {"score_tile(14,32)", "score_tile(14,16)"},
                               {"value_tile(14,", "value_tile(7,"},
                               {"value_tile(14,32)", "value_tile(14,16)"},
                               {"value_depth(128)", "value_depth(64)"},
                               {"pack_v(none)", "pack_v(rows)"},
                               {"parallel(hq)", "parallel(h)"}};
  expect_all_differ(prefill(), kText, of_prefill);
  const Change of_decode[] = {{"splits(4)", "splits(8)"},
                              {"pack_k(strip)", "pack_k(block)"},
                              {"prefetch(256,2) ", ""},
                              {"prefetch(256,2)", "prefetch(128,2)"},
                              {"prefetch(256,2)", "prefetch(256,0)"},
                              {"prefetch(256,2)", "prefetch(256,4)"}};
  expect_all_differ(decode(), kDecode, of_decode);
  const std::string narrow = avx2("score_tile(4,16) value_tile(4,16)"), wide = replaced(narrow, "avx2,8", "avx512,16");
  EXPECT_NE(hash_of(prefill(), parse_program(narrow).value()), hash_of(prefill(), parse_program(wide).value()));
}

// What is legal, one knob away from `p`.
AttentionProgram neighbour(AttentionProgram p, const AttentionProblem& of, std::mt19937_64& rng) {
  auto one_of = [&](std::initializer_list<int64_t> values) { return values.begin()[rng() % values.size()]; };
  switch (rng() % 11) {
    case 0:
      p.bq = one_of({1, 2, 3, 8, 1000});
      break;
    case 1:
      p.bk = one_of({16, 64, 1024});
      break;
    case 2:
      p.group = !p.group;
      break;
    case 3:
      p.tile_rows *= one_of({2, 3, 100});
      break;
    case 4:
      p.nr = kKeyGroup * one_of({1, 2, 3});
      break;
    case 5:
      p.vn = p.lanes * one_of({1, 2, 3, 4});
      break;
    case 6:
      p.value_depth = one_of({1, 16, 40, 2000});
      break;
    case 7:
      if (of.k == KeyLayout::kRows) p.pack_k = p.pack_k == PackK::kBlock ? PackK::kStrip : PackK::kBlock;
      break;
    case 8:
      p.pack_v = p.pack_v == PackV::kNone ? PackV::kRows : PackV::kNone;
      break;
    case 9:
      p.prefetch = one_of({0, 16, 256}), p.lead = one_of({0, 2, 4});
      break;
    default:
      p.parallel = p.parallel == ParallelDim::kHeads ? ParallelDim::kHeadsRows : ParallelDim::kHeads;
  }
  return p;
}

// Programs that canonical() makes equal lower to the same LoopIR; knobs that it keeps reach the code.
TEST(AttentionProgramKnobs, CanonicalResetsThoseThatDoNotMatter) {
  int equal = 0, different = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 rng(seed);
    const AttentionProblem p = random_problem(seed, {.max_q = 40, .max_kv = 300, .max_d = 100});
    const std::optional<AttentionProgram> program = random_program(p, seed, Isa::kAvx512);
    if (!program) continue;
    const AttentionProgram other = neighbour(*program, p, rng);
    if (!legal(p, other).ok()) continue;
    const bool same = canonical(p, *program) == canonical(p, other);
    (same ? equal : different)++;
    EXPECT_EQ(hash_of(p, *program) == hash_of(p, other), same)
        << to_string(p) << "\n  " << to_string(*program) << "\n  " << to_string(other);
  }
  EXPECT_GT(equal, 20);
  EXPECT_GT(different, 50);
}

constexpr BlockingCaches kCaches[] = {{}, {.l1d = 48 << 10, .l2 = 2 << 20, .l3_share = 8 << 20}};

TEST(AttentionProgramDefault, BlocksTooLargeForManyRowsAreTakenByOnePosition) {
  for (const char* numerics : {"ordered", "online(524288)"}) {
    const AttentionProblem p = parse_problem("attention:f32:b=1,hq=32,hkv=8,q=512,kv=524288,d=128").value();
    for (const Isa isa : all_isas()) {
      const AttentionProgram program = default_program(p, isa, {}, numerics);
      EXPECT_TRUE(legal(p, program).ok()) << legal(p, program).message();
      EXPECT_EQ(attention::numerics(program), numerics);
      EXPECT_EQ(program.bq, 1);
    }
  }
}

TEST(AttentionProgramDefault, IsLegalForEveryProblemAndIsa) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const AttentionProblem p = random_problem(seed, {.max_q = 2000, .max_kv = 40000, .max_d = 600});
    for (const Isa isa : all_isas()) {
      for (const BlockingCaches& caches : kCaches) {
        for (const std::string_view wanted : {"", "default", "any", "ordered", "online(64)", "split(256,4)"}) {
          SCOPED_TRACE(testing::Message() << to_string(p) << " numerics " << wanted);
          const AttentionProgram program = default_program(p, isa, caches, wanted);
          const Status s = legal(p, program);
          ASSERT_TRUE(s.ok()) << s.message() << " of " << to_string(program);
          EXPECT_TRUE(numerics_allowed(wanted, numerics(program))) << to_string(program);
          EXPECT_EQ(canonical(p, program), program);
          EXPECT_EQ(program.isa, isa);
        }
      }
    }
  }
}

TEST(AttentionProgramDefault, MaterialisedIsLegalForEveryProblemAndIsa) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const AttentionProblem p = random_problem(seed, {.max_q = 2000, .max_kv = 40000, .max_d = 600});
    for (const Isa isa : all_isas()) {
      const AttentionProgram program = materialised_program(p, isa, {});
      const Status s = legal(p, program);
      ASSERT_TRUE(s.ok()) << to_string(p) << ": " << s.message() << " of " << to_string(program);
      EXPECT_EQ(program.algorithm, Algorithm::kMaterialised);
    }
  }
  // All rows in one task where they fit, as few as fit elsewhere.
  EXPECT_EQ(materialised_program(prefill(), Isa::kAvx512, {}).bq, 100);
  const AttentionProblem large = problem("attention:f32:b=1,hq=32,hkv=8,q=20000,kv=20000,d=128:causal");
  const int64_t bq = materialised_program(large, Isa::kAvx512, {}).bq;
  EXPECT_GT(bq, 200);
  EXPECT_LT(bq, 2000);
}

}  // namespace
}  // namespace hone::attention
