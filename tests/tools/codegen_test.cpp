// `hone codegen` as scripts and people rely on it. Problems are tiny and seconds few: what is measured is not of
// interest here, but that it was measured, what is said of it, and that nothing typed makes it crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

using Json = nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char kProblem[] = "matmul:f32:m=4,n=32,k=16";

class HoneCodegen : public NeedsCode {
 protected:
  void SetUp() override {
    NeedsCode::SetUp();
    const Outcome info = hone({"info", "--json"});
    const Json parsed = Json::parse(info.out);
    for (const Json& codegen : parsed["codegens"]) {
      const std::string name = codegen["name"];
      if (name != "interp") generators_.insert(name);
    }
  }

  bool has(const std::string& generator) const { return generators_.contains(generator); }

  // Short, as JSON; `more` may hold the problem.
  std::vector<std::string> quick(std::vector<std::string> more) const {
    more.insert(more.begin(), "codegen");
    more.insert(more.end(), {"--json", "--seconds", "0.02", "-r", "5"});
    return more;
  }

  Json study(const std::vector<std::string>& args, Setting setting = {}, int code = 0) const {
    const Outcome o = hone(quick(args), setting);
    EXPECT_EQ(o.code, code) << o.err;
    const Json all = Json::parse(o.out, nullptr, false);
    if (all.is_discarded() || all["codegen"].empty()) {
      ADD_FAILURE() << o.out << o.err;
      return Json::object();
    }
    return all["codegen"][0];
  }

  void refused(const std::vector<std::string>& args, int code, const std::string& what) const {
    SCOPED_TRACE(testing::PrintToString(args));
    std::vector<std::string> all = args;
    all.insert(all.begin(), "codegen");
    const Outcome o = hone(all);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_THAT(o.out, IsEmpty());
    EXPECT_THAT(o.err, HasSubstr("hone: error: "));
    EXPECT_THAT(o.err, HasSubstr(what));
    EXPECT_THAT(o.err, HasSubstr("hone: repeat: "));
  }

  std::string list(const std::string& text) const {
    std::ofstream(file("list.txt")) << text;
    return file("list.txt");
  }

  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::set<std::string> generators_;
};

void expect_keys(const Json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in " << object.dump();
}

TEST_F(HoneCodegen, HasTheKeysOfTheContract) {
  const Json s = study({kProblem});
  expect_keys(s, {"problem", "program", "reason", "isa", "numerics", "threads", "cache", "generators",
                  "ratio_llvm_to_native", "ratio_ci95", "bits_equal"});
  EXPECT_EQ(s["problem"], kProblem);
  ASSERT_EQ(s["generators"].size(), generators_.size());
  for (const Json& g : s["generators"]) {
    expect_keys(g, {"codegen", "version", "compile_ns", "code_bytes", "instructions", "spills", "reloads",
                    "loads_per_fma", "inner_loop", "mca", "mca_others", "kernels", "ns", "gflops", "counters"});
    EXPECT_GT(g["compile_ns"], 0);
    EXPECT_GT(g["ns"], 0);
    EXPECT_GT(g["gflops"], 0);
    EXPECT_EQ(g["rounds_ns"].size(), 5u);
    for (const auto& [name, value] : g["counters"].items()) EXPECT_TRUE(value.is_null() || value > 0) << name;
    if (!has("llvm")) continue;  // which disassembles
    EXPECT_TRUE(g["no_code"].is_null()) << g["no_code"];
    EXPECT_GT(g["code_bytes"], 0);
    for (const char* name : {"total", "vector", "fma", "load", "store", "branch", "address", "stack"})
      EXPECT_TRUE(g["instructions"][name].is_number_integer()) << name;
    EXPECT_GT(g["instructions"]["total"], g["inner_loop"]["instructions"]["total"]);
    EXPECT_GT(g["inner_loop"]["instructions"]["fma"], 0);
    EXPECT_EQ(g["inner_loop"]["listing"].size(), g["inner_loop"]["instructions"]["total"]);
    expect_keys(g["mca"], {"cpu", "block_rthroughput", "cycles", "ipc", "bottleneck"});
  }
  EXPECT_EQ(s["bits_equal"], generators_.size() > 1 ? Json(true) : Json(nullptr));
  if (has("llvm") && has("asmjit")) {
    EXPECT_LE(s["ratio_ci95"][0], s["ratio_llvm_to_native"]);
    EXPECT_GE(s["ratio_ci95"][1], s["ratio_llvm_to_native"]);
  } else {
    EXPECT_TRUE(s["ratio_llvm_to_native"].is_null());
    EXPECT_THAT(s["no_ratio"], HasSubstr("is not among the code generators"));
  }
}

