// What came of one problem: compile and look, then race. See codegen.h.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "autotune/search/race.h"
#include "tools/hone/cli.h"
#include "tools/hone/codegen.h"
#include "tools/hone/rounds.h"

namespace hone::cli {
namespace {

// Timed compiles of one generator; the first one, which also starts a compiler, is not timed. Slow ones are ended by
// time.
constexpr int kCompiles = 5, kFewestCompiles = 3;
constexpr double kCompileNs = 0.7e9;

using Compiled = std::vector<std::unique_ptr<jit::CompiledKernel>>;

Result<Compiled> compile(const std::vector<ir::Kernel>& kernels, jit::CodeGenerator& generator, Isa isa) {
  Compiled all;
  for (const ir::Kernel& kernel : kernels) {
    // Made now: from the cache on disk it would not take its time. To be looked at, also where it cannot run.
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<jit::CompiledKernel> compiled,
                          generator.compile(kernel, isa, {.cached = false, .cpu = features_of(isa_info(isa).arch)}));
    all.push_back(std::move(compiled));
  }
  return all;
}

Status time_compiles(const std::vector<ir::Kernel>& kernels, jit::CodeGenerator& generator, Isa isa,
                     std::vector<double>& times) {
  double total = 0;
  while (times.size() < kCompiles && (times.size() < kFewestCompiles || total < kCompileNs) && !interrupted()) {
    const auto begin = std::chrono::steady_clock::now();
    HONE_ASSIGN_OR_RETURN(const Compiled compiled, compile(kernels, generator, isa));
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    total += times.back();
  }
  return {};
}

LoopModel model(std::span<const std::byte> loop, Isa isa, const std::string& cpu) {
  LoopModel m{.cpu = cpu.empty() ? jit::host_cpu() : cpu, .result = {}, .why_not = ""};
  Result<jit::StaticThroughput> result = jit::static_throughput(loop, isa, cpu);
  if (!result.ok()) m.why_not = result.status().message();
  if (result.ok()) m.result = std::move(*result);
  return m;
}

// Of all kernels the one with most multiply-adds in its inner loop.
size_t hottest(const std::vector<KernelCode>& kernels) {
  const auto work = [](const KernelCode& k) {
    const std::optional<CodePart> loop = k.inner_loop();
    return loop ? loop->counts.fma : -1;
  };
  return static_cast<size_t>(
      std::max_element(kernels.begin(), kernels.end(),
                       [&](const KernelCode& a, const KernelCode& b) { return work(a) < work(b); }) -
      kernels.begin());
}

// Compiles and looks; what cannot be had is said in the result.
void look(const std::vector<ir::Kernel>& kernels, jit::CodeGenerator& generator, const StudyOptions& options,
          Study& study, GeneratorCode& code) {
  const Isa isa = op::isa(study.program);
  if (!generator.emits(isa)) {
    code.no_code = code.no_time = fmt::format("{} does not emit {}", code.codegen, isa_info(isa).name);
    return;
  }
  const Result<Compiled> compiled = compile(kernels, generator, isa);
  Status failed = compiled.status();
  if (failed.ok()) failed = time_compiles(kernels, generator, isa, code.compile_ns);
  if (!failed.ok()) {
    code.no_code = code.no_time = failed.message();
    study.failed = fmt::format("{}: {}", code.codegen, failed.message());
    return;
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    const std::span<const std::byte> bytes = (*compiled)[k]->code();
    if (bytes.empty()) {
      code.no_code = "runs LoopIR as it is: there is no machine code";
      return;
    }
    Result<jit::CodeFacts> facts = jit::inspect(bytes, isa);
    if (!facts.ok()) {
      code.no_code = facts.status().message();
      code.kernels.clear();
      return;
    }
    code.kernels.push_back({kernels[k].name, std::move(*facts)});
  }
  // Of the first generator that has code: all show the same kernel.
  const bool is_first =
      std::all_of(study.codes.begin(), study.codes.end(), [](const auto& c) { return c.kernels.empty(); });
  if (is_first) study.hot_kernel = hottest(code.kernels);
  const jit::CodeFacts& hot = code.kernels[study.hot_kernel].facts;
  if (hot.hottest < 0) return;
  const std::vector<std::byte> body = jit::loop_code((*compiled)[study.hot_kernel]->code(), hot, hot.hottest);
  if (isa_info(isa).arch == host_arch()) {
    code.models.push_back(model(body, isa, ""));
  } else {
    code.models.push_back({.cpu = jit::host_cpu(), .result = {}, .why_not = "does not run this instruction set"});
  }
  for (const std::string& cpu : options.mcpus) code.models.push_back(model(body, isa, cpu));
}

// Why nothing made for the program can run here; "" when it can.
std::string cannot_run(const std::vector<ir::Kernel>& kernels, const Study& study, const StudyOptions& options) {
  if (op::empty(study.problem)) return "the output has no elements: there is nothing to time";
  const IsaInfo& isa = isa_info(op::isa(study.program));
  const FeatureSet needed = jit::needed_features(kernels, isa.isa);
  if (options.machine.features.contains(needed)) return "";
  std::string lacking;
  for (const std::string& name : needed.without(options.machine.features).names())
    lacking += (lacking.empty() ? "" : ", ") + name;
  return fmt::format("this CPU does not run {}{}", isa.name, lacking.empty() ? "" : ": it lacks " + lacking);
}

void count(autotune::KernelRacer& racer, const autotune::Race& race, const std::vector<size_t>& which, Study& study) {
  PerfCounters counters = PerfCounters::of_this_thread();
  study.no_counters = counters.why_not();
  if (!counters.any()) return;
  for (size_t arm = 0; arm < which.size(); ++arm) {
    if (!race.alive(static_cast<int>(arm)) || interrupted()) continue;
    const Result<CounterReading> reading = racer.count(static_cast<int>(arm), counters);
    if (reading.ok()) study.codes[which[arm]].counters = *reading;
    if (!reading.ok()) study.no_counters = reading.status().message();
  }
}

void judge_bits(Study& study) {
  int passed = 0;
  for (const GeneratorCode& code : study.codes) {
    if (code.wrong && study.bits_why.empty()) study.bits_why = fmt::format("{}: {}", code.codegen, code.no_time);
    passed += !code.wrong && !code.rounds_ns.empty();
  }
  if (!study.bits_why.empty()) {
    study.bits_equal = false;
  } else if (passed > 1) {
    study.bits_equal = true;
  } else {
    study.bits_why = passed == 1 ? "only one code generator was run" : "no code generator was run";
  }
}

// What may race, by index into the codes.
std::vector<size_t> racers(Study& study, const StudyOptions& options) {
  const Isa isa = op::isa(study.program);
  std::vector<size_t> which;
  const std::string lacks = op::missing(study.program, options.machine.features);
  for (size_t i = 0; i < study.codes.size(); ++i) {
    GeneratorCode& code = study.codes[i];
    if (code.no_time.empty()) code.no_time = lacks;
    if (code.no_time.empty() && !options.generators[i]->targets(isa))
      code.no_time = fmt::format("what {} emits for {} does not run here", code.codegen, isa_info(isa).name);
    if (code.no_time.empty()) which.push_back(i);
  }
  return which;
}

Status race_all(const StudyOptions& options, Study& study) {
  const std::vector<size_t> which = racers(study, options);
  std::vector<autotune::Candidate> candidates;
  for (const size_t i : which) candidates.push_back({study.program, study.codes[i].codegen, options.threads});
  autotune::SteadyClock clock;
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<autotune::KernelRacer> racer,
                        autotune::KernelRacer::create(study.problem, candidates, clock,
                                                      {.cache = options.cache,
                                                       .seed = options.seed,
                                                       .peak = options.peak,
                                                       .cpus = options.machine.cpus_usable,
                                                       .schedule = options.schedule,
                                                       .weights = options.weights}));
  autotune::Race race(*racer, clock, options.seed,
                      {.on_round = [](auto) {},
                       .on_outcome =
                           [&](int arm, const autotune::Prepared& p) {
                             GeneratorCode& code = study.codes[which[static_cast<size_t>(arm)]];
                             code.no_time = p.detail;
                             code.wrong = p.outcome == db::Outcome::kWrong;
                             study.failed = fmt::format("{}: {}", code.codegen, p.detail);
                           },
                       .on_step = {},
                       .stop = &interrupted()});
  std::vector<int> arms;
  for (int arm = 0; arm < static_cast<int>(which.size()); ++arm)
    if (race.prepare(arm)) arms.push_back(arm);
  const double expected_ns = op::flops(study.problem) / std::max(options.peak.f32_gflops_1t, 1.0);
  if (expected_ns < kLongCallNs) race.warm_up(arms);
  const RoundBudget budget{.repetitions = options.repetitions, .seconds = options.seconds};
  const int64_t begun = clock.now_ns();
  for (int round = 0; !arms.empty() && !race.stopped(); ++round) {
    if (budget.over(round, static_cast<double>(clock.now_ns() - begun) * 1e-9)) break;
    if (!race.round(db::Phase::kSearch, arms)) break;
  }
  const auto native =
      std::find_if(which.begin(), which.end(), [&](size_t i) { return study.codes[i].codegen == kNative; });
  for (size_t arm = 0; arm < which.size(); ++arm) {
    GeneratorCode& code = study.codes[which[arm]];
    if (code.wrong) continue;  // the time of a wrong result says nothing
    code.rounds_ns = race.times(db::Phase::kSearch, static_cast<int>(arm));
    if (native != which.end())
      code.log_ratios =
          race.log_ratios(db::Phase::kSearch, static_cast<int>(arm), static_cast<int>(native - which.begin()));
    if (code.rounds_ns.empty() && code.no_time.empty()) code.no_time = "interrupted";
  }
  if (options.threads == 1) count(*racer, race, which, study);
  return {};
}

