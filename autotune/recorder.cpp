// See recorder.h.
#include "autotune/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/log.h"
#include "engine/base/version.h"
#include "jit/codegen.h"

namespace hone::autotune {

db::Candidate record(const Candidate& c) {
  const Result<jit::CodeGenerator*> generator = jit::find_code_generator(c.codegen);
  return {.program = op::to_string(c.program),
          .codegen = c.codegen,
          .codegen_version = generator.ok() ? (*generator)->version() : "",
          .threads = c.threads,
          .numerics = op::numerics(c.program)};
}

std::optional<Candidate> candidate_of(const db::Candidate& record, const op::Problem& problem) {
  const Result<op::Program> program = op::parse_program(problem, record.program);
  if (!program.ok() || !op::legal(problem, *program).ok()) return std::nullopt;
  return Candidate{op::canonical(problem, *program), record.codegen, record.threads};
}

db::MachineLabel machine_record(const Machine& machine) {
  return {.key = machine.key(), .label = machine_to_json(machine)};
}

db::BuildLabel build_record() {
  db::BuildLabel label{.engine = std::string(engine_label()), .codegens = ""};
  for (const jit::CodeGenerator* g : jit::code_generators())
    label.codegens += fmt::format("{}{}={}", label.codegens.empty() ? "" : ";", g->name(), g->version());
  return label;
}

db::ProblemKey problem_record(const op::Problem& problem) {
  return {.text = op::to_string(problem), .family = op::family(problem), .m = op::rows(problem)};
}

std::string repeat_command(const std::string& problem, const Candidate& c, const std::string& cache_mode,
                           int64_t seed) {
  return fmt::format("hone bench '{}' --plan '{}' --codegen {} --threads {} --cache {} --seed {}", problem,
                     op::to_string(c.program), c.codegen, c.threads, cache_mode, static_cast<uint64_t>(seed));
}

void Recorder::begin(const Machine& machine, const db::RunInfo& info) {
  info_ = info;
  const Result<int64_t> id = store_.begin_run(machine_record(machine), build_record(), info);
  if (id.ok()) run_id_ = *id;
  if (!id.ok()) keep(id.status());
}

void Recorder::keep(const Status& s) {
  if (s.ok() || store_failed_) return;
  if (not_stored_.empty()) not_stored_ = s.message();
  store_failed_ = s.code() != Code::kUnavailable;
  HONE_LOG_EVENT(LogTopic::kTune, "store_failed", {{"problem", key_.text}, {"why", s.message()}});
}

void Recorder::noise(double bound) {
  if (writable()) keep(store_.set_noise_bound(run_id_, bound));
}

void Recorder::round(std::span<const RoundSample> samples, double spent_seconds) {
  if (!writable()) return;
  std::map<int, std::vector<db::Sample>> by_candidate;
  for (const RoundSample& s : samples) by_candidate[s.candidate].push_back(s.sample);
  std::vector<db::SampleGroup> groups;
  for (auto& [candidate, list] : by_candidate) groups.push_back({naming_.record(candidate), std::move(list)});
  const Status stored = store_.add_round(run_id_, key_, groups, spent_seconds);
  keep(stored);
  if (stored.ok() && !samples.empty())
    HONE_LOG_EVENT(LogTopic::kTune, "round",
                   {{"problem", key_.text},
                    {"phase", db::phase_name(samples.front().sample.phase)},
                    {"number", samples.front().sample.round},
                    {"samples", samples.size()}});
}

void Recorder::outcome(int candidate, const Prepared& prepared) {
  const db::Candidate c = naming_.record(candidate);
  HONE_LOG_EVENT(LogTopic::kTune, "outcome",
                 {{"problem", key_.text},
                  {"program", c.program},
                  {"codegen", c.codegen},
                  {"threads", c.threads},
                  {"outcome", db::outcome_name(prepared.outcome)},
                  {"why", prepared.detail}});
  if (!writable()) return;
  keep(store_.add_outcome(run_id_, key_, c, prepared.outcome, prepared.detail, repeat_command(candidate)));
}

bool Recorder::decision(db::Decision decision) {
  if (!writable()) return false;
  decision.problem = key_;
  const Result<int64_t> id = store_.add_decision(run_id_, decision);
  if (!id.ok()) keep(id.status());
  return id.ok();
}

namespace {

// Index of a stored candidate, -1 when this build cannot make it (any more).
class Finder {
 public:
  Finder(const op::Problem& problem, std::vector<Candidate>* candidates) : problem_(problem), candidates_(*candidates) {
    for (size_t i = 0; i < candidates_.size(); ++i) index_.emplace(name(candidates_[i]), static_cast<int>(i));
  }

  int find(const db::Candidate& stored) {
    std::optional<Candidate> candidate = candidate_of(stored, problem_);
    if (!candidate || record(*candidate) != stored) return -1;
    const auto [at, added] = index_.emplace(name(*candidate), static_cast<int>(candidates_.size()));
    if (added) candidates_.push_back(*std::move(candidate));
    return at->second;
  }

 private:
  static std::string name(const Candidate& c) {
    return fmt::format("{} {} {}", op::to_string(c.program), c.codegen, c.threads);
  }

  const op::Problem& problem_;
  std::vector<Candidate>& candidates_;
  std::map<std::string, int> index_;
};

}  // namespace

Result<Race::Earlier> read_earlier(db::Store& store, int64_t run_id, const op::Problem& problem,
                                   std::vector<Candidate>* candidates) {
  HONE_ASSIGN_OR_RETURN(const auto stored, store.samples(run_id, op::to_string(problem)));
  HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredOutcome> outcomes, store.outcomes(run_id));
  Finder finder(problem, candidates);
  Race::Earlier earlier;
  for (const auto& [candidate, samples] : stored) {
    const int index = finder.find(candidate);
    if (index < 0) continue;
    for (const db::Sample& s : samples) earlier.samples.push_back({index, s});
  }
  for (const db::StoredOutcome& o : outcomes) {
    const int index = finder.find(o.candidate);
    if (index >= 0) earlier.dead.push_back(index);
  }
  return earlier;
}

}  // namespace hone::autotune