TEST_F(HoneCodegen, OneGeneratorAloneHasNoRatio) {
  const Json s = study({kProblem, "--codegen", *generators_.begin()});
  ASSERT_EQ(s["generators"].size(), 1u);
  EXPECT_TRUE(s["ratio_llvm_to_native"].is_null());
  EXPECT_TRUE(s["bits_equal"].is_null());
  EXPECT_EQ(s["bits_why"], "only one code generator was run");
  EXPECT_GT(s["generators"][0]["ns"], 0);
}

TEST_F(HoneCodegen, WrongBitsAreSaidAndNotTimed) {
  const Json s = study({kProblem, "--codegen", *generators_.begin() + ",fault-wrong"}, {}, 1);
  EXPECT_EQ(s["bits_equal"], false);
  EXPECT_THAT(s["bits_why"], HasSubstr("fault-wrong: C["));
  EXPECT_TRUE(s["generators"][1]["ns"].is_null());
  EXPECT_GT(s["generators"][0]["ns"], 0);
}

TEST_F(HoneCodegen, TheInterpreterHasTimesAndNoCode) {
  const Json s = study({kProblem, "--codegen", *generators_.begin() + ",interp"});
  EXPECT_EQ(s["bits_equal"], true) << "the oracle";
  EXPECT_GT(s["generators"][1]["ns"], 0);
  EXPECT_TRUE(s["generators"][1]["code_bytes"].is_null());
  EXPECT_THAT(s["generators"][1]["no_code"], HasSubstr("there is no machine code"));
}

TEST_F(HoneCodegen, PipelinesAreComparedToo) {
  if (!has("llvm")) return refused({kProblem, "--llvm-opt", "O2"}, 2, "'llvm-O2' is not in this build");
  const Json s = study({kProblem, "--llvm-opt", "O0,O3", "--codegen", "llvm"});
  ASSERT_EQ(s["generators"].size(), 3u);
  std::set<int> sizes;
  for (const Json& g : s["generators"]) sizes.insert(g["code_bytes"].get<int>());
  EXPECT_GE(sizes.size(), 2u);
  EXPECT_EQ(s["generators"][1]["codegen"], "llvm-O0");
  EXPECT_THAT(s["generators"][1]["version"], HasSubstr("default<O0>"));
  EXPECT_EQ(s["bits_equal"], true);
}

// Another program is other code: the text is what is compiled.
TEST_F(HoneCodegen, TheProgramIsWhatIsCompiled) {
  const std::string program = study({kProblem})["program"];
  const size_t at = program.find("unroll_k(");
  ASSERT_NE(at, std::string::npos) << program;
  std::set<std::string> codes;
  for (const char* unroll : {"unroll_k(1)", "unroll_k(4)"}) {
    std::string text = program;
    text.replace(at, text.find(')', at) + 1 - at, unroll);
    const Json s = study({kProblem, "--program", text});
    EXPECT_EQ(s["reason"], "given");
    EXPECT_EQ(s["program"], text);
    codes.insert(s["generators"][0]["inner_loop"].dump() + s["generators"][0]["code_bytes"].dump());
  }
  EXPECT_EQ(codes.size(), has("llvm") ? 2u : 1u);
}

