// See codegen_store.h.
#include "tools/hone/codegen_store.h"

#include <algorithm>
#include <cmath>

#include "autotune/recorder.h"

namespace hone::cli {
namespace {

db::CodePart part_of(const CodePart& part) {
  const jit::Counts& c = part.counts;
  return {.bytes = static_cast<int64_t>(part.bytes),
          .total = c.total,
          .vector = c.vector,
          .fma = c.fma,
          .load = c.load,
          .store = c.store,
          .branch = c.branch,
          .address = c.address,
          .stack = c.stack,
          .spills = c.spills,
          .reloads = c.reloads};
}

// Each CPU once, in order.
std::vector<db::CodeModel> models_of(const GeneratorCode& code) {
  std::vector<db::CodeModel> models;
  for (const LoopModel& m : code.models) {
    if (!m.result || m.cpu.empty()) continue;
    const auto same = [&](const db::CodeModel& other) { return other.cpu == m.cpu; };
    if (std::any_of(models.begin(), models.end(), same)) continue;
    models.push_back({.cpu = m.cpu,
                      .block_rthroughput = m.result->block_rthroughput,
                      .cycles = m.result->cycles,
                      .ipc = m.result->ipc,
                      .uops = m.result->uops,
                      .bottleneck = m.result->bottleneck});
  }
  std::sort(models.begin(), models.end(), [](const db::CodeModel& a, const db::CodeModel& b) { return a.cpu < b.cpu; });
  return models;
}

std::string bits_of(const Study& study, const GeneratorCode& code) {
  if (code.wrong) return "differ";
  const auto right = std::count_if(study.codes.begin(), study.codes.end(),
                                   [](const GeneratorCode& c) { return !c.wrong && !c.rounds_ns.empty(); });
  return right > 1 && !code.rounds_ns.empty() ? "equal" : "alone";
}

db::CodeRecord record_of(const Study& study, const GeneratorCode& code) {
  db::CodeRecord record{.problem = {.text = op::to_string(study.problem),
                                    .family = op::family(study.problem),
                                    .m = op::rows(study.problem)},
                        .candidate = {.program = op::to_string(study.program),
                                      .codegen = code.codegen,
                                      .codegen_version = code.version,
                                      .threads = study.threads,
                                      .numerics = op::numerics(study.program)},
                        .cache_mode = study.cache,
                        .bits = bits_of(study, code),
                        .spilling_loops = code.spilling_loops(),
                        .models = models_of(code)};
  if (!code.compile_ns.empty()) record.compile_ns = autotune::median(code.compile_ns);
  if (!code.kernels.empty()) record.whole = part_of(code.whole());
  const KernelCode* const hot = study.hot(code);
  if (const std::optional<CodePart> loop = hot != nullptr ? hot->inner_loop() : std::nullopt)
    record.loop = part_of(*loop);
  for (const double ns : code.rounds_ns) record.rounds_ns.push_back(std::llround(ns));
  if (!code.rounds_ns.empty()) record.ns = autotune::median(code.rounds_ns);
  if (const std::optional<autotune::Interval> ratio = study.ratio(code); ratio && !code.rounds_ns.empty())
    record.ratio = ratio->mid, record.ratio_lo = ratio->lo, record.ratio_hi = ratio->hi;
  return record;
}

}  // namespace

std::vector<db::CodeRecord> code_records(const Study& study, const Machine& machine) {
  std::vector<db::CodeRecord> records;
  for (const GeneratorCode& code : study.codes) {
    if (code.kernels.empty() && code.rounds_ns.empty()) continue;
    records.push_back(record_of(study, code));
    records.back().machine = autotune::machine_record(machine);
    records.back().build = autotune::build_record();
  }
  return records;
}

}  // namespace hone::cli
