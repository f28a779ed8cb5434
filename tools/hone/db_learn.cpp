// hone db learn: trains the order in which candidates are measured, on what this machine has measured so far. The model
// is kept only when it is better than the analytical order on problems that it was not trained on.
#include <fmt/format.h>

#include "autotune/learn/evaluate.h"
#include "autotune/learn/features.h"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

using autotune::Evaluation;
using autotune::OrderQuality;

// Fixed, so that the same samples give the same model.
constexpr uint64_t kSeed = 1;

struct LearnArgs {
  std::string db;
  std::string output = "md";
  bool json = false;
};

struct Learned {
  Evaluation evaluation;
  std::string machine_key;
  int64_t ranker = 0;  // its number in the database; 0: none was kept
};

Table held_out_table(const Evaluation& e) {
  Table table{"held_out",
              {{"problem", For::kAll, "held-out problem"},
               {"candidates"},
               {"correlation_learned", For::kAll, "rank correlation, learned"},
               {"correlation_analytical", For::kAll, "analytical"},
               {"regret_learned", For::kMachines},
               {"regret_analytical", For::kMachines},
               {"regret_learned_pct", For::kPeople, fmt::format("regret@{} %, learned", autotune::kFirst)},
               {"regret_analytical_pct", For::kPeople, "analytical"}},
              {}};
  auto add = [&](const std::string& name, int candidates, const OrderQuality& learned, const OrderQuality& analytical) {
    table.add({name, int64_t{candidates}, learned.correlation, analytical.correlation, learned.regret,
               analytical.regret, learned.regret * 100, analytical.regret * 100});
  };
  for (const autotune::HeldOut& p : e.problems) add(p.problem, p.candidates, p.learned, p.analytical);
  add("all", e.candidates, e.learned, e.analytical);
  return table;
}

Json quality_json(const OrderQuality& q) { return {{"correlation", q.correlation}, {"regret", q.regret}}; }

Json learned_json(const Learned& l) {
  Json problems = Json::array();
  for (const autotune::HeldOut& p : l.evaluation.problems)
    problems.push_back({{"problem", p.problem},
                        {"candidates", p.candidates},
                        {"learned", quality_json(p.learned)},
                        {"analytical", quality_json(p.analytical)}});
  return {{"machine_key", l.machine_key},
          {"features", autotune::features_version()},
          {"regret_at", autotune::kFirst},
          {"held_out", problems},
          {"candidates", l.evaluation.candidates},
          {"learned", quality_json(l.evaluation.learned)},
          {"analytical", quality_json(l.evaluation.analytical)},
          {"stored", l.ranker > 0},
          {"ranker", l.ranker > 0 ? Json(l.ranker) : Json(nullptr)}};
}

// nullptr: there is no file, and none is made for a model that cannot be.
Result<std::unique_ptr<db::Store>> open_to_learn(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> look, open_stored(path));
  if (look == nullptr) return look;
  look.reset();
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<db::Store> store, open_store(path, db::OpenMode::kReadWrite));
  if (store->mode() != db::OpenMode::kReadWrite && path != ":memory:")
    return failed_precondition("a model cannot be kept: " + store->message());
  return store;
}

Result<Learned> learn(const LearnArgs& args) {
  HONE_RETURN_IF_ERROR(autotune::ranker_available());
  HONE_ASSIGN_OR_RETURN(const Machine machine, executing_machine());
  Learned learned{.evaluation = {}, .machine_key = machine.key()};
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_to_learn(args.db));
  std::vector<autotune::MeasuredGroup> groups;
  if (store != nullptr) {
    HONE_ASSIGN_OR_RETURN(groups, autotune::read_samples(*store, learned.machine_key));
  }
  HONE_RETURN_IF_ERROR(autotune::keep_usable(groups));
  HONE_ASSIGN_OR_RETURN(learned.evaluation, autotune::evaluate(groups, kSeed, &interrupted()));
  if (!learned.evaluation.better()) return learned;
  HONE_ASSIGN_OR_RETURN(const std::string model, autotune::train_ranker(autotune::training_rows(groups), kSeed));
  HONE_ASSIGN_OR_RETURN(learned.ranker,
                        store->save_ranker({.machine_key = learned.machine_key,
                                            .features = autotune::features_version(),
                                            .problems = static_cast<int64_t>(learned.evaluation.problems.size()),
                                            .samples = learned.evaluation.candidates,
                                            .correlation = learned.evaluation.learned.correlation,
                                            .baseline_correlation = learned.evaluation.analytical.correlation,
                                            .model = model}));
  return learned;
}

int run_learn(const LearnArgs& args) {
  const Result<Format> format = parse_format(args.json ? "json" : args.output);
  if (!format.ok()) return fail(format.status());
  const Result<Learned> learned = learn(args);
  if (interrupted()) {
    note("interrupted: nothing is changed");
    return kInterrupted;
  }
  if (!learned.ok()) return fail(learned.status());
  if (*format == Format::kJson) {
    print("{}\n", dump(learned_json(*learned), 2));
  } else {
    write_results(render(held_out_table(learned->evaluation), *format));
  }
  if (learned->ranker > 0) {
    note(fmt::format("stored: ranker {} orders the candidates of hone tune from now on", learned->ranker));
  } else {
    note(
        "kept: on problems that it has not seen the learned order is no better than the one in use, nothing is stored");
  }
  return kDone;
}

}  // namespace

void add_db_learn(CLI::App& db, Run& run) {
  auto args = std::make_shared<LearnArgs>();
  CLI::App* command = db.add_subcommand(
      "learn", "train the order in which hone tune measures candidates, on all samples of this machine");
  command->add_option("--db", args->db, "database file (default: hone db path)")->check(not_empty());
  command->add_option("-o,--output", args->output, "md, csv, json, jsonl or sql");
  command->add_flag("--json", args->json, "same as -o json");
  command->callback([args, &run] { run = [args] { return run_learn(*args); }; });
}

}  // namespace hone::cli
