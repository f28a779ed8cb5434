// The command line as scripts and people rely on it: what goes to stdout, what JSON holds, how it ends, and that no
// input makes it crash. Problems are tiny and budgets short: what is measured is not of interest here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

constexpr char kProblem[] = "matmul:f32:m=4,n=32,k=16";

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

class HoneCli : public NeedsCode {
 protected:
  // Fails with `code`: nothing on stdout, one line that has `what`, one line that repeats it.
  void refused(const std::vector<std::string>& args, int code, const std::string& what, Setting setting = {}) const {
    SCOPED_TRACE(testing::PrintToString(args));
    const Outcome o = hone(args, setting);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_THAT(o.out, IsEmpty());
    const std::vector<std::string> lines = lines_of(o.err);
    ASSERT_GE(lines.size(), 2u) << o.err;
    EXPECT_THAT(lines[lines.size() - 2], testing::AllOf(StartsWith("hone: error: "), HasSubstr(what)));
    EXPECT_THAT(lines.back(), testing::AllOf(StartsWith("hone: repeat: "), HasSubstr("/hone")));
  }
};

TEST_F(HoneCli, InfoHasTheKeysOfTheContract) {
  const Outcome o = hone({"info", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json info = Json::parse(o.out);
  EXPECT_THAT(keys_of(info), IsSupersetOf({"machine", "schedule", "peak", "codegens", "version", "db"}));
  EXPECT_THAT(keys_of(info["schedule"]),
              IsSupersetOf({"requested", "effective", "source", "measured_at", "min_work", "fork_join"}));
  EXPECT_THAT(keys_of(info["machine"]),
              IsSupersetOf({"key", "vendor", "family", "model", "stepping", "isa", "isa_masked", "l1d", "l2", "l3",
                            "cpus_usable", "cpus_source", "threads_per_core", "numa_nodes", "hypervisor"}));
  EXPECT_THAT(keys_of(info["db"]), IsSupersetOf({"path", "state", "schema"}));
  EXPECT_THAT(keys_of(info["counters"]), IsSupersetOf({"cycles", "instructions"}));
  for (const Json& answer : info["counters"]) EXPECT_NE(answer, "") << "ok, or why there is none";
  EXPECT_FALSE(fs::exists(file("plans.db"))) << "looking must not create";
}

TEST_F(HoneCli, TunedPlanIsStoredExplainedListedAndVerified) {
  const Outcome tune = hone({"tune", kProblem, "matmul:f32:m=1-2+1,n=32,k=16", "--budget", "0.6s", "--json"});
  ASSERT_EQ(tune.code, 0) << tune.err;
  const std::vector<std::string> objects = lines_of(tune.out);
  ASSERT_EQ(objects.size(), 3u);
  const Json first = Json::parse(objects[0]);
  EXPECT_THAT(keys_of(first),
              IsSupersetOf({"problem", "decision", "winner", "default", "speedup", "speedup_ci95", "noise_bound",
                            "enumerated", "measured", "rejected_wrong", "crashed", "rounds", "seconds"}));
  EXPECT_THAT(keys_of(first["winner"]), IsSupersetOf({"program", "codegen", "threads", "numerics", "ns", "gflops"}));
  EXPECT_EQ(first["problem"], kProblem);
  EXPECT_THAT(first["decision"].get<std::string>(), AnyOf("new", "kept", "tie"));
  EXPECT_EQ(first["speedup_ci95"].size(), 2u);
  EXPECT_EQ(first["rejected_wrong"], 0);

  const Json explained = Json::parse(hone({"explain", kProblem, "--json", "--ir", "--asm"}).out);
  EXPECT_EQ(explained["reason"], "exact");
  EXPECT_EQ(explained["plan"]["program"], first["winner"]["program"]);
  EXPECT_THAT(keys_of(explained), IsSupersetOf({"problem", "plan", "reason", "from", "rejected", "loop_ir", "asm"}));
  EXPECT_EQ(hone({"explain", kProblem, "--json"}).out, hone({"explain", kProblem, "-o", "json"}).out);

  EXPECT_EQ(Json::parse(hone({"db", "ls", "--json"}).out)["decisions"].size(), 3u);
  EXPECT_EQ(lines_of(hone({"db", "ls", "-o", "csv"}).out).size(), 4u);
  EXPECT_EQ(Json::parse(hone({"db", "show", kProblem, "--json"}).out)[0]["problem"], kProblem);
  EXPECT_EQ(hone({"db", "path"}).out, file("plans.db") + "\n");
  const Outcome verify = hone({"db", "verify"});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_THAT(verify.out, StartsWith("ok: "));
}

TEST_F(HoneCli, HowRegionsRunIsMeasuredOnceAndInForce) {
  if (Json::parse(hone({"info", "--json"}).out)["machine"]["cpus_usable"] == 1)
    GTEST_SKIP() << "two threads on one CPU are not timed";
  const Setting two{.env = {{"HONE_THREADS", "2"}}};
  auto schedule = [&] { return Json::parse(hone({"info", "--json"}, two).out)["schedule"]; };
  EXPECT_EQ(schedule()["source"], "default");
  EXPECT_EQ(schedule()["requested"], "tbb(2)");
  EXPECT_THAT(hone({"tune", kProblem, "--budget", "0.2s"}, two).err, HasSubstr("schedule tbb(2) (default)"));
  const std::vector<std::string> tune = {"tune", kProblem, "--budget", "3s", "--json"};
  const Outcome first = hone(tune, two);
  ASSERT_EQ(first.code, 0) << first.err;
  const Json found = Json::parse(first.out)["schedule"];
  if (first.err.find("how regions run was not measured") != std::string::npos)
    GTEST_SKIP() << "the machine is too busy to time a region";
  EXPECT_EQ(found["source"], "measured");
  EXPECT_THAT(found["requested"].get<std::string>(), AnyOf("tbb(2)", "dedicated(2)"));
  EXPECT_GE(found["fork_join"].size(), 1u);
  EXPECT_EQ(schedule(), found) << "what was found is in force";
  EXPECT_EQ(Json::parse(hone({"explain", kProblem, "--json"}, two).out)["schedule"], found);
  EXPECT_EQ(Json::parse(hone({"db", "show", "schedules"}).out)[0]["fork_join"], found["fork_join"]);
  EXPECT_EQ(hone({"db", "verify"}).code, 0);

  // What HONE_SCHEDULE wants instead has a threshold of its own, and leaves the record as it was.
  const char* other = found["requested"] == "tbb(2)" ? "dedicated" : "tbb";
  const Setting wish{.env = {{"HONE_THREADS", "2"}, {"HONE_SCHEDULE", other}}};
  EXPECT_EQ(Json::parse(hone({"info", "--json"}, wish).out)["schedule"]["min_work"], nullptr);
  EXPECT_THAT(hone({"info"}, wish).out, HasSubstr("the smallest work that pays is not known"));
  const Json before = Json::parse(hone({"db", "show", "schedules"}).out);
  ASSERT_EQ(before.size(), 1u);
  if (found["min_work"].is_null()) GTEST_SKIP() << "the machine is too busy to find from which work on regions pay";
  EXPECT_GT(found["min_work"].get<int64_t>(), 0);
  const Json wished = Json::parse(hone(tune, wish).out)["schedule"];
  EXPECT_EQ(wished["source"], "HONE_SCHEDULE");
  EXPECT_EQ(Json::parse(hone({"db", "show", "schedules"}).out), before);
  if (wished["min_work"].is_null()) GTEST_SKIP() << "the machine is too busy to find from which work on regions pay";
  EXPECT_GT(wished["min_work"].get<int64_t>(), 0);

  hone({"tune", kProblem, "--budget", "3s"}, two);
  EXPECT_EQ(Json::parse(hone({"db", "show", "schedules"}).out), before) << "once is enough";
  EXPECT_EQ(Json::parse(hone({"info", "--json"}, {.env = {{"HONE_THREADS", "3"}}}).out)["schedule"]["source"],
            "default");
}

TEST_F(HoneCli, ScheduleOfTheEnvironment) {
  auto effective = [&](const char* value) {
    const Outcome o = hone({"info", "--json"}, {.env = {{"HONE_SCHEDULE", value}, {"HONE_THREADS", "2"}}});
    return Json::parse(o.out)["schedule"]["effective"].get<std::string>();
  };
  EXPECT_EQ(effective("sequential"), "sequential");
  EXPECT_EQ(effective("tbb"), "tbb(2)");
  EXPECT_THAT(effective("dedicated"), AnyOf("dedicated(2)", "tbb(2)"));
  EXPECT_EQ(effective("auto"), "tbb(2)");

  // What explain shows is what runs.
  auto plan = [&](const std::string& problem) {
    const Outcome o =
        hone({"explain", problem, "--json"}, {.env = {{"HONE_SCHEDULE", "dedicated"}, {"HONE_THREADS", "1024"}}});
    return Json::parse(o.out)["plan"];
  };
  const Json large = plan("matmul:f32:m=4096,n=4096,k=4096");
  EXPECT_EQ(large["schedule"], "tbb(1024)") << "a dedicated team has a CPU for each";
  EXPECT_EQ(large["on_caller"], nullptr);
  EXPECT_EQ(plan(kProblem)["schedule"], "sequential");
  EXPECT_THAT(plan(kProblem)["on_caller"].get<std::string>(), HasSubstr("its work of 14080 is too little"));
  EXPECT_THAT(hone({"explain", kProblem}, {.env = {{"HONE_THREADS", "2"}}}).out, HasSubstr("the call stays on it: "));
  const Setting wrong{.env = {{"HONE_SCHEDULE", "fibers"}}};
  for (const char* command : {"info", "tune", "bench", "explain"})
    refused(command == std::string("info") ? std::vector<std::string>{command}
                                           : std::vector<std::string>{command, kProblem},
            2, "HONE_SCHEDULE=fibers: unknown schedule 'fibers'; there are", wrong);
  EXPECT_THAT(hone({"info"}, wrong).err, HasSubstr("repeat: HONE_DB=")) << "and HONE_SCHEDULE";
  EXPECT_THAT(hone({"info"}, wrong).err, HasSubstr(" HONE_SCHEDULE=fibers "));
}

// A wish for one thread also counts where more are asked for: the ceilings are then of one thread, too.
TEST_F(HoneCli, BenchRunsOnOneThreadWhereTheScheduleIsToBeSequential) {
  const Outcome o = hone({"bench", kProblem, "--threads", "2", "--seconds", "0.1", "--json"},
                         {.env = {{"HONE_SCHEDULE", "sequential"}}});
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(HoneCli, BenchRowsAreRowsInEveryFormat) {
  const Json counters = Json::parse(hone({"info", "--json"}).out)["counters"];
  for (const std::string format : {"json", "jsonl", "csv", "sql", "gbench"}) {
    const Outcome o = hone({"bench", kProblem, "--threads", "1", "-r", "5", "--seconds", "0.1", "-o", format});
    ASSERT_EQ(o.code, 0) << o.err;
    if (format == "csv" || format == "sql") {
      EXPECT_EQ(lines_of(o.out).size(), 2u) << o.out;
      continue;
    }
    const Json parsed = Json::parse(o.out);
    if (format == "gbench") continue;  // a test of its own
    const Json row = format == "json" ? parsed["bench"][0] : parsed;
    EXPECT_THAT(keys_of(row), IsSupersetOf({"problem", "impl", "plan", "threads", "ns", "ns_lo", "ns_hi", "gflops",
                                            "gbs", "pct_peak", "ratio", "ratio_ci95", "cycles", "instructions"}));
    for (const char* counter : {"cycles", "instructions"}) {
      if (counters[counter] == "ok") {
        EXPECT_GT(row[counter], 0) << counter;
      } else {
        EXPECT_EQ(row[counter], nullptr) << counter << " is not counted here: " << counters[counter];
      }
    }
    EXPECT_EQ(row["impl"], "hone default") << "nothing is stored";
    EXPECT_EQ(row["ratio_ci95"], Json({1.0, 1.0}));
  }
}

TEST_F(HoneCli, BenchSpeaksGoogleBenchmark) {
  const std::string empty = "matmul:f32:m=0,n=2,k=3";
  const Outcome o = hone({"bench", kProblem, empty, "--threads", "1", "-r", "6", "--seconds", "0.01", "-o", "gbench"});
  ASSERT_EQ(o.code, 0) << o.err;
  const Json parsed = Json::parse(o.out);
  EXPECT_THAT(keys_of(parsed["context"]), IsSupersetOf({"date", "host_name", "executable", "num_cpus"}));
  const std::string name = std::string(kProblem) + "/hone default/threads:1";
  std::set<std::string> aggregates;
  size_t repetitions = 0;
  for (const Json& b : parsed["benchmarks"]) {
    if (b.contains("error_occurred")) {
      EXPECT_EQ(b["run_name"], empty + "/hone default/threads:1");
      EXPECT_THAT(b["error_message"].get<std::string>(), HasSubstr("no elements"));
      continue;
    }
    EXPECT_EQ(b["run_name"], name);
    EXPECT_GT(b["real_time"].get<double>(), 0);
    EXPECT_EQ(b["time_unit"], "ns");
    if (b["run_type"] == "iteration") {
      EXPECT_EQ(b["name"], name);
      EXPECT_EQ(b["repetition_index"], repetitions++);
      EXPECT_NEAR(b["gflops"].get<double>() * b["real_time"].get<double>(),
                  parsed["benchmarks"][0]["gflops"].get<double>() * parsed["benchmarks"][0]["real_time"].get<double>(),
                  1);
    } else {
      const std::string aggregate = b["aggregate_name"];
      EXPECT_EQ(b["name"], name + "_" + aggregate);
      EXPECT_EQ(b.contains("pct_peak"), aggregate == "median");
      aggregates.insert(aggregate);
    }
    EXPECT_EQ(b["repetitions"], parsed["benchmarks"][0]["repetitions"]);
  }
  EXPECT_GE(repetitions, 3u);
  EXPECT_EQ(parsed["benchmarks"][0]["repetitions"], repetitions);
  EXPECT_EQ(aggregates, (std::set<std::string>{"mean", "median", "stddev", "cv"}));
}

// Two programs for one problem, so that there is something to sum up without a peer.
TEST_F(HoneCli, BenchSumsUpWhereTheFormatHasAPlaceForIt) {
  size_t usable = 0;
  const Json info = Json::parse(hone({"info", "--json"}).out);
  for (const Json& codegen : info["codegens"])
    usable += (codegen["name"] == "asmjit" || codegen["name"] == "llvm") && !codegen["isa"].empty();
  if (usable < 2) GTEST_SKIP() << "one code generator: nothing to compare";
  auto bench = [&](const std::string& format) {
    return hone({"bench", "matmul:f32:m={3,4},n=64,k=32", "--codegen", "asmjit,llvm", "--plan", "default", "--threads",
                 "1", "-r", "5", "--seconds", "0.01", "-o", format});
  };
  const Outcome json = bench("json");
  ASSERT_EQ(json.code, 0) << json.err;
  const Json parsed = Json::parse(json.out);
  ASSERT_EQ(parsed["bench"].size(), 4u);
  ASSERT_EQ(parsed["bench_summary"].size(), 1u);
  const Json& line = parsed["bench_summary"][0];
  const double first = parsed["bench"][1]["ratio"], second = parsed["bench"][3]["ratio"];
  EXPECT_EQ(line["threads"], 1);
  EXPECT_EQ(line["against"], "hone default llvm");
  EXPECT_EQ(line["problems"], 2);
  EXPECT_NEAR(line["geomean"].get<double>(), std::sqrt(first * second), 1e-9);
  EXPECT_EQ(line["worst"].get<double>(), std::min(first, second));
  EXPECT_EQ(line["worst_problem"], parsed["bench"][first < second ? 1 : 3]["problem"]);
  EXPECT_EQ(line["below_95pct"], (first < 0.95) + (second < 0.95));
  for (const Json& row : parsed["bench"]) {
    EXPECT_THAT(row["limit"].get<std::string>(), AnyOf("fma", "memory", "call"));
    EXPECT_GE(row["rounds_ns"].size(), 3u);
  }
  const Outcome csv = bench("csv"), md = bench("md"), sql = bench("sql"), gbench = bench("gbench");
  EXPECT_EQ(lines_of(csv.out).size(), 5u) << "rows of one kind";
  EXPECT_THAT(csv.err, HasSubstr("geomean"));
  EXPECT_THAT(md.out, HasSubstr("| geomean |"));
  EXPECT_THAT(md.err, Not(HasSubstr("geomean")));
  EXPECT_THAT(sql.out, HasSubstr("INSERT INTO bench_summary"));
  EXPECT_EQ(Json::parse(gbench.out)["context"]["bench_summary"].size(), 1u);
}

TEST_F(HoneCli, WrongProblemsShowWhereAndTheGrammar) {
  const std::string many(5000, 'x');
  for (const std::string wrong :
       {"", "matmul", "matmul:f32:", "matmul:s8:m=1,n=2,k=3", "conv:f32:m=1", "matmul:f32:m=1,n=2",
        "matmul:f32:m=-1,n=2,k=3", "matmul:f32:m=1,n=2,k=x", "matmul:f32:m=1-8+0,n=2,k=3", "matmul:f32:m={},n=2,k=3",
        "matmul:f32:m=1,n=2,k=3:+foo", "matmul:f32:m=1,n=2,k=3:+bias+bias", "matmul:f32:m=99999999999999999999,n=2,k=3",
        "matmul:f32:m=1\n,n=2,k=3", "matmul:f32:m=1,\xff\xfe=2,k=3", many.c_str()})
    refused({"explain", wrong}, 2, "grammar: ");
  refused({"explain", "matmul:f16:m=1,n=2,k=3,b=nt"}, 2, "B of f16 is read in panels only: use b=packed");
  refused({"tune", "matmul:f32:m=1,n=2,k=x"}, 2, "at column 22; grammar");
  refused({"bench", "matmul:f32:m=1-1000000000+1,n=2,k=3"}, 2, "more than 100000 problems");
  refused({"explain", "matmul:f32:m=3037000500,n=3037000500,k=3037000500"}, 2, "too large");
}

TEST_F(HoneCli, TerminalGetsACaretUnderTheFault) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here (/dev/pts is not mounted)";
  const Outcome o = hone({"explain", "matmul:f32:m=1,n=2,k=x"}, {.terminal = true});
  EXPECT_THAT(o.err, HasSubstr("matmul:f32:m=1,n=2,k=x\r\n                     ^"));
  EXPECT_EQ(o.code, 2);
}

TEST_F(HoneCli, WrongOptionsAreUsage) {
  refused({}, 2, "a command is missing");
  refused({"nope"}, 2, "'nope'");
  refused({"db", "nope"}, 2, "'nope'");
  refused({"db", "show"}, 2, "what");
  refused({"explain", kProblem, "--nope"}, 2, "--nope");
  for (const char* budget : {"", "0", "-1s", "abc", "nan", "inf", "1e99", "5 s", "0x10"})
    refused({"tune", kProblem, "--budget", budget}, 2, "");
  for (const char* threads : {"", "0", "-1", "a", "1,", "1025", "99999999999"}) {
    refused({"tune", kProblem, "--threads", threads}, 2, "threads");
    refused({"bench", kProblem, "--threads", threads}, 2, "threads");
  }
  for (const char* command : {"tune", "bench", "explain"}) {
    refused({command, kProblem, "--codegen", "nope"}, 2, "it has: ");
    refused({command, kProblem, "-o", "nope"}, 2, "nope");
    refused({command, kProblem, "--db", ""}, 2, "empty");
    refused({command, "--shapes", ""}, 2, "empty");
    refused({command, "--shapes", file("none.txt")}, 2, "does not exist");
    refused({command, "--shapes", scratch_.string()}, 2, "folder");
  }
  refused({"tune", kProblem, "-o", "gbench"}, 2, "use one of");
  refused({"tune", kProblem, "--seed", "-1"}, 2, "seed");
  refused({"bench", kProblem, "--compare", "nope"}, 2, "unknown peer");
  refused({"bench", kProblem, "--plan", "nope"}, 2, "--plan takes");
  refused({"bench", kProblem, "-r", "0"}, 2, "repetitions");
  refused({"bench", kProblem, "--seconds", "nan"}, 2, "seconds");
  for (const char* classes : {",", "ordered,", "ordered,,bf16"})
    refused({"bench", "--model", file("none.gguf"), "--numerics", classes}, 2, "has an empty entry");
  refused({"bench", "--model", file("none.gguf"), "--numerics", "bf16,bf16"}, 2, "has bf16 twice");
  EXPECT_THAT(hone({"bench", "--help"}).out, HasSubstr("with --model a list"));
}

// Before anything is measured or kept, of whichever problem.
TEST_F(HoneCli, NumericsAreCheckedAgainstEveryProblem) {
  const std::vector<std::string> problems = {"matmul:bf16:m=4,n=32,k=16,b=packed", kProblem};
  for (const char* command : {"tune", "bench", "explain", "codegen"}) {
    const Outcome o = hone({command, problems[0], problems[1], "--numerics", "bf16"});
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.out, IsEmpty());
    EXPECT_THAT(o.err, StartsWith("hone: error: --numerics bf16: " + problems[1] +
                                  ": numerics 'bf16' is for weights of bf16, not of f32; 'any' takes it"));
  }
  EXPECT_EQ(hone({"db", "show", problems[0]}).code, 1);
  const char* why = hone({"info", "--json"}).out.find("avx512f") == std::string::npos ? "AVX512_BF16" : "avx512bf16,";
  refused({"explain", problems[0], "--numerics", "bf16"}, 1, why, {.env = {{"HONE_CPU", "skylake_x"}}});
}

// "any" of weights of bf16 is what a matmul with them would have, also where another class was found to be faster.
TEST_F(HoneCli, AnyIsOneClassForAllCommands) {
  const std::string problem = "matmul:bf16:m=4,n=64,k=64,b=packed";
  const auto explained = [&] {
    return Json::parse(hone({"explain", problem, "--threads", "1", "--numerics", "any", "--json"}).out)["plan"];
  };
  const auto tuned = [&](const char* numerics) {
    const Outcome o =
        hone({"tune", problem, "--threads", "1", "--numerics", numerics, "--budget", "0.5s", "--json", "--fresh"});
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(lines_of(o.out).front());
  };
  const std::string numerics = explained()["numerics"];
  EXPECT_EQ(tuned("ordered")["winner"]["numerics"], "ordered");
  EXPECT_EQ(explained()["numerics"], numerics);
  const Json any = tuned("any");
  EXPECT_EQ(any["winner"]["numerics"], numerics);
  EXPECT_EQ(any["default"]["numerics"], numerics);
  EXPECT_EQ(explained()["program"], any["winner"]["program"]);
}

TEST_F(HoneCli, ShapeFilesNameTheLine) {
  refused({"explain", "--shapes", write("third.txt", "# shapes\nmatmul:f32:m=1,n=2,k=3 2\nmatmul:f32:m=1,n=2\n")}, 2,
          "third.txt:3: ");
  refused({"explain", "--shapes", write("empty.txt", "")}, 2, "no problems");
  refused({"explain", "--shapes", write("binary.txt", std::string("\xff\xfe\0", 3))}, 2, "binary.txt:1: ");
  const Outcome o = hone({"explain", "--json", "--shapes", write("ok.txt", "matmul:f32:m=1-3+1,n=2,k=3 2 # x\r\n")});
  EXPECT_EQ(lines_of(o.out).size(), 3u) << o.err;
}

TEST_F(HoneCli, RepeatLineIsOneLineThatAShellReadsBack) {
  const Outcome o = hone({"explain", "a'b\n\xff $x"}, {.env = {{"HONE_THREADS", "2"}}});
  const std::string last = lines_of(o.err).back();
  EXPECT_THAT(last, HasSubstr("HONE_THREADS=2 "));
  // The shell expands the word to the bytes that were given.
  const std::string word = last.substr(last.find("explain ") + 8);
  const std::string command = "printf %s " + word;
  write("script", command);
  FILE* shell = popen(("bash '" + file("script") + "'").c_str(), "r");
  ASSERT_NE(shell, nullptr);
  char back[64] = "";
  const size_t size = fread(back, 1, sizeof back, shell);
  pclose(shell);
  EXPECT_EQ(std::string(back, size), "a'b\n\xff $x");
}

// Sizes that no machine has the memory for end with a line, and do not take the problems beside them along.
TEST_F(HoneCli, MoreThanMemoryIsRefusedAndTheRestIsDone) {
  const std::string huge = "matmul:f32:m=4,n=1000000000000,k=4";
  const Outcome tune = hone({"tune", huge, kProblem, "--budget", "0.2s", "--json"});
  EXPECT_EQ(tune.code, 1);
  EXPECT_EQ(lines_of(tune.out).size(), 1u) << tune.out;
  EXPECT_THAT(tune.err, HasSubstr("error: " + huge + ": cannot allocate 16000000000000 bytes"));
  const Outcome bench = hone(
      {"bench", huge, kProblem, "--plan", "default", "--threads", "1", "-r", "1", "--seconds", "0.1", "-o", "jsonl"});
  EXPECT_EQ(bench.code, 1);
  EXPECT_EQ(lines_of(bench.out).size(), 1u) << bench.out;
  EXPECT_THAT(bench.err, HasSubstr("cannot allocate"));
  EXPECT_EQ(hone({"explain", huge, "matmul:f32:m=46341,n=46341,k=64"}).code, 0);
}

TEST_F(HoneCli, EmptyProblemsAreAnswered) {
  const std::vector<std::string> empty = {"matmul:f32:m=0,n=8,k=8", "matmul:f32:m=8,n=0,k=8"};
  const Outcome tune = hone({"tune", empty[0], empty[1], "matmul:f32:m=8,n=8,k=0", "--budget", "0.3s", "--json"});
  ASSERT_EQ(tune.code, 0) << tune.err;
  const std::vector<std::string> objects = lines_of(tune.out);
  ASSERT_EQ(objects.size(), 3u);
  const Json none = Json::parse(objects[0]);
  EXPECT_EQ(none["decision"], "kept");
  EXPECT_EQ(none["measured"], 0);
  EXPECT_TRUE(none["winner"]["ns"].is_null());
  EXPECT_GT(Json::parse(objects[2])["measured"], 0) << "k=0 still writes C";
  const Outcome bench =
      hone({"bench", empty[0], empty[1], "--threads", "1", "--seconds", "0.1", "-o", "jsonl", "--compare", "all"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  for (const std::string& line : lines_of(bench.out)) {
    const Json row = Json::parse(line);
    EXPECT_TRUE(row["ns"].is_null());
    EXPECT_THAT(row["why_not"].get<std::string>(), HasSubstr("nothing to time"));
  }
}

TEST_F(HoneCli, DatabaseThatCannotBeUsedIsSaid) {
  for (const std::string command : {"ls", "verify"}) {
    refused({"db", command, "--db", scratch_.string()}, 2, "folder");
    refused({"db", command, "--db", write("text.txt", "hello, I am a text, and long enough to be looked at")}, 1,
            "text.txt");
    refused({"db", command, "--db", write("bad.db", "SQLite format 3\0 and then nonsense")}, 1, "bad.db");
  }
  const Outcome none = hone({"db", "ls"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr("no decisions yet"));
  EXPECT_THAT(none.out, IsEmpty());
  refused({"db", "verify"}, 1, "no database yet");
  refused({"db", "show", "1"}, 1, "no decisions yet");
  EXPECT_EQ(hone({"explain", kProblem}).err, "") << "no database is no news for who reads";
  const Outcome in_memory = hone({"tune", kProblem, "--budget", "0.1s", "--db", file("text.txt")});
  EXPECT_EQ(in_memory.code, 2) << in_memory.err;
  const Outcome homeless = run_hone({"tune", kProblem, "--budget", "0.1s", "--json"});
  EXPECT_EQ(homeless.code, 1);
  EXPECT_THAT(homeless.err, HasSubstr("nothing is kept"));
  EXPECT_TRUE(Json::accept(homeless.out));
  EXPECT_EQ(run_hone({"db", "path"}).code, 1);
}

// The database is made, and then there is no room for what is measured.
TEST_F(HoneCli, D9DiskThatFillsUpCostsTheDatabaseAndNotTheResult) {
  ASSERT_EQ(hone({"tune", kProblem, "--budget", "0.1s"}).code, 0);
  const auto size = static_cast<int64_t>(fs::file_size(file("plans.db")));
  Outcome o;  // rounds outgrow the limit sooner or later, on a busy machine too
  for (const char* budget : {"3s", "12s", "48s"})
    if (o.code <= 0)
      o = hone({"tune", "matmul:f32:m=2,n=64,k=64", "--budget", budget, "--json"}, {.file_limit = size + 8192});
  EXPECT_EQ(o.code, 1);
  EXPECT_TRUE(Json::accept(o.out)) << o.out;
  EXPECT_THAT(o.err, AnyOf(HasSubstr("not all is kept"), HasSubstr("nothing is kept")));
  EXPECT_EQ(hone({"db", "verify"}).code, 0);
  EXPECT_EQ(Json::parse(hone({"explain", kProblem, "--json"}).out)["reason"], "exact") << "what was there stays";
}

TEST_F(HoneCli, TraceIsJsonOrAWarning) {
  const std::string trace = file("trace.json");
  const Outcome o = hone({"bench", "matmul:f32:m=64,n=512,k=512", "--threads", "2", "--seconds", "0.1"},
                         {.env = {{"HONE_TRACE", trace}}});
  ASSERT_EQ(o.code, 0) << o.err;
  std::ifstream in(trace);
  const Json events = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(events.is_array());
  const bool named = std::any_of(events.begin(), events.end(), [](const Json& e) {
    return e["name"] == "matmul" && e["args"]["node"] == "matmul:f32:m=64,n=512,k=512";
  });
  EXPECT_TRUE(named) << events.dump(1);
  const Outcome bad = hone({"info"}, {.env = {{"HONE_TRACE", file("no/such/folder")}}});
  EXPECT_EQ(bad.code, 0) << bad.err;
  EXPECT_THAT(bad.err, testing::AllOf(StartsWith("hone: warning: HONE_TRACE: "), HasSubstr("no/such/folder")));
  EXPECT_EQ(lines_of(bad.err).size(), 1U);
}

TEST_F(HoneCli, BytesThatAreNoUtf8StayJson) {
  const Outcome o = hone({"info", "--json"}, {.env = {{"HONE_DB", file("\xff\xfe.db")}}});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(Json::accept(o.out));
}

TEST_F(HoneCli, SignalsKeepWhatWasMeasured) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Outcome o = hone({"tune", "matmul:f32:m=64,n=256,k=256", kProblem, "--budget", "60s"},
                           {.signal = signal, .signal_at = ": search,"});
    EXPECT_EQ(o.code, 130) << o.err;
    EXPECT_THAT(o.err, HasSubstr("interrupted: "));
    EXPECT_THAT(o.out, HasSubstr("matmul:f32:m=64,n=256,k=256"));
  }
  const Outcome verify = hone({"db", "verify"});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_THAT(verify.out, Not(HasSubstr(" 0 samples")));
}

TEST_F(HoneCli, ResultsThatDoNotArriveAreAFailure) {
  for (const std::string out : {"/dev/full", "-"}) {
    for (const std::vector<std::string>& args : {std::vector<std::string>{"info"},
                                                 {"info", "--json"},
                                                 {"explain", kProblem},
                                                 {"--help"},
                                                 {"db", "path"},
                                                 {"tune", kProblem, "--budget", "0.1s", "--json"},
                                                 {"db", "ls"}}) {
      const Outcome o = hone(args, {.out_file = out});
      EXPECT_EQ(o.code, 1) << out << testing::PrintToString(args);
      EXPECT_THAT(o.err, HasSubstr("cannot write the results to stdout"));
    }
  }
  EXPECT_EQ(hone({"db", "verify"}).code, 0) << "no result may have gone into the database";
}

TEST_F(HoneCli, StderrThatTakesNothingStopsNothing) {
  const Outcome o = hone({"tune", kProblem, "--budget", "0.1s", "--json"}, {.err_file = "/dev/full"});
  EXPECT_EQ(o.code, 0);
  EXPECT_TRUE(Json::accept(o.out)) << o.out;
  EXPECT_EQ(hone({"explain", "nonsense"}, {.err_file = "/dev/full"}).code, 2);
}

TEST_F(HoneCli, ProblemListedTwiceIsMeasuredOnce) {
  const Outcome o = hone({"explain", kProblem, "matmul:f32:m={4,4,1},n=32,k=16", "--json"});
  EXPECT_EQ(lines_of(o.out).size(), 2u) << o.out;
}

TEST_F(HoneCli, OtherMachinesCanBeDescribed) {
  const std::string avx2 = write("avx2.json", R"({"isa": ["avx", "avx2", "fma", "f16c", "bmi2"]})");
  const Json machine = Json::parse(hone({"info", "--json"}, {.env = {{"HONE_CPU", avx2}}}).out)["machine"];
  EXPECT_THAT(machine["isa"].dump(), Not(HasSubstr("avx512")));
  const std::string odd = write(
      "odd.json",
      R"({"l1d": {"bytes": 0, "source": "x"}, "l2": {"bytes": 0, "source": "x"}, "l3": {"bytes": 532676608, "source": "x"}})");
  for (const std::string& file_name : {avx2, odd}) {
    const Outcome o = hone({"tune", kProblem, "--budget", "0.1s", "--json"}, {.env = {{"HONE_CPU", file_name}}});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(hone({"explain", "matmul:f32:m=500,n=4096,k=4096", "--ir"}, {.env = {{"HONE_CPU", file_name}}}).code, 0);
  }
  for (const std::string& wrong :
       {write("a.json", "nonsense"), write("b.json", "[]"), write("c.json", R"({"foo": 1})"),
        write("d.json", R"({"l1d": {"bytes": -1}})"), write("e.json", ""), file("none.json"), scratch_.string()})
    refused({"info"}, 2, "HONE_CPU=", {.env = {{"HONE_CPU", wrong}}});
  const Outcome threads = hone({"explain", kProblem}, {.env = {{"HONE_THREADS", "many"}}});
  EXPECT_EQ(threads.code, 0);
  EXPECT_THAT(threads.err, HasSubstr("HONE_THREADS=many is not a positive number"));
  const Setting billions{.env = {{"HONE_THREADS", "2000000000"}}};
  EXPECT_THAT(hone({"explain", kProblem}, billions).err,
              HasSubstr("1024 thread(s) from HONE_THREADS=2000000000, more than 1024"));
  EXPECT_EQ(Json::parse(hone({"info", "--json"}, billions).out)["threads"]["value"], 1024);
}

TEST_F(HoneCli, InfoListsTheMachinesThatHoneCpuKnows) {
  const Outcome text = hone({"info", "--cpus"});
  ASSERT_EQ(text.code, 0) << text.err;
  const Outcome json = hone({"info", "--cpus", "--json"});
  const Json cpus = Json::parse(json.out)["cpus"];
  EXPECT_EQ(lines_of(text.out).size(), cpus.size());
  for (const Json& cpu : cpus) {
    const std::string name = cpu["name"];
    SCOPED_TRACE(name);
    EXPECT_THAT(text.out, HasSubstr(name));
    EXPECT_THAT(cpu["source"].get<std::string>(), Not(IsEmpty()));
    // The machine as described, whatever this one is.
    const Json info = Json::parse(hone({"info", "--json"}, {.env = {{"HONE_CPU", name}}}).out);
    EXPECT_EQ(info["machine"], cpu["machine"]);
    EXPECT_EQ(info["threads"]["value"], cpu["machine"]["cpus_usable"]);
  }
  refused({"info"}, 2, "HONE_CPU=zen9: ", {.env = {{"HONE_CPU", "zen9"}}});
  refused({"info", "--cpus", "--measure"}, 2, "--measure");
}

// The chosen instruction set of every machine by name, asked from wherever this runs. With one program for several
// machines goes the same code, byte for byte, from every code generator: nothing but the ISA decides it.
TEST_F(HoneCli, ExplainAnswersForMachinesThatAreNotHere) {
  std::map<std::string, std::vector<std::string>> code;
  const Json library = Json::parse(hone({"info", "--cpus", "--json"}).out);
  for (const Json& cpu : library["cpus"]) {
    const std::string name = cpu["name"], isa = cpu["best_isa"];
    SCOPED_TRACE(name);
    const Setting as{.env = {{"HONE_CPU", name}}};
    const Json info = Json::parse(hone({"info", "--json"}, as).out);
    for (const Json& g : info["codegens"]) {
      if (g["name"] == "interp") continue;
      const Outcome o = hone({"explain", kProblem, "--codegen", g["name"], "--asm", "--json"}, as);
      if (g["isa"].empty()) {
        EXPECT_EQ(o.code, 1);
        EXPECT_THAT(o.err, HasSubstr("its kernel is precompiled"));
        continue;
      }
      ASSERT_EQ(o.code, 0) << o.err;
      const Json e = Json::parse(o.out);
      const std::string program = e["plan"]["program"];
      EXPECT_THAT(program, HasSubstr("vectorize(" + isa + ","));
      code[g["name"].get<std::string>() + " " + program].push_back(e["asm"]);
    }
  }
  size_t most = 0;
  for (const auto& [what, versions] : code) {
    most = std::max(most, versions.size());
    for (const std::string& version : versions) EXPECT_EQ(version, versions.front()) << what;
  }
  EXPECT_GE(most, 4u) << "no program was chosen for several machines";
}

TEST_F(HoneCli, RunningCodeUnderADescriptionSaysSoOnce) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"tune", kProblem, "--budget", "0.1s"},
        std::vector<std::string>{"bench", kProblem, "-r", "2", "--seconds", "0.1", "--plan", "default"}}) {
    const Outcome o = hone(args, {.env = {{"HONE_CPU", "sapphire_rapids"}}});
    EXPECT_EQ(o.code, 0) << o.err;
    const std::string line = "HONE_CPU=sapphire_rapids: code runs on this CPU";
    const size_t at = o.err.find(line);
    EXPECT_NE(at, std::string::npos) << o.err;
    EXPECT_EQ(o.err.find(line, at + 1), std::string::npos) << o.err;
  }
  EXPECT_THAT(hone({"explain", kProblem}, {.env = {{"HONE_CPU", "sapphire_rapids"}}}).err, IsEmpty());
}

