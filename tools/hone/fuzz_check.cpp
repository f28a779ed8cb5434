// See fuzz_check.h.
#include "tools/hone/fuzz_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernels/ir/checked_run.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "kernels/ir/verify_internal.h"
#include "kernels/op/trial.h"

namespace hone::cli {
namespace {

using Kind = Verdict::Kind;

constexpr int64_t kMaxSteps = 1'000'000;  // of a run: some 0.1 s in the interpreter
// What an op's program may cost where an extreme number made it large: it is lowered and verified, but not run.
constexpr double kMaxFlops = 1e7, kMaxOpBytes = 16 << 20;

Verdict failed(std::string fault, std::string details) { return Verdict::failed(std::move(fault), std::move(details)); }

Verdict refused(const Status& why) {
  if (why.message().empty()) return failed("refused without a reason", std::string(code_name(why.code())));
  if (why.message().find('\n') != std::string::npos) return failed("refused in more than a line", why.message());
  return {Kind::kRefused, "", why.message(), 0};
}

// print(parse(text)) == text. The kernel, when it parses.
std::optional<ir::Kernel> read_back(const std::string& text, Verdict& verdict) {
  Result<ir::Kernel> kernel = ir::parse(text);
  if (!kernel.ok()) {
    verdict = failed("LoopIR text does not parse", kernel.status().message());
    return std::nullopt;
  }
  if (ir::print(*kernel) != text) verdict = failed("LoopIR text does not read back", ir::print(*kernel));
  return std::move(*kernel);
}

int lanes_of(const ir::Kernel& kernel) {
  int lanes = 1;
  for (const ir::Register& r : kernel.registers) lanes = std::max(lanes, r.type.lanes);
  return lanes;
}

std::string fault_of(const jit::Target& target, const Status& status) {
  return fmt::format("{} {}", target.name(), status.code() == Code::kDataLoss ? "differs" : "does not compile");
}

Verdict check_loop_ir(const FuzzCase& c, const std::vector<jit::CodeGenerator*>& generators,
                      const jit::Progress& progress) {
  Verdict verdict;
  const std::optional<ir::Kernel> kernel = read_back(c.kernel, verdict);
  if (!kernel || verdict.kind == Kind::kFaulty) return verdict;
  progress("the verifier runs");
  const Status verified = ir::verify(*kernel);
  if (!ir::verify_structure(*kernel).ok() || !ir::verify_registers(*kernel).ok())
    return {Kind::kInvalid, "", verified.message(), 0};
  for (const std::vector<int64_t>& run : c.runs) {
    if (run.size() != kernel->params().size()) {
      return {Kind::kInvalid, "",
              fmt::format("it has {} parameters, and a line '# parameters ..' in front of it with values for {}",
                          kernel->params().size(), run.size()),
              0};
    }
    const Result<jit::Arguments> arguments = jit::Arguments::create(*kernel, run, c.seed);
    if (!arguments.ok()) return {Kind::kInvalid, "", arguments.status().message(), 0};
    const ir::RunCheck check = ir::check_run(*kernel, run, arguments->tables(), kMaxSteps);
    if (check.verdict == ir::RunCheck::Verdict::kFault && verified.ok())
      return failed("the verifier accepts what leaves its bounds", check.text);
    if (!check.clean()) return {Kind::kInvalid, "", check.text, 0};
  }
  Result<jit::Differential> differential = jit::Differential::create(*kernel, c.runs, c.seed, progress);
  if (!differential.ok()) return {Kind::kInvalid, "", differential.status().message(), 0};
  for (jit::CodeGenerator* generator : generators)
    for (const Isa isa : all_isas()) {
      if (!generator->targets(isa) || isa_info(isa).lanes_f32() < lanes_of(*kernel)) continue;
      if (!jit::check_features(*kernel, isa, {}).ok()) continue;
      const jit::Target target{generator, isa};
      const Status same = differential->check(target, progress);
      if (!same.ok()) return failed(fault_of(target, same), same.message());
      ++verdict.compiled;
    }
  return verdict;
}

// ---- ops -----------------------------------------------------------------------------------------------------------

struct Lowered {
  op::Problem problem;
  op::Program program;
  std::vector<ir::Kernel> kernels;
};

// The canonical form of a legal program is legal, its own canonical form, and the same LoopIR. "": so it is.
std::string canonical_fault(const op::Problem& problem, const op::Program& program,
                            const std::vector<ir::Kernel>& kernels) {
  const op::Program canonical = op::canonical(problem, program);
  const std::string text = op::to_string(canonical);
  if (const Status s = op::legal(problem, canonical); !s.ok()) return text + ": " + s.message();
  if (op::canonical(problem, canonical) != canonical) return text + ": has another canonical form";
  const Result<std::vector<ir::Kernel>> same = op::lower(problem, canonical);
  if (!same.ok()) return text + ": " + same.status().message();
  if (!std::ranges::equal(*same, kernels, {}, ir::hash, ir::hash)) return text + ": has other LoopIR";
  return "";
}

// From texts to verified LoopIR; none when the verdict says why.
std::optional<Lowered> lower(const FuzzCase& c, Verdict& verdict) {
  const Result<op::Problem> problem = op::parse_problem(c.problem);
  if (!problem.ok()) return verdict = refused(problem.status()), std::nullopt;
  const std::string problem_text = op::to_string(*problem);
  const Result<op::Problem> again = op::parse_problem(problem_text);
  if (!again.ok() || *again != *problem) {
    verdict = failed("a problem's text does not read back", problem_text);
    return std::nullopt;
  }
  const Result<op::Program> program = op::parse_program(*problem, c.program);
  if (!program.ok()) return verdict = refused(program.status()), std::nullopt;
  const std::string program_text = op::to_string(*program);
  const Result<op::Program> program_again = op::parse_program(*problem, program_text);
  if (!program_again.ok() || *program_again != *program) {
    verdict = failed("a program's text does not read back", program_text);
    return std::nullopt;
  }
  const Status legal = op::legal(*problem, *program);
  Result<std::vector<ir::Kernel>> kernels = op::lower(*problem, *program);
  if (!legal.ok()) {
    verdict = kernels.ok() ? failed("an illegal program is lowered", legal.message()) : refused(legal);
    return std::nullopt;
  }
  if (!kernels.ok()) {
    verdict = failed("a legal program is not lowered", kernels.status().message());
    return std::nullopt;
  }
  if (const std::string other = canonical_fault(*problem, *program, *kernels); !other.empty()) {
    verdict = failed("the canonical program is another one", other);
    return std::nullopt;
  }
  return Lowered{*problem, *program, std::move(*kernels)};
}

// All kernels on all that the trial calls them with, one task after the other.
template <typename Run>
Status run_trial(op::Trial& trial, const std::vector<ir::Kernel>& kernels, const Run& run) {
  trial.reset();
  for (size_t k = 0; k < kernels.size(); ++k) {
    const ir::TaskBounds bounds = ir::task_bounds(kernels[k]);
    HONE_ASSIGN_OR_RETURN(GuardedBuffer workspace, GuardedBuffer::create(ir::workspace_size(kernels[k])));
    for (const op::Trial::Call& call : trial.calls(k)) {
      const ir::TaskSpace space = ir::task_space(bounds, call.params);
      std::vector<int64_t> tasks(static_cast<size_t>(space.rank) + 1);
      for (int64_t i = 0; i < space.count; ++i) {
        space.values(i, tasks.data());
        workspace.poison();
        run(k, call.buffers, call.params, tasks.data(), static_cast<void*>(workspace.data()));
      }
    }
  }
  const numeric::Comparison comparison = trial.compare();
  return comparison.ok() ? Status() : data_loss(comparison.text);
}

Status run_compiled(op::Trial& trial, const std::vector<ir::Kernel>& kernels, const jit::Target& target,
                    const jit::Progress& progress) {
  progress(target.name() + " compiles");
  std::vector<std::unique_ptr<jit::CompiledKernel>> compiled;
  for (const ir::Kernel& kernel : kernels) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<jit::CompiledKernel> one,
                          target.generator->compile(kernel, target.isa, {.cached = false}));
    compiled.push_back(std::move(one));
  }
  progress(target.name() + " runs");
  return run_trial(trial, kernels, [&](size_t k, auto... all) { compiled[k]->run(all...); });
}

