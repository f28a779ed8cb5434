// hone db: look at the database of plans.
#include <fmt/format.h>

#include "kernels/matmul/problem.h"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

struct DbArgs {
  std::string db;
  std::string output = "md";
  bool json = false;
  std::string what;

  Result<Format> format() const { return parse_format(json ? "json" : output); }
};

Cell gflops(const std::string& problem, double ns) {
  const Result<matmul::MatmulProblem> p = matmul::parse_problem(problem);
  if (!p.ok() || ns <= 0) return {};
  return p->flops() / ns;
}

// Every decision, newest per problem first. Machine keys are long and mostly equal: people see whether it is this one.
Table decisions_table(const std::vector<db::StoredDecision>& decisions, const std::string& here) {
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
               {"decided"}},
              {}};
  for (const db::StoredDecision& s : decisions) {
    const db::Decision& d = s.decision;
    table.add({s.id, d.problem.text, std::string(db::verdict_name(d.verdict)), d.winner.codegen,
               int64_t{d.winner.threads}, d.ns, d.ns / 1e3, gflops(d.problem.text, d.ns), d.speedup, d.winner.program,
               std::string(s.machine.key == here ? "this" : "other"), s.machine.key, s.build.engine,
               utc(d.decided_at)});
  }
  return table;
}

std::string machine_key() {
  const Result<Machine> machine = detect_machine();
  return machine.ok() ? machine->key() : "";
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
  write_results(render(decisions_table(decisions, machine_key()), *format));
  return kDone;
}

// By number, or all of a problem.
int run_show(const DbArgs& args) {
  Result<std::unique_ptr<db::Store>> store = open_stored(args.db);
  if (!store.ok()) return fail(store.status());
  if (*store == nullptr) return fail(not_found("no decisions yet: run hone tune"));
  const Result<std::vector<db::StoredDecision>> decisions = (*store)->all_decisions();
  if (!decisions.ok()) return fail(decisions.status());
  const Result<matmul::MatmulProblem> problem = matmul::parse_problem(args.what);
  const std::string text = problem.ok() ? matmul::to_string(*problem) : args.what;
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

int run_verify(const DbArgs& args) {
  Result<std::unique_ptr<db::Store>> store = open_stored(args.db);
  if (!store.ok()) return fail(store.status());
  if (*store == nullptr) return fail(not_found("there is no database yet, nothing to verify: run hone tune"));
  const Result<std::vector<std::string>> faults = (*store)->verify();
  if (!faults.ok()) return fail(faults.status());
  for (const std::string& fault : *faults) print("{}\n", fault);
  const Result<std::vector<db::TableCount>> counts = (*store)->counts();
  if (!counts.ok()) return fail(counts.status());
  std::string summary;
  for (const db::TableCount& c : *counts)
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", c.rows, c.table);
  if (!faults->empty()) return fail(data_loss(fmt::format("{} fault(s) in {}", faults->size(), (*store)->path())));
  print("ok: {} (schema {}): {}\n", (*store)->path(), (*store)->schema_version(), summary);
  return kDone;
}

}  // namespace

void add_db(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("db", "the database of plans: path, ls, show, verify");
  command->require_subcommand(1);
  auto args = std::make_shared<DbArgs>();
  auto add = [&](const char* name, const char* help, int (*fn)(const DbArgs&)) {
    CLI::App* sub = command->add_subcommand(name, help);
    sub->add_option("--db", args->db, "database file (default: hone db path)")->check(not_empty());
    sub->callback([args, fn, &run] { run = [args, fn] { return fn(*args); }; });
    return sub;
  };
  add("path", "where the database is", run_path);
  CLI::App* ls = add("ls", "every decision", run_ls);
  ls->add_option("-o,--output", args->output, "md, csv, json, jsonl or sql");
  ls->add_flag("--json", args->json, "same as -o json");
  CLI::App* show = add("show", "one decision by number, or all of a problem, as JSON", run_show);
  show->add_option("what", args->what, "number or problem")->required()->check(not_empty());
  show->add_option("-o,--output", args->output, "json")->check(CLI::IsMember({"json"}));
  show->add_flag("--json", args->json, "same as -o json");
  add("verify", "check file and content", run_verify);
}

}  // namespace hone::cli
