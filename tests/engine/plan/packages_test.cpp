// Packages as a source of plans: what is admitted, and which of package, decisions and default comes first.
#include "engine/plan/packages.h"

#include <gmock/gmock.h>

#include "jit/aot/package_generator.h"
#include "kernels/ir/text.h"
#include "tests/engine/package_util.h"
#include "tests/engine/plan/decision_util.h"

namespace hone::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PlanPackages : public testing_api::PackageFixture {
 protected:
  Result<PackagedOp> admitted(const std::string& path) const {
    HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const jit::Package> package, jit::Package::open(path));
    return admit(*package, package->manifest().ops.front(), host());
  }
  void refused(const std::string& path, Code code, const std::string& why) const {
    const Result<PackagedOp> op = admitted(path);
    ASSERT_FALSE(op.ok()) << why;
    EXPECT_EQ(code_name(op.status().code()), code_name(code)) << op.status().message();
    EXPECT_THAT(op.status().message(), AllOf(HasSubstr("package " + path), HasSubstr(why)));
  }
};

constexpr char kProblem[] = "matmul:f32:m=64,n=96,k=32:+bias";

TEST_F(PlanPackages, AdmitsWhatThisBuildLowers) {
  const Result<PackagedOp> op = admitted(pack("k.hone", {{kProblem, {isa_}, "", 2}}));
  ASSERT_TRUE(op.ok()) << op.status().message();
  EXPECT_EQ(op::to_string(op->problem), kProblem);
  EXPECT_EQ(op->program, program_of(op->problem, isa_));
  EXPECT_EQ(op->threads, 2);
  EXPECT_THAT(op->codegen, HasSubstr("llvm-"));
  EXPECT_TRUE(is_lowering_of(op->problem, op->program, op->loop_ir));
}

TEST_F(PlanPackages, ChangedPackagesAreRefusedWithTheReason) {
  const std::string path = pack("k.hone", kProblem);
  const std::string manifest = text_of(path + "/manifest.json");
  const auto restored = [&] { write_text(path + "/manifest.json", manifest); };
  const auto changed = [&](auto body, Code code, const std::string& why) {
    change(path, body);
    refused(path, code, why);
    restored();
  };
  changed([](jit::Manifest& m) { m.ops[0].problem = "matmul:f32:m=64,n=96,k=33:+bias"; }, Code::kUnsupported,
          "lowers it otherwise");
  changed([](jit::Manifest& m) { m.ops[0].problem = "softmax:f32:n=3"; }, Code::kUnsupported,
          "op 'softmax' is not supported");
  changed([](jit::Manifest& m) { m.ops[0].problem = "matmul:f32:m=64"; }, Code::kInvalidArgument, "matmul:f32:m=64");
  changed([](jit::Manifest& m) { m.ops[0].variants[0].program = "vectorise(all)"; }, Code::kInvalidArgument,
          "vectorise");
  changed([](jit::Manifest& m) { m.ops[0].variants[0].numerics = "online(256)"; }, Code::kInvalidArgument,
          "the variant says 'online(256)'");
  changed([](jit::Manifest& m) { m.ops[0].variants[0].kernels.push_back(m.ops[0].variants[0].kernels[0]); },
          Code::kUnsupported, "lowers it to 1 kernels, the package has 2");
  ASSERT_TRUE(admitted(path).ok());

  // LoopIR that would run, but is not what this build makes of the program.
  const std::filesystem::path file = path + "/" + jit::parse_manifest(manifest)->ops[0].variants[0].kernels[0].loop_ir;
  std::string text = text_of(file);
  const size_t at = text.find("const 0x00000000");
  ASSERT_NE(at, std::string::npos) << text;
  write_text(file, text.replace(at, 16, "const 0x3f800000"));
  changed([](jit::Manifest&) {}, Code::kUnsupported, "const 0x3f800000");
}

TEST_F(PlanPackages, AProgramOfAnotherInstructionSetIsRefused) {
  if (isa_ != Isa::kAvx512) GTEST_SKIP() << "needs two instruction sets";
  const std::string path = pack("k.hone", kProblem);
  change(path, [](jit::Manifest& m) { m.ops[0].variants[0].isa = "avx2"; });
  refused(path, Code::kInvalidArgument, "the program is for avx512, the variant for avx2");
}

// ---- order of preference; nothing is loaded here ----

struct Order : testing::Test {
  const Machine machine = described("zen4");
  Target target = target_of(machine);
  const matmul::MatmulProblem problem = matmul::parse_problem("matmul:f32:m=64,n=512,k=256").value();

  matmul::MatmulProblem with_m(int64_t m) const {
    matmul::MatmulProblem p = problem;
    p.m = m;
    return p;
  }
  // As it was packaged for `m`; a register tile of its own marks it.
  PackagedOp packaged(int64_t m, int64_t mr, const std::string& name) const {
    matmul::TransformProgram program =
        matmul::default_program(with_m(m), {.isa = Isa::kAvx512, .caches = target.caches, .threads = 1});
    program.mr = mr, program.mc = 2 * mr;
    PackagedOp op{.package = name,
                  .engine = "hone test",
                  .codegen = "llvm",
                  .problem = with_m(m),
                  .program = matmul::canonical(with_m(m), program)};
    const std::vector<ir::Kernel> kernels = op::lower(op.problem, op.program).value();
    for (const ir::Kernel& k : kernels) op.loop_ir.push_back(ir::print(k));
    return op;
  }
  MatmulPlan plan(const Packages& packages, std::vector<db::StoredDecision> decisions,
                  const Constraints& constraints = {}) const {
    Result<MatmulPlan> made =
        resolve_for<matmul::Op>(problem, target, Decisions(std::move(decisions)), constraints, packages);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? *std::move(made) : MatmulPlan{};
  }
};