Verdict check_op(const FuzzCase& c, const std::vector<jit::CodeGenerator*>& generators, const jit::Progress& progress) {
  Verdict verdict;
  progress("problem and program are parsed and lowered");
  const std::optional<Lowered> lowered = lower(c, verdict);
  if (!lowered) return verdict;
  for (const ir::Kernel& kernel : lowered->kernels) {
    if (const Status s = ir::verify(kernel); !s.ok()) return failed("a lowered kernel does not verify", s.message());
    (void)read_back(ir::print(kernel), verdict);
    if (verdict.kind == Kind::kFaulty) return verdict;
  }
  if (op::flops(lowered->problem) > kMaxFlops || op::bytes(lowered->problem) > kMaxOpBytes)
    return {Kind::kRefused, "", "too large to be run", 0};
  progress("the reference runs");
  const Result<std::unique_ptr<op::Trial>> trial = op::make_trial(lowered->problem, lowered->program, c.seed);
  if (!trial.ok()) return {Kind::kRefused, "", trial.status().message(), 0};
  progress("the interpreter runs");
  std::vector<ir::Interpreter> interpreters(lowered->kernels.begin(), lowered->kernels.end());
  const Status same = run_trial(**trial, lowered->kernels, [&](size_t k, auto... all) { interpreters[k].run(all...); });
  if (!same.ok()) return failed("the interpreter differs from the reference", same.message());
  for (jit::CodeGenerator* generator : generators) {
    const jit::Target target{generator, op::isa(lowered->program)};
    if (!generator->targets(target.isa)) continue;
    if (!std::ranges::all_of(lowered->kernels,
                             [&](const auto& k) { return jit::check_features(k, target.isa, {}).ok(); }))
      continue;
    const Status status = run_compiled(**trial, lowered->kernels, target, progress);
    if (!status.ok()) return failed(fault_of(target, status), fmt::format("{}: {}", target.name(), status.message()));
    verdict.compiled += static_cast<int64_t>(lowered->kernels.size());
  }
  return verdict;
}

}  // namespace

