// Engines that run packages: the same bits as ever, no code generator, nothing but what the package has.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "hone/hone.h"
#include "tests/engine/attention_util.h"
#include "tests/engine/package_util.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_api::AttentionOperands;
using testing_api::Operands;

class EnginePackages : public testing_api::PackageFixture {
 protected:
  // No code generator: what no package has is precompiled.
  static Engine bare(int threads = 2) {
    return Engine::create({.use_database = false, .threads = threads, .codegen = "package"}).value();
  }
  Engine with(const std::string& package, int threads = 2) const {
    Engine engine = bare(threads);
    const Status loaded = engine.load_package(package);
    EXPECT_TRUE(loaded.ok()) << loaded.to_string();
    return engine;
  }
};

MatmulSpec spec_of(const std::string& problem) {
  MatmulSpec spec = MatmulSpec::parse(problem).value();
  spec.max_m = 0;
  return spec;
}

// Runs the very problem on guarded memory, and returns the plan.
PlanInfo run(const Engine& engine, const std::string& problem) {
  const MatmulSpec spec = spec_of(problem);
  const bool constant = problem.find("b=packed") != std::string::npos;
  const Operands operands(spec, spec.expected_m.front());
  testing_api::check(engine, spec, operands, constant);
  return constant ? engine.prepare(spec, operands.b.data())->plan(spec.expected_m.front()).value()
                  : engine.prepare(spec)->plan(spec.expected_m.front()).value();
}

constexpr const char* kMatmuls[] = {
    "matmul:f32:m=1,n=100,k=65,b=packed",
    "matmul:f32:m=3,n=64,k=1,b=nt:+bias+gelu",
    "matmul:f32:m=33,n=67,k=129,b=packed:+bias+silu*gate",
    "matmul:f32:m=64,n=96,k=64,b=nn:+residual",
    "matmul:f32:m=17,n=40,k=300,b=nt,lda=310,ldb=303,ldc=48:+relu",
    "matmul:f32:m=5,n=32,k=48,batch=3,sb=0:+bias",
    "matmul:f32:m=29,n=31,k=37,alpha=0.5,beta=2",
    "matmul:f32:m=200,n=130,k=257,b=packed:+gelu_erf",
};

TEST_F(EnginePackages, MatmulsGiveTheBitsOfTheReference) {
  for (const Isa isa : all_isas()) {
    if (!machine_.supports(isa)) continue;
    for (const char* problem : kMatmuls) {
      SCOPED_TRACE(std::string(isa_info(isa).name) + " " + problem);
      const Engine engine = with(pack("k.hone", {{problem, {isa}}}));
      const PlanInfo plan = run(engine, problem);
      EXPECT_EQ(plan.reason, "package");
      EXPECT_EQ(plan.codegen, "package");
      EXPECT_THAT(plan.program, HasSubstr(isa_info(isa).name));
      ASSERT_TRUE(plan.from);
      EXPECT_EQ(plan.from->package, (folder_ / "k.hone").string());
    }
  }
}

constexpr const char* kAttentions[] = {
    "attention:f32:b=1,hq=4,hkv=2,q=37,kv=300,d=64:causal",
    "attention:f32:b=1,hq=4,hkv=1,q=1,kv=513,d=40,dv=24:lse",
    "attention:f32:b=1,hq=2,hkv=2,q=19,kv=45,d=32:window=9:softcap=5",
    "attention:f32:b=1,hq=4,hkv=2,q=8,kv=100,d=16,layout=bshd:mask",
    "attention:f32:b=1,hq=2,hkv=1,q=5,kv=60,d=48,page=5:boolmask",
};

TEST_F(EnginePackages, AttentionsGiveTheBitsOfTheReference) {
  for (const Isa isa : all_isas()) {
    if (!machine_.supports(isa)) continue;
    for (const char* problem : kAttentions) {
      for (const char* numerics : {"", "ordered", "split(64,3)"}) {
        SCOPED_TRACE(std::string(isa_info(isa).name) + " " + problem + " " + numerics);
        const Engine engine = with(pack("k.hone", {{problem, {isa}, numerics}}));
        AttentionSpec spec = AttentionSpec::parse(problem).value();
        spec.numerics = numerics;
        spec.max_q = 0;
        AttentionOperands operands(spec, spec.expected.front().q, spec.expected.front().kv);
        testing_api::check(engine, spec, operands);
        const PlanInfo plan = engine.prepare(spec)->plan(operands.sequence.q, operands.sequence.kv).value();
        EXPECT_EQ(plan.reason, "package");
        EXPECT_EQ(plan.codegen, "package");
        EXPECT_THAT(plan.program, HasSubstr(isa_info(isa).name));
      }
    }
  }
}