// Code for an instruction set that the CPU lacks can be looked at; it is not run.
TEST_F(HoneCodegen, AnotherMachinesCodeHasNoTimes) {
  const Json s = study({kProblem, "--isa", "avx512"}, {.env = {{"HONE_CPU", "vm_small_avx2"}}});
  EXPECT_EQ(s["isa"], "avx512");
  for (const Json& g : s["generators"]) {
    EXPECT_TRUE(has("llvm") ? g["code_bytes"] > 0 : g["code_bytes"].is_null());
    EXPECT_TRUE(g["ns"].is_null());
    EXPECT_TRUE(g["gflops"].is_null());
    EXPECT_THAT(g["no_time"], HasSubstr("this CPU does not run avx512: it lacks avx512f"));
  }
  EXPECT_TRUE(s["ratio_llvm_to_native"].is_null());
  EXPECT_THAT(s["no_ratio"], AnyOf(HasSubstr("this CPU does not run avx512"), HasSubstr("is not among")));
}

TEST_F(HoneCodegen, OtherCpusModelsAreAsked) {
  if (!has("llvm")) GTEST_SKIP() << "models come with LLVM";
  const Json s = study({kProblem, "--mcpu", "skylake", "--mcpu", "znver3", "--isa", "avx2", "--codegen", "llvm"});
  const Json& g = s["generators"][0];
  ASSERT_EQ(g["mca_others"].size(), 2u);
  EXPECT_EQ(g["mca_others"][0]["cpu"], "skylake");
  EXPECT_EQ(g["mca_others"][1]["cpu"], "znver3");
  for (const Json& m : g["mca_others"]) EXPECT_GT(m["cycles"], 0) << m;
}

TEST_F(HoneCodegen, KernelsOfOneOpAreLookedAtApart) {
  const Json s = study({"attention:f32:b=1,hq=2,hkv=1,q=1,kv=256,d=16", "--numerics", "split(64,2)"});
  const Json& g = s["generators"][0];
  EXPECT_GT(g["ns"], 0) << "one time for all of them";
  if (!has("llvm")) return;
  ASSERT_GT(g["kernels"].size(), 1u);
  int total = 0, bytes = 0;
  std::set<std::string> names;
  for (const Json& k : g["kernels"]) {
    total += k["instructions"]["total"].get<int>();
    bytes += k["code_bytes"].get<int>();
    names.insert(k["name"].get<std::string>());
    EXPECT_FALSE(k["inner_loops"].empty());
  }
  EXPECT_EQ(g["instructions"]["total"], total);
  EXPECT_EQ(g["code_bytes"], bytes);
  EXPECT_EQ(names.size(), g["kernels"].size());
}

TEST_F(HoneCodegen, NothingToComputeIsNotTimed) {
  const Json s = study({"matmul:f32:m=0,n=32,k=16"});
  for (const Json& g : s["generators"]) EXPECT_THAT(g["no_time"], HasSubstr("there is nothing to time"));
  EXPECT_TRUE(s["bits_equal"].is_null());
}

TEST_F(HoneCodegen, PeopleSeeTheInnerLoopsSideBySide) {
  const Outcome o = hone({"codegen", kProblem, "--seconds", "0.02", "-r", "5"});
  if (!has("llvm")) return;
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, StartsWith(kProblem));
  EXPECT_THAT(o.out, HasSubstr("inner loop of llvm"));
  EXPECT_EQ(o.out.find("  =  ") != std::string::npos, generators_.size() > 1);
  EXPECT_THAT(o.out, HasSubstr(has("asmjit") ? "bits equal" : "no ratio llvm / asmjit: asmjit is not among"));
  EXPECT_THAT(o.out, HasSubstr("vfmadd231ps"));
}