Verdict check_case(const FuzzCase& c, const std::vector<jit::CodeGenerator*>& generators,
                   const jit::Progress& progress) {
  return c.kind == kLoopIr ? check_loop_ir(c, generators, progress) : check_op(c, generators, progress);
}

std::vector<FuzzCase> lowered_cases(const FuzzCase& c) {
  std::vector<FuzzCase> cases;
  Verdict verdict;
  const std::optional<Lowered> lowered = lower(c, verdict);
  if (!lowered) return cases;
  const Result<std::unique_ptr<op::Trial>> trial = op::make_trial(lowered->problem, lowered->program, c.seed);
  if (!trial.ok()) return cases;
  for (size_t k = 0; k < lowered->kernels.size(); ++k) {
    const ir::Kernel& kernel = lowered->kernels[k];
    FuzzCase one{.kind = std::string(kLoopIr), .seed = c.seed, .kernel = ir::print(kernel)};
    for (const op::Trial::Call& call : (*trial)->calls(k))
      one.runs.emplace_back(call.params, call.params + kernel.params().size());
    cases.push_back(std::move(one));
  }
  return cases;
}

std::string encode(const Verdict& v) {
  return fmt::format("{} {} {}\n{}", static_cast<int>(v.kind), v.compiled, v.fault, v.details);
}

Verdict decode_verdict(std::string_view text) {
  Verdict v;
  const std::string line(text.substr(0, text.find('\n')));
  int kind = 0, read = 0;
  long compiled = 0;
  if (std::sscanf(line.c_str(), "%d %ld %n", &kind, &compiled, &read) < 2) return Verdict::failed("nonsense", line);
  v.kind = static_cast<Kind>(kind);
  v.compiled = compiled;
  v.fault = line.substr(std::min(line.size(), static_cast<size_t>(read)));
  if (const size_t at = text.find('\n'); at != std::string_view::npos) v.details = text.substr(at + 1);
  return v;
}

}  // namespace hone::cli
