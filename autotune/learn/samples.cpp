// See samples.h. The baseline of a run is the default plan it was decided against; of a run without a decision, the
// candidate that was there in most rounds, which the searches make the same one.
#include "autotune/learn/samples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "autotune/search/stats.h"

namespace hone::autotune {
namespace {

using Measured = std::vector<std::pair<db::Candidate, std::vector<db::Sample>>>;
// One kernel a round: the noise race runs one against itself and compares it with nobody.
using Slots = std::map<std::pair<db::Phase, int64_t>, double>;

Slots slots_of(const std::vector<db::Sample>& samples) {
  Slots slots;
  for (const db::Sample& s : samples)
    if (s.phase != db::Phase::kNoise) slots.emplace(std::pair(s.phase, s.round), static_cast<double>(s.ns));
  return slots;
}

std::string identity(const db::Candidate& c) { return c.program + " " + c.codegen + " " + std::to_string(c.threads); }

// As tune() wrote them; zeros where they are missing, as in runs of earlier builds.
Peak peak_from_settings(const std::string& settings) {
  Peak peak;
  const nlohmann::json json = nlohmann::json::parse(settings, nullptr, false);
  if (!json.is_object() || !json.contains("peak") || !json["peak"].is_object()) return peak;
  auto rate = [&](const char* name) {
    const auto at = json["peak"].find(name);
    return at != json["peak"].end() && at->is_number() ? std::max(at->get<double>(), 0.0) : 0.0;
  };
  const Peak read{.f32_gflops_1t = rate("f32_gflops_1t"),
                  .bf16_gflops_1t = rate("bf16_gflops_1t"),  // of earlier builds: 0
                  .read_gbs_1t = rate("read_gbs_1t"),
                  .read_gbs_all = rate("read_gbs_all"),
                  .l2_gbs_1t = rate("l2_gbs_1t")};
  const bool whole = read.f32_gflops_1t > 0 && read.read_gbs_1t > 0 && read.read_gbs_all > 0 && read.l2_gbs_1t > 0;
  return whole ? read : peak;
}

struct Group {
  MeasuredGroup out;
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, db::Candidate> candidates;
};

class Reader {
 public:
  Reader(db::Store& store, std::string key) : store_(store), key_(std::move(key)) {}

  Result<std::vector<MeasuredGroup>> read() {
    HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredRun> runs, store_.runs());  // newest first
    for (const db::StoredRun& run : runs)
      if (run.machine.key == key_ && run.info.cache_mode != db::kInWhole) HONE_RETURN_IF_ERROR(read_run(run));
    std::vector<MeasuredGroup> list;
    for (auto& [id, group] : groups_) {
      finish(group);
      if (group.out.candidates.size() >= 2) list.push_back(std::move(group.out));
    }
    return list;
  }

 private:
  Status read_run(const db::StoredRun& run) {
    HONE_ASSIGN_OR_RETURN(const std::vector<db::StoredDecision> decisions, store_.decisions_of_run(run.id));
    std::set<std::string> problems;
    if (!run.info.problem.text.empty()) problems.insert(run.info.problem.text);
    for (const db::StoredDecision& d : decisions) problems.insert(d.decision.problem.text);
    for (const std::string& text : problems) {
      const Result<op::Problem> parsed = op::parse_problem(text);
      const auto* problem = parsed.ok() ? std::get_if<matmul::MatmulProblem>(&*parsed) : nullptr;
      if (problem == nullptr) continue;
      HONE_ASSIGN_OR_RETURN(const Measured measured, store_.samples(run.id, text));
      const db::Candidate* fallback = nullptr;
      for (const db::StoredDecision& d : decisions)
        if (d.decision.problem.text == text) fallback = &d.decision.fallback;
      add(run, text, *problem, measured, fallback);
    }
    return {};
  }

  void add(const db::StoredRun& run, const std::string& text, const matmul::MatmulProblem& problem,
           const Measured& measured, const db::Candidate* fallback) {
    const std::pair<db::Candidate, std::vector<db::Sample>>* baseline = nullptr;
    for (const auto& entry : measured) {
      if (fallback != nullptr && entry.first == *fallback) {
        baseline = &entry;
        break;
      }
      if (baseline == nullptr || entry.second.size() > baseline->second.size()) baseline = &entry;
    }
    if (baseline == nullptr) return;
    const Slots reference = slots_of(baseline->second);
    Group& group = groups_[{text, run.info.cache_mode, identity(baseline->first), run.machine.label}];
    if (group.out.text.empty()) {
      group.out.text = text;
      group.out.problem = problem;
      group.out.machine = cost_machine_of(run);
    }
    for (const auto& [candidate, samples] : measured) {
      group.candidates.emplace(identity(candidate), candidate);
      std::vector<double>& ratios = group.ratios[identity(candidate)];
      for (const auto& [slot, ns] : slots_of(samples))
        if (const auto at = reference.find(slot); at != reference.end()) ratios.push_back(std::log(ns / at->second));
    }
  }

  static void finish(Group& group) {
    for (const auto& [id, ratios] : group.ratios) {
      if (ratios.empty()) continue;
      const db::Candidate& c = group.candidates.at(id);
      const Result<matmul::TransformProgram> program = matmul::parse_program(c.program);
      if (!program.ok() || !matmul::legal(group.out.problem, *program).ok()) continue;
      group.out.candidates.push_back(
          {{*program, c.codegen, c.threads}, median(ratios), static_cast<int>(ratios.size())});
    }
  }

  db::Store& store_;
  std::string key_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Group> groups_;
};

}  // namespace

CostMachine cost_machine_of(const db::StoredRun& run) {
  return cost_machine(read_machine_label(run.machine.label), peak_from_settings(run.info.settings),
                      run.info.cache_mode != "warm");
}

Result<std::vector<MeasuredGroup>> read_samples(db::Store& store, const std::string& machine_key) {
  return Reader(store, machine_key).read();
}

}  // namespace hone::autotune
