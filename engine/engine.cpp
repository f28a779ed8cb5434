// Engine: what machine is this, what was tuned on it, which code generators may be used.
#include "hone/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "db/store.h"
#include "engine/base/env.h"
#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/matmul_internal.h"
#include "engine/plan/region_policy.h"
#include "engine/runtime/trace.h"
#include "engine/state_internal.h"

namespace hone {
namespace {

Result<int> choose_threads(int asked, const Machine& machine) {
  if (asked < 0 || asked > kMaxThreads)
    return invalid_argument(fmt::format("threads must be from 0 (detect) to {}, got {}", kMaxThreads, asked));
  return asked > 0 ? asked : threads_in_force(machine).threads;
}

// "package" is none of the list: packages are loaded later, into a generator of the engine's own.
Result<std::vector<jit::CodeGenerator*>> choose_generators(const std::string& asked) {
  if (asked == jit::kPackageCodegen) return std::vector<jit::CodeGenerator*>();
  if (asked.empty()) return jit::compiling_generators();
  HONE_ASSIGN_OR_RETURN(jit::CodeGenerator* const only, jit::find_code_generator(asked));
  return std::vector<jit::CodeGenerator*>{only};
}

// Reads all that was decided at once and closes the file. Only a path that the caller gave and that cannot be a
// database is an error; whatever else is wrong leaves the engine with default plans and a message.
Status load_database(const EngineOptions& options, Engine::State& state, std::vector<db::ScheduleChoice>& schedules) {
  if (!options.use_database) return {};
  Result<std::unique_ptr<db::Store>> store = db::open({.path = options.database, .mode = db::OpenMode::kReadOnly});
  if (!store.ok()) {
    if (!options.database.empty()) return store.status();
    state.info.database_message = store.status().message();
    return {};
  }
  state.info.database = (*store)->path();
  state.info.database_message = (*store)->message();
  Result<plan::Decisions> decisions = plan::Decisions::load(**store);
  if (decisions.ok()) {
    state.decisions = *std::move(decisions);
  } else {
    state.info.database_message = decisions.status().message();
  }
  Result<std::vector<db::ScheduleChoice>> measured = (*store)->schedules();
  if (measured.ok()) {
    schedules = *std::move(measured);
  } else if (state.info.database_message.empty()) {
    state.info.database_message = measured.status().message();
  }
  state.info.decisions = static_cast<int64_t>(state.decisions.size());
  HONE_LOG_EVENT(
      LogTopic::kDb, "load",
      {{"path", state.info.database}, {"decisions", state.info.decisions}, {"message", state.info.database_message}});
  return {};
}

// No thread is started: an engine may be made before a fork() and used after it. Not if another thread is compiling
// at that moment: the child would wait for ever for the locks that it held (here, in jit and in LLVM, whose cannot be
// reset).
void set_schedule(const plan::RegionPolicy& policy, Engine::State& state) {
  state.schedules.set_kind(policy.schedule.kind);
  state.info.min_work = policy.min_work;
  state.info.schedule_requested = to_string(policy.schedule);
  state.info.schedule = to_string(runtime::effective_schedule(policy.schedule));
  state.info.schedule_source = policy.source;
  HONE_LOG_EVENT(LogTopic::kDispatch, "schedule",
                 {{"schedule", state.info.schedule},
                  {"requested", state.info.schedule_requested},
                  {"source", policy.source},
                  {"min_work", policy.min_work.value_or(0)}});
}

Result<Engine> create_engine(const EngineOptions& options) {
  if (options.log) set_log_sink(options.log);
  runtime::trace_as_environment_says();
  HONE_ASSIGN_OR_RETURN(const Machine machine, detect_machine());
  auto state = std::make_shared<Engine::State>();
  HONE_ASSIGN_OR_RETURN(const plan::ScheduleWish wish,
                        plan::schedule_wish(options.schedule, "EngineOptions::schedule"));
  HONE_ASSIGN_OR_RETURN(const int threads, choose_threads(options.threads, machine));
  HONE_ASSIGN_OR_RETURN(state->generators, choose_generators(options.codegen));
  std::vector<db::ScheduleChoice> schedules;
  HONE_RETURN_IF_ERROR(load_database(options, *state, schedules));
  const plan::RegionPolicy policy = plan::region_policy(schedules, machine, threads, wish);
  state->target = plan::make_target(machine, policy, state->generators);
  state->info.threads = policy.schedule.threads;
  state->info.machine = state->target.key;
  state->host = {.arch = std::string(jit::process_arch()), .features = machine.features};
  for (const plan::CodegenLabel& c : state->target.codegens) state->info.codegens.push_back(c.name);
  set_schedule(policy, *state);
  return Engine(std::move(state));
}

}  // namespace

std::vector<jit::CodeGenerator*> Engine::State::generators_for(Isa isa, std::string_view first) {
  std::vector<jit::CodeGenerator*> usable;
  for (const plan::CodegenLabel& label : target.codegens) {
    if (std::find(label.isas.begin(), label.isas.end(), isa) == label.isas.end()) continue;
    for (jit::CodeGenerator* g : generators)
      if (g->name() == label.name) usable.push_back(g);
  }
  std::stable_partition(usable.begin(), usable.end(), [&](jit::CodeGenerator* g) { return g->name() == first; });
  if (first == jit::kPackageCodegen) usable.insert(usable.begin(), &package_generator_);
  return usable;
}

std::vector<Isa> Engine::State::helper_isas() const {
  std::vector<Isa> isas;
  {
    const std::lock_guard lock(loading_);
    if (!helper_isas_.empty()) isas.push_back(*helper_isas_.rbegin());
  }
  std::optional<Isa> widest;  // ISAs are numbered weakest first
  for (const plan::CodegenLabel& label : target.codegens)
    for (const Isa isa : label.isas)
      if (!widest || isa > *widest) widest = isa;
  if (widest && (isas.empty() || isas.front() != *widest)) isas.push_back(*widest);
  return isas;
}

std::vector<jit::CodeGenerator*> Engine::State::helper_generators(Isa isa) {
  std::vector<jit::CodeGenerator*> usable = generators_for(isa, "");
  const std::lock_guard lock(loading_);
  if (helper_isas_.contains(isa)) usable.insert(usable.begin(), &package_generator_);
  return usable;
}

Status Engine::State::load_package(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const jit::Package> package, jit::Package::open(path));
  return load_package(*package);
}

