// Every round runs every work of every configuration once, in random order, and looks at the ceilings of this moment
// on the way: the limit that a row is compared with is what this machine could do in the same rounds.
#include "tools/hone/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <map>

#include "autotune/measure/peak.h"
#include "autotune/search/stats.h"
#include "engine/base/dtype.h"
#include "engine/base/env.h"
#include "engine/base/memory.h"
#include "engine/base/random.h"
#include "engine/model/model.h"
#include "tools/hone/model_speed.h"
#include "tools/hone/regions.h"
#include "tools/hone/status_line.h"
#include "tools/hone/table.h"

namespace hone::cli {
namespace {

constexpr int kDefaultRepetitions = 5;
constexpr int64_t kMostTokens = 1 << 24;
constexpr int kWindows = 5;  // of the probe for flops, in each round

// "512", "128,512" -> numbers. 0 is for a test that is not wanted.
Result<std::vector<int64_t>> parse_counts(const std::string& text, const char* option) {
  std::vector<int64_t> counts;
  for (const std::string& word : split(text, ',')) {
    int64_t n = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc() || end != word.data() + word.size() || n < 0 || n > kMostTokens)
      return invalid_argument(fmt::format("{} takes numbers of tokens from 0 to {} with commas, got '{}'", option,
                                          kMostTokens, printable(text.substr(0, 40))));
    counts.push_back(n);
  }
  return counts;
}

// "ordered,bf16" -> classes, each of which runs. "": the default alone.
Result<std::vector<std::string>> parse_classes(const std::string& text) {
  if (text.empty()) return std::vector<std::string>{text};
  std::vector<std::string> classes;
  for (std::string& word : split(text, ',')) {
    if (word.empty()) return invalid_argument(fmt::format("--numerics '{}' has an empty entry", printable(text)));
    if (std::ranges::find(classes, word) != classes.end())
      return invalid_argument(fmt::format("--numerics '{}' has {} twice", printable(text), printable(word)));
    HONE_RETURN_IF_ERROR(check_model_numerics(word));
    classes.push_back(std::move(word));
  }
  return classes;
}

struct Setup {
  std::vector<ModelVariant> variants;
  std::vector<ModelWork> works;
  ModelSpeedOptions options;
  Format format = Format::kMd;
  int repetitions = kDefaultRepetitions;
  Machine machine;
  std::map<int, runtime::ScheduleKind> schedules;  // by number of threads
};

Status choose_works(const BenchModelArgs& args, Setup& s) {
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> prompts, parse_counts(args.prompts, "-p"));
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> generates, parse_counts(args.generates, "-n"));
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> depths, parse_counts(args.depths, "-d"));
  for (const int64_t depth : depths) {
    for (const int64_t n : prompts)
      if (n > 0) s.works.push_back({.prompt = n, .depth = depth});
    for (const int64_t n : generates)
      if (n > 0) s.works.push_back({.generate = n, .depth = depth});
  }
  if (s.works.empty()) return invalid_argument("nothing to measure: -p and -n are both 0");
  for (const ModelWork& w : s.works) s.options.context = std::max(s.options.context, w.depth + w.tokens());
  if (s.options.context > kMaxContext)
    return invalid_argument(
        fmt::format("-p, -n and -d make a context of {} tokens; the most is {}", s.options.context, kMaxContext));
  return {};
}

