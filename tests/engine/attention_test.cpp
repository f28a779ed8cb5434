// What an attention promises beyond its numbers: plans, errors by name, batches of any lengths, and which class it has.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "engine/runtime/trace.h"
#include "kernels/attention/blocking.h"
#include "tests/engine/attention_util.h"
#include "tests/engine/database_util.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using testing_api::AttentionOperands;
using testing_api::EngineWith;
using testing_api::same_bits;

Engine make_engine(int threads = 2) { return Engine::create({.use_database = false, .threads = threads}).value(); }

TEST(EngineAttention, ParsesAProblemString) {
  const AttentionSpec spec =
      AttentionSpec::parse(
          "attention:f32:b={1,4},hq=32,hkv=8,q={1,512},kv=512,d=128,dv=64:causal:window=100:softcap=30:lse")
          .value();
  EXPECT_EQ(spec.heads, 32);
  EXPECT_EQ(spec.kv_heads, 8);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.value_dim, 64);
  EXPECT_EQ(spec.batch, 4);
  ASSERT_EQ(spec.expected.size(), 2u);
  EXPECT_EQ(spec.expected[1].q, 512);
  EXPECT_TRUE(spec.causal && spec.lse && !spec.cache);
  EXPECT_EQ(spec.window, 100);
  EXPECT_EQ(spec.softcap, 30);
  EXPECT_EQ(spec.layout, HeadLayout::kHeadsFirst);
  EXPECT_EQ(AttentionSpec::parse("attention:f32:b=1,hq=4,hkv=2,q=1,kv=9,d=16,layout=bshd")->layout,
            HeadLayout::kRowsFirst);
  EXPECT_EQ(AttentionSpec::parse("attention:f32:b=1,hq=4,hkv=2,q=1,kv=9,d=16,k=blocked")->key_layout,
            KeyLayout::kBlocked);
  EXPECT_EQ(AttentionSpec::parse("attention:f32:b=1,hq=4").status().code(), Code::kInvalidArgument);
}

// The plan is that of the problem as it was written, whatever layout its strides look like.
TEST(EngineAttention, AParsedProblemComesBackUnchanged) {
  const Engine engine = make_engine(1);
  for (const std::string strides :
       {"", ",layout=bshd", ",ldq=64,ldo=64", ",ldq=64,ldk=32,ldo=64", ",ldq=64,ldv=48,ldo=64", ",ldk=32,ldv=32",
        ",k=blocked", ",ldq=64,ldo=64,k=blocked"}) {
    const std::string text = "attention:f32:b=1,hq=4,hkv=2,q=1,kv=512,d=16" + strides;
    AttentionSpec spec = AttentionSpec::parse(text).value();
    spec.max_q = 0;
    const Result<Attention> attention = engine.prepare(spec);
    ASSERT_TRUE(attention.ok()) << text << ": " << attention.status().to_string();
    const std::string full = "attention:f32:b=1,hq=4,hkv=2,q=1,kv=512,d=16,ldq=64,ldk=32,ldv=32,ldo=64";
    EXPECT_EQ(attention->plan(1, 512)->problem, strides == ",layout=bshd" ? full : text);
  }
  const Status lost = AttentionSpec::parse("attention:f32:b=1,hq=4,hkv=2,q=1,kv=9,d=16,ldv=40,k=blocked").status();
  EXPECT_EQ(lost.code(), Code::kInvalidArgument);
  EXPECT_THAT(lost.message(), HasSubstr("ldv=40"));
  EXPECT_THAT(AttentionSpec::parse("attention:f32:b=0,hq=4,hkv=2,q=1,kv=9,d=16").status().message(), HasSubstr("b=0"));
}

TEST(EngineAttention, SaysWhichPlanRunsAndWhy) {
  const Engine engine = make_engine();
  const AttentionSpec spec{.heads = 4, .kv_heads = 2, .head_dim = 32, .causal = true, .expected = {{100, 300}}};
  Result<Attention> attention = engine.prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  const PlanInfo own = attention->plan(100, 300).value(), bucket = attention->plan(99, 300).value();
  EXPECT_EQ(own.problem, "attention:f32:b=1,hq=4,hkv=2,q=100,kv=300,d=32:causal");
  EXPECT_EQ(bucket.problem, "attention:f32:b=1,hq=4,hkv=2,q=128,kv=512,d=32:causal");
  for (const PlanInfo& plan : {own, bucket}) {
    EXPECT_EQ(plan.numerics, "online(256)");
    EXPECT_EQ(plan.reason, "default");
  }
  EXPECT_EQ(attention->plan(0, 1).status().code(), Code::kInvalidArgument);
}