TEST_F(HoneCodegen, CsvHasARowForEachGenerator) {
  const Outcome o = hone({"codegen", kProblem, "-o", "csv", "--seconds", "0.02", "-r", "5"});
  ASSERT_EQ(o.code, 0) << o.err;
  size_t lines = 0;
  for (const char c : o.out) lines += c == '\n';
  EXPECT_EQ(lines, 1 + generators_.size());
  EXPECT_THAT(o.out,
              StartsWith("problem,program,reason,isa,threads,cache,codegen,version,compile_ns,code_bytes,total,"));
}

TEST_F(HoneCodegen, AListHasADistribution) {
  const std::string path = list("matmul:f32:m={1,4},n=32,k=16\nattention:f32:b=1,hq=1,hkv=1,q=4,kv=20,d=8\n");
  const Outcome o = hone(quick({"--shapes", path}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json all = Json::parse(o.out);
  EXPECT_EQ(all["codegen"].size(), 3u);
  ASSERT_EQ(all["codegen_summary"].size(), generators_.size());
  for (const Json& row : all["codegen_summary"]) {
    expect_keys(row, {"codegen", "problems", "ratios", "geomean", "min", "median", "p90", "max", "worst_problem",
                      "above_1_05", "inner_loops_spill", "bits_differ"});
    EXPECT_EQ(row["problems"], 3);
    EXPECT_EQ(row["bits_differ"], 0);
    if (row["codegen"] != "llvm" || !has("asmjit")) continue;
    EXPECT_EQ(row["ratios"], 3);
    EXPECT_LE(row["min"], row["median"]);
    EXPECT_LE(row["median"], row["p90"]);
    EXPECT_LE(row["p90"], row["max"]);
    EXPECT_LE(row["geomean"], row["max"]);
    EXPECT_GE(row["geomean"], row["min"]);
  }
  const Outcome rows = hone({"codegen", "--shapes", path, "-o", "jsonl", "--seconds", "0.02", "-r", "3"});
  EXPECT_EQ(std::count(rows.out.begin(), rows.out.end(), '\n'), 3);
  EXPECT_THAT(rows.err, HasSubstr("geomean"));
  const Outcome md = hone({"codegen", "--shapes", path, "--seconds", "0.02", "-r", "3"});
  EXPECT_EQ(md.code, 0) << md.err;
  EXPECT_THAT(md.out, HasSubstr("geomean"));
  EXPECT_THAT(md.out, Not(HasSubstr("inner loop of")));
}

// Rows of a list go to the database, are read by SQL, and travel with an export; a problem that is typed only looks.
TEST_F(HoneCodegen, RowsOfAListAreStored) {
  ASSERT_EQ(hone(quick({kProblem})).code, 0);
  EXPECT_FALSE(std::filesystem::exists(file("plans.db")));
  const std::string path = list("matmul:f32:m={1,4},n=32,k=16\n");
  ASSERT_EQ(hone(quick({"--shapes", path})).code, 0);
  const Outcome q =
      hone({"db", "query", "-o", "json",
            "SELECT problem, codegen, ns, fma, loop_fma, bits, ratio FROM code_quality ORDER BY problem"});
  ASSERT_EQ(q.code, 0) << q.err;
  const Json rows = Json::parse(q.out)["query"];
  ASSERT_EQ(rows.size(), 2 * generators_.size()) << q.out;
  for (const Json& row : rows) {
    EXPECT_THAT(row["problem"], StartsWith("matmul:f32:m="));
    EXPECT_GT(row["ns"], 0);
    EXPECT_EQ(row["bits"], generators_.size() > 1 ? "equal" : "alone");
    EXPECT_TRUE(has("llvm") ? row["loop_fma"] > 0 : row["loop_fma"].is_null()) << row;
  }
  ASSERT_EQ(hone({"db", "export", file("all.jsonl")}).code, 0);
  const Setting other{.env = {{"HONE_DB", file("other.db")}}};
  ASSERT_EQ(hone({"db", "import", file("all.jsonl")}, other).code, 0);
  EXPECT_EQ(hone({"db", "query", "SELECT * FROM code_quality"}, other).out,
            hone({"db", "query", "SELECT * FROM code_quality"}).out);
  EXPECT_EQ(hone({"db", "verify"}, other).code, 0);
}

TEST_F(HoneCodegen, AStoreThatTakesNoRowsFailsAfterTheResults) {
  const std::string path = list("matmul:f32:m={1,4},n=32,k=16\n");
  ASSERT_EQ(hone(quick({"--shapes", path})).code, 0);
  ASSERT_EQ(::truncate(file("plans.db").c_str(), 0), 0);
  ASSERT_EQ(hone(quick({"--shapes", path})).code, 0) << "an empty file is a new database";
  const Outcome full = hone(quick({"--shapes", path}), {.file_limit = 4096});
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_EQ(Json::parse(full.out)["codegen"].size(), 2u);
  EXPECT_THAT(full.err, HasSubstr("rows are not stored: "));
}

// What a browser would trip over: elements that are not closed in order, attributes without quotes, bare < or &.
std::string markup_fault(const std::string& html) {
  std::vector<std::string> open;
  size_t at = html.starts_with("<!DOCTYPE html>") ? 15 : 0;
  if (at == 0) return "no document type";
  while (at < html.size()) {
    const size_t next = html.find_first_of("<&>", at);
    if (next == std::string::npos) break;
    const std::string where = html.substr(next, 60);
    if (html[next] == '>') return "a bare > at " + where;
    if (html[next] == '&') {
      const size_t end = html.find(';', next);
      if (end == std::string::npos || end - next > 6) return "a bare & at " + where;
      at = end + 1;
      continue;
    }
    const size_t end = html.find('>', next);
    if (end == std::string::npos) return "an unclosed tag at " + where;
    std::string tag = html.substr(next + 1, end - next - 1);
    at = end + 1;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != std::string::npos) return where;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return where + " closes <" + (open.empty() ? "" : open.back());
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
      if (open.back() == "style") at = html.find("</style>", at);
      if (open.back() == "script") return "a script";
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

TEST_F(HoneCodegen, ThePageIsWellFormedAndStandsAlone) {
  const std::string page = file("page.html"), evil = file("<script>&\"'.db");
  const Outcome o = hone(quick({kProblem, "attention:f32:b=1,hq=1,hkv=1,q=4,kv=20,d=8", "--html", page, "--db", evil}));
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string html = read(page);
  EXPECT_EQ(markup_fault(html), "");
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  for (const char* outside : {"http:", "https:", "src=", "url(", "@import"}) EXPECT_THAT(html, Not(HasSubstr(outside)));
  EXPECT_THAT(html, HasSubstr(kProblem));
  EXPECT_THAT(html, HasSubstr("<svg "));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_EQ(html.find("<td class=\"fma\">vfmadd231ps ") != std::string::npos, has("llvm"));
}

TEST_F(HoneCodegen, ThePageIsWrittenWholeOrNotAtAll) {
  refused({kProblem, "--html", file("no/such/folder/p.html")}, 2, "cannot write");
  refused({kProblem, "--html", file("")}, 2, "is a folder");
  refused({kProblem, "--html", ""}, 2, "must not be empty");
  const std::string path = list("matmul:f32:m={1,4},n=32,k=16\n");
  ASSERT_EQ(hone(quick({"--shapes", path})).code, 0);
  refused({kProblem, "--html", file("plans.db")}, 2, "is a database, not to be replaced");
  std::ofstream(file("page.html")) << "as it was";
  const Outcome full = hone(quick({kProblem, "--html", file("page.html")}), {.file_limit = 600});
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_THAT(full.err, HasSubstr("cannot write"));
  EXPECT_EQ(read(file("page.html")), "as it was");
  EXPECT_EQ(Json::parse(full.out)["codegen"].size(), 1u) << "results are printed all the same";
}

TEST_F(HoneCodegen, OneThatFailsDoesNotCostTheOthersTheirTurn) {
  const Outcome o = hone(quick({"matmul:f32:m=1,n=2000000,k=2000000", kProblem}));
  EXPECT_EQ(o.code, 1);
  const Json all = Json::parse(o.out);
  ASSERT_EQ(all["codegen"].size(), 2u);
  EXPECT_EQ(all["codegen"][0]["problem"], kProblem);
  EXPECT_GT(all["codegen"][0]["generators"][0]["ns"], 0);
  EXPECT_TRUE(all["codegen"][1]["why_not"].is_string());
  EXPECT_THAT(o.err, HasSubstr("hone: error: matmul:f32:m=1,n=2000000,k=2000000: "));
}

TEST_F(HoneCodegen, InterruptKeepsWhatWasMeasured) {
  const std::string path = list("matmul:f32:m={1,2,3,4,5,6,7,8},n=64,k=64\n");
  const Outcome o = hone({"codegen", "--shapes", path, "--json", "--seconds", "100", "-r", "200"},
                         {.signal = SIGINT, .signal_at = "hone: 1/8 "});
  EXPECT_EQ(o.code, 130) << o.err;
  const Json all = Json::parse(o.out);
  ASSERT_FALSE(all["codegen"].empty());
  EXPECT_LT(all["codegen"].size(), 8u);
  EXPECT_GT(all["codegen"][0]["generators"][0]["ns"], 0);
}

TEST_F(HoneCodegen, HostileFlagsAreRefusedWithOneLine) {
  refused({kProblem, "--codegen", "gcc"}, 2, "'gcc' is not in this build");
  refused({kProblem, "--codegen", ""}, 2, "must not be empty");
  for (const char* levels : {"O4", "O", "3", "O1,", "O1,,O2", "-O1", "o1", "Ofast"})
    refused({kProblem, std::string("--llvm-opt=") + levels}, 2, "--llvm-opt takes O0,O1,O2,O3");
  refused({kProblem, "--isa", "sse9"}, 2, "--isa takes one of avx2, avx512");
  refused({kProblem, "--program", "vectorize(avx2"}, 2, "--program for matmul");
  refused({kProblem, "--program", ""}, 2, "must not be empty");
  refused({kProblem, "--threads", "0"}, 2, "--threads");
  refused({kProblem, "--threads", "-1"}, 2, "--threads");
  refused({kProblem, "-r", "0"}, 2, "--repetitions");
  for (const char* seconds : {"0", "-1", "nan", "inf", "1e99", "x"})
    refused({kProblem, "--seconds", seconds}, 2, "must be a positive number");
  refused({kProblem, "--cache", "tepid"}, 2, "--cache");
  refused({kProblem, "-o", "gbench"}, 2, "unknown output format 'gbench'");
  refused({kProblem, "--numerics", "chaotic"}, 2, "--numerics chaotic");
  refused({"matmul:f32:m=4", "--json"}, 2, "matmul");
  refused({"--shapes", file("nowhere.txt")}, 2, "does not exist");
  refused({"--shapes", list("# nothing\n")}, 2, "no problems in it");
  if (has("llvm")) refused({kProblem, "--mcpu", "pentium9"}, 2, "--mcpu pentium9: ");
  if (has("llvm")) refused({kProblem, "--mcpu", "$(reboot)\n\x1b[31m"}, 2, "--mcpu ");
}

TEST_F(HoneCodegen, AProgramThatIsNotLegalFailsItsProblem) {
  const std::string program = study({kProblem})["program"];
  const Outcome o = hone(quick({"matmul:f32:m=4,n=32,k=16,b=packed", "--program", program + " parallel(mn)"}));
  EXPECT_THAT(o.code, AnyOf(1, 2)) << o.err;
  EXPECT_THAT(o.err, HasSubstr("hone: error: "));
}

}  // namespace
}  // namespace hone::cli_test
