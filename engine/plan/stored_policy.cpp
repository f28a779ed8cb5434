// Ranks the decisions about one graph: nothing that differs first, then by machine and build, then by how far the
// sizes are, then the newest.
#include "engine/plan/stored_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "engine/base/printable.h"
#include "engine/base/sha256.h"

namespace hone::plan {
namespace {

constexpr std::string_view kPrefix = "graph:";
constexpr size_t kNameLength = 40, kHashLength = 16;
constexpr double kMaxDistance = 3;  // in powers of two, as between shapes of a kernel

double apart(int64_t a, int64_t b) {
  // A position of 0 is as near to 16 as 16 is to 48: what a call reads is at least its own tokens.
  constexpr double kFloor = 16;
  return std::abs(std::log2((static_cast<double>(a) + kFloor) / (static_cast<double>(b) + kFloor)));
}

struct Ranked {
  const db::StoredDecision* stored = nullptr;
  GraphCall call;
  std::string foreign;  // machine or build, "" when ours
  double distance = 0;
};

std::string foreign(const db::StoredDecision& d, const MachineKind& kind, const Target& target) {
  if (d.machine.key != target.key) return "measured on a machine with other features";
  if (kind != target.kind) return kind_difference(kind, target.kind);
  if (d.build.engine != target.engine) return fmt::format("measured by {}", d.build.engine);
  if (d.decision.winner.threads > target.threads)
    return fmt::format("measured with {} threads", d.decision.winner.threads);
  return "";
}

std::string difference(const Ranked& r, const GraphCall& call) {
  std::string text;
  if (r.call.tokens != call.tokens) text = fmt::format("tokens={}, asked for {}", r.call.tokens, call.tokens);
  if (r.call.position != call.position)
    text += fmt::format("{}position={}, asked for {}", text.empty() ? "" : "; ", r.call.position, call.position);
  if (!r.foreign.empty()) text += (text.empty() ? "" : "; ") + r.foreign;
  return text;
}

std::vector<Ranked> rank(const GraphCall& call, const Target& target, const Decisions& decisions) {
  std::vector<Ranked> ranked;
  for (const Decisions::Known& known : decisions.of_family(graph_problem(call).family)) {
    Result<GraphCall> measured = parse_graph_call(known.stored.decision.problem.text);
    if (!measured.ok()) continue;
    Ranked r{.stored = &known.stored, .call = *std::move(measured)};
    r.foreign = foreign(known.stored, decisions.kind(known), target);
    const double tokens = std::abs(std::log2(static_cast<double>(r.call.tokens) / static_cast<double>(call.tokens)));
    r.distance = tokens + apart(r.call.position, call.position);
    ranked.push_back(std::move(r));
  }
  const auto order = [](const Ranked& r) {
    return std::tuple(!r.foreign.empty(), r.distance, -r.stored->decision.decided_at, -r.stored->id);
  };
  std::sort(ranked.begin(), ranked.end(), [&](const Ranked& a, const Ranked& b) { return order(a) < order(b); });
  return ranked;
}

}  // namespace

std::string_view policy_reason_name(PolicyReason reason) {
  constexpr std::string_view kNames[] = {"exact", "near", "default"};
  return kNames[static_cast<size_t>(reason)];
}

std::string graph_key(std::string_view name, std::string_view text) {
  std::string readable;
  for (const char c : name.substr(0, kNameLength)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    readable += letter || c == '_' || c == '-' || c == '.' ? c : '_';
  }
  return fmt::format("{}/{}", readable.empty() ? "_" : readable, sha256_hex(text).substr(0, kHashLength));
}

db::ProblemKey graph_problem(const GraphCall& call) {
  const std::string family = fmt::format("{}{}", kPrefix, call.graph);
  return {.text = fmt::format("{}:tokens={},position={}", family, call.tokens, call.position),
          .family = family,
          .m = call.tokens};
}

Result<GraphCall> parse_graph_call(std::string_view problem) {
  const auto bad = [&] {
    return invalid_argument(fmt::format("'{}' is no call of a graph; one reads graph:NAME/HASH:tokens=1,position=512",
                                        printable(problem, 80)));
  };
  const size_t colon = problem.rfind(':');
  if (!problem.starts_with(kPrefix) || colon < kPrefix.size() || colon == std::string_view::npos) return bad();
  GraphCall call{.graph = std::string(problem.substr(kPrefix.size(), colon - kPrefix.size()))};
  std::string_view rest = problem.substr(colon + 1);
  for (const auto& [key, to] : {std::pair<std::string_view, int64_t*>{"tokens=", &call.tokens},
                                std::pair<std::string_view, int64_t*>{",position=", &call.position}}) {
    if (!rest.starts_with(key)) return bad();
    rest.remove_prefix(key.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *to);
    if (error != std::errc()) return bad();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  // The canonical spelling alone: one call has one text.
  if (call.tokens < 1 || call.position < 0 || graph_problem(call).text != problem) return bad();
  return call;
}

StoredPolicy stored_policy(const GraphCall& call, const Target& target, const Decisions& decisions,
                           const std::function<Status(const db::Candidate& winner)>& usable) {
  StoredPolicy chosen;
  for (const Ranked& r : rank(call, target, decisions)) {
    const db::Decision& d = r.stored->decision;
    const auto reject = [&](std::string why) { chosen.rejected.push_back({d.winner.program, std::move(why)}); };
    if (d.winner.codegen != kPlanCodegen || d.winner.codegen_version != kPlanVersion) {
      reject(fmt::format("policies of {} {}, this is {} {}", printable(d.winner.codegen, 40),
                         printable(d.winner.codegen_version, 40), kPlanCodegen, kPlanVersion));
    } else if (r.distance > kMaxDistance) {
      reject(fmt::format("measured for {}, too far away", d.problem.text));
    } else if (const Status s = usable(d.winner); !s.ok()) {
      reject(s.message());
    } else {
      chosen.policy = d.winner.program;
      chosen.difference = difference(r, call);
      chosen.reason = chosen.difference.empty() ? PolicyReason::kExact : PolicyReason::kNear;
      chosen.problem = d.problem.text;
      chosen.decision = r.stored->id;
      chosen.ns = d.ns;
      chosen.speedup = d.speedup;
      return chosen;
    }
  }
  return chosen;
}

}  // namespace hone::plan