using PlanPackageOrder = Order;

TEST_F(PlanPackageOrder, TheVeryProblemComesBeforeEveryDecision) {
  Packages packages;
  packages.add(packaged(64, 5, "k.hone"));
  const MatmulPlan p = plan(packages, {decided(problem, machine, 1)});
  EXPECT_EQ(p.reason, Reason::kPackage);
  EXPECT_EQ(p.codegen, "package");
  EXPECT_EQ(p.program.mr, 5);
  ASSERT_TRUE(p.from);
  EXPECT_EQ(p.from->package, "k.hone");
  EXPECT_EQ(p.from->problem, matmul::to_string(problem));
  EXPECT_EQ(p.from->difference, "");
  EXPECT_TRUE(p.rejected.empty());
}

TEST_F(PlanPackageOrder, OtherSizesComeBehindExactAndBeforeNear) {
  Packages packages;
  packages.add(packaged(128, 5, "near.hone"));
  EXPECT_EQ(plan(packages, {decided(problem, machine, 1)}).reason, Reason::kExact);
  const MatmulPlan p = plan(packages, {decided(with_m(65), machine, 1)});
  EXPECT_EQ(p.reason, Reason::kPackage);
  EXPECT_EQ(p.from->difference, "made for m=128, asked for m=64");
  packages.add(packaged(70, 7, "nearer.hone"));
  EXPECT_EQ(plan(packages, {}).program.mr, 7);
}

TEST_F(PlanPackageOrder, FarAwayCountsOnlyWithoutCodeGenerators) {
  Packages packages;
  packages.add(packaged(1024, 5, "far.hone"));
  MatmulPlan p = plan(packages, {});
  EXPECT_EQ(p.reason, Reason::kDefault);
  ASSERT_EQ(p.rejected.size(), 1u);
  EXPECT_EQ(p.rejected[0].why, "package far.hone: made for m=1024, too far from m=64");
  target.codegens.clear();
  p = plan(packages, {});
  EXPECT_EQ(p.reason, Reason::kPackage);
  EXPECT_EQ(p.program.mr, 5);
  EXPECT_EQ(plan({}, {}).codegen, kFallbackCodegen);
}

TEST_F(PlanPackageOrder, TheNewestOfEqualOnes) {
  Packages packages;
  packages.add(packaged(64, 5, "old.hone"));
  packages.add(packaged(64, 7, "new.hone"));
  EXPECT_EQ(plan(packages, {}).from->package, "new.hone");
  packages.add(packaged(64, 5, "newest.hone"));
  EXPECT_EQ(plan(packages, {}).from->package, "newest.hone");
  EXPECT_EQ(packages.size(), 2u) << "one that says the same takes the place of the other";
}

TEST_F(PlanPackageOrder, ThreadsArePreferredUpToWhatThereIs) {
  Packages packages;
  PackagedOp op = packaged(64, 5, "k.hone");
  op.threads = 3;
  packages.add(op);
  EXPECT_EQ(plan(packages, {}).threads, std::min(3, target.threads));
  EXPECT_EQ(plan(packages, {}, {.threads = 2}).threads, 2);
}

TEST_F(PlanPackageOrder, WhatDoesNotFitIsRejectedWithTheReason) {
  Packages packages;
  PackagedOp op = packaged(128, 5, "k.hone");
  op.loop_ir.front() += "\n";
  packages.add(op);
  MatmulPlan p = plan(packages, {});
  EXPECT_EQ(p.reason, Reason::kDefault);
  EXPECT_EQ(p.rejected.at(0).why, "package k.hone: made for m=128, its code does not fit m=64");

  matmul::MatmulProblem packed = problem;
  packed.b = matmul::BLayout::kPacked;
  op = packaged(64, 5, "packed.hone");
  op.problem = packed;
  op.program = matmul::default_program(packed, {.isa = Isa::kAvx512, .caches = target.caches, .threads = 1}, 16);
  Packages of_panels;
  of_panels.add(op);
  const auto fitting = resolve_for<matmul::Op>(packed, target, {}, {.panel = 16}, of_panels);
  EXPECT_EQ(fitting->reason, Reason::kPackage);
  const auto other = resolve_for<matmul::Op>(packed, target, {}, {.panel = 32}, of_panels);
  EXPECT_EQ(other->reason, Reason::kDefault);
  EXPECT_THAT(other->rejected.at(0).why, HasSubstr("package packed.hone: B is packed in panels of 32"));
}

TEST_F(PlanPackageOrder, OnlyNumericsThatWereAskedFor) {
  const op::Problem attention = op::parse_problem("attention:f32:b=1,hq=4,hkv=2,q=1,kv=512,d=64").value();
  PackagedOp op{.package = "k.hone", .engine = "", .codegen = "", .problem = attention, .program = {}};
  op.program =
      op::default_program(attention, {.isa = Isa::kAvx512, .caches = target.caches, .numerics = "split(256,2)"});
  Packages packages;
  packages.add(op);
  const Result<Plan> without = resolve(attention, target, {}, {}, packages);
  EXPECT_EQ(without->reason, Reason::kDefault);
  EXPECT_THAT(without->rejected.at(0).why, HasSubstr("numerics class 'split(256,2)' was not asked for"));
  const Result<Plan> with = resolve(attention, target, {}, {.numerics = "split(256,2)"}, packages);
  EXPECT_EQ(with->reason, Reason::kPackage);
}

}  // namespace
}  // namespace hone::plan
