// Records as lines of JSON: one record a line, keys in a fixed order, so that two exports of one content are equal.
#include <nlohmann/json.hpp>

#include <algorithm>

#include <fmt/format.h>

#include "db/transfer_text_internal.h"

namespace hone::db {
namespace {

using Json = nlohmann::ordered_json;

// FNV-1a of key and label: the name of a machine within a file.
std::string digest(const MachineLabel& machine) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : machine.key + '\0' + machine.label) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

std::string to_hex(const std::string& bytes) {
  std::string hex;
  for (const unsigned char c : bytes) hex += fmt::format("{:02x}", c);
  return hex;
}

// JSON strings hold UTF-8 only; what is not goes as {"hex": "..."}, so that nothing is lost.
Json text(const std::string& s) {
  if (std::all_of(s.begin(), s.end(), [](unsigned char c) { return c < 0x80; })) return s;
  try {
    (void)Json(s).dump();
    return s;
  } catch (const Json::type_error&) {
    return {{"hex", to_hex(s)}};
  }
}

Json json_of(const BuildLabel& build) { return {{"engine", text(build.engine)}, {"codegens", text(build.codegens)}}; }

Json json_of(const Candidate& c) {
  return {{"program", text(c.program)},
          {"codegen", text(c.codegen)},
          {"codegen_version", text(c.codegen_version)},
          {"threads", c.threads},
          {"numerics", text(c.numerics)}};
}

void put(Json& line, const MachineLabel& machine) {
  line.update(Json{{"id", digest(machine)}, {"key", text(machine.key)}, {"label", text(machine.label)}});
}

void put(Json& line, const ProblemKey& p) {
  line.update(Json{{"problem", text(p.text)}, {"family", text(p.family)}, {"m", p.m}});
}

void put(Json& line, const SessionRecord& s) {
  line.update(Json{{"uid", text(s.uid)},
                   {"machine", digest(s.machine)},
                   {"build", json_of(s.build)},
                   {"settings", text(s.settings)},
                   {"started_at", s.started_at}});
}

void put(Json& line, const RunRecord& r) {
  line.update(Json{{"uid", text(r.uid)},
                   {"machine", digest(r.machine)},
                   {"build", json_of(r.build)},
                   {"session", r.session.empty() ? Json(nullptr) : text(r.session)},
                   {"problem", r.problem.text.empty() ? Json(nullptr) : text(r.problem.text)},
                   {"started_at", r.started_at},
                   {"seed", r.seed},
                   {"cache_mode", text(r.cache_mode)},
                   {"noise_bound", r.noise_bound},
                   {"spent_ns", r.spent_ns},
                   {"settings", text(r.settings)}});
}

void put(Json& line, const SamplesRecord& s) {
  line.update(Json{{"run", text(s.run)}, {"problem", text(s.problem.text)}, {"candidate", json_of(s.candidate)}});
  for (const Sample& sample : s.samples)
    line[std::string(phase_name(sample.phase))].push_back(Json::array({sample.round, sample.order, sample.ns}));
}

void put(Json& line, const OutcomeRecord& o) {
  line.update(Json{{"run", text(o.run)},
                   {"problem", text(o.problem.text)},
                   {"candidate", json_of(o.candidate)},
                   {"outcome", text(o.outcome)},
                   {"detail", text(o.detail)},
                   {"command", text(o.command)},
                   {"noted_at", o.noted_at}});
}

void put(Json& line, const DecisionRecord& r) {
  const Decision& d = r.decision;
  line.update(Json{{"run", text(r.run)},
                   {"problem", text(d.problem.text)},
                   {"verdict", text(r.verdict)},
                   {"winner", json_of(d.winner)},
                   {"fallback", json_of(d.fallback)},
                   {"ns", d.ns},
                   {"default_ns", d.default_ns},
                   {"speedup", d.speedup},
                   {"speedup_lo", d.speedup_lo},
                   {"speedup_hi", d.speedup_hi},
                   {"noise_bound", d.noise_bound},
                   {"decided_at", d.decided_at}});
}

void put(Json& line, const Ranker& r) {
  line.update(Json{{"machine_key", text(r.machine_key)},
                   {"features", text(r.features)},
                   {"trained_at", r.trained_at},
                   {"problems", r.problems},
                   {"samples", r.samples},
                   {"correlation", r.correlation},
                   {"baseline_correlation", r.baseline_correlation},
                   {"model", {{"hex", to_hex(r.model)}}}});
}

void put(Json& line, const ScheduleChoice& s) {
  Json fork_joins = Json::array();
  for (const ForkJoin& f : s.fork_joins)
    fork_joins.push_back(Json{{"schedule", text(f.schedule)},
                              {"median_ns", f.median_ns},
                              {"p99_ns", f.p99_ns},
                              {"paused_median_ns", f.paused_median_ns},
                              {"paused_p99_ns", f.paused_p99_ns}});
  line.update(Json{{"machine", digest(s.machine)},
                   {"build", json_of(s.build)},
                   {"threads", s.threads},
                   {"schedule", text(s.schedule)},
                   {"min_work", s.min_work},
                   {"fork_joins", fork_joins},
                   {"measured_at", s.measured_at}});
}

Json json_of(const std::optional<CodePart>& p) {
  if (!p) return nullptr;
  return {{"bytes", p->bytes}, {"total", p->total},   {"vector", p->vector},  {"fma", p->fma},
          {"load", p->load},   {"store", p->store},   {"branch", p->branch},  {"address", p->address},
          {"stack", p->stack}, {"spills", p->spills}, {"reloads", p->reloads}};
}

Json unless_zero(double value) { return value == 0 ? Json(nullptr) : Json(value); }

void put(Json& line, const CodeRecord& c) {
  Json models = Json::array();
  for (const CodeModel& m : c.models)
    models.push_back(Json{{"cpu", text(m.cpu)},
                          {"block_rthroughput", m.block_rthroughput},
                          {"cycles", m.cycles},
                          {"ipc", m.ipc},
                          {"uops", m.uops},
                          {"bottleneck", text(m.bottleneck)}});
  line.update(Json{{"machine", digest(c.machine)},
                   {"build", json_of(c.build)},
                   {"problem", text(c.problem.text)},
                   {"candidate", json_of(c.candidate)},
                   {"cache_mode", text(c.cache_mode)},
                   {"bits", text(c.bits)},
                   {"compile_ns", unless_zero(c.compile_ns)},
                   {"whole", json_of(c.whole)},
                   {"loop", json_of(c.loop)},
                   {"spilling_loops", c.spilling_loops},
                   {"models", models},
                   {"rounds_ns", c.rounds_ns},
                   {"ns", unless_zero(c.ns)},
                   {"ratio", unless_zero(c.ratio)},
                   {"ratio_lo", unless_zero(c.ratio_lo)},
                   {"ratio_hi", unless_zero(c.ratio_hi)},
                   {"measured_at", c.measured_at}});
}

}  // namespace

std::string header_line() {
  return fmt::format(R"({{"type":"{}","format":{},"schema":{}}})", kHeader, kFormat, migrations().back().version) +
         "\n";
}

std::string end_line() { return fmt::format(R"({{"type":"{}"}})", kEnd) + "\n"; }

std::string to_line(const Record& record) {
  Json line{{"type", kRecordTypes[record.index()]}};
  std::visit([&](const auto& r) { put(line, r); }, record);
  return line.dump() + "\n";
}

}  // namespace hone::db