Result<Setup> prepare(const BenchModelArgs& args, const BenchCommonArgs& common) {
  Setup s;
  HONE_RETURN_IF_ERROR(choose_works(args, s));
  HONE_ASSIGN_OR_RETURN(s.format, parse_format(common.output));
  note_weights_limit();
  if (common.plan != "tuned" && common.plan != "default" && common.plan != "both")
    return invalid_argument("--plan of a model is tuned, default or both");
  if (common.repetitions > 0) s.repetitions = common.repetitions;
  s.options.database = common.db;
  s.options.max_batch = args.max_batch;
  HONE_ASSIGN_OR_RETURN(s.machine, executing_machine());
  HONE_ASSIGN_OR_RETURN(std::vector<int> threads, parse_threads(common.threads));
  if (threads.empty()) {
    threads = {1};
    if (const int all = threads_in_force(s.machine).threads; all > 1) threads.push_back(all);
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<std::string> classes, parse_classes(common.numerics));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, open_store(common.db, db::OpenMode::kReadOnly));
  for (const int t : threads) {
    HONE_ASSIGN_OR_RETURN(const plan::RegionPolicy regions, region_policy_in_force(store.get(), s.machine, t));
    s.schedules[t] = regions.schedule.kind;
    for (const std::string& numerics : classes) {
      if (common.plan != "default") s.variants.push_back({t, true, numerics});
      if (common.plan != "tuned") s.variants.push_back({t, false, numerics});
    }
  }
  return s;
}

// ---- measuring ----

struct Samples {
  std::vector<double> ns;
};

struct Ceiling {
  std::vector<double> gflops, gbs;
  std::vector<double> dot_gflops;  // of dot products of bf16, where a variant makes them
};

struct Measured {
  std::map<std::pair<size_t, size_t>, Samples> samples;  // by variant and work
  std::map<int, Ceiling> ceilings;                       // by threads
};

Status look_at_ceilings(const Setup& s, bool with_dots, Measured& m) {
  for (const auto& [threads, schedule] : s.schedules) {
    Result<autotune::CeilingProbe> probe = autotune::CeilingProbe::create(s.machine, {schedule, threads});
    if (!probe.ok()) continue;  // nothing generates code here: there is no ceiling to compare with
    Ceiling& c = m.ceilings[threads];
    for (int i = 0; i < kWindows; ++i) c.gflops.push_back(probe->gflops());
    for (int i = 0; with_dots && i < kWindows; ++i) c.dot_gflops.push_back(probe->bf16_gflops());
    if (const double gbs = probe->read_gbs(); gbs > 0) c.gbs.push_back(gbs);
  }
  return {};
}

Status measure(const Setup& s, uint64_t seed, ModelSpeed& speed, const std::vector<size_t>& variants, Measured& m) {
  struct Arm {
    size_t variant, work;
  };
  std::vector<Arm> arms;
  for (const size_t v : variants)
    for (size_t w = 0; w < s.works.size(); ++w) arms.push_back({v, w});
  const auto name = [&](const Arm& a) {
    return fmt::format("{} on {} thread(s)", s.works[a.work].name(), s.variants[a.variant].threads);
  };
  const bool with_dots = std::ranges::any_of(
      variants, [&](size_t v) { return autotune::by_dot_products(speed.model(v).info().numerics); });
  StatusLine line;
  Random random(seed);
  for (int round = -1; round < s.repetitions && !interrupted(); ++round) {  // -1: to warm up
    random.shuffle(arms);
    if (round >= 0) HONE_RETURN_IF_ERROR(look_at_ceilings(s, with_dots, m));
    for (const Arm& arm : arms) {
      if (interrupted()) break;
      line.show([&] {
        return round < 0 ? fmt::format("warming up: {}", name(arm))
                         : fmt::format("round {} of {}: {}", round + 1, s.repetitions, name(arm));
      });
      ModelWork work = s.works[arm.work];
      if (round < 0) work.generate = std::min<int64_t>(work.generate, 1);
      const Result<std::optional<int64_t>> ns = speed.run(arm.variant, work);
      if (!ns.ok()) return {ns.status().code(), fmt::format("{}: {}", name(arm), ns.status().message())};
      if (*ns && round >= 0) m.samples[{arm.variant, arm.work}].ns.push_back(static_cast<double>(**ns));
    }
  }
  return {};
}

// ---- reporting ----

