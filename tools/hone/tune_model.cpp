#include "tools/hone/tune_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "autotune/whole.h"
#include "engine/model/model.h"
#include "kernels/op/op.h"

namespace hone::cli {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

Table works_table() {
  return {"model",
          {{"model"},
           {"test"},
           {"threads"},
           {"default_ns", For::kMachines},
           {"expected_ns", For::kMachines},
           {"ns", For::kMachines},
           {"default_ts", For::kAll, "default t/s"},
           {"ts", For::kAll, "tuned t/s"},
           {"expected_speedup", For::kAll, "expected"},
           {"speedup", For::kAll, "gained"},
           {"speedup_ci95", For::kAll, "95% interval"},
           {"kept", For::kAll, "plans kept"},
           {"taken_back", For::kAll, "taken back"}},
          {}};
}

Table plans_table() {
  return {"plans",
          {{"plan"},
           {"test"},
           {"threads"},
           {"whole", For::kAll, "for the whole"},
           {"default_ns", For::kMachines},
           {"ns", For::kMachines},
           {"speedup", For::kAll, "in it"},
           {"speedup_ci95", For::kAll, "95% interval"},
           {"program", For::kMachines},
           {"why", For::kMachines}},
          {}};
}

// On stdout where the format has a place for more than one table, else on stderr; JSON an object a line.
void show(const Table& table, Format format) {
  if (table.rows.empty()) return;
  const bool json = format == Format::kJson || format == Format::kJsonl;
  if (!json && has_place_for_summary(format)) return write_results(render(table, format));
  note_lines(render(table, Format::kMd));
  if (!json) return;
  for (const std::vector<Cell>& row : table.rows) print("{}\n", dump(row_to_json(table, row)));
}

}  // namespace

void TuneModelArgs::add_to(CLI::App& command) {
  CLI::Option* model = command
                           .add_option("--model", file,
                                       "tune the problems that this model's plans contain (GGUF, safetensors, "
                                       "llama2.c), by how often they run, and measure the whole before and after")
                           ->check(not_empty());
  command.add_option("-p,--n-prompt", prompt, "with --model: tokens of the prompt (512)")
      ->needs(model)
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("-n,--n-gen", generate, "with --model: tokens of the answer (128)")
      ->needs(model)
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("-b,--batch-size", max_batch, "with --model: tokens of a prompt that go into one call (512)")
      ->needs(model)
      ->check(CLI::Range(1, 65536));
  for (const char* option : {"problem", "--shapes", "--graph", "--replay"}) model->excludes(command.get_option(option));
}

Result<ModelTune> ModelTune::create(const TuneModelArgs& args, const std::string& database, int threads) {
  HONE_RETURN_IF_ERROR(check_model_numerics(args.numerics));
  ModelTune tune({.file = args.file,
                  .threads = threads,
                  .speed = {.database = database,
                            .max_batch = args.max_batch,
                            .context = args.prompt + args.generate,
                            .numerics = args.numerics},
                  .works = {{.prompt = args.prompt}, {.generate = args.generate, .depth = args.prompt}}});
  note_weights_limit();
  const Result<ModelSpeed> speed = ModelSpeed::create(args.file, {{threads, false}}, tune.options_.speed);
  if (!speed.ok()) return speed.status();
  HONE_RETURN_IF_ERROR(tune.count_calls(speed->model(0)));
  tune.weight_bytes_ = speed->model(0).info().packed_bytes;
  return tune;
}

