// hone db: moving what was measured between machines, asking it questions, cleaning it up. With good and with hostile
// input; what a command refuses leaves no trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/db/db_testing.h"
#include "tests/tools/refused.h"
#include "tests/tools/run_hone.h"
#include "tests/tools/scratch.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HoneDb : public Scratch {
 protected:
  std::string read(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Outcome hone(const std::vector<std::string>& args, Setting setting = {}) const {
    setting.env.try_emplace("HONE_DB", file("plans.db"));
    if (const char* cpu = std::getenv("HONE_CPU")) setting.env.try_emplace("HONE_CPU", cpu);
    return run_hone(args, setting);
  }
  std::string done(const std::vector<std::string>& args, const Setting& setting = {}) const {
    const Outcome o = hone(args, setting);
    EXPECT_EQ(o.code, 0) << testing::PrintToString(args) << o.err;
    return o.out;
  }
  void refused(const std::vector<std::string>& args, int code, const std::string& what,
               const Setting& setting = {}) const {
    SCOPED_TRACE(testing::PrintToString(args));
    expect_refused(hone(args, setting), code, what);
  }
  // False: there is no code for this CPU, and the test cannot be.
  bool tune(const std::vector<std::string>& problems, const Setting& setting = {}) const {
    std::vector<std::string> args = {"tune", "--budget", "0.1s", "--threads", "1"};
    args.insert(args.end(), problems.begin(), problems.end());
    const Outcome o = hone(args, setting);
    EXPECT_TRUE(o.code == 0 || o.err.find("code generator") != std::string::npos) << o.err;
    return o.code == 0;
  }
  // An export of what no machine measured.
  std::string made_up(const std::string& program = "vectorize(avx2,8)") const {
    const Json candidate = {
        {"program", program}, {"codegen", "asmjit"}, {"codegen_version", "1"}, {"threads", 1}, {"numerics", "ordered"}};
    std::string text;
    for (const Json& line :
         std::vector<Json>{{{"type", "hone-export"}, {"format", 1}, {"schema", 2}},
                           {{"type", "machine"}, {"id", "m"}, {"key", "x86-64:none"}, {"label", "{}"}},
                           {{"type", "problem"}, {"problem", kProblem}, {"family", "matmul:f32:n=32,k=16"}, {"m", 4}},
                           {{"type", "run"},
                            {"uid", "u1"},
                            {"machine", "m"},
                            {"build", {{"engine", "hone 0.0.1"}, {"codegens", "asmjit=1"}}},
                            {"session", nullptr},
                            {"problem", kProblem},
                            {"started_at", 1000},
                            {"seed", 1},
                            {"cache_mode", "warm"},
                            {"noise_bound", 0.01},
                            {"spent_ns", 5},
                            {"settings", "{}"}},
                           {{"type", "samples"},
                            {"run", "u1"},
                            {"problem", kProblem},
                            {"candidate", candidate},
                            {"confirm", {{0, 0, 1000}, {1, 0, 1100}}}},
                           {{"type", "decision"},
                            {"run", "u1"},
                            {"problem", kProblem},
                            {"verdict", "kept"},
                            {"winner", candidate},
                            {"fallback", candidate},
                            {"ns", 1000.5},
                            {"default_ns", 1000.5},
                            {"speedup", 1.0},
                            {"speedup_lo", 1.0},
                            {"speedup_hi", 1.0},
                            {"noise_bound", 0.01},
                            {"decided_at", 2000}},
                           {{"type", "end"}}})
      text += line.dump() + "\n";
    return text;
  }

  static constexpr char kProblem[] = "matmul:f32:m=4,n=32,k=16";
};

