// What one store knows, in another: as text and directly; whole or not at all; the union and nothing twice.
#include "db/transfer.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::HasSubstr;

std::string export_text(Store& store, const ExportOptions& options = {}) {
  std::string text;
  const Status s = export_lines(store, options, [&](std::string_view line) {
    text += line;
    return Status{};
  });
  EXPECT_TRUE(s.ok()) << s.to_string();
  return text;
}

Result<std::vector<TransferCount>> import_text(Store& store, const std::string& text,
                                               const ImportOptions& options = {}) {
  std::FILE* in = std::tmpfile();
  EXPECT_NE(in, nullptr);
  (void)std::fwrite(text.data(), 1, text.size(), in);
  std::rewind(in);
  auto counts = import_lines(store, in, "e.jsonl", options);
  (void)std::fclose(in);
  return counts;
}

int64_t added(const Result<std::vector<TransferCount>>& counts) {
  EXPECT_TRUE(counts.ok()) << counts.status().to_string();
  int64_t sum = 0;
  if (counts.ok())
    for (const TransferCount& c : *counts) sum += c.added;
  return sum;
}

std::multiset<std::string> lines_of(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

// Runs of several machines, builds and problems, with texts and numbers that are hard to carry.
void fill_randomly(Store& store, uint32_t seed, int runs) {
  std::mt19937 random(seed);
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const std::string odd[] = {"plain", "quote \" \\ /", "tab\tline\n", "\xc3\xbc\xe2\x82\xac", "bytes \xff\xfe", ""};
  for (int i = 0; i < runs; ++i) {
    const MachineLabel machine{.key = pick(2) ? "x86-64:avx2" : "x86-64:avx512", .label = odd[pick(6)]};
    const BuildLabel build{.engine = "hone 0." + std::to_string(pick(2)) + ".0", .codegens = "asmjit=1"};
    int64_t session = 0;
    if (pick(2)) {
      const auto claim = store.claim_session(machine, build, odd[pick(6)], true);
      ASSERT_TRUE(claim.ok());
      session = claim->id;
    }
    const ProblemKey p = problem(1 + pick(5), 32 << pick(2));
    const auto run = store.begin_run(machine, build,
                                     {.seed = static_cast<int64_t>(random()) * (pick(2) ? 1 : -1),
                                      .cache_mode = "warm",
                                      .noise_bound = pick(100) / 3.0,
                                      .settings = odd[pick(6)],
                                      .session_id = session,
                                      .problem = pick(3) ? p : ProblemKey{}});
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    std::vector<SampleGroup> groups;
    for (const std::string program : {"tuned", "default", "odd \xff \"", "odd \xfe"}) {
      SampleGroup group{.candidate = candidate(program, 1 + pick(3)), .samples = {}};
      for (int r = 0; r < 1 + pick(4); ++r)
        group.samples.push_back({.round = r,
                                 .order = pick(9),
                                 .ns = 1 + static_cast<int64_t>(random()) * (1 + pick(9)),
                                 .phase = static_cast<Phase>(pick(3))});
      groups.push_back(std::move(group));
    }
    ASSERT_TRUE(store.add_round(*run, p, groups, pick(50) / 7.0).ok());
    ASSERT_TRUE(
        store.add_outcome(*run, p, candidate(odd[pick(5)]), static_cast<Outcome>(pick(4)), odd[pick(6)], "c").ok());
    Decision d = decision(p, "tuned", 1'700'000'000 + pick(1000));
    d.ns = std::nextafter(1000.0 / (3 + pick(9)), 0);
    d.speedup = d.default_ns / d.ns + 1e-15 * pick(1000);
    d.speedup_lo = d.speedup * 0.9;
    d.speedup_hi = d.speedup * 1.1;
    d.verdict = static_cast<Verdict>(pick(3));
    if (pick(4)) {
      ASSERT_TRUE(store.add_decision(*run, d).ok());
    }
  }
  ASSERT_TRUE(store
                  .save_ranker({.machine_key = "x86-64:avx2",
                                .features = "f1",
                                .trained_at = 5,
                                .correlation = 0.1,
                                .model = std::string("\0\x01\xff", 3)})
                  .ok());
  for (int i = 0; i < 3; ++i) {
    ScheduleChoice choice = schedule_choice(2 + pick(2), 5 + pick(2), odd[pick(6)]);
    choice.machine.label = odd[pick(6)];
    choice.min_work = pick(1000);
    choice.fork_joins.resize(static_cast<size_t>(1 + pick(2)));
    ASSERT_TRUE(store.save_schedule(choice).ok());
    std::vector<CodeRecord> codes;
    for (const char* codegen : {"asmjit", "llvm"}) {
      CodeRecord code = code_record(codegen, static_cast<int64_t>(random()), 1 + pick(3));
      code.machine.label = odd[pick(6)];
      code.candidate.program = odd[pick(5)];
      if (pick(2)) code.loop.reset();
      if (pick(3) == 0) code.loop.reset(), code.whole.reset(), code.models.clear();
      if (pick(2)) code.ratio = code.ratio_lo = code.ratio_hi = 0;
      if (pick(3) == 0) code.ns = 0, code.rounds_ns.clear();
      codes.push_back(std::move(code));
    }
    ASSERT_TRUE(store.save_codes(codes).ok());
  }
}

TEST(DbTransfer, RandomStoresComeBackAsTheSameText) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Folder folder;
    const auto a = must_open(folder.file("a.db")), b = must_open(folder.file("b.db"));
    fill_randomly(*a, seed, 12);
    const std::string text = export_text(*a, {.rankers = true});
    EXPECT_EQ(export_text(*a, {.rankers = true}), text);
    EXPECT_GT(added(import_text(*b, text)), 12);
    EXPECT_EQ(export_text(*b, {.rankers = true}), text);
    EXPECT_EQ(added(import_text(*b, text)), 0) << "once more";
    EXPECT_EQ(export_text(*b, {.rankers = true}), text);
    EXPECT_EQ(rows(*b, "samples"), rows(*a, "samples"));
  }
}