void add(jit::Counts& sum, const jit::Counts& of) {
  for (const CountColumn& c : kInstructionClasses) sum.*c.value += of.*c.value;
  for (const CountColumn& c : kSpillColumns) sum.*c.value += of.*c.value;
}

}  // namespace

CodePart KernelCode::part(int loop) const {
  CodePart part{.bytes = 0, .counts = facts.loops[static_cast<size_t>(loop)].counts};
  for (const jit::Instruction& i : facts.instructions)
    if (i.loop == loop) part.bytes += static_cast<size_t>(i.size);
  return part;
}

std::optional<CodePart> KernelCode::inner_loop() const {
  if (facts.hottest < 0) return std::nullopt;
  return part(facts.hottest);
}

std::vector<jit::Instruction> KernelCode::inner_instructions() const {
  std::vector<jit::Instruction> all;
  for (const jit::Instruction& i : facts.instructions)
    if (facts.hottest >= 0 && i.loop == facts.hottest) all.push_back(i);
  return all;
}

CodePart GeneratorCode::whole() const {
  CodePart sum;
  for (const KernelCode& k : kernels) {
    sum.bytes += k.facts.bytes;
    add(sum.counts, k.facts.counts);
  }
  return sum;
}

int GeneratorCode::spilling_loops() const {
  int loops = 0;
  for (const KernelCode& k : kernels)
    for (const jit::Loop& loop : k.facts.loops) loops += loop.innermost && loop.counts.spills + loop.counts.reloads > 0;
  return loops;
}