TEST_F(HoneDb, ExportImportMergeAndExportAgainIsTheSameText) {
  const std::string text = made_up();
  const std::string given = write("given.jsonl", text);
  const Json counts = Json::parse(done({"db", "import", given, "--json"}))["import"];
  EXPECT_EQ(counts[4].dump(), R"({"records":"samples","added":2,"present":0})");
  EXPECT_THAT(done({"db", "import", "-"}, {.in_file = given}), HasSubstr("| samples   |     0 |       2 |"));
  const std::string all = done({"db", "export", "-"});
  EXPECT_EQ(lines_of(all).size(), lines_of(text).size());
  done({"db", "export", file("e.jsonl")});
  EXPECT_EQ(read("e.jsonl"), all);
  done({"db", "export", file("e.jsonl")});  // over the earlier one
  EXPECT_EQ(done({"db", "export", "-", "--problem", "matmul:f32:k=16,m=4,n=32"}), all) << "any way to write it";
  EXPECT_EQ(done({"db", "export", "-", "--machine", "x86-64:none"}), all);
  const Setting other{.env = {{"HONE_DB", file("other.db")}}};
  done({"db", "merge", file("plans.db")}, other);
  EXPECT_EQ(done({"db", "export", "-"}, other), all);
  done({"db", "import", file("e.jsonl"), "--db", file("third.db")});
  EXPECT_EQ(done({"db", "export", "-", "--db", file("third.db")}), all);
  EXPECT_THAT(done({"db", "verify"}), StartsWith("ok: "));
  for (const auto& entry : fs::directory_iterator(scratch_))
    EXPECT_THAT(entry.path().filename().string(), Not(testing::MatchesRegex("e\\.jsonl\\..*"))) << "left behind";
}

TEST_F(HoneDb, ExportNeverReplacesWhatIsNotAnExport) {
  done({"db", "import", write("given.jsonl", made_up())});
  const std::string before = read("plans.db");
  refused({"db", "export", file("plans.db")}, 2, "is a database, not to be replaced");
  EXPECT_EQ(read("plans.db"), before);
  refused({"db", "export", scratch_.string()}, 2, "is a folder");
  refused({"db", "export", file("no/such/folder/e.jsonl")}, 2, "No such file");
  refused({"db", "export", "/dev/full"}, 1, "No space left");
  EXPECT_EQ(hone({"db", "export", "-"}, {.out_file = "/dev/full"}).code, 1);
  EXPECT_EQ(hone({"db", "export", "/dev/null"}).code, 0);
  write("e.jsonl", "earlier");
  refused({"db", "export", file("e.jsonl"), "--problem", "matmul:f32:m=5,n=5,k=5"}, 1, "has no run of that problem");
  refused({"db", "export", file("e.jsonl"), "--machine", "none"}, 1, "has no run of that problem");
  refused({"db", "export", file("e.jsonl")}, 1, "cannot write", {.file_limit = 300});
  refused({"db", "export", file("e.jsonl"), "--db", file("none.db")}, 1, "there is no database yet");
  EXPECT_EQ(read("e.jsonl"), "earlier");
  EXPECT_FALSE(fs::exists(file("none.db")));
}

TEST_F(HoneDb, ImportRefusesWithFileLineAndField) {
  const std::string text = made_up();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  refused({"db", "import", file("none.jsonl")}, 2, "none.jsonl: No such file");
  refused({"db", "import", scratch_.string()}, 2, "is a folder");
  refused({"db", "import", write("empty.jsonl", "")}, 2, "the file is empty");
  refused({"db", "import", write("half.jsonl", text.substr(0, text.size() * 2 / 3))}, 2, "is cut short");
  refused({"db", "import", write("zero.jsonl", with("[0,0,1000]", "[0,0,0]"))}, 2,
          "zero.jsonl:5: samples: confirm [0, 0, 0]: the time is 0 ns");
  refused({"db", "import", write("family.jsonl", with("\"family\":\"matmul:f32:n=32", "\"family\":\"matmul:f32:n=64"))},
          2, "family.jsonl:3: problem: family of");
  refused({"db", "import", write("m.jsonl", with("\"m\":4", "\"m\":5"))}, 2, "must be 'matmul:f32:n=32,k=16' and m=4");
  std::string unusual = text;
  for (size_t at = 0; (at = unusual.find("m=4,n=32,k=16", at)) != std::string::npos;)
    unusual.replace(at, 13, "k=16,n=32,m=4");
  refused({"db", "import", write("unusual.jsonl", unusual)}, 2, "must be written 'matmul:f32:m=4,n=32,k=16'");
  refused({"db", "import", write("new.jsonl", with("\"format\":1", "\"format\":4"))}, 1, "update hone");
  std::string garbage(1 << 16, '\0');
  std::mt19937 random(5);
  for (char& c : garbage) c = static_cast<char>(random());
  refused({"db", "import", write("garbage.jsonl", garbage)}, 2, "garbage.jsonl:1: no");
  refused({"db", "import", write("long.jsonl", std::string(100 << 20, 'x'))}, 2, "a line of more than 16 MiB");
  refused({"db", "import", "-"}, 2, "stdin:1: no JSON", {.in_file = write("x.jsonl", "x")});
  if (geteuid() != 0) {
    fs::permissions(write("secret.jsonl", text), fs::perms::none);
    refused({"db", "import", file("secret.jsonl")}, 2, "Permission denied");
  }
  refused({"db", "import", write("good.jsonl", text), "--db", scratch_.string()}, 2, "is a folder");
  const Outcome nothing = hone({"db", "query", "SELECT * FROM runs"});
  EXPECT_TRUE(nothing.code == 1 || lines_of(nothing.out).empty()) << "nothing of the refused files is there";

  std::string windows = "\xef\xbb\xbf" + text;
  for (size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) windows.insert(at, "\r");
  done({"db", "import", write("windows.jsonl", windows)});
  const std::string before = done({"db", "export", "-"});
  refused({"db", "import", file("good.jsonl")}, 1, "", {.env = {{"HONE_DB", "/proc/none/x.db"}}});
  refused({"db", "import", write("other.jsonl", with("\"seed\":1", "\"seed\":2"))}, 2, "run with another seed here");
  EXPECT_EQ(done({"db", "export", "-"}), before);
}

