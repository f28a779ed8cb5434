// hone db: look at the database of plans.
#include <fmt/format.h>

#include <map>
#include <optional>

#include "engine/base/machine_kind.h"
#include "kernels/op/op.h"
#include "tools/hone/db.h"
#include "tools/hone/json.h"
#include "tools/hone/regions.h"

namespace hone::cli {
namespace {

Cell gflops(const std::string& problem, double ns) {
  const Result<op::Problem> p = op::parse_problem(problem);
  if (!p.ok() || ns <= 0) return {};
  return op::flops(*p) / ns;
}

// Whether a plan was measured on a machine such as this: one that the resolver takes for the same.
bool same_machine(const db::MachineLabel& there, const std::optional<Machine>& here) {
  return here && there.key == here->key() &&
         kind_difference(kind_of(read_machine_label(there.label)), kind_of(*here)).empty();
}

// Every decision, newest per problem first. Machine keys are long and mostly equal: people see whether it is this one.
Table decisions_table(const std::vector<db::StoredDecision>& decisions, const std::optional<Machine>& here) {
  Table table{"decisions",
              {{"id"},
               {"problem"},
               {"verdict"},
               {"codegen"},
               {"threads"},
               {"ns", For::kMachines},
               {"us", For::kPeople},
               {"gflops"},
               {"speedup"},
               {"program"},
               {"machine"},
               {"machine_key", For::kMachines},
               {"build", For::kMachines},
               {"why", For::kMachines},
               {"decided"}},
              {}};
  for (const db::StoredDecision& s : decisions) {
    const db::Decision& d = s.decision;
    table.add({s.id, d.problem.text, std::string(db::verdict_name(d.verdict)), d.winner.codegen,
               int64_t{d.winner.threads}, d.ns, d.ns / 1e3, gflops(d.problem.text, d.ns), d.speedup, d.winner.program,
               std::string(same_machine(s.machine, here) ? "this" : "other"), s.machine.key, s.build.engine,
               s.whole ? Cell(s.whole->why) : Cell(), utc(d.decided_at)});
  }
  return table;
}

std::optional<Machine> machine_here() {
  Result<Machine> machine = described_machine();
  return machine.ok() ? std::optional(std::move(*machine)) : std::nullopt;
}

int run_path(const DbArgs& args) {
  const Result<std::string> path = args.db.empty() ? db::default_path() : Result<std::string>(args.db);
  if (!path.ok()) return fail(path.status());
  print("{}\n", *path);
  return kDone;
}

int run_ls(const DbArgs& args) {
  const Result<Format> format = args.format();
  if (!format.ok()) return fail(format.status());
  Result<std::unique_ptr<db::Store>> store = open_stored(args.db);
  if (!store.ok()) return fail(store.status());
  std::vector<db::StoredDecision> decisions;
  if (*store != nullptr) {
    Result<std::vector<db::StoredDecision>> all = (*store)->all_decisions();
    if (!all.ok()) return fail(all.status());
    decisions = std::move(*all);
  }
  if (decisions.empty()) note("no decisions yet: run hone tune");
  write_results(render(decisions_table(decisions, machine_here()), *format));
  return kDone;
}

// What machines were found to run regions on.
int show_schedules(db::Store& store) {
  const Result<std::vector<db::ScheduleChoice>> schedules = store.schedules();
  if (!schedules.ok()) return fail(schedules.status());
  Json found = Json::array();
  for (const db::ScheduleChoice& choice : *schedules) found.push_back(measured_json(choice));
  print("{}\n", dump(found, 2));
  return kDone;
}

// By number, or all of a problem.
int run_show(const DbArgs& args) {
  Result<std::unique_ptr<db::Store>> store = open_stored(args.db);
  if (!store.ok()) return fail(store.status());
  if (*store == nullptr) return fail(not_found("no decisions yet: run hone tune"));
  if (args.what == "schedules") return show_schedules(**store);
  const Result<std::vector<db::StoredDecision>> decisions = (*store)->all_decisions();
  if (!decisions.ok()) return fail(decisions.status());
  const std::string text = problem_text(args.what);
  Json found = Json::array();
  for (const db::StoredDecision& s : *decisions) {
    const db::Decision& d = s.decision;
    if (std::to_string(s.id) != args.what && d.problem.text != text) continue;
    const auto samples = (*store)->samples(s.run_id, d.problem.text);
    if (!samples.ok()) return fail(samples.status());
    size_t count = 0;
    for (const auto& [candidate, taken] : *samples) count += taken.size();
    auto plan = [](const db::Candidate& c) {
      return Json{{"program", c.program},
                  {"codegen", c.codegen},
                  {"codegen_version", c.codegen_version},
                  {"threads", c.threads},
                  {"numerics", c.numerics}};
    };
    found.push_back({{"id", s.id},
                     {"problem", d.problem.text},
                     {"verdict", db::verdict_name(d.verdict)},
                     {"winner", plan(d.winner)},
                     {"ns", d.ns},
                     {"default", plan(d.fallback)},
                     {"default_ns", d.default_ns},
                     {"speedup", d.speedup},
                     {"speedup_ci95", {d.speedup_lo, d.speedup_hi}},
                     {"noise_bound", d.noise_bound},
                     {"why", s.whole ? Json(s.whole->why) : Json(nullptr)},
                     {"run", s.run_id},
                     {"candidates_measured", samples->size()},
                     {"samples", count},
                     {"machine_key", s.machine.key},
                     {"build", s.build.engine},
                     {"codegens", s.build.codegens},
                     {"decided", utc(d.decided_at)}});
  }
  if (found.empty())
    return fail(not_found(fmt::format("no decision '{}' in {}: hone db ls lists them", args.what, (*store)->path())));
  print("{}\n", dump(found, 2));
  return kDone;
}

// Not faults: another build or machine may use them. One line a kind of reason, with the newest as an example.
Result<std::string> unusable_here(db::Store& store) {
  HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredDecision> decisions, store.all_decisions());
  HONE_ASSIGN_OR_RETURN(const Judge judge, Judge::make(decisions));
  struct Kind {
    int64_t count = 0, newest = 0;
    std::string why;
  };
  std::map<std::string, Kind> kinds;
  for (const db::StoredDecision& d : decisions) {
    const std::string why = judge.worth(d).why_not;
    if (why.empty()) continue;
    Kind& kind = kinds[why.substr(0, why.find(':'))];
    ++kind.count;
    if (d.id > kind.newest) kind = {.count = kind.count, .newest = d.id, .why = why};
  }
  std::string lines;
  for (const auto& [name, kind] : kinds)
    lines +=
        fmt::format("info: this build cannot use {} decision(s), such as {}: {}\n", kind.count, kind.newest, kind.why);
  return lines;
}

int run_verify(const DbArgs& args) {
  Result<std::unique_ptr<db::Store>> store = open_existing(args.db, "verify");
  if (!store.ok()) return fail(store.status());
  const Result<std::vector<std::string>> faults = (*store)->verify();
  if (!faults.ok()) return fail(faults.status());
  for (const std::string& fault : *faults) print("{}\n", fault);
  const Result<std::vector<db::TableCount>> counts = (*store)->counts();
  if (!counts.ok()) return fail(counts.status());
  std::string summary;
  for (const db::TableCount& c : *counts)
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", c.rows, c.table);
  if (!faults->empty()) return fail(data_loss(fmt::format("{} fault(s) in {}", faults->size(), (*store)->path())));
  const Result<std::string> unusable = unusable_here(**store);
  if (!unusable.ok()) return fail(unusable.status());
  print("ok: {} (schema {}): {}\n{}", (*store)->path(), (*store)->schema_version(), summary, *unusable);
  return kDone;
}

}  // namespace