TEST(EngineAttention, AWindowThatHidesNothingHasThePlanOfNone) {
  const AttentionSpec spec{.heads = 2, .head_dim = 16, .causal = true, .window = 600, .max_q = 0};
  Result<Attention> attention = make_engine().prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  EXPECT_EQ(attention->plan(1, 200)->problem, "attention:f32:b=1,hq=2,hkv=2,q=1,kv=256,d=16:causal");
  EXPECT_EQ(attention->plan(1, 600)->problem, "attention:f32:b=1,hq=2,hkv=2,q=1,kv=1024,d=16:causal:window=600");
  for (int64_t kv : {255, 256, 640, 1000}) {
    AttentionOperands o(spec, 8, kv);
    ASSERT_TRUE(attention->run(o.sequence).ok());
    testing_api::expect_result(o, "online(256)");
  }
}

TEST(EngineAttention, ANumericsClassIsHadByName) {
  const Engine engine = make_engine();
  for (const char* numerics : {"ordered", "online(64)", "split(32,3)"}) {
    const AttentionSpec spec{.heads = 2, .head_dim = 16, .causal = true, .lse = true, .numerics = numerics, .max_q = 0};
    for (int64_t q : {1, 40}) {
      AttentionOperands o(spec, q, 150);
      testing_api::check(engine, spec, o);
      EXPECT_EQ(engine.prepare(spec)->plan(q, 150)->numerics, numerics);
    }
  }
  const Result<Attention> bad = engine.prepare({.heads = 2, .head_dim = 16, .numerics = "fastest"});
  EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(bad.status().message(), HasSubstr("fastest"));
}

TEST(EngineAttention, EverySequenceHasTheBitsThatItHasAlone) {
  const Engine engine = make_engine();
  const AttentionSpec spec{.heads = 6, .kv_heads = 2, .head_dim = 40, .causal = true, .lse = true};
  Result<Attention> attention = engine.prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  const std::pair<int64_t, int64_t> lengths[] = {{1, 700}, {33, 33}, {0, 9}, {5, 300}, {1, 1}, {200, 260}, {7, 0}};
  std::vector<AttentionOperands> batch;
  std::vector<AttentionSequence> call;
  for (const auto& [q, kv] : lengths) batch.emplace_back(spec, q, kv, static_cast<uint32_t>(batch.size()));
  for (AttentionOperands& o : batch) call.push_back(o.sequence);
  const Status status = attention->run(call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (AttentionOperands& o : batch) {
    SCOPED_TRACE(attention::to_string(o.problem()));
    testing_api::expect_result(o, "online(256)");
    const std::vector<float> together = o.result();
    o.reset();
    ASSERT_TRUE(attention->run(o.sequence).ok());
    EXPECT_TRUE(same_bits(o.result(), together));
  }
  EXPECT_TRUE(attention->run(std::span<const AttentionSequence>()).ok());
}

TEST(EngineAttention, LengthsBeyondWhatWasPreparedRunToo) {
  const Engine engine = make_engine();
  const AttentionSpec spec{.heads = 2, .kv_heads = 1, .head_dim = 16, .max_q = 4, .max_kv = 256};
  Result<Attention> attention = engine.prepare(spec);
  ASSERT_TRUE(attention.ok());
  AttentionOperands o(spec, 30, 1500);
  ASSERT_TRUE(attention->run(o.sequence).ok());
  testing_api::expect_result(o, "online(256)");
}

TEST(EngineAttention, ErrorsNameTheSequenceAndOperandAndWriteNothing) {
  const Engine engine = make_engine();
  const AttentionSpec spec{
      .heads = 4, .kv_heads = 2, .head_dim = 16, .mask = AttentionMask::kAdditive, .lse = true, .page = 4, .max_q = 0};
  Result<Attention> attention = engine.prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  AttentionOperands first(spec, 3, 9), second(spec, 3, 9);
  const std::vector<float> before = first.result();
  using Change = void (*)(AttentionSequence&);
  const std::pair<const char*, Change> cases[] = {
      {"query is null", [](AttentionSequence& s) { s.query = nullptr; }},
      {"key is null", [](AttentionSequence& s) { s.key = nullptr; }},
      {"value is null", [](AttentionSequence& s) { s.value = nullptr; }},
      {"mask is null", [](AttentionSequence& s) { s.mask = nullptr; }},
      {"out is null", [](AttentionSequence& s) { s.out = nullptr; }},
      {"lse is null", [](AttentionSequence& s) { s.lse = nullptr; }},
      {"page_table is null", [](AttentionSequence& s) { s.page_table = nullptr; }},
      {"page", [](AttentionSequence& s) { s.pages = 1; }},
      {"out overlaps query", [](AttentionSequence& s) { s.out = const_cast<float*>(s.query) + 3; }},
      {"lse", [](AttentionSequence& s) { s.lse = s.out; }},
      {"q_head=-2", [](AttentionSequence& s) { s.q_head = -2; }},
      {"k_page=-7", [](AttentionSequence& s) { s.k_page = -7; }},
      {"o_head", [](AttentionSequence& s) { s.o_head = 0; }},
      {"q=-1", [](AttentionSequence& s) { s.q = -1; }},
      {"kv=-1", [](AttentionSequence& s) { s.kv = -1; }},
      {"too large", [](AttentionSequence& s) { s.kv = int64_t{1} << 61; }},
  };
  for (const auto& [text, change] : cases) {
    AttentionSequence bad = second.sequence;
    change(bad);
    const AttentionSequence call[] = {first.sequence, bad};
    const Status status = attention->run(call);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(text));
    EXPECT_THAT(status.message(), HasSubstr("sequence 1: "));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    EXPECT_TRUE(same_bits(first.result(), before)) << text << ": something was written";
    const Status alone = attention->run(bad);
    EXPECT_EQ(alone.message().find("sequence"), std::string::npos) << alone.message();
  }
}