TEST(DbTransfer, SchedulesGoWithTheirMachine) {
  const auto store = must_open(":memory:"), copy = must_open(":memory:");
  ASSERT_TRUE(store->save_schedule(schedule_choice(2, 100)).ok());
  ScheduleChoice other = schedule_choice(2, 100);
  other.machine.key = "x86-64:avx512";
  ASSERT_TRUE(store->save_schedule(other).ok());
  EXPECT_EQ(added(import_text(*copy, export_text(*store, {.machine_key = other.machine.key}))), 2);
  ASSERT_EQ(copy->schedules()->size(), 1u);
  EXPECT_EQ(copy->schedules()->front().machine.key, other.machine.key);
  EXPECT_EQ(export_text(*store, {.problem = problem(1).text}).find("fork_joins"), std::string::npos);
  other.min_work += 1;
  ASSERT_TRUE(store->save_schedule(other).ok());
  EXPECT_THAT(import_text(*copy, export_text(*store)).status().message(),
              HasSubstr("measured_at 100 is of another measurement here"));
}

TEST(DbTransfer, CodesGoWithTheirProblemAndMachine) {
  const auto store = must_open(":memory:"), copy = must_open(":memory:");
  ASSERT_TRUE(store->save_codes({code_record("asmjit", 100), code_record("llvm", 100)}).ok());
  CodeRecord other = code_record("llvm", 100, 2);
  other.machine.key = "x86-64:avx512";
  ASSERT_TRUE(store->save_codes({other}).ok());
  EXPECT_EQ(added(import_text(*copy, export_text(*store, {.problem = problem(2).text}))), 3)
      << "machine, problem, code";
  ASSERT_EQ(copy->codes()->size(), 1u);
  EXPECT_EQ(copy->codes()->front().machine.key, other.machine.key);
  EXPECT_EQ(added(import_text(*copy, export_text(*store, {.machine_key = "x86-64:avx2"}))), 4);
  EXPECT_EQ(export_text(*copy), export_text(*store));
  other.rounds_ns[0] += 1;
  ASSERT_TRUE(store->save_codes({other}).ok());
  EXPECT_THAT(import_text(*copy, export_text(*store)).status().message(),
              HasSubstr("measured_at 100 is of another measurement here"));
}