void add_format(CLI::App& verb, DbArgs& args) {
  verb.add_option("-o,--output", args.output, "md, csv, json, jsonl or sql");
  verb.add_flag("--json", args.json, "same as -o json");
}

Result<std::unique_ptr<db::Store>> open_existing(const std::string& path, const char* task) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> store, open_stored(path));
  if (store == nullptr) return not_found(fmt::format("there is no database yet, nothing to {}: run hone tune", task));
  return store;
}

Result<std::unique_ptr<db::Store>> open_to_change(const std::string& path) {
  // Who changes it by hand can wait for a look at all of it, and is not to build upon damage.
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> store,
                        db::open({.path = path, .mode = db::OpenMode::kReadWrite, .check_all = true}));
  const bool wanted = store->mode() == db::OpenMode::kReadWrite || path == ":memory:";
  if (!wanted) return failed_precondition(store->message());
  if (!store->message().empty()) note(store->message());
  return store;
}

int fail_or_interrupted(const Status& status) {
  if (!interrupted()) return fail(status);
  note(status.message());
  return kInterrupted;
}

std::string problem_text(const std::string& typed) {
  const Result<op::Problem> problem = op::parse_problem(typed);
  return problem.ok() ? op::to_string(*problem) : typed;
}

void add_db(CLI::App& app, Run& run) {
  CLI::App* db = app.add_subcommand("db", "the database of plans: look, query, move to another machine, clean up");
  db->require_subcommand(1);
  auto args = std::make_shared<DbArgs>();
  add_verb(*db, run, args, "path", "where the database is", run_path);
  add_format(*add_verb(*db, run, args, "ls", "every decision", run_ls), *args);
  CLI::App* show =
      add_verb(*db, run, args, "show", "one decision by number, all of a problem, or all schedules, as JSON", run_show);
  show->add_option("what", args->what,
                   "number, problem or 'schedules': what machines run regions on, and from how much work on")
      ->required()
      ->check(not_empty());
  show->add_option("-o,--output", args->output, "json")->check(CLI::IsMember({"json"}));
  show->add_flag("--json", args->json, "same as -o json");
  add_verb(*db, run, args, "verify", "check file and content, and count what this build cannot use", run_verify);
  add_db_query(*db, run);
  add_db_transfer(*db, run);
  add_db_gc(*db, run);
  add_db_learn(*db, run);
}

}  // namespace hone::cli
