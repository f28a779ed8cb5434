// hone explain: which plan a problem gets here, why, and what was passed over; on request the LoopIR and the code.
#include <fmt/format.h>

#include "engine/base/env.h"
#include "engine/plan/resolver.h"
#include "jit/inspect/disassemble.h"
#include "kernels/ir/text.h"
#include "kernels/op/region.h"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/regions.h"

namespace hone::cli {
namespace {

struct ExplainArgs {
  ProblemArgs problems;
  std::string db, codegen, numerics;
  int threads = 0;
  std::string output = "text";
  bool json = false, ir = false, assembly = false;
};

Json from_json(const plan::Origin& from) {
  return {{"decision", from.decision},
          {"problem", from.problem},
          {"machine", from.machine},
          {"engine", from.engine},
          {"codegen", from.codegen},
          {"codegen_version", from.codegen_version},
          {"ns", from.ns},
          {"difference", from.difference},
          {"why", from.why.empty() ? Json(nullptr) : Json(from.why)}};
}

// What the plans are for, and on what they run.
struct Where {
  plan::Target target;
  plan::RegionPolicy policy;
};

// Why a call that could have threads has none; "" when it has them, or was tuned without.
std::string stays_on_caller(const op::Problem& problem, const plan::Plan& plan, const Where& w) {
  const bool may = w.target.threads > 1 && (plan.threads > 1 || plan.reason == plan::Reason::kDefault);
  if (!may || plan::measured_as_it_runs(plan, w.target) || op::region_pays(op::region_work(problem), w.target.min_work))
    return "";
  const double work = op::region_work(problem);
  return w.target.min_work
             ? fmt::format("its work of {:.0f} is below the {} from which a region pays", work, *w.target.min_work)
             : fmt::format("its work of {:.0f} is too little for a region, at a guess", work);
}

Json explanation(const op::Problem& problem, const plan::Plan& plan, const Where& w) {
  const std::string on_caller = stays_on_caller(problem, plan, w);
  runtime::ScheduleRequest schedule;
  if (plan.threads > 1 && on_caller.empty())
    schedule = runtime::effective_schedule({w.policy.schedule.kind, plan.threads});
  Json rejected = Json::array();
  for (const plan::Rejection& r : plan.rejected) rejected.push_back({{"program", r.program}, {"why", r.why}});
  return {{"problem", op::to_string(problem)},
          {"plan",
           {{"program", op::to_string(plan.program)},
            {"codegen", plan.codegen},
            {"threads", plan.threads},
            {"schedule", to_string(schedule)},
            {"on_caller", on_caller.empty() ? Json(nullptr) : Json(on_caller)},
            {"numerics", plan.numerics}}},
          {"schedule", regions_json(w.policy)},
          {"reason", plan::reason_name(plan.reason)},
          {"from", plan.from ? from_json(*plan.from) : Json(nullptr)},
          {"rejected", rejected}};
}

void print_text(const Json& e) {
  const Json& plan = e["plan"];
  print("{}\n  reason    {}\n", e["problem"].get<std::string>(), e["reason"].get<std::string>());
  print("  plan      {} on {} thread(s), {}, numerics {}\n            {}\n", plan["codegen"].get<std::string>(),
        plan["threads"].dump(), plan["schedule"].get<std::string>(), plan["numerics"].get<std::string>(),
        plan["program"].get<std::string>());
  if (!plan["on_caller"].is_null())
    print("  caller    the call stays on it: {}\n", plan["on_caller"].get<std::string>());
  print("  schedule  {}\n", regions_text(e["schedule"], ""));
  if (!e["from"].is_null()) {
    const Json& from = e["from"];
    print("  from      decision {}: {}, {:.1f} us by {}\n", from["decision"].dump(), from["problem"].get<std::string>(),
          from["ns"].get<double>() / 1e3, from["engine"].get<std::string>());
    const std::string difference = from["difference"].get<std::string>();
    if (!difference.empty()) print("            not as measured: {}\n", difference);
    if (!from["why"].is_null()) print("            taken back: {}\n", from["why"].get<std::string>());
  }
  for (const Json& r : e["rejected"])
    print("  rejected  {}: {}\n", r["program"].get<std::string>(), r["why"].get<std::string>());
}

// The IR, and what the plan's code generator makes of it.
Status add_code(const op::Problem& problem, const plan::Plan& plan, const ExplainArgs& args, Json& e) {
  if (!args.ir && !args.assembly) return {};
  HONE_ASSIGN_OR_RETURN(const std::vector<ir::Kernel> kernels, op::lower(problem, plan.program));
  std::string loop_ir, assembly;
  for (const ir::Kernel& kernel : kernels) {
    if (args.ir) loop_ir += (loop_ir.empty() ? "" : "\n") + ir::print(kernel);
    if (!args.assembly) continue;
    if (plan.codegen == plan::kFallbackCodegen)
      return unsupported("--asm: nothing is generated for this plan, its kernel is precompiled");
    HONE_ASSIGN_OR_RETURN(jit::CodeGenerator * generator, jit::find_code_generator(plan.codegen));
    HONE_ASSIGN_OR_RETURN(
        const std::unique_ptr<jit::CompiledKernel> compiled,
        generator->compile(kernel, op::isa(plan.program), {.cpu = features_of(isa_info(op::isa(plan.program)).arch)}));
    HONE_ASSIGN_OR_RETURN(const std::string listing, jit::disassemble(compiled->code(), op::isa(plan.program)));
    assembly += (assembly.empty() ? "" : "\n") + listing;
  }
  if (args.ir) e["loop_ir"] = loop_ir;
  if (args.assembly) e["asm"] = assembly;
  return {};
}

Result<Where> where(const ExplainArgs& args, db::Store& store) {
  HONE_ASSIGN_OR_RETURN(const Machine machine, described_machine());
  std::vector<jit::CodeGenerator*> generators = jit::compiling_generators();
  if (!args.codegen.empty()) {
    const Result<jit::CodeGenerator*> only = jit::find_code_generator(args.codegen);
    if (!only.ok()) return typed(only.status());
    generators = {*only};
  }
  note_ignored_variables(machine);
  Where w;
  HONE_ASSIGN_OR_RETURN(
      w.policy,
      region_policy_in_force(&store, machine, args.threads > 0 ? args.threads : threads_in_force(machine).threads));
  w.target = plan::make_target(machine, w.policy, generators, plan::Purpose::kAsk);
  return w;
}

int run_explain(const ExplainArgs& args) {
  const Result<std::vector<op::Shape>> shapes = args.problems.resolve();
  if (!shapes.ok()) return fail(shapes.status());
  if (const Status s = check_numerics(*shapes, args.numerics); !s.ok()) return fail(s);
  const Result<std::unique_ptr<db::Store>> store = open_store(args.db, db::OpenMode::kReadOnly);
  if (!store.ok()) return fail(store.status());
  const Result<Where> w = where(args, **store);
  if (!w.ok()) return fail(w.status());
  const Result<plan::Decisions> decisions = plan::Decisions::load(**store);
  if (!decisions.ok()) return fail(decisions.status());
  for (const op::Shape& shape : *shapes) {
    const Result<plan::Plan> plan =
        plan::resolve(shape.problem, w->target, *decisions, {.codegen = "", .numerics = args.numerics});
    if (!plan.ok()) return fail(plan.status());
    Json e = explanation(shape.problem, *plan, *w);
    if (Status s = add_code(shape.problem, *plan, args, e); !s.ok()) return fail(s);
    if (args.json || args.output != "text") {
      print("{}\n", dump(e));
      continue;
    }
    print_text(e);
    for (const char* part : {"loop_ir", "asm"})
      if (e.contains(part)) print("\n{}\n", e[part].get<std::string>());
  }
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("explain", "which plan a problem gets, and why (default: the shipped decoder shapes)");
  auto args = std::make_shared<ExplainArgs>();
  args->problems.add_to(*command);
  command->add_option("--codegen", args->codegen, "only this code generator")->check(not_empty());
  command->add_option("--threads", args->threads, "at most so many threads")->check(CLI::Range(1, kMaxThreads));
  add_numerics(*command, args->numerics);
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->add_option("-o,--output", args->output, "text, or json: one object a line for each problem")
      ->check(CLI::IsMember({"text", "json", "jsonl"}));
  command->add_flag("--json", args->json, "same as -o json");
  command->add_flag("--ir", args->ir, "with the LoopIR");
  command->add_flag("--asm", args->assembly, "with the machine code, disassembled");
  command->callback([args, &run] { run = [args] { return run_explain(*args); }; });
}

}  // namespace hone::cli