TEST(DbTransfer, FormatsBeforeAreStillRead) {
  const auto store = must_open(":memory:");
  const std::string text = export_text(*must_open(":memory:"));
  const std::string newest = "\"format\":3";
  for (const char* format : {"\"format\":1", "\"format\":2"})
    EXPECT_TRUE(import_text(*store, std::string(text).replace(text.find(newest), newest.size(), format)).ok());
}

TEST(DbTransfer, FewMoreSamplesChangeFewLines) {
  Folder folder;
  const auto store = must_open(folder.file("a.db"));
  fill_randomly(*store, 3, 10);
  const std::string before = export_text(*store);
  ASSERT_TRUE(add_samples(*store, 1, problem(9), candidate("tuned"), {{.round = 90, .order = 0, .ns = 7}}).ok());
  std::vector<std::string> changed;
  const auto old_lines = lines_of(before), new_lines = lines_of(export_text(*store));
  std::set_difference(new_lines.begin(), new_lines.end(), old_lines.begin(), old_lines.end(),
                      std::back_inserter(changed));
  EXPECT_EQ(changed.size(), 2u) << "the problem and its samples";
}

TEST(DbTransfer, ExportCanBeOfOneProblemOrMachine) {
  Folder folder;
  const auto store = must_open(folder.file("a.db"));
  for (int64_t m = 1; m <= 3; ++m) fill(*store, m);
  const auto run = begin(*store, "x86-64:avx512");
  ASSERT_TRUE(add_samples(*store, *run, problem(2), candidate("wide"), {{.round = 0, .order = 0, .ns = 5}}).ok());
  const std::string of_problem = export_text(*store, {.problem = problem(2).text});
  EXPECT_EQ(of_problem.find(problem(1).text), std::string::npos);
  EXPECT_THAT(of_problem, HasSubstr("wide"));
  const std::string of_machine = export_text(*store, {.machine_key = "x86-64:avx512"});
  EXPECT_EQ(of_machine.find("tuned"), std::string::npos);
  EXPECT_THAT(of_machine, HasSubstr("wide"));
  EXPECT_EQ(lines_of(export_text(*store, {.problem = "none"})).size(), 2u) << "header and end";
  for (const std::string& part : {of_problem, of_machine}) {
    const auto other = must_open(":memory:");
    EXPECT_GT(added(import_text(*other, part)), 0);
    EXPECT_EQ(export_text(*other), part);
  }
}

TEST(DbTransfer, MergeIsTheUnionAndKeepsLabels) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    Folder folder;
    const std::string a_path = folder.file("a.db"), b_path = folder.file("b.db");
    auto a = must_open(a_path);
    fill_randomly(*a, seed, 6);
    a.reset();
    std::filesystem::copy(a_path, b_path);  // what both have
    a = must_open(a_path);
    const auto b = must_open(b_path);
    fill_randomly(*a, seed + 100, 4);
    fill_randomly(*b, seed + 200, 4);
    const std::string of_a = export_text(*a), of_b = export_text(*b);
    ASSERT_GT(added(merge(*a, *b)), 0);
    std::set<std::string> both, is;
    for (const std::string& line : lines_of(of_a)) both.insert(line);
    for (const std::string& line : lines_of(of_b)) both.insert(line);
    for (const std::string& line : lines_of(export_text(*a))) is.insert(line);
    EXPECT_EQ(is, both);
    EXPECT_EQ(export_text(*b), of_b) << "the other is only read";
    EXPECT_EQ(added(merge(*a, *b)), 0);
    ASSERT_GT(added(merge(*b, *a)), 0);
    EXPECT_EQ(export_text(*b), export_text(*a));
  }
}