std::string size_text(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  return bytes >= (int64_t{1} << 30) ? fmt::format("{:.2f} GiB", b / 0x1p30) : fmt::format("{:.2f} MiB", b / 0x1p20);
}
std::string count_text(int64_t count) {
  const auto c = static_cast<double>(count);
  return count >= 1000000000 ? fmt::format("{:.2f} B", c * 1e-9) : fmt::format("{:.2f} M", c * 1e-6);
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// The time that the work takes at least, in ns; 0 where nothing was measured that limits it: weights that caches hold
// are not read from memory.
double limit_ns(const Setup& s, const ModelSpeed& speed, size_t variant, const ModelWork& work,
                const Ceiling& ceiling) {
  const Model& model = speed.model(variant);
  const double fma = autotune::median(ceiling.gflops), bytes = autotune::median(ceiling.gbs);
  const double flops =
      autotune::by_dot_products(model.info().numerics) ? autotune::median(ceiling.dot_gflops) : fma;  // of matmuls
  if (flops <= 0 || fma <= 0 || bytes <= 0) return 0;
  if (fits_in_cache(model.info().packed_bytes, s.machine)) return 0;
  const int64_t bytes_per_weight = dtype_bytes(parse_dtype(model.info().weights).value_or(DType::kF32));
  double ns = 0;
  for (const ModelCall& call : calls_of(work, model.info().max_batch)) {
    const ModelDemand demand = demand_of(ModelAccess::config(model), bytes_per_weight, call);
    ns += std::max(demand.flops / flops + demand.scores / fma, demand.bytes / bytes);
  }
  return ns;
}

struct Spread {
  double mean = 0, deviation = 0;
};
Spread spread_of(const std::vector<double>& values) {
  Spread s;
  for (const double v : values) s.mean += v / static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  if (values.size() > 1) s.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return s;
}

Table table_of() {
  return {"test",
          {{"build_version", For::kMachines},
           {"cpu_info", For::kMachines},
           {"backends", For::kMachines},
           {"model_filename", For::kMachines},
           {"model_type", For::kAll, "model"},
           {"size", For::kPeople},
           {"model_size", For::kMachines},
           {"params", For::kPeople},
           {"model_n_params", For::kMachines},
           {"backend", For::kPeople},
           {"n_threads", For::kAll, "threads"},
           {"plan"},
           {"numerics"},
           {"n_batch", For::kMachines},
           {"n_prompt", For::kMachines},
           {"n_gen", For::kMachines},
           {"n_depth", For::kMachines},
           {"test_time", For::kMachines},
           {"test", For::kPeople},
           {"avg_ns", For::kMachines},
           {"stddev_ns", For::kMachines},
           {"avg_ts", For::kMachines},
           {"stddev_ts", For::kMachines},
           {"t/s", For::kPeople},
           {"pct_limit", For::kAll, "% of limit"},
           {"limit_ns", For::kMachines},
           {"plans_exact", For::kMachines},
           {"plans_near_shape", For::kMachines},
           {"plans_near_machine", For::kMachines},
           {"plans_default", For::kMachines},
           {"load_ns", For::kMachines},
           {"peak_rss", For::kMachines},
           {"samples_ns", For::kMachines}},
          {}};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0 ? text : "";
}

// Memory is that of the process, and what one variant has packed the next one finds: each is said where it says
// something.
void add_row(const Setup& s, const ModelSpeed& speed, size_t variant, const ModelWork& work, const Samples& samples,
             const Ceiling& ceiling, Table& table) {
  const ModelInfo& info = speed.model(variant).info();
  const ModelVariant& v = s.variants[variant];
  std::vector<double> rates;
  for (const double ns : samples.ns) rates.push_back(static_cast<double>(work.tokens()) * 1e9 / ns);
  const Spread time = spread_of(samples.ns), rate = spread_of(rates);
  const double limit = limit_ns(s, speed, variant, work, ceiling);
  const Cell limit_cell = limit > 0 ? Cell(limit) : Cell();
  const Cell percent = limit > 0 ? Cell(100 * limit / autotune::median(samples.ns)) : Cell();
  table.add({std::string(HONE_VERSION),
             s.machine.brand,
             "hone",
             info.path,
             fmt::format("{} {} {}", info.architecture, count_text(info.parameters), upper(info.weights)),
             size_text(info.weight_bytes),
             info.weight_bytes,
             count_text(info.parameters),
             info.parameters,
             "hone",
             int64_t{v.threads},
             v.tuned ? "tuned" : "default",
             info.numerics,
             info.max_batch,
             work.prompt,
             work.generate,
             work.depth,
             utc_now(),
             work.name(),
             time.mean,
             time.deviation,
             rate.mean,
             rate.deviation,
             fmt::format("{:.2f} ± {:.2f}", rate.mean, rate.deviation),
             percent,
             limit_cell,
             info.plans.exact,
             info.plans.near_shape,
             info.plans.near_machine,
             info.plans.by_default,
             variant == 0 ? Cell(info.times.total_ns) : Cell(),
             speed.size() == 1 ? Cell(peak_resident_bytes()) : Cell(),
             samples.ns});
}

// Where nothing was tuned, the tuned plans are the default ones: they are run once, under that name.
void drop_equal_variants(Setup& s, const ModelSpeed& speed, std::vector<size_t>& variants) {
  bool untuned = false;
  std::erase_if(variants, [&](size_t i) {
    const ModelInfo::Plans& plans = speed.model(i).info().plans;
    const bool same = s.variants[i].tuned && plans.exact + plans.near_shape + plans.near_machine == 0;
    untuned |= same;
    const ModelVariant other{s.variants[i].threads, false, s.variants[i].numerics};
    return same && std::find(s.variants.begin(), s.variants.end(), other) != s.variants.end();
  });
  if (untuned)
    note("nothing that was tuned fits the plans of this model: the default plans are measured (hone tune --model)");
}

int run(Setup& s, const std::string& file, uint64_t seed) {
  Result<ModelSpeed> speed = ModelSpeed::create(file, s.variants, s.options);
  if (!speed.ok()) return fail(speed.status());
  std::vector<size_t> variants;
  for (size_t i = 0; i < speed->size(); ++i) variants.push_back(i);
  drop_equal_variants(s, *speed, variants);
  Measured measured;
  const Status status = measure(s, seed, *speed, variants, measured);
  Table table = table_of();
  for (const size_t v : variants)
    for (size_t w = 0; w < s.works.size(); ++w)
      if (const auto at = measured.samples.find({v, w}); at != measured.samples.end())
        add_row(s, *speed, v, s.works[w], at->second, measured.ceilings[s.variants[v].threads], table);
  write_results(render(table, s.format));
  for (const auto& [threads, c] : measured.ceilings)
    note(fmt::format(
        "limit on {} thread(s): {:.1f} GFLOP/s{}, {:.1f} GB/s", threads, autotune::median(c.gflops),
        c.dot_gflops.empty() ? "" : fmt::format(", {:.1f} of dot products of bf16", autotune::median(c.dot_gflops)),
        autotune::median(c.gbs)));
  if (!status.ok()) return fail(status);
  return interrupted() ? kInterrupted : kDone;
}

}  // namespace