// Settings that change no code find the plan; a machine with other features does not call it its own.
TEST_F(HoneCli, d2_settings_that_change_no_code_find_the_stored_plan) {
  ASSERT_EQ(hone({"tune", kProblem, "--budget", "0.1s"}).code, 0);
  auto reason = [&](const Setting& setting) {
    const Outcome o = hone({"explain", kProblem, "--json"}, setting);
    return o.code == 0 ? Json::parse(o.out)["reason"].get<std::string>() : o.err;
  };
  EXPECT_EQ(reason({}), "exact");
  EXPECT_EQ(reason({.env = {{"HONE_LOG", "dispatch,db"}}}), "exact");
  EXPECT_EQ(reason({.env = {{"HONE_JIT_DUMP", scratch_.string()}}}), "exact");
  EXPECT_EQ(reason({.env = {{"HONE_THREADS", "64"}}}), "exact");
  if (std::getenv("HONE_CPU") != nullptr) return;  // the rows below set it
  EXPECT_EQ(reason({.env = {{"HONE_CPU", write("l3.json", R"({"l3": {"bytes": 1048576}, "cpus_usable": 64})")}}}),
            "exact");
  EXPECT_NE(reason({.env = {{"HONE_CPU", write("less.json", R"({"isa": ["avx", "avx2", "fma", "bmi2"]})")}}}), "exact");
  EXPECT_EQ(reason({.env = {{"HONE_CPU", write("model.json", R"({"model": 1})")}}}), "near_machine");
}

