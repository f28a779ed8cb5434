#include "tools/hone/tune_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "autotune/search/stats.h"
#include "engine/model/model.h"
#include "tools/hone/rounds.h"
#include "tools/hone/status_line.h"

namespace hone::cli {
namespace {

constexpr RoundBudget kRounds{.repetitions = 7, .seconds = 20};
constexpr double kConfidence = 0.95;

// What one work takes with either plans, round by round.
struct Rounds {
  std::vector<double> by_default, tuned;
};

Result<std::vector<Rounds>> race(ModelSpeed& speed, const std::vector<ModelWork>& works) {
  std::vector<Rounds> rounds(works.size());
  StatusLine line;
  const auto begin = std::chrono::steady_clock::now();
  const auto over = [&](int round) {
    return kRounds.over(round, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  };
  for (int round = -1; !over(round) && !interrupted(); ++round) {  // -1: to warm up
    for (size_t w = 0; w < works.size() && !interrupted(); ++w) {
      line.show([&] { return fmt::format("the whole model: {}, round {}", works[w].name(), round + 1); });
      ModelWork work = works[w];
      if (round < 0) work.generate = std::min<int64_t>(work.generate, 1);
      for (const size_t turn : {size_t{0}, size_t{1}}) {
        const size_t variant = round % 2 == 0 ? turn : 1 - turn;
        HONE_ASSIGN_OR_RETURN(const int64_t ns, speed.run(variant, work));
        if (round >= 0) (variant == 0 ? rounds[w].by_default : rounds[w].tuned).push_back(static_cast<double>(ns));
      }
    }
  }
  return rounds;
}

autotune::Interval speedup_of(const Rounds& rounds) {
  std::vector<double> logs;
  for (size_t i = 0; i < std::min(rounds.by_default.size(), rounds.tuned.size()); ++i)
    logs.push_back(std::log(rounds.by_default[i] / rounds.tuned[i]));
  const autotune::Interval i = autotune::median_interval(logs, kConfidence);
  return {std::exp(i.lo), std::exp(i.mid), std::exp(i.hi)};
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
  for (const char* option : {"problem", "--shapes", "--graph", "--replay", "--numerics"})
    model->excludes(command.get_option(option));
}

Result<ModelTune> ModelTune::create(const TuneModelArgs& args, const std::string& database, int threads) {
  ModelTune tune(args.file, database, threads,
                 {.database = database, .max_batch = args.max_batch, .context = args.prompt + args.generate});
  note_weights_limit();
  tune.works_ = {{.prompt = args.prompt}, {.generate = args.generate, .depth = args.prompt}};
  const Result<ModelSpeed> speed = ModelSpeed::create(args.file, {{threads, true}}, tune.options_);
  if (!speed.ok()) return speed.status();
  HONE_RETURN_IF_ERROR(tune.count_calls(speed->model(0)));
  tune.weight_bytes_ = speed->model(0).info().packed_bytes;
  return tune;
}

// The problem that a step's plan was made for stands for all calls that the plan serves.
Status ModelTune::count_calls(const Model& model) {
  const executable::ExecutablePlan& plan = ModelAccess::plan(model);
  for (size_t w = 0; w < works_.size(); ++w) {
    for (const ModelCall& call : calls_of(works_[w], model.info().max_batch)) {
      HONE_ASSIGN_OR_RETURN(const std::vector<executable::StepReport> steps, plan.report(call.tokens, call.position));
      for (const executable::StepReport& step : steps) {
        const Result<op::Problem> problem = op::parse_problem(step.kernel);
        if (!problem.ok()) continue;  // a row program: nothing about it is tuned
        Use& use =
            uses_.try_emplace(op::to_string(*problem), Use{*problem, std::vector<double>(works_.size())}).first->second;
        ++use.calls[w];
      }
    }
  }
  if (uses_.empty()) return internal_error(fmt::format("{}: its plan has no problem that can be tuned", file_));
  return {};
}

std::vector<op::Shape> ModelTune::shapes() const {
  std::vector<op::Shape> shapes;
  for (const auto& [text, use] : uses_) {
    double calls = 0;
    for (const double c : use.calls) calls += c;
    shapes.push_back({use.problem, calls});
  }
  return shapes;
}

double ModelTune::expected_saving_ns(const std::vector<TuneRow>& rows, size_t work) const {
  double saving = 0;
  for (const TuneRow& row : rows) {
    const auto use = uses_.find(row.report.problem);
    if (use == uses_.end() || row.report.winner.ns <= 0) continue;
    saving += use->second.calls[work] * (row.report.fallback.ns - row.report.winner.ns);
  }
  return saving;
}

Status ModelTune::report(const std::vector<TuneRow>& rows, Format format) const {
  HONE_ASSIGN_OR_RETURN(ModelSpeed speed, ModelSpeed::create(file_, {{threads_, false}, {threads_, true}}, options_));
  HONE_ASSIGN_OR_RETURN(const std::vector<Rounds> rounds, race(speed, works_));
  Table table{"model",
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
               {"speedup_ci95", For::kAll, "95% interval"}},
              {}};
  for (size_t w = 0; w < works_.size(); ++w) {
    if (rounds[w].tuned.empty()) continue;
    const double before = autotune::median(rounds[w].by_default), after = autotune::median(rounds[w].tuned);
    const double expected = before - expected_saving_ns(rows, w);
    const autotune::Interval gained = speedup_of(rounds[w]);
    if (gained.hi < 1)
      note(
          fmt::format("{}: the whole is slower with what was tuned, {:.3f} [{:.3f}, {:.3f}]: tune again with a larger "
                      "budget and nothing else running, or name a database that has none of it",
                      works_[w].name(), gained.mid, gained.lo, gained.hi));
    const double tokens = static_cast<double>(works_[w].tokens()) * 1e9;
    table.add({file_, works_[w].name(), int64_t{threads_}, before, expected, after, tokens / before, tokens / after,
               expected > 0 ? Cell(before / expected) : Cell(), gained.mid, Range{gained.lo, gained.hi}});
  }
  if (table.rows.empty()) return {};
  if (format == Format::kJson || format == Format::kJsonl || !has_place_for_summary(format)) {
    note_lines(render(table, Format::kMd));
    if (format == Format::kJson || format == Format::kJsonl)
      for (const std::vector<Cell>& row : table.rows) print("{}\n", dump(row_to_json(table, row)));
  } else {
    write_results(render(table, format));
  }
  return {};
}

}  // namespace hone::cli