TEST_F(HoneDb, MergeRefusesWhatIsNoOtherDatabase) {
  done({"db", "import", write("given.jsonl", made_up())});
  const std::string before = done({"db", "export", "-"});
  refused({"db", "merge", file("plans.db")}, 2, "cannot be merged into itself");
  refused({"db", "merge", file("none.db")}, 2, "no such file");
  refused({"db", "merge", scratch_.string()}, 2, "is a folder");
  refused({"db", "merge", file("given.jsonl")}, 1, "cannot be read");
  refused({"db", "merge", write("garbage.db", std::string(9000, '\x5a'))}, 1, "cannot be read");
  refused({"db", "merge", write("empty.db", "")}, 1, "is empty");
  EXPECT_EQ(read("garbage.db").size(), 9000u) << "the source is never moved";
  EXPECT_EQ(done({"db", "export", "-"}), before);
  refused({"db", "merge", file("none.db")}, 2, "no such file", {.env = {{"HONE_DB", file("fresh.db")}}});
  EXPECT_FALSE(fs::exists(file("fresh.db")));
}

// Texts of others are shown, and never obeyed by the terminal or by the table.
TEST_F(HoneDb, TextsOfADatabaseDoNotReachTheTerminalRaw) {
  done({"db", "import", write("given.jsonl", made_up("\x1b[2J a|b \n| forged |"))});
  const std::string shown = done({"db", "ls", "-o", "md"});
  EXPECT_THAT(shown, HasSubstr("\\x1b[2J a\\|b \\x0a\\| forged \\|"));
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
  EXPECT_EQ(lines_of(shown).size(), 3u) << shown;
}

TEST_F(HoneDb, AnotherKindOfMachineWithThisKeyIsOther) {
  Json machine = Json::parse(done({"info", "--json"}))["machine"];
  for (const std::string whose : {"this", "other"}) {
    std::string text = made_up();
    const std::string key = "\"key\":\"x86-64:none\"", label = "\"label\":\"{}\"";
    text.replace(text.find(key), key.size(), "\"key\":" + machine["key"].dump());
    text.replace(text.find(label), label.size(), "\"label\":" + Json(machine.dump()).dump());
    const Setting its{.env = {{"HONE_DB", file(whose + ".db")}}};
    done({"db", "import", write(whose + ".jsonl", text)}, its);
    EXPECT_EQ(Json::parse(done({"db", "ls", "--json"}, its))["decisions"][0]["machine"], whose);
    machine["family"] = machine["family"].get<int>() + 1;
  }
}

