// hone compile and hone exec with graphs, as a user runs them: reports, passes, files of graphs, and calls that follow
// each other.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/engine/executable/decoder_graphs.h"
#include "tests/tools/needs_code.h"
#include "tests/tools/refused.h"
#include "tools/hone/graph_file.h"
#include "tools/hone/npy.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HoneGraph : public NeedsCode {
 protected:
  void SetUp() override {
    NeedsCode::SetUp();
    if (IsSkipped()) return;
    layer_ = file("layer.graph");
    ASSERT_TRUE(cli::write_graph(layer_, executable::decoder_layer({})).ok());
  }

  Json json(std::vector<std::string> args) const {
    args.push_back("--json");
    const Outcome o = hone(args);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? Json::parse(o.out) : Json();
  }
  void refused(const std::vector<std::string>& args, int code, const std::string& what) const {
    SCOPED_TRACE(testing::PrintToString(args));
    expect_refused(hone(args), code, what);
  }
  std::string bytes_of(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  // Of decoder_layer: 19 tokens of 64 floats.
  std::string rows(const std::string& name, const std::vector<int64_t>& shape) const {
    cli::NpyArray array = cli::make_array(DType::kF32, shape).value();
    const std::vector<float> values = executable::random_floats(static_cast<size_t>(array.elements()), 3, 1);
    std::copy(values.begin(), values.end(), array.as<float>().begin());
    EXPECT_TRUE(cli::write_npy(file(name), array).ok());
    return file(name);
  }

  std::string layer_;
};

TEST_F(HoneGraph, CompileReports) {
  const Json r = json({"compile", layer_, "--tokens", "1,7"});
  EXPECT_EQ(r["format"], "graph");
  EXPECT_EQ(r["tokens"], Json({1, 7}));
  std::set<std::string> kinds;
  for (const Json& d : r["dispatches"]) {
    kinds.insert(d["kind"].get<std::string>());
    EXPECT_FALSE(d["name"].get<std::string>().empty());
    EXPECT_FALSE(d["kernel"].get<std::string>().empty()) << d.dump();
    EXPECT_FALSE(d["reason"].get<std::string>().empty()) << d.dump();
  }
  EXPECT_THAT(kinds, testing::IsSupersetOf({"matmul", "attention", "append", "rows"}));
  EXPECT_GT(r["memory"]["arena_bytes"], 0);
  EXPECT_LT(r["memory"]["arena_bytes"], r["memory"]["without_reuse_bytes"]);
  EXPECT_GT(r["memory"]["packed_bytes"], 0);
  EXPECT_THAT(r["guards"].dump(), HasSubstr("40"));
  EXPECT_GE(r["passes"].size(), 7u);
  EXPECT_EQ(r["package"], nullptr);
  const Outcome text = hone({"compile", layer_});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("| attention "), HasSubstr("guard: "), HasSubstr("without reuse"),
                              HasSubstr("form_dispatches")));
}

TEST_F(HoneGraph, PoliciesChangeThePlan) {
  const Json fused = json({"compile", layer_}),
             apart = json({"compile", layer_, "--policy", "qkv=separate reuse=apart"});
  EXPECT_EQ(apart["policy"], "qkv=separate reuse=apart");
  EXPECT_GT(apart["dispatches"].size(), fused["dispatches"].size());
  EXPECT_GT(apart["memory"]["arena_bytes"], fused["memory"]["arena_bytes"]);
  refused({"compile", layer_, "--policy", "qkv=mixed"}, 2, "--policy: ");
}