TEST(EngineAttention, SpecsAreCheckedByName) {
  const Engine engine = make_engine(1);
  const std::pair<const char*, AttentionSpec> cases[] = {
      {"d=0", {.heads = 4}},
      {"hq=8 is no multiple of hkv=3", {.heads = 8, .kv_heads = 3, .head_dim = 4}},
      {"ldq=3", {.heads = 2, .head_dim = 4, .ldq = 3}},
      {"ldk=3", {.heads = 2, .head_dim = 4, .ldk = 3, .cache = true}},
      {"page=8", {.heads = 2, .head_dim = 4, .page = 8, .cache = true, .key_layout = KeyLayout::kBlocked}},
      {"cache is false", {.heads = 2, .head_dim = 4, .key_layout = KeyLayout::kBlocked}},
      {"softcap", {.heads = 2, .head_dim = 4, .softcap = -1}},
      {"window=-1", {.heads = 2, .head_dim = 4, .window = -1}},
      {"max_q=-1", {.heads = 2, .head_dim = 4, .max_q = -1}},
      {"q=-1", {.heads = 2, .head_dim = 4, .expected = {{-1, 4}}}},
      {"layout 7", {.heads = 2, .head_dim = 4, .layout = static_cast<HeadLayout>(7)}},
      {"mask 9", {.heads = 2, .head_dim = 4, .mask = static_cast<AttentionMask>(9)}},
  };
  for (const auto& [text, spec] : cases) {
    const Status status = engine.prepare(spec).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
}

TEST(EngineAttention, WhereNoCodeCanBeMadeThePrecompiledKernelRuns) {
  EngineWith engine("precompiled");
  const AttentionSpec spec{.heads = 2, .head_dim = 16, .max_q = 0};
  Result<Attention> attention = engine->prepare(spec);
  ASSERT_TRUE(attention.ok()) << attention.status().to_string();
  const PlanInfo plan = attention->plan(1, 10).value();
  EXPECT_EQ(plan.codegen, "precompiled");
  if (engine->info().codegens.empty()) GTEST_SKIP() << "no code generator can run here";
  ASSERT_FALSE(plan.rejected.empty());
  EXPECT_THAT(plan.rejected.front().why, HasSubstr("executable memory refused"));
}

TEST(EngineAttention, RegionsAreNamedInATraceAndSmallCallsOpenNone) {
  const Engine engine = make_engine(2);
  for (const char* numerics : {"", "split(64,4)"}) {
    const AttentionSpec spec{
        .heads = 8, .kv_heads = 2, .head_dim = 64, .numerics = numerics, .expected = {{200, 900}}, .max_q = 0};
    Result<Attention> attention = engine.prepare(spec);
    ASSERT_TRUE(attention.ok()) << attention.status().to_string();
    AttentionOperands large(spec, 200, 900), small(spec, 1, 4);
    auto sink = std::make_shared<runtime::RecordingSink>();
    runtime::set_trace_sink(sink);
    const bool ran = attention->run(small.sequence).ok();
    const size_t before = sink->regions().size();
    const bool ran_too = attention->run(large.sequence).ok();
    runtime::set_trace_sink(nullptr);
    EXPECT_TRUE(ran && ran_too);
    EXPECT_EQ(before, 0u);
    ASSERT_EQ(sink->regions().size(), *numerics == '\0' ? 1u : 2u);  // the merge of split keys is one too
    for (const auto& region : sink->regions()) {
      EXPECT_EQ(region.op, "attention");
      EXPECT_EQ(region.node, "attention:f32:b=1,hq=8,hkv=2,q=200,kv=900,d=64");
    }
  }
}

// ---- what was tuned ----

class EngineAttentionDatabase : public testing_api::DatabaseTest {
 protected:
  // As the default is, but of this class and for this many rows of a task.
  static std::string program(const std::string& problem_text, const char* numerics, int64_t bq) {
    const attention::AttentionProblem problem = attention::parse_problem(problem_text).value();
    attention::AttentionProgram p = attention::default_program(problem, Isa::kAvx2, {}, numerics);
    p.bq = bq;
    return attention::to_string(attention::canonical(problem, p));
  }
};

TEST_F(EngineAttentionDatabase, RunsWhatWasTunedWithinTheClassThatIsAllowed) {
  const std::string text = "attention:f32:b=1,hq=4,hkv=2,q=24,kv=700,d=32:causal";
  store(text, program(text, "online(256)", 8), 1, "online(256)", 1000);
  store(text, program(text, "split(64,4)", 24), 2, "split(64,4)", 500);
  AttentionSpec spec{.heads = 4, .kv_heads = 2, .head_dim = 32, .causal = true, .expected = {{24, 700}}, .max_q = 0};
  for (const char* numerics : {"", "any", "ordered"}) {
    spec.numerics = numerics;
    Result<Attention> attention = engine().prepare(spec);
    ASSERT_TRUE(attention.ok()) << attention.status().to_string();
    const PlanInfo plan = attention->plan(24, 700).value(), near = attention->plan(20, 900).value();
    const std::string wanted = numerics;
    EXPECT_EQ(plan.numerics, wanted.empty() ? "online(256)" : wanted == "any" ? "split(64,4)" : "ordered");
    EXPECT_EQ(plan.reason, wanted == "ordered" ? "default" : "exact");
    EXPECT_THAT(plan.program, HasSubstr(wanted.empty() ? "block(8,256)" : "block("));
    EXPECT_EQ(near.reason, wanted == "ordered" ? "default" : "near_shape");
    EXPECT_EQ(near.numerics, plan.numerics);
    AttentionOperands o(spec, 24, 700);
    ASSERT_TRUE(attention->run(o.sequence).ok());
    testing_api::expect_result(o, plan.numerics);
  }
}

TEST_F(EngineAttentionDatabase, KeysOfACacheLieAsWasMeasuredToBeFaster) {
  const std::string rows = "attention:f32:b=1,hq=4,hkv=2,q=1,kv=700,d=32",
                    blocked = "attention:f32:b=1,hq=4,hkv=2,q=1,kv=700,d=32,k=blocked";
  const AttentionSpec spec{
      .heads = 4, .kv_heads = 2, .head_dim = 32, .cache = true, .expected = {{1, 700}}, .max_q = 0};
  const auto layout = [&] { return engine().prepare(spec)->cache({.capacity = 10})->key_layout(); };
  EXPECT_EQ(layout(), KeyLayout::kBlocked);
  store(rows, program(rows, "", 1), 1, "online(256)", 1000);
  EXPECT_EQ(layout(), KeyLayout::kRows);
  store(blocked, program(blocked, "", 1), 1, "online(256)", 900);
  EXPECT_EQ(layout(), KeyLayout::kBlocked);
}

// ---- concurrency ----

// TBB's own library is not built with ThreadSanitizer, which then takes every region for a race.
#ifdef __SANITIZE_THREAD__
constexpr int kThreads[] = {1};
#else
constexpr int kThreads[] = {1, 2, 3};
#endif

TEST(EngineAttention, FiveCallersGetTheSameBits) {
  const AttentionSpec spec{.heads = 8, .kv_heads = 2, .head_dim = 64, .causal = true, .lse = true};
  for (int threads : kThreads) {
    for (const char* numerics : {"", "split(64,4)"}) {
      AttentionSpec own = spec;
      own.numerics = numerics;
      own.max_q = 0;  // the first use of a bucket is raced too
      Result<Attention> attention = make_engine(threads).prepare(own);
      ASSERT_TRUE(attention.ok()) << attention.status().to_string();
      std::atomic<int> wrong{0};
      std::vector<std::thread> callers;
      for (int t = 0; t < 5; ++t) {
        callers.emplace_back([&, t] {
          for (int64_t q : {1, 60}) {
            AttentionOperands o(own, q, 300, static_cast<uint32_t>(t));
            const std::vector<float> want = o.expected(*numerics == '\0' ? "online(256)" : numerics);
            for (int i = 0; i < 10; ++i) {
              o.reset();
              if (!attention->run(o.sequence).ok() || !same_bits(o.result(), want)) ++wrong;
            }
          }
        });
      }
      for (std::thread& t : callers) t.join();
      EXPECT_EQ(wrong, 0) << threads << " threads " << numerics;
    }
  }
}

}  // namespace
}  // namespace hone
