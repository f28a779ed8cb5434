// Plans from packages: what is recorded is all that loading asks for, so that nothing runs on a precompiled kernel in a
// process without code generators, and the bits are those of a plan that was compiled at once.
#include "engine/executable/package.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "engine/executable/record.h"
#include "engine/passes/pass.h"
#include "tests/engine/executable/decoder_graphs.h"

namespace hone::executable {
namespace {

using graph::Graph;
using graph::Tensor;
using testing::HasSubstr;

class PlanPackage : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("hone_plan_package_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    here_ = detect_machine().value();
    const Result<Isa> isa = here_.best_isa();
    if (!isa.ok() || jit::compiling_generators().empty()) GTEST_SKIP() << "no code generator emits code for this CPU";
    isa_ = *isa;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // As hone compile does it.
  Status write(const Graph& graph, const PlanOptions& options, const std::string& path,
               const passes::PlanPolicy& policy = {}) {
    passes::Compilation c;
    c.graph = graph;
    c.policy = policy;
    HONE_RETURN_IF_ERROR(passes::run_passes(c, {.last = kLastKeptPass}).status());
    jit::AotGraphPackage package{.graph = package_graph(c, options), .ops = {}, .kernels = {}};
    HONE_ASSIGN_OR_RETURN(PackagedGraph read, unpack_graph(package.graph));
    HONE_ASSIGN_OR_RETURN(record_, record_plan({.machine = here_, .isa = isa_, .threads = 2}, {},
                                               std::move(read.compilation), read.options));
    const auto target = [](Isa isa) { return jit::AotTarget{.isa = isa, .mcpu = "", .tune = ""}; };
    for (const RecordedOp& op : record_.ops)
      package.ops.push_back({op::to_string(op.problem),
                             {{.target = target(op::isa(op.program)),
                               .program = op::to_string(op.program),
                               .numerics = op.facts.numerics,
                               .threads = 0,
                               .kernels = op.kernels}}});
    for (const Isa isa : all_isas()) {
      jit::AotKernels kernels{target(isa), {}};
      for (const RecordedKernel& k : record_.kernels)
        if (k.isa == isa) kernels.kernels.push_back(k.kernel);
      package.kernels.push_back(std::move(kernels));
    }
    return jit::write_graph_package(package, path, jit::Replace::kPackage).status();
  }

  static std::vector<Tensor> run(const ExecutablePlan& plan, const Tensor& x, const std::vector<int64_t>& cuts) {
    std::vector<Tensor> results;
    Result<Session> session = plan.session();
    EXPECT_TRUE(session.ok()) << session.status().message();
    int64_t at = 0;
    for (const int64_t cut : cuts) {
      const int64_t width = x.shape[1];
      const std::vector<int64_t> shape{cut, width};
      const InputTensor in{x.as<float>().data() + at * width, shape};
      Tensor y = Tensor::make(DType::kF32, {cut, width});
      const OutputTensor out{y.data.data(), static_cast<int64_t>(y.data.size())};
      const Status status = session->run({&in, 1}, {&out, 1});
      EXPECT_TRUE(status.ok()) << status.message();
      results.push_back(std::move(y));
      at += cut;
    }
    return results;
  }

  std::filesystem::path folder_;
  Machine here_;
  Isa isa_ = Isa::kAvx2;
  Record record_;
};

void expect_all_from(const ExecutablePlan& plan, const std::string& codegen, int64_t tokens, int64_t position) {
  const Result<std::vector<StepReport>> steps = plan.report(tokens, position);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  for (const StepReport& s : *steps) {
    if (s.kind == "append" || s.kind == "experts") continue;  // no kernel, or several
    EXPECT_EQ(s.codegen, codegen) << s.name << " " << s.kernel << " for " << tokens << " tokens at " << position;
  }
}

TEST_F(PlanPackage, NothingIsPrecompiledAndEveryBitIsTheSame) {
  const std::string path = (folder_ / "layer.hone").string();
  const DecoderSizes sizes{.max_tokens = 4, .capacity = 16};
  for (const auto& [name, graph] :
       {std::pair{"decoder", decoder_layer(sizes)}, std::pair{"moe", moe_layer(sizes, 4, 2)}}) {
    SCOPED_TRACE(name);
    const Status written = write(graph, {.expected_tokens = {1, 3}}, path);
    if (written.message().find("HONE_WITH_LLVM") != std::string::npos) GTEST_SKIP() << written.message();
    ASSERT_TRUE(written.ok()) << written.message();

    const Engine without = Engine::create({.use_database = false, .codegen = "package"}).value();
    const Result<ExecutablePlan> packed = load_plan(without, path);
    ASSERT_TRUE(packed.ok()) << packed.status().message();
    for (const auto& [tokens, position] : {std::pair{1, 0}, {1, 12}, {3, 5}, {4, 0}, {4, 12}})
      expect_all_from(*packed, "package", tokens, position);

    passes::Compilation c;
    c.graph = graph;
    ASSERT_TRUE(passes::run_passes(c).ok());
    const Engine with = Engine::create({.use_database = false}).value();
    const ExecutablePlan now = ExecutablePlan::create(with, std::move(c)).value();
    const Tensor x = random_rows(19, 64, 5);
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{4}, {3, 1, 4, 1, 2}, {1, 1, 1}})
      EXPECT_EQ(run(*packed, x, cuts), run(now, x, cuts));
  }
}

// The record is of the machine that is asked about: another instruction set, other kernels, and no code is run for it.
TEST_F(PlanPackage, AnotherMachine) {
  passes::Compilation c;
  c.graph = decoder_layer({.max_tokens = 4, .capacity = 16});
  ASSERT_TRUE(passes::run_passes(c).ok());
  Machine other = here_;
  other.features = isa_info(Isa::kAvx2).required;
  const Result<Record> record =
      record_plan({.machine = other, .isa = Isa::kAvx2, .threads = 4}, {}, c, {.expected_tokens = {1}});
  if (!record.ok() && record.status().code() == Code::kUnsupported) GTEST_SKIP() << record.status().message();
  ASSERT_TRUE(record.ok()) << record.status().message();
  EXPECT_FALSE(record->kernels.empty());
  for (const RecordedOp& op : record->ops) EXPECT_EQ(op::isa(op.program), Isa::kAvx2) << op::to_string(op.program);
  std::set<std::string> problems;
  for (const RecordedOp& op : record->ops) EXPECT_TRUE(problems.insert(op::to_string(op.problem)).second);
}

TEST_F(PlanPackage, APackageOfOpsHasNoGraph) {
  const std::string path = (folder_ / "ops.hone").string();
  const Status written = write(decoder_layer({.max_tokens = 2, .capacity = 8}), {}, path);
  if (!written.ok()) GTEST_SKIP() << written.message();
  std::vector<jit::AotOp> ops;
  const RecordedOp& op = record_.ops.front();
  ops.push_back({op::to_string(op.problem),
                 {{.target = {.isa = op::isa(op.program), .mcpu = "", .tune = ""},
                   .program = op::to_string(op.program),
                   .numerics = op.facts.numerics,
                   .threads = 0,
                   .kernels = op.kernels}}});
  ASSERT_TRUE(jit::write_package(ops, path, jit::Replace::kPackage).ok());
  const Engine engine = Engine::create({.use_database = false}).value();
  EXPECT_THAT(load_plan(engine, path).status().message(), HasSubstr("it has ops and no graph"));
}

}  // namespace
}  // namespace hone::executable