// A cache lies as the package reads it.
TEST_F(EnginePackages, CachesFollowThePackage) {
  const std::string shape = "attention:f32:b=1,hq=4,hkv=2,q=1,kv=256,d=64";
  for (const bool rows : {true, false}) {
    const std::string problem = rows ? shape + ":causal" : shape + ",k=blocked:causal";
    const Engine engine = with(pack("k.hone", problem));
    AttentionSpec spec = AttentionSpec::parse(shape + ":causal").value();
    spec.cache = true;
    spec.max_q = 0;
    AttentionOperands operands(spec, 1, 256);
    testing_api::check(engine, spec, operands);
    const Attention attention = engine.prepare(spec).value();
    EXPECT_EQ(attention.cache({.capacity = 256})->key_layout(), rows ? KeyLayout::kRows : KeyLayout::kBlocked);
    EXPECT_EQ(attention.plan(1, 256)->reason, "package") << problem;
  }
}

TEST_F(EnginePackages, OtherProblemsArePrecompiledWithoutACodeGenerator) {
  const Engine engine = with(pack("k.hone", kMatmuls[1]));
  const PlanInfo other = run(engine, "matmul:f32:m=3,n=65,k=1,b=nt:+bias+gelu");
  EXPECT_EQ(other.codegen, "precompiled");
  EXPECT_EQ(other.reason, "default");
  EXPECT_EQ(run(engine, kMatmuls[1]).codegen, "package");
  EXPECT_EQ(engine.info().packages, std::vector<std::string>{(folder_ / "k.hone").string()});
  EXPECT_TRUE(engine.info().codegens.empty());
}

// One set of weights, one package, any number of rows: the panels of the package are those of the weights.
TEST_F(EnginePackages, AllRowsOfAFamilyRunOnOnePackage) {
  const Engine engine = with(pack("k.hone", "matmul:f32:m=64,n=96,k=80,b=packed:+bias"));
  MatmulSpec spec = MatmulSpec::parse("matmul:f32:m=64,n=96,k=80,b=packed:+bias").value();
  spec.max_m = 256;
  const Operands weights(spec, 1);
  const Matmul matmul = engine.prepare(spec, weights.b.data()).value();
  for (const int64_t m : {1, 2, 7, 8, 9, 33, 64, 65, 250, 700}) {
    Operands operands(spec, m, 11);
    std::copy_n(weights.b.data(), weights.b.elements(), operands.b.data());
    const std::vector<float> want = operands.expected();
    ASSERT_TRUE(matmul.run(operands.call(true)).ok());
    EXPECT_TRUE(testing_api::same_bits(operands.c.snapshot(), want)) << m;
    const PlanInfo plan = matmul.plan(m).value();
    EXPECT_EQ(plan.reason, "package") << m;
    // 33 to 64 rows are a bucket, whose plan is made for 64.
    EXPECT_EQ(plan.from->difference.empty(), m > 32 && m <= 64) << m << ": " << plan.from->difference;
  }
}

TEST_F(EnginePackages, BesideCodeGeneratorsTheSameBits) {
  const std::string problem = kMatmuls[2];
  const std::string package = pack("k.hone", problem);
  const MatmulSpec spec = spec_of(problem);
  for (const std::string& codegen : testing_api::all_codegens()) {
    if (codegen == "precompiled") continue;
    Engine engine = Engine::create({.use_database = false, .threads = 2, .codegen = codegen}).value();
    const Operands operands(spec, 33);
    const Matmul before = engine.prepare(spec, operands.b.data()).value();
    EXPECT_EQ(before.plan(33)->codegen, codegen);
    ASSERT_TRUE(engine.load_package(package).ok());
    const Matmul after = engine.prepare(spec, operands.b.data()).value();
    EXPECT_EQ(after.plan(33)->codegen, "package");
    EXPECT_EQ(before.plan(33)->codegen, codegen) << "what was prepared before keeps its plan";
    EXPECT_EQ(before.weight_bytes(), after.weight_bytes()) << "weights are packed once, as ever";
    ASSERT_TRUE(before.run(operands.call(true)).ok());
    const std::vector<float> jit = operands.c.snapshot();
    Operands again(spec, 33);
    ASSERT_TRUE(after.run(again.call(true)).ok());
    EXPECT_TRUE(testing_api::same_bits(again.c.snapshot(), jit));
  }
}

TEST_F(EnginePackages, TheFolderMayGo) {
  Engine engine = with(pack("k.hone", kMatmuls[0]));
  fs::remove_all(folder_ / "k.hone");
  EXPECT_EQ(run(engine, kMatmuls[0]).codegen, "package");
  // And the engine, before what was prepared from it.
  const MatmulSpec spec = spec_of(kMatmuls[0]);
  const Operands operands(spec, 1);
  const Matmul matmul = engine.prepare(spec, operands.b.data()).value();
  engine = bare();
  const std::vector<float> want = operands.expected();
  ASSERT_TRUE(matmul.run(operands.call(true)).ok());
  EXPECT_TRUE(testing_api::same_bits(operands.c.snapshot(), want));
}