// A label that is a bomb for whoever prints it is refused, and harmless where an older version let it in.
TEST_F(HoneDb, DeepLabelsNeitherComeInNorHurt) {
  const std::string bomb = "{\"vendor\":" + std::string(3'000'000, '[') + std::string(3'000'000, ']') + "}";
  std::string text = made_up();
  const std::string label = "\"label\":\"{}\"";
  text.replace(text.find(label), label.size(), "\"label\":" + Json(bomb).dump());
  refused({"db", "import", write("bomb.jsonl", text)}, 2, "machine: label has");
  done({"db", "import", write("given.jsonl", made_up())});
  db::run_sql(file("plans.db"), "UPDATE machines SET label = '" + bomb + "'");
  done({"explain", kProblem});
  done({"db", "ls"});
  done({"db", "gc"});
}

TEST_F(HoneDb, QueryReadsAndOnlyReads) {
  refused({"db", "query", "SELECT 1"}, 1, "there is no database yet, nothing to query");
  EXPECT_FALSE(fs::exists(file("plans.db")));
  done({"db", "import", write("given.jsonl", made_up())});
  EXPECT_EQ(done({"db", "query", "SELECT ns, NULL AS n, 'a|b' AS t, x'0a' AS b FROM plans"}),
            "|     ns |    n | t    | b     |\n|-------:|-----:|------|-------|\n| 1000.5 | NULL | a\\|b | x'0a' |\n");
  EXPECT_EQ(done({"db", "query", "SELECT ns, NULL AS n, '' AS e FROM plans", "-o", "jsonl"}),
            "{\"ns\":1000.5,\"n\":null,\"e\":\"\"}\n");
  EXPECT_EQ(done({"db", "query", "SELECT NULL AS n, '' AS e, 2 AS e", "-o", "sql"}),
            "CREATE TABLE IF NOT EXISTS query (\"n\" TEXT, \"e\" TEXT, \"e_2\" REAL);\n"
            "INSERT INTO query VALUES (NULL, '', 2);\n");
  EXPECT_EQ(lines_of(done({"db", "query",
                           "SELECT value FROM (WITH RECURSIVE t(value) AS (SELECT 1 UNION ALL SELECT "
                           "value + 1 FROM t LIMIT 10000) SELECT * FROM t)",
                           "-o", "jsonl"}))
                .size(),
            10'000u);
  EXPECT_EQ(Json::parse(done({"db", "query", "SELECT 1 AS a WHERE 0", "--json"}))["query"].size(), 0u);
  for (const std::vector<std::string>& list : {std::vector<std::string>{"db", "query"}, {"db", "query", "--tables"}})
    EXPECT_THAT(done(list), AllOf(HasSubstr("| plans "), HasSubstr("speedup_lo"), HasSubstr("| timings ")));
  const std::string before = done({"db", "export", "-"});
  refused({"db", "query", "DELETE FROM runs"}, 2, "deleting from runs is refused: a query only reads");
  refused({"db", "query", "SELEC 1"}, 2, "SQL: near \"SELEC\": syntax error");
  refused({"db", "query", "SELECT * FROM plan"}, 2, "no such table: plan; tables: builds");
  refused({"db", "query", ""}, 2, "empty");
  refused({"db", "query", "SELECT 1", "-o", "gbench"}, 2, "unknown output format");
  EXPECT_EQ(done({"db", "export", "-"}), before);
}

TEST_F(HoneDb, QueryThatRunsForeverIsInterrupted) {
  done({"db", "import", write("given.jsonl", made_up())});
  const std::string slow =
      "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT a FROM t WHERE a % 10000000 = 0";
  // Something on stderr to send the signal at: HONE_LOG is refused with a line at the start.
  const Outcome o =
      hone({"db", "query", slow}, {.env = {{"HONE_LOG", "nonsense"}}, .signal = SIGINT, .signal_at = "HONE_LOG"});
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_THAT(o.err, HasSubstr("interrupted"));
}

// Of all samples in a record.
void set_times(Json* samples, double ns) {
  for (const char* phase : {"noise", "search", "confirm"})
    if (samples->contains(phase))
      for (Json& sample : (*samples)[phase]) sample[2] = static_cast<int64_t>(ns);
}

// D1: what an AVX-512 machine found is merged into the database of an AVX2 one, with times that no plan here reaches.
TEST_F(HoneDb, D1MergedPlansOfAnotherMachineNeverWin) {
  const std::string avx2 = write("avx2.json", R"({"isa": ["avx", "avx2", "fma", "f16c", "bmi2"]})");
  if (!tune({kProblem}, {.env = {{"HONE_CPU", avx2}, {"HONE_DB", file("tuned.db")}}}))
    GTEST_SKIP() << "hone has no code for this CPU: it needs AVX2 and FMA";
  const std::vector<std::string> tuned = lines_of(done({"db", "export", "-", "--db", file("tuned.db")}));
  Json decision;
  for (const std::string& given : tuned)
    if (const Json line = Json::parse(given); line["type"] == "decision") decision = line;
  const double ratio = decision["winner"] == decision["fallback"] ? 1 : 2;
  // The same records as of the machine that `cpu` describes.
  auto measured_on = [&](const std::string& cpu, const std::string& uid, const std::string& vectors, double ns) {
    const Json machine = Json::parse(done({"info", "--json"}, {.env = {{"HONE_CPU", cpu}}}))["machine"];
    std::string text;
    for (const std::string& given : tuned) {
      Json line = Json::parse(given);
      if (line["type"] == "machine") line["key"] = machine["key"], line["label"] = machine.dump();
      if (line["type"] == "session") line["uid"] = "session of " + uid;
      if (line["type"] == "run") line["uid"] = uid, line["session"] = "session of " + uid;
      if (line.contains("run")) line["run"] = uid;
      if (line["type"] == "samples" && line["candidate"] == decision["fallback"]) set_times(&line, ns * ratio);
      if (line["type"] == "samples" && line["candidate"] == decision["winner"]) set_times(&line, ns);
      for (const char* plan : {"candidate", "winner", "fallback"}) {
        if (!line.contains(plan)) continue;
        auto program = line[plan]["program"].get<std::string>();
        const std::string from = "vectorize(avx2,8)";
        if (program.starts_with(from)) program = vectors + program.substr(from.size());
        line[plan]["program"] = program;
      }
      if (line["type"] == "decision")
        line["ns"] = ns, line["default_ns"] = ns * ratio, line["speedup"] = line["speedup_lo"] = ratio,
        line["speedup_hi"] = ratio, line["decided_at"] = 2'000'000'000 - static_cast<int64_t>(ns);
      text += line.dump() + "\n";
    }
    return text;
  };
  const Setting here{.env = {{"HONE_CPU", "zen3"}}};
  done({"db", "import", write("own.jsonl", measured_on("zen3", "own", "vectorize(avx2,8)", 1e6))}, here);
  const Json before = Json::parse(done({"explain", kProblem, "--json"}, here));
  ASSERT_EQ(before["reason"], "exact") << before.dump();
  const std::string foreign = measured_on("sapphire_rapids", "foreign", "vectorize(avx512,16)", 1);
  const Setting there{.env = {{"HONE_DB", file("foreign.db")}, {"HONE_CPU", "zen3"}}};
  done({"db", "import", write("foreign.jsonl", foreign)}, there);
  done({"db", "merge", file("foreign.db")}, here);
  EXPECT_EQ(Json::parse(done({"db", "ls", "--json"}, here))["decisions"].size(), 2u);
  const Json after = Json::parse(done({"explain", kProblem, "--json"}, here));
  EXPECT_EQ(after["plan"], before["plan"]);
  EXPECT_EQ(after["from"], before["from"]);
  for (const std::string problem : {kProblem, "matmul:f32:m=6,n=32,k=16"}) {
    const Json alone = Json::parse(done({"explain", problem, "--json"}, there));
    EXPECT_THAT(alone["plan"]["program"].get<std::string>(), Not(HasSubstr("avx512"))) << "never an illegal plan";
    EXPECT_NE(alone["reason"], "exact");
    EXPECT_EQ(hone({"bench", problem, "--threads", "1", "-r", "1", "--seconds", "0.05"},
                   {.env = {{"HONE_DB", file("foreign.db")}, {"HONE_CPU", avx2}}})
                  .code,
              0)
        << "and it runs";
  }
  EXPECT_THAT(done({"db", "verify"}, here), StartsWith("ok: "));
}

// What a database collects over years: other builds, machines, threads, code generators, damaged programs.
TEST_F(HoneDb, PlansAreTheSameBeforeAndAfterGc) {
  const std::vector<std::string> problems = {kProblem, "matmul:f32:m=1,n=32,k=16", "matmul:f32:m=8,n=32,k=32"};
  if (!tune(problems)) GTEST_SKIP() << "hone has no code for this CPU: it needs AVX2 and FMA";
  const std::vector<std::string> lines = lines_of(done({"db", "export", "-"}));
  std::vector<Json> head, decisions;
  std::map<std::string, std::vector<Json>> samples;
  std::map<std::string, Json> runs;
  std::vector<Json> programs;
  for (const std::string& text : lines) {
    const Json line = Json::parse(text);
    const std::string type = line["type"];
    if (type == "decision")
      decisions.push_back(line);
    else if (type == "samples")
      samples[line["run"]].push_back(line), programs.push_back(line["candidate"]);
    else if (type == "run")
      runs[line["uid"]] = line;
    else if (type != "end")
      head.push_back(line);
  }
  ASSERT_EQ(decisions.size(), problems.size());
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    std::string text;
    for (const Json& line : head) text += line.dump() + "\n";
    Json other_machine = {
        {"type", "machine"}, {"id", "other"}, {"key", "x86-64:avx,avx2,fma,f16c,bmi2"}, {"label", "{}"}};
    text += other_machine.dump() + "\n";
    for (int i = 0; i < 80; ++i) {
      Json decision = decisions[pick(decisions.size())];
      Json run = runs[decision["run"]];
      run["session"] = nullptr;  // which is of one machine and build
      run["uid"] = decision["run"] = "r" + std::to_string(seed) + "-" + std::to_string(i);
      if (pick(5) == 0) run["machine"] = "other";
      if (pick(4) == 0) run["build"]["engine"] = pick(2) ? "hone 0.0.9" : "hone 99.0.0";
      Json winner = programs[pick(programs.size())];
      if (pick(3) == 0) winner["program"] = "nonsense(" + std::to_string(pick(3)) + ")";
      if (pick(6) == 0) winner["codegen_version"] = "0.0.1";
      winner["threads"] = 1 + pick(3);
      decision["winner"] = winner;
      decision["ns"] = 100.0 + static_cast<double>(pick(1000));
      const double ratio = winner == decision["fallback"] ? 1 : decision["speedup"].get<double>();
      decision["default_ns"] = decision["ns"].get<double>() * ratio;
      decision["decided_at"] = 1'700'000'000 + static_cast<int64_t>(pick(60));
      Json sample = samples.begin()->second.front();
      sample["run"] = run["uid"], sample["problem"] = decision["problem"], sample["candidate"] = winner;
      set_times(&sample, decision["ns"]);
      for (const Json& line : {run, sample, decision}) text += line.dump() + "\n";
    }
    text += "{\"type\":\"end\"}\n";
    const std::string db = file("gc" + std::to_string(seed) + ".db");
    done({"db", "import", write("gc.jsonl", text), "--db", db});
    auto plans = [&] {
      std::vector<std::string> found;
      for (const std::string threads : {"1", "2", "16"}) {
        for (const std::string& p : problems) {
          const Json e = Json::parse(done({"explain", p, "--json", "--threads", threads, "--db", db}));
          found.push_back(threads + " " + p + e["plan"].dump() + e["from"].dump());
        }
      }
      return found;
    };
    const std::vector<std::string> before = plans();
    const Json dry = Json::parse(done({"db", "gc", "--dry-run", "--json", "--db", db}));
    EXPECT_EQ(plans(), before);
    const Json report = Json::parse(done({"db", "gc", "--json", "--db", db}));
    EXPECT_EQ(report["dropped"], dry["dropped"]);
    EXPECT_GT(report["dropped"].size(), 10u);
    EXPECT_EQ(plans(), before);
    EXPECT_EQ(Json::parse(done({"db", "gc", "--json", "--db", db}))["dropped"].size(), 0u);
  }
}