// A process of one CPU that is asked for eight threads.
TEST_F(HoneCli, r3_one_cpu_in_the_affinity_mask) {
  std::thread([&] {  // children inherit the mask of the thread that starts them
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    const Json info = Json::parse(hone({"info", "--json"}).out);
    if (std::getenv("HONE_CPU") == nullptr) {
      EXPECT_EQ(info["machine"]["cpus_usable"], 1);
    }
    EXPECT_EQ(hone({"bench", kProblem, "--threads", "8", "-r", "2", "--seconds", "0.1", "--plan", "default"}).code, 0);
  })
      .join();
}

TEST_F(HoneCli, ThreadsMayExceedTheCpus) {
  EXPECT_EQ(hone({"tune", kProblem, "--budget", "0.1s", "--threads", "3,64"}).code, 0);
  EXPECT_EQ(hone({"bench", kProblem, "--threads", "64", "-r", "2", "--seconds", "0.1"}).code, 0);
}

// Where a worker has no memory for so many stacks, that is one line and no abort; where it has, the tune works.
TEST_F(HoneCli, MoreThreadsThanCanBeStartedAreAnError) {
  const Outcome o = hone({"tune", kProblem, "--budget", "0.1s", "--threads", "1024"});
  EXPECT_THAT(o.err, Not(HasSubstr("terminate called")));
  EXPECT_THAT(o.err, Not(HasSubstr("SIGABRT")));
  if (o.code != 0) {
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.err, HasSubstr("1024 threads cannot be started here"));
  }
}

TEST_F(HoneCli, ReplaySearchesAStoredRunAgain) {
  ASSERT_EQ(hone({"tune", kProblem, "--budget", "0.5s"}).code, 0);
  const Outcome o = hone({"tune", "--replay", "1", "--seeds", "2", "--budget", "0.1s,0.5s", "--json"});
  if (o.code == 1) {  // a machine so busy that half a second was not enough for two candidates
    EXPECT_THAT(o.err, HasSubstr("cannot be replayed"));
  } else {
    ASSERT_EQ(o.code, 0) << o.err;
    for (const char* strategy : {"halving", "exhaustive", "random"}) EXPECT_THAT(o.out, HasSubstr(strategy));
  }
  const Outcome none = hone({"tune", "--replay", "99"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no run '99'"));
  EXPECT_EQ(hone({"tune", "--replay", "1", "--strategy", "luck"}).code, 2);
  EXPECT_EQ(hone({"tune", "--replay", "1", "--budget", "soon"}).code, 2);
  EXPECT_EQ(hone({"tune", "--strategy", "halving"}).code, 2) << "only with --replay";
}

}  // namespace
}  // namespace hone::cli_test