// The problem that a step's plan was made for stands for all calls that the plan serves.
Status ModelTune::count_calls(const Model& model) {
  const executable::ExecutablePlan& plan = ModelAccess::plan(model);
  for (size_t w = 0; w < options_.works.size(); ++w) {
    for (const ModelCall& call : calls_of(options_.works[w], model.info().max_batch)) {
      HONE_ASSIGN_OR_RETURN(const std::vector<executable::StepReport> steps, plan.report(call.tokens, call.position));
      for (const executable::StepReport& step : steps) {
        const auto known = uses_.find(step.kernel);
        if (known != uses_.end()) {
          ++known->second.calls[w];
          continue;
        }
        const Result<op::Problem> problem = op::parse_problem(step.kernel);
        if (!problem.ok()) continue;  // a row program: nothing about it is tuned
        Use use{.problem = *problem, .calls = std::vector<double>(options_.works.size())};
        const Result<op::Program> program = op::parse_program(*problem, step.plan);
        if (program.ok()) use.panel = op::panel(*problem, *program);
        if (program.ok() && autotune::by_dot_products(op::numerics(*program))) use.numerics = op::numerics(*program);
        ++use.calls[w];
        uses_.emplace(step.kernel, std::move(use));
      }
    }
  }
  if (uses_.empty()) return internal_error(fmt::format("{}: its plan has no problem that can be tuned", options_.file));
  return {};
}

std::vector<op::Shape> ModelTune::shapes() const {
  std::vector<op::Shape> shapes;
  for (const auto& [text, use] : uses_) shapes.push_back({use.problem, sum(use.calls)});
  return shapes;
}

std::vector<int64_t> ModelTune::panels() const {
  std::vector<int64_t> panels;
  for (const auto& [text, use] : uses_) panels.push_back(use.panel);
  return panels;
}

std::vector<std::string> ModelTune::numerics() const {
  std::vector<std::string> numerics;
  for (const auto& [text, use] : uses_) numerics.push_back(use.numerics);
  return numerics;
}

// By the plans that were kept.
double ModelTune::expected_saving_ns(const std::vector<TuneRow>& rows, const TrialReport& trial, size_t work) const {
  double saving = 0;
  for (const TuneRow& row : rows) {
    const autotune::TuneReport& r = row.report;
    const auto use = uses_.find(r.problem);
    const bool kept =
        std::ranges::any_of(trial.kept, [&](const PlanInWhole& p) { return p.work == work && p.problem == r.problem; });
    if (kept && use != uses_.end() && r.winner.ns > 0)
      saving += use->second.calls[work] * (r.fallback.ns - r.winner.ns);
  }
  return saving;
}

Status ModelTune::report(const std::vector<TuneRow>& rows, Format format, db::Store& store,
                         const Machine& machine) const {
  HONE_ASSIGN_OR_RETURN(const TrialReport trial, try_whole(options_, store, machine));
  Table works = works_table(), plans = plans_table();
  const int64_t threads = options_.threads;
  for (size_t w = 0; w < options_.works.size(); ++w) {
    const autotune::PairedTimes& times = trial.works[w];
    if (times.tuned.empty()) continue;
    const ModelWork& work = options_.works[w];
    const double before = autotune::median(times.by_default), after = autotune::median(times.tuned);
    const double expected = before - expected_saving_ns(rows, trial, w);
    const autotune::Interval gained = autotune::speedup_of(times);
    if (const std::string costs = cost_note(trial, w, work); !costs.empty()) note(costs);
    const double tokens = static_cast<double>(work.tokens()) * 1e9;
    works.add({options_.file, work.name(), threads, before, expected, after, tokens / before, tokens / after,
               expected > 0 ? Cell(before / expected) : Cell(), gained.mid, Range{gained.lo, gained.hi},
               std::ranges::count(trial.kept, w, &PlanInWhole::work),
               std::ranges::count(trial.taken_back, w, &PlanInWhole::work)});
  }
  for (const std::vector<PlanInWhole>* list : {&trial.kept, &trial.taken_back})
    for (const PlanInWhole& p : *list)
      plans.add({p.problem, options_.works[p.work].name(), threads, p.why.empty() ? "kept" : "taken back", p.default_ns,
                 p.ns, p.speedup.mid, Range{p.speedup.lo, p.speedup.hi}, p.program,
                 p.why.empty() ? Cell() : Cell(p.why)});
  show(plans, format);
  show(works, format);
  return {};
}

}  // namespace hone::cli