// All ops of the package or none: each is proven and its code loaded before the first counts. Kernels of no op need no
// proof but that of their LoopIR: they are only ever run by who lowers to that very text.
Status Engine::State::load_package(const jit::Package& package) {
  const jit::Manifest& manifest = package.manifest();
  std::vector<plan::PackagedOp> admitted;
  for (const jit::PackageOp& op : manifest.ops) {
    HONE_ASSIGN_OR_RETURN(plan::PackagedOp one, plan::admit(package, op, host));
    HONE_RETURN_IF_ERROR(package_generator_.add(package, op.variants[one.variant], host));
    admitted.push_back(std::move(one));
  }
  std::set<Isa> isas;
  if (!manifest.kernels.empty()) {
    const Result<size_t> any = jit::choose_code(manifest.kernels, host);
    if (!any.ok())
      return Status(any.status().code(),
                    fmt::format("package {}: kernels: {}", package.path(), any.status().message()));
  }
  for (const jit::PackageCode& code : manifest.kernels) {
    if (!jit::runs_on(code, host).ok()) continue;
    HONE_RETURN_IF_ERROR(package_generator_.add(package, code, host));
    isas.insert(*parse_isa(code.isa));
  }
  HONE_LOG_EVENT(LogTopic::kJit, "package",
                 {{"path", package.path()}, {"ops", admitted.size()}, {"engine", manifest.engine}});
  const std::lock_guard lock(loading_);
  auto extended = std::make_shared<plan::Packages>(*packages_);
  for (plan::PackagedOp& op : admitted) extended->add(std::move(op));
  packages_ = std::move(extended);
  package_paths_.push_back(package.path());
  helper_isas_.merge(isas);
  return {};
}

std::shared_ptr<const plan::Packages> Engine::State::packages() const {
  const std::lock_guard lock(loading_);
  return packages_;
}

EngineInfo Engine::State::current_info() const {
  EngineInfo current = info;
  const std::lock_guard lock(loading_);
  current.packages = package_paths_;
  return current;
}

Result<std::shared_ptr<Engine::State>> Engine::State::with_threads(int threads) const {
  auto limited = std::make_shared<State>();
  limited->info = info;
  limited->info.threads = threads;
  limited->host = host;
  limited->target = target;
  limited->target.threads = threads;
  limited->decisions = decisions;
  limited->generators = generators;
  limited->on_plan = on_plan;
  limited->schedules.set_kind(schedules.kind());
  for (const std::string& path : current_info().packages) HONE_RETURN_IF_ERROR(limited->load_package(path));
  return limited;
}

Result<Engine> EngineAccess::with_threads(const Engine& engine, int threads) {
  if (threads <= 0 || threads >= engine.state_->target.threads) return engine;
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<Engine::State> limited, engine.state_->with_threads(threads));
  return Engine(std::move(limited));
}

Result<Engine> Engine::create(const EngineOptions& options) {
  return guarded([&] { return create_engine(options); });
}

Result<Matmul> Engine::prepare(const MatmulSpec& spec, const void* weights) const {
  const WeightSource source{.elements = [weights] { return weights; }, .content_key = {}};
  return EngineAccess::prepare(*this, spec, source);
}

Result<Matmul> EngineAccess::prepare(const Engine& engine, const MatmulSpec& spec, const WeightSource& weights) {
  return guarded([&] { return Matmul::Impl::create(engine.state_, spec, &weights); });
}

Result<Matmul> Engine::prepare(const MatmulSpec& spec) const {
  return guarded([&] { return Matmul::Impl::create(state_, spec, nullptr); });
}

Status Engine::load_package(const std::string& path) {
  return guarded([&] { return state_->load_package(path); });
}

EngineInfo Engine::info() const { return state_->current_info(); }

}  // namespace hone