void BenchModelArgs::add_to(CLI::App& command) {
  CLI::Option* model =
      command.add_option("--model", file, "measure this whole model (GGUF, safetensors, llama2.c) instead of kernels")
          ->check(not_empty());
  command.add_option("-p,--n-prompt", prompts, "with --model: tokens of prompts, such as 128,512 (default: 512)")
      ->needs(model)
      ->check(not_empty());
  command.add_option("-n,--n-gen", generates, "with --model: tokens to generate, such as 128 (default)")
      ->needs(model)
      ->check(not_empty());
  command.add_option("-d,--n-depth", depths, "with --model: tokens before that, which are not timed (default: 0)")
      ->needs(model)
      ->check(not_empty());
  command.add_option("-b,--batch-size", max_batch, "with --model: tokens of a prompt that go into one call (512)")
      ->needs(model)
      ->check(CLI::Range(1, 65536));
  for (const char* option : {"problem", "--shapes", "--codegen", "--compare", "--cache", "--seconds"})
    model->excludes(command.get_option(option));
}

int run_bench_model(const BenchModelArgs& args, const BenchCommonArgs& common) {
  Result<Setup> setup = prepare(args, common);
  if (!setup.ok()) return fail(setup.status());
  return run(*setup, args.file, common.seed);
}

}  // namespace hone::cli