TEST(DbTransfer, RunCopiedWhileUnderWayIsCompletedLater) {
  Folder folder;
  const auto a = must_open(folder.file("a.db")), b = must_open(folder.file("b.db"));
  const auto run = begin(*a);
  ASSERT_TRUE(add_samples(*a, *run, problem(1), candidate("tuned"), {{.round = 0, .order = 0, .ns = 1000}}, 1).ok());
  const std::string half = export_text(*a);
  ASSERT_GT(added(import_text(*b, half)), 0);
  ASSERT_TRUE(a->set_noise_bound(*run, 0.5).ok());
  ASSERT_TRUE(add_samples(*a, *run, problem(1), candidate("default"), {{.round = 0, .order = 1, .ns = 1500}}, 2).ok());
  ASSERT_TRUE(a->add_decision(*run, decision(problem(1), "tuned")).ok());
  EXPECT_EQ(added(merge(*b, *a)), 2) << "one sample, one decision";
  EXPECT_EQ(export_text(*b), export_text(*a));
  EXPECT_EQ(added(import_text(*b, half)), 0) << "the older copy takes nothing back";
  EXPECT_EQ(export_text(*b), export_text(*a));
}

// Two hosts of one kind would mix their samples in one run.
TEST(DbTransfer, SessionsAreNotTakenUpElsewhere) {
  Folder folder;
  const auto a = must_open(folder.file("a.db")), b = must_open(folder.file("b.db"));
  const MachineLabel machine{.key = "k", .label = "l"};
  const BuildLabel build{.engine = "e", .codegens = "c"};
  const auto claim = a->claim_session(machine, build, "s", false);
  ASSERT_TRUE(a->begin_run(machine, build, {.cache_mode = "warm", .session_id = claim->id}).ok());
  ASSERT_TRUE(a->release_session(claim->id).ok());
  ASSERT_GT(added(merge(*b, *a)), 0);
  EXPECT_FALSE(b->claim_session(machine, build, "s", false)->resumed);
  EXPECT_GT(added(merge(*a, *b)), -1);
  EXPECT_TRUE(a->claim_session(machine, build, "s", false)->resumed) << "here it is as it was";
}