TEST_F(EnginePackages, AllOrNothing) {
  const std::string path = pack("k.hone", {{kMatmuls[0], {isa_}}, {kMatmuls[3], {isa_}}});
  Engine engine = bare();
  EXPECT_EQ(engine.load_package(path + "/nowhere").code(), Code::kNotFound);
  change(path, [](jit::Manifest& m) { m.ops[1].variants[0].features.push_back("feature-of-2030"); });
  const Status lacking = engine.load_package(path);
  EXPECT_EQ(lacking.code(), Code::kUnsupported);
  EXPECT_THAT(lacking.message(), HasSubstr("this CPU lacks feature-of-2030"));
  EXPECT_EQ(run(engine, kMatmuls[0]).codegen, "precompiled") << "the first op was fine, and yet is not used";
  EXPECT_TRUE(engine.info().packages.empty());

  const std::string damaged = pack("d.hone", kMatmuls[0]);
  write_text(damaged + "/0." + std::string(isa_info(isa_).name) + ".so", "not code");
  EXPECT_EQ(engine.load_package(damaged).code(), Code::kDataLoss);
  EXPECT_EQ(run(engine, kMatmuls[0]).codegen, "precompiled");
}

TEST_F(EnginePackages, VariantsGoByTheCpu) {
  if (isa_ == Isa::kAvx2) GTEST_SKIP() << "needs two instruction sets";
  const std::string path = pack("k.hone", {{kMatmuls[0], {Isa::kAvx2, Isa::kAvx512}}});
  EXPECT_THAT(run(with(path), kMatmuls[0]).program, HasSubstr("avx512"));
  ASSERT_EQ(setenv("HONE_CPU", "zen3", 1), 0);
  const Engine avx2 = with(path);
  const PlanInfo plan = run(avx2, kMatmuls[0]);
  Engine engine = bare();
  const Status refused = engine.load_package(pack("w.hone", {{kMatmuls[0], {Isa::kAvx512}}}));
  ASSERT_EQ(unsetenv("HONE_CPU"), 0);
  EXPECT_THAT(plan.program, HasSubstr("avx2"));
  EXPECT_EQ(plan.codegen, "package");
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_THAT(refused.message(), HasSubstr("avx512 code, and this CPU lacks avx512f"));
}

TEST_F(EnginePackages, LoadedWhileOthersPrepare) {
  const std::string path = pack("k.hone", kMatmuls[0]);
  Engine engine = bare();
  const MatmulSpec spec = spec_of(kMatmuls[0]);
  std::atomic<bool> wrong = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Operands operands(spec, 1, static_cast<uint32_t>(t + 1));
        const Result<Matmul> matmul = engine.prepare(spec, operands.b.data());
        const std::vector<float> want = operands.expected();
        const bool ok = matmul.ok() && matmul->run(operands.call(true)).ok();
        if (!ok || !testing_api::same_bits(operands.c.snapshot(), want)) wrong = true;
      }
    });
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine.load_package(path).ok());
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(run(engine, kMatmuls[0]).codegen, "package");
}

TEST_F(EnginePackages, FromC) {
  const std::string path = pack("k.hone", "matmul:f32:m=2,n=16,k=8,b=nt");
  hone_engine_options options = {};
  options.no_database = 1, options.threads = 1, options.codegen = "package";
  hone_engine* engine = nullptr;
  ASSERT_EQ(hone_engine_create(&options, &engine), HONE_OK);
  EXPECT_EQ(hone_engine_load_package(engine, nullptr), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_engine_load_package(nullptr, path.c_str()), HONE_INVALID_ARGUMENT);
  EXPECT_EQ(hone_engine_load_package(engine, "nowhere.hone"), HONE_NOT_FOUND);
  EXPECT_STREQ(hone_last_error(), "there is no package nowhere.hone");
  ASSERT_EQ(hone_engine_load_package(engine, path.c_str()), HONE_OK) << hone_last_error();

  hone_matmul_spec spec;
  ASSERT_EQ(hone_matmul_spec_parse(&spec, "matmul:f32:m=2,n=16,k=8,b=nt"), HONE_OK);
  spec.max_m = 0;
  hone_matmul* matmul = nullptr;
  ASSERT_EQ(hone_matmul_prepare(engine, &spec, &matmul), HONE_OK);
  hone_plan* plan = nullptr;
  ASSERT_EQ(hone_matmul_plan(matmul, 2, &plan), HONE_OK);
  EXPECT_STREQ(hone_plan_get(plan)->reason, "package");
  EXPECT_STREQ(hone_plan_get(plan)->package, path.c_str());
  EXPECT_STREQ(hone_plan_get(plan)->from, "matmul:f32:m=2,n=16,k=8,b=nt");
  hone_plan_destroy(plan);
  ASSERT_EQ(hone_matmul_plan(matmul, 3, &plan), HONE_OK);
  EXPECT_STREQ(hone_plan_get(plan)->from_difference, "made for m=2, asked for m=3");
  hone_plan_destroy(plan);
  hone_matmul_destroy(matmul);
  hone_engine_destroy(engine);
}

}  // namespace
}  // namespace hone