const GeneratorCode* Study::find(std::string_view codegen) const {
  const auto at =
      std::find_if(codes.begin(), codes.end(), [&](const GeneratorCode& c) { return c.codegen == codegen; });
  return at == codes.end() ? nullptr : &*at;
}

const KernelCode* Study::hot(const GeneratorCode& code) const {
  return hot_kernel < code.kernels.size() ? &code.kernels[hot_kernel] : nullptr;
}

std::vector<const GeneratorCode*> Study::with_inner_loop() const {
  std::vector<const GeneratorCode*> all;
  for (const GeneratorCode& code : codes)
    if (const KernelCode* const kernel = hot(code); kernel != nullptr && kernel->inner_loop()) all.push_back(&code);
  return all;
}

std::optional<autotune::Interval> Study::ratio(const GeneratorCode& code) const {
  if (code.log_ratios.empty()) return std::nullopt;
  return autotune::ratio_of(autotune::median_interval(code.log_ratios, 0.95));
}

LlvmToNative llvm_to_native(const Study& study) {
  for (const std::string_view name : {kNative, kLlvm}) {
    const GeneratorCode* const code = study.find(name);
    if (code == nullptr) return {{}, fmt::format("{} is not among the code generators", name)};
    if (code->rounds_ns.empty()) return {{}, fmt::format("{} was not timed: {}", name, code->no_time)};
  }
  const std::optional<autotune::Interval> ratio = study.ratio(*study.find(kLlvm));
  return {ratio, ratio ? "" : "they met in no round"};
}

Result<Study> study(const op::Problem& problem, const Chosen& chosen, const StudyOptions& options) {
  Study s{.problem = problem,
          .program = chosen.program,
          .reason = chosen.reason,
          .threads = options.threads,
          .cache = options.cache == autotune::CacheMode::kWarm ? "warm" : "cold",
          .seed = options.seed};
  HONE_ASSIGN_OR_RETURN(const std::vector<ir::Kernel> kernels, op::lower(problem, chosen.program));
  for (jit::CodeGenerator* generator : options.generators) {
    GeneratorCode code{.codegen = std::string(generator->name()), .version = generator->version()};
    if (interrupted()) code.no_code = code.no_time = "interrupted";
    if (!interrupted()) look(kernels, *generator, options, s, code);
    s.codes.push_back(std::move(code));
  }
  const std::string why_not = cannot_run(kernels, s, options);
  for (GeneratorCode& code : s.codes)
    if (code.no_time.empty()) code.no_time = why_not;
  if (why_not.empty()) HONE_RETURN_IF_ERROR(race_all(options, s));
  judge_bits(s);
  return s;
}

}  // namespace hone::cli