TEST(DbTransfer, MergeRefusesItself) {
  Folder folder;
  const std::string path = folder.file("a.db");
  const auto a = must_open(path), again = must_open(path, OpenMode::kReadOnly);
  std::filesystem::create_symlink(path, folder.file("link.db"));
  const auto link = must_open(folder.file("link.db"), OpenMode::kReadOnly);
  for (Store* other : {a.get(), again.get(), link.get()}) {
    const auto counts = merge(*a, *other);
    EXPECT_EQ(counts.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(counts.status().message(), HasSubstr("itself"));
  }
}

TEST(DbTransfer, MergeReadsEveryOlderSchemaAndRefusesNewer) {
  Folder folder;
  const std::string old = folder.file("v1.db"), newer = folder.file("new.db");
  run_sql(old, slurp(std::string(HONE_DB_FIXTURES) + "/v1.sql"));
  const auto a = must_open(folder.file("a.db"));
  EXPECT_GT(added(merge(*a, *must_open(old, OpenMode::kReadOnly))), 0);
  EXPECT_EQ(added(merge(*a, *must_open(old, OpenMode::kReadOnly))), 0) << "uids of old runs stay the same";
  (void)must_open(newer);
  run_sql(newer, "PRAGMA user_version = 99");
  const auto counts = merge(*a, *must_open(newer, OpenMode::kReadOnly));
  EXPECT_EQ(counts.status().code(), Code::kUnsupported);
  EXPECT_THAT(counts.status().message(), HasSubstr("newer version"));
}

TEST(DbTransfer, ProcessesMergeIntoOneFile) {
  Folder folder;
  for (int i = 0; i < 4; ++i) fill_randomly(*must_open(folder.file(std::to_string(i) + ".db")), 40 + i, 8);
  const std::string target = folder.file("all.db");
  const std::vector<int> codes = in_processes(4, [&](int i) {
    const auto into = must_open(target), from = must_open(folder.file(std::to_string(i) + ".db"), OpenMode::kReadOnly);
    return into && from && merge(*into, *from).ok() ? 0 : 1;
  });
  EXPECT_EQ(codes, std::vector<int>(4, 0));
  const auto all = must_open(target, OpenMode::kReadOnly);
  EXPECT_EQ(rows(*all, "runs"), 32);
  const std::string text = export_text(*all);
  for (int i = 0; i < 4; ++i) {
    for (const std::string& line : lines_of(export_text(*must_open(folder.file(std::to_string(i) + ".db")))))
      EXPECT_THAT(text, HasSubstr(line));
  }
}

// Each line that is wrong, after lines that are right: named by number and field, and nothing of the file is kept.
TEST(DbTransfer, WrongLinesAreNamedAndNothingIsWritten) {
  const auto source = must_open(":memory:");
  fill(*source);
  const std::string good = export_text(*source);
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  const std::string end = "{\"type\":\"end\"}\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "the file is empty"},
      {"\n \r\n", "the file is empty"},
      {"not JSON\n", "e.jsonl:1: no JSON, from column"},
      {std::string("\x7f"
                   "ELF\0\0\1\2",
                   8),
       "e.jsonl:1: no JSON"},
      {"[1]\n", "not a JSON object with a type"},
      {"{\"type\":\"run\"}\n", "has to begin with a header"},
      {"{\"type\":\"hone-export\",\"format\":4,\"schema\":2}\n", "format 4 is newer than this hone reads"},
      {"{\"type\":\"hone-export\",\"format\":0,\"schema\":2}\n", "format is 0, must be from 1 to 3"},
      {"{\"type\":\"hone-export\",\"format\":\"1\",\"schema\":2}\n", "format is \"1\", must be a whole number"},
      {good.substr(0, good.size() - end.size()), "cut short: the end record is missing"},
      {good.substr(0, good.size() / 2), "cut short"},
      {good.substr(0, good.size() - end.size()) + good, "a header within an export"},
      {with("\"type\":\"samples\"", "\"type\":\"sample\""), "e.jsonl:5: unknown type \"sample\""},
      {with(",1500]", ",0]"), "samples: confirm [0, 1, 0]: the time is 0 ns, must be positive"},
      {with(",1500]", ",-4]"), "the time is -4 ns, must be positive"},
      {with(",1500]", ",1e300]"), "samples: confirm[0] is 1e+300, must be a whole number"},
      {with(",1500]", ",9300000000000000000]"), "must be a whole number of at most 63 bits"},
      {with(",1500]", ",9200000000000000000]"), "is no time of a kernel"},
      {with(",1500]", ",1.5]"), "must be a whole number"},
      {with(",1500]", "]"), "must be [round, order, ns]"},
      {with("[0,1,1500]", "[0,99999999999,1500]"), "too large"},
      {with("[0,1,1500]", "[-1,1,1500]"), "must not be negative"},
      {with("[0,1,1500]", "[0,1,1500],[0,1,1600]"), "this slot of run"},
      {with("\"seed\":7,", ""), "run: seed is missing"},
      {with("\"seed\":7", "\"seed\":null"), "run: seed is null, must be a whole number"},
      {with("\"seed\":7", "\"seed\":7,\"sead\":8"), "run: sead is not a field of this record"},
      {with("\"threads\":1", "\"threads\":0"), "candidate has 0 threads"},
      {with("\"threads\":1", "\"threads\":\"1\""), "candidate.threads is \"1\", must be a whole number"},
      {with("\"ns\":1000.0", "\"ns\":1e999"), "e.jsonl:7: no JSON"},
      {with("\"ns\":1000.0", "\"ns\":null"), "decision: ns is null, must be a number"},
      {with("\"ns\":1000.0", "\"ns\":-1"), "decision: ns is -1, must be finite and positive"},
      {with("\"verdict\":\"new\"", "\"verdict\":\"best\""), "verdict is 'best', must be one of new, kept, tie"},
      {with("\"speedup\":1.5", "\"speedup\":1.7"), "decision: speedup is 1.7, outside its interval [1.4, 1.6]"},
      {with("\"decided_at\":", "\"decided_at\":-"), "decision: decided_at is -"},
      {with("\"decided_at\":", "\"decided_at\":9999"), "before the year 10000"},
      {with("\"started_at\":", "\"started_at\":-"), "run: started_at is -"},
      {with("\"seed\":7", "\"seed\":7,\"seed\":8"), "the field \"seed\" is there twice"},
      {with("\"threads\":1", "\"threads\":1,\"threads\":2"), "the field \"threads\" is there twice"},
      {with("\"label\":\"{}\"", "\"label\":\"" + std::string(1000, '[') + "\""), "label is nested too deep"},
      {with("\"label\":\"{}\"", "\"label\":\"" + std::string(70'000, 'x') + "\""), "label has 70000 bytes"},
      {with("\"m\":1", "\"m\":-1"), "problem: m is -1"},
      {with("\"run\":\"", "\"run\":\"x"), "is not a run of an earlier line"},
      {with("\"noise_bound\":0.01", "\"noise_bound\":[[[[1]]]]"), "nested too deep"},
      {with("\"settings\":\"{}\"", "\"settings\":{\"hex\":\"0g\"}"), "must be a string or {\"hex\": \"...\"}"}};
  Folder folder;
  const auto store = must_open(folder.file("a.db"));
  fill(*store, 5);
  const std::string before = export_text(*store);
  for (const auto& [text, what] : cases) {
    const auto counts = import_text(*store, text);
    ASSERT_FALSE(counts.ok()) << what;
    EXPECT_THAT(counts.status().message(), HasSubstr(what));
    EXPECT_EQ(counts.status().message().find('\n'), std::string::npos);
    EXPECT_LT(counts.status().message().size(), 400u);
    EXPECT_EQ(export_text(*store), before);
  }
  EXPECT_GT(added(import_text(*store, good)), 0);
}

TEST(DbTransfer, LinesMayEndAsOnWindowsAndExportsFollowEachOther) {
  const auto a = must_open(":memory:"), b = must_open(":memory:"), c = must_open(":memory:");
  fill(*a, 1);
  fill(*b, 2);
  std::string text = "\xef\xbb\xbf" + export_text(*a) + "\n" + export_text(*b);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
  EXPECT_GT(added(import_text(*c, text)), 0);
  EXPECT_EQ(rows(*c, "runs"), 2);
}

TEST(DbTransfer, HugeLinesAreRefusedWithoutHoldingThem) {
  const auto store = must_open(":memory:");
  const auto counts = import_text(*store, "{\"type\":\"" + std::string(100 << 20, 'x') + "\"}\n");
  EXPECT_THAT(counts.status().message(), HasSubstr("e.jsonl:1: a line of more than 16 MiB"));
  const auto deep = import_text(*store, std::string(8 << 20, '['));
  EXPECT_THAT(deep.status().message(), HasSubstr("nested too deep"));
}

TEST(DbTransfer, ConflictsWithWhatIsThereAreRefused) {
  const auto source = must_open(":memory:");
  fill(*source);
  const std::string text = export_text(*source);
  const auto store = must_open(":memory:");
  ASSERT_GT(added(import_text(*store, text)), 0);
  const std::string before = export_text(*store);
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {",1500]", ",1501]", "has a time of 1500 ns already"},
      {"\"seed\":7", "\"seed\":8", "with another seed here"},
      {"\"verdict\":\"new\"", "\"verdict\":\"tie\"", "has another decision on"},
      {"\"noise_bound\":0.01,\"decided_at\"", "\"noise_bound\":0.02,\"decided_at\"", "has another decision on"},
      {"\"engine\":\"hone test\"", "\"engine\":\"hone 9\"", "with another build here"},
      {"\"family\":\"matmul", "\"family\":\"other", "is stored with family"}};
  for (const auto& [from, to, what] : cases) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    EXPECT_THAT(import_text(*store, other).status().message(), HasSubstr(what));
    EXPECT_EQ(export_text(*store), before);
  }
}

TEST(DbTransfer, SessionsKeepWhatTheyAre) {
  const auto source = must_open(":memory:"), store = must_open(":memory:");
  const MachineLabel machine{.key = "x86-64:avx2", .label = "{}"};
  const BuildLabel build{.engine = "hone test", .codegens = "asmjit=1"};
  const auto session = source->claim_session(machine, build, "options", true);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(source->begin_run(machine, build, {.session_id = session->id}).ok());
  const std::string text = export_text(*source);
  ASSERT_GT(added(import_text(*store, text)), 0);
  auto changed = [&](const std::string& from, const std::string& to, size_t after) {
    std::string other = text;
    return other.replace(other.find(from, after), from.size(), to);
  };
  const size_t session_line = text.find("\"type\":\"session\""), run_line = text.find("\"type\":\"run\"");
  EXPECT_THAT(import_text(*store, changed("options", "others", session_line)).status().message(),
              HasSubstr("is a session with another settings here"));
  EXPECT_THAT(import_text(*store, changed("hone test", "hone 9", session_line)).status().message(),
              HasSubstr("is a session with another build here"));
  const auto fresh = must_open(":memory:");
  EXPECT_THAT(import_text(*fresh, changed("hone test", "hone 9", run_line)).status().message(),
              HasSubstr("is of another machine or build than this run"));
  EXPECT_EQ(export_text(*store), text);
}

// A file whose rules were switched off: a phase that indexes no name, numbers that fit no int.
TEST(DbTransfer, ValuesThatNoRecordHoldsAreAnErrorAndNoCrash) {
  for (const std::string change :
       {"UPDATE samples SET phase = 1000000", "UPDATE samples SET phase = -1",
        "UPDATE samples SET position = 4294967296 + position", "UPDATE candidates SET threads = 4294967297 + id"}) {
    SCOPED_TRACE(change);
    Folder folder;
    const std::string bad = folder.file("bad.db");
    fill(*must_open(bad));
    run_sql(bad, "PRAGMA ignore_check_constraints = on; " + change);
    const auto from = must_open(bad, OpenMode::kReadOnly), store = must_open(":memory:");
    const Status exported = export_lines(*from, {}, [](std::string_view) { return Status{}; });
    EXPECT_EQ(exported.code(), Code::kDataLoss) << exported.to_string();
    EXPECT_THAT(exported.message(), HasSubstr("which this hone never writes"));
    EXPECT_EQ(merge(*store, *from).status().code(), Code::kDataLoss);
    EXPECT_EQ(rows(*store, "runs"), 0);
    EXPECT_TRUE(from->all_decisions().ok());
  }
}

// Whoever has rows already must not get them again.
TEST(DbTransfer, WhatFindsTheFileBusyAfterTheFirstRecordIsNotStartedAgain) {
  const auto store = must_open(":memory:");
  fill(*store);
  int lines = 0;
  const Status s = export_lines(*store, {}, [&](std::string_view) -> Status {
    if (++lines == 3) throw SQLite::Exception("busy", SQLITE_BUSY);
    return {};
  });
  EXPECT_EQ(s.code(), Code::kUnavailable);
  EXPECT_EQ(lines, 3);
}

TEST(DbTransfer, CallerChecksProblemsAndMayStop) {
  const auto source = must_open(":memory:"), store = must_open(":memory:");
  fill(*source);
  const ImportOptions strict{.check_problem = [](const ProblemKey& p) { return invalid_argument("no " + p.text); }};
  EXPECT_THAT(import_text(*store, export_text(*source), strict).status().message(), HasSubstr("e.jsonl:3: no matmul"));
  EXPECT_THAT(merge(*store, *source, strict).status().message(), HasSubstr("no matmul"));
  int asked = 0;
  const ImportOptions stop{.stop = [&] { return ++asked > 3; }};
  EXPECT_EQ(import_text(*store, export_text(*source), stop).status().code(), Code::kUnavailable);
  asked = 0;
  EXPECT_EQ(merge(*store, *source, stop).status().code(), Code::kUnavailable);
  EXPECT_EQ(rows(*store, "machines"), 0);
}

// D4: a store whose rules were switched off does not hand on what breaks them.
TEST(DbTransfer, D4FaultyStoreIsNotMerged) {
  Folder folder;
  const std::string bad = folder.file("bad.db");
  fill(*must_open(bad));
  run_sql(bad, "PRAGMA ignore_check_constraints = on; UPDATE samples SET ns = 0");
  const auto store = must_open(folder.file("a.db"));
  const auto counts = merge(*store, *must_open(bad, OpenMode::kReadOnly));
  EXPECT_THAT(counts.status().message(), HasSubstr("must be positive"));
  EXPECT_EQ(rows(*store, "runs"), 0);
}

}  // namespace
}  // namespace hone::db