TEST_F(HoneGraph, PassesArePrinted) {
  const Outcome one = hone({"compile", layer_, "--print-after", "shape_inference"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out,
              AllOf(StartsWith("// after shape_inference"), HasSubstr("guards"), Not(HasSubstr("dispatches"))));
  const Outcome all = hone({"compile", layer_, "--print-after", "all"});
  EXPECT_THAT(all.out, AllOf(HasSubstr("// after decoder_fusion"), HasSubstr("// after plan_memory"),
                             HasSubstr("// plan_memory: "), HasSubstr(" us, ")));
  refused({"compile", layer_, "--print-after", "magic"}, 2, "'magic' is no pass; there are all, shape_inference, ");
}

TEST_F(HoneGraph, GraphsAreWrittenAndReadAgain) {
  ASSERT_EQ(hone({"compile", layer_, "--print-after", "shape_inference", "--dump-graph", file("again.graph")}).code, 0);
  EXPECT_EQ(bytes_of("again.graph"), bytes_of("layer.graph"));
  size_t constants = 0;
  for (const fs::directory_entry& e : fs::directory_iterator(layer_ + ".constants")) {
    ++constants;
    const std::string name = e.path().filename().string();
    EXPECT_EQ(bytes_of("again.graph.constants/" + name), bytes_of("layer.graph.constants/" + name));
  }
  EXPECT_GT(constants, 4u);
}

TEST_F(HoneGraph, StableHloIsRecognised) {
  const std::string mlp = HONE_EXAMPLES "/mlp.mlir";
  EXPECT_EQ(json({"compile", mlp})["format"], "stablehlo");
  const Json run = json({"exec", mlp, "--random", "1", "--check", "--output", file("y.npy")});
  EXPECT_LT(run["largest_difference"], 1e-4);
  // As graph text it is the same graph.
  ASSERT_EQ(hone({"compile", mlp, "--print-after", "shape_inference", "--dump-graph", file("mlp.graph")}).code, 0);
  json({"exec", file("mlp.graph"), "--random", "1", "--output", file("again.npy")});
  EXPECT_EQ(bytes_of("y.npy"), bytes_of("again.npy"));
}

TEST_F(HoneGraph, TheGraphThatIsGivenRuns) {
  json({"exec", layer_, "--random", "1", "--calls", "5", "--output", file("y.npy")});
  const fs::path weights = fs::directory_iterator(layer_ + ".constants")->path();
  cli::NpyArray array = cli::read_npy(weights.string()).value();
  array.as<float>()[0] += 1;
  ASSERT_TRUE(cli::write_npy(weights.string(), array).ok());
  json({"exec", layer_, "--random", "1", "--calls", "5", "--output", file("changed.npy")});
  EXPECT_NE(bytes_of("y.npy"), bytes_of("changed.npy")) << weights;
}

// However the tokens are cut into calls, and given: the same bits, which are those of the reference.
TEST_F(HoneGraph, CallsFollowEachOther) {
  const Json whole = json({"exec", layer_, "--random", "3", "--calls", "19", "--output", file("whole.npy"), "--check"});
  EXPECT_EQ(whole["bits_equal"], true);
  const Json cuts = json(
      {"exec", layer_, "--random", "3", "--calls", "7,1,8,1,2", "--output", file("cuts.npy"), "--check", "-r", "2"});
  EXPECT_EQ(cuts["bits_equal"], true);
  ASSERT_EQ(cuts["calls"].size(), 5u);
  EXPECT_EQ(cuts["calls"][4]["position"], 17);
  EXPECT_GT(cuts["calls"][4]["ns"], 0);
  EXPECT_EQ(bytes_of("whole.npy"), bytes_of("cuts.npy"));
  // The same from files: one array that is cut, and an array for each call.
  const std::string all = rows("x.npy", {19, 64});
  json({"exec", layer_, "--input", all, "--calls", "16,3", "--output", file("a.npy")});
  cli::NpyArray x = cli::read_npy(all).value();
  std::vector<std::string> args = {"exec", layer_, "--output", file("b.npy")};
  for (const auto& [name, begin, count] : {std::tuple{"x0.npy", 0, 16}, std::tuple{"x1.npy", 16, 3}}) {
    cli::NpyArray part = cli::make_array(DType::kF32, {count, 64}).value();
    std::copy_n(x.as<float>().begin() + begin * 64, count * 64, part.as<float>().begin());
    ASSERT_TRUE(cli::write_npy(file(name), part).ok());
    args.insert(args.end(), {"--input", "x=" + file(name)});
  }
  json(args);
  EXPECT_EQ(bytes_of("a.npy"), bytes_of("b.npy"));
}

// A graph whose calls have one token each, by its text.
TEST_F(HoneGraph, CallsOfFixedLength) {
  write("one.graph",
        "graph @one {\n  position p in 0..8 step 1\n  input %q : f32[1, 1, 4]\n  state %k : f32[8, 1, 4]\n"
        "  state %v : f32[8, 1, 4]\n  %ks = kv_append(%k, %q) : f32[p + 1, 1, 4]\n"
        "  %vs = kv_append(%v, %q) : f32[p + 1, 1, 4]\n"
        "  %y = attention(%q, %ks, %vs) {causal = true} : f32[1, 1, 4]\n  output %y\n}\n");
  const Json run = json({"exec", file("one.graph"), "--random", "1", "--calls", "1,1,1", "--check"});
  EXPECT_EQ(run["bits_equal"], true);
  ASSERT_EQ(run["calls"].size(), 3u);
  EXPECT_EQ(run["calls"][2]["position"], 2);
  refused({"exec", file("one.graph"), "--random", "1", "--calls", "1,2"}, 2, "each call of this graph has 1 token(s)");
}

// Its text hands the caches and the position from call to call; the plan keeps them, and callers give tokens alone.
TEST_F(HoneGraph, ALayerOfStableHloKeepsItsCaches) {
  const std::string layer = HONE_MODULES "/decoder_layer.mlir";
  const Json run = json({"exec", layer, "--random", "1", "--calls", "2,2,2,2", "--check"});
  EXPECT_EQ(run["bits_equal"], true);
  ASSERT_EQ(run["calls"].size(), 4u);
  EXPECT_EQ(run["calls"][3]["position"], 6);
}

TEST_F(HoneGraph, ExecSaysWhatItWants) {
  const Json wants = json({"exec", layer_});
  EXPECT_EQ(wants["inputs"][0]["name"], "x");
  EXPECT_EQ(wants["inputs"][0]["shape"], Json({"s", 64}));
  EXPECT_THAT(hone({"exec", layer_}).out, HasSubstr("f32[s, 64]"));
}

TEST_F(HoneGraph, Refusals) {
  refused({"compile", file("none.graph")}, 2, "there is no file");
  write("bad.graph", "graph @x { nonsense }");
  refused({"compile", file("bad.graph")}, 2, "bad.graph: line 1");
  write("bad.mlir", "hello");
  refused({"compile", file("bad.mlir")}, 2, "is neither graph text");
  refused({"compile", layer_, "matmul:f32:m=1,n=4,k=4"}, 2, "is compiled by itself");
  refused({"compile", "matmul:f32:m=1,n=4,k=4", "--policy", "default", "-o", file("k.hone")}, 2, "are for graphs");
  refused({"compile", layer_, "--numerics", "any"}, 2, "--numerics are for problems");
  refused({"compile", HONE_EXAMPLES "/mlp.mlir", "--dimension", "x"}, 2, "--dimension 'x': write");
  refused({"exec", layer_, "--random", "1", "--calls", "41"}, 2, "41");
  refused({"exec", layer_, "--random", "1", "--calls", "40,25"}, 2, "call 1");
  refused({"exec", layer_, "--check"}, 2, "input 'x' is missing");
  refused({"exec", layer_, "--input", "y=" + rows("x.npy", {19, 64})}, 2, "there is no 'y'; inputs are x");
  refused({"exec", layer_, "--input", rows("w.npy", {19, 63})}, 2, "input x, dimension 1 is 63 and must be 64");
  refused({"exec", layer_, "--input", file("x.npy"), "--calls", "16,4"}, 2, "is 19, and --calls adds up to 20");
  refused({"exec", layer_, "--random", "1", "--output", "z=" + file("z.npy")}, 2, "outputs are ");
  refused({"exec", layer_, "--random", "1", "--size", "t=3"}, 2, "no size called 't'");
  refused({"exec", HONE_EXAMPLES "/mlp.mlir", "--random", "1", "--calls", "2,2"}, 2, "keeps nothing from call to call");
  cli::NpyArray wrong = cli::make_array(DType::kS32, {19, 64}).value();
  ASSERT_TRUE(cli::write_npy(file("i.npy"), wrong).ok());
  refused({"exec", layer_, "--input", file("i.npy")}, 2, "input x must be f32, got s32");
  fs::remove_all(layer_ + ".constants");
  refused({"compile", layer_}, 2, ".constants/");
}

}  // namespace
}  // namespace hone::cli_test