TEST_F(HoneDb, GcSaysWhatAndWhyAndVerifyCountsTheRest) {
  refused({"db", "gc"}, 1, "there is no database yet, nothing to drop");
  done({"db", "import", write("given.jsonl", made_up("nonsense"))});
  const std::string verify = done({"db", "verify"});
  EXPECT_THAT(verify, StartsWith("ok: "));
  EXPECT_THAT(verify, HasSubstr("info: this build cannot use 1 decision(s), such as 1: not a program of this build"));
  const std::string before = read("plans.db");
  EXPECT_THAT(done({"db", "gc", "--dry-run"}),
              AllOf(HasSubstr("decision 1: matmul:f32:m=4,n=32,k=16 asmjit 1 1 threads"),
                    HasSubstr("no build can use it: not a program"), HasSubstr("would drop: ")));
  EXPECT_EQ(read("plans.db"), before);
  EXPECT_THAT(done({"db", "gc"}),
              HasSubstr("dropped: 1 machines, 1 builds, 1 problems, 1 programs, 1 runs, 1 candidates, "
                        "2 samples, 1 decisions"));
  EXPECT_THAT(done({"db", "gc"}), StartsWith("dropped: nothing"));
  for (const std::string wrong : {"90", "d", "-1d", "0d", "1y", "1e400d", "nan"})
    refused({"db", "gc", "--older-than", wrong}, 2, "is not an age: write 90d");
  EXPECT_EQ(hone({"db", "gc", "--older-than", "90d", "--other-builds"}).code, 0);
}

