// See record.h.
#include "engine/executable/record.h"

#include <fmt/format.h>

#include <list>
#include <mutex>
#include <set>
#include <utility>

#include "engine/base/guarded.h"
#include "engine/state_internal.h"
#include "jit/codegen.h"
#include "kernels/ir/text.h"

namespace hone::executable {
namespace {

// Nothing: packing that "runs" leaves memory that nobody reads, as the plan is dropped.
void no_task(void* const*, const int64_t*, const int64_t*, void*) {}

class NoCode final : public jit::CompiledKernel {
 public:
  ir::TaskFn entry() const override { return no_task; }
  std::span<const std::byte> code() const override { return {}; }
};

// All kernels that somebody asked for, each once.
class Asked {
 public:
  void add(const ir::Kernel& kernel, Isa isa) {
    const std::lock_guard lock(mutex_);
    if (texts_.insert({isa, ir::print(kernel)}).second) kernels_.push_back({isa, kernel});
  }
  const std::vector<RecordedKernel>& kernels() const { return kernels_; }

 private:
  std::mutex mutex_;
  std::set<std::pair<Isa, std::string>> texts_;
  std::vector<RecordedKernel> kernels_;
};

// Calls itself what a generator of this build is called, so that plans tuned with that one count as they do there.
// Emits weaker instruction sets as well, as some shapes have no program for the strongest.
class Recorder final : public jit::CodeGenerator {
 public:
  Recorder(jit::CodeGenerator& as, Isa isa, Asked& asked) : as_(as), isa_(isa), asked_(asked) {}
  std::string_view name() const override { return as_.name(); }
  std::string version() const override { return as_.version(); }
  bool targets(Isa isa) const override { return emits(isa); }
  bool emits(Isa isa) const override { return isa <= isa_ && isa_info(isa).arch == isa_info(isa_).arch; }
  Result<std::unique_ptr<jit::CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                       const jit::CompileOptions&) override {
    asked_.add(kernel, isa);
    return std::unique_ptr<jit::CompiledKernel>(std::make_unique<NoCode>());
  }

 private:
  jit::CodeGenerator& as_;
  Isa isa_;
  Asked& asked_;
};

class Recording {
 public:
  Recording(const RecordTarget& target, const plan::Decisions& decisions) : target_(target) {
    for (jit::CodeGenerator* g : jit::compiling_generators()) recorders_.emplace_back(*g, target.isa, asked_);
    for (Recorder& r : recorders_) state_->generators.push_back(&r);
    state_->decisions = decisions;
    state_->target = plan::make_target(target.machine, target.threads, state_->generators, plan::Purpose::kAsk);
    state_->info.threads = target.threads;
    state_->on_plan = [this](const op::Problem& problem, const op::Program& program, const plan::PlanFacts& facts) {
      note(problem, program, facts);
    };
  }

  Result<Record> run(passes::Compilation compilation, const PlanOptions& options) {
    if (state_->target.codegens.empty())
      return unsupported(fmt::format("no code generator of this build emits {}", isa_info(target_.isa).name));
    const Engine engine = EngineAccess::make(state_);
    HONE_ASSIGN_OR_RETURN(const ExecutablePlan plan, ExecutablePlan::create(engine, std::move(compilation), options));
    HONE_ASSIGN_OR_RETURN(record_.steps, plan.report(options.expected_tokens.front(), 0));
    record_.memory = plan.memory();
    HONE_RETURN_IF_ERROR(failed_);
    std::set<std::pair<Isa, std::string>> of_ops;
    for (const RecordedOp& op : record_.ops)
      for (const ir::Kernel& kernel : op.kernels) of_ops.insert({op::isa(op.program), ir::print(kernel)});
    for (const RecordedKernel& asked : asked_.kernels())
      if (!of_ops.contains({asked.isa, ir::print(asked.kernel)})) record_.kernels.push_back(asked);
    return std::move(record_);
  }

 private:
  void note(const op::Problem& problem, const op::Program& program, const plan::PlanFacts& facts) {
    const std::lock_guard lock(mutex_);
    if (!known_.insert(op::to_string(problem)).second) return;
    Result<std::vector<ir::Kernel>> kernels = op::lower(problem, program);
    if (facts.codegen == plan::kFallbackCodegen || !kernels.ok()) {
      if (failed_.ok())
        failed_ =
            unsupported(fmt::format("{} has no code for {}: {}", op::to_string(problem), isa_info(target_.isa).name,
                                    facts.rejected.empty() ? "it was not asked for" : facts.rejected.back().why));
      return;
    }
    record_.ops.push_back({problem, program, facts, std::move(*kernels)});
  }

  const RecordTarget& target_;
  Asked asked_;
  std::list<Recorder> recorders_;
  std::shared_ptr<Engine::State> state_ = std::make_shared<Engine::State>();
  std::mutex mutex_;
  std::set<std::string> known_;
  Status failed_;
  Record record_;
};

}  // namespace

Result<Record> record_plan(const RecordTarget& target, const plan::Decisions& decisions,
                           passes::Compilation compilation, const PlanOptions& options) {
  return guarded([&]() -> Result<Record> { return Recording(target, decisions).run(std::move(compilation), options); });
}

}  // namespace hone::executable