// D9: no room for what gc writes. Nothing is lost, and it says so.
TEST_F(HoneDb, GcMendsWhatIsDamaged) {
  constexpr char kUsable[] =
      "vectorize(avx2,8) register_tile(2,32) tile(4,32,16) order(ji) pack_a(none) pack_b(none) panel(32) unroll_k(2) "
      "prefetch_b(0) prefetch_next(1) parallel(mn)";
  for (const char* table : {"samples", "programs"}) {
    SCOPED_TRACE(table);
    const std::string name = std::string(table) + ".db";
    const Setting here{.env = {{"HONE_DB", file(name)}}};
    done({"db", "import", write("given.jsonl", made_up(kUsable))}, here);
    // The page where the table begins.
    const Json root = Json::parse(
        done({"db", "query", "SELECT rootpage FROM sqlite_schema WHERE name = '" + name.substr(0, name.find('.')) + "'",
              "-o", "jsonl"},
             here));
    std::fstream(file(name), std::ios::in | std::ios::out | std::ios::binary)
            .seekp((root["rootpage"].get<std::streamoff>() - 1) * 4096)
        << std::string(4096, '\x07');
    const std::string before = read(name);
    EXPECT_EQ(hone({"db", "verify"}, here).code, 1);
    EXPECT_THAT(done({"db", "ls", "--json"}, here), HasSubstr(kProblem)) << "what can be read is";
    EXPECT_EQ(read(name), before) << "looking moves nothing";
    const Outcome gc = hone({"db", "gc"}, here);
    EXPECT_EQ(gc.code, 0) << gc.err;
    EXPECT_THAT(gc.err, AllOf(HasSubstr("moved to"), HasSubstr("1 table was damaged")));
    // Without its samples a decision rests on nothing.
    const bool dropped = std::string(table) == "samples";
    EXPECT_EQ(gc.err.find("1 decision was dropped whose samples are lost") != std::string::npos, dropped) << gc.err;
    EXPECT_EQ(done({"db", "ls", "--json"}, here).find(kProblem) == std::string::npos, dropped) << gc.out << gc.err;
    EXPECT_THAT(done({"db", "verify"}, here), StartsWith("ok: "));
    const Outcome again = hone({"db", "gc"}, here);
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_THAT(again.err, Not(HasSubstr("damaged")));
  }
  const Setting absent{.env = {{"HONE_DB", file("absent.db")}}};
  refused({"db", "gc"}, 1, "there is no database yet", absent);
  EXPECT_FALSE(fs::exists(file("absent.db")));
}

TEST_F(HoneDb, D9GcOnAFullDiskLosesNothing) {
  done({"db", "import", write("given.jsonl", made_up("nonsense"))});
  const std::string before = done({"db", "export", "-"});
  const Outcome o = hone({"db", "gc"}, {.file_limit = 4096});
  EXPECT_NE(o.code, 130);
  if (o.code != 0) {
    EXPECT_EQ(done({"db", "export", "-"}), before);
  }
  EXPECT_THAT(done({"db", "verify"}), StartsWith("ok: "));
}

}  // namespace
}  // namespace hone::cli_test
