// What was decided of a node stands in the notes, and a node that has one is left alone: that makes the pass
// idempotent, also for nodes whose hint was refused, which would else get the default in a second run.
#include "engine/passes/schedule_annotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "engine/base/printable.h"

namespace hone::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::ScheduleHint;

constexpr std::string_view kPass = "schedule_annotation";
constexpr std::string_view kAttention[] = {"batch", "heads"};
constexpr std::string_view kMatmul[] = {"rows", "column_panels"};
constexpr std::string_view kExperts[] = {"experts"};

// Names are compared in lower case, letters and digits only.
std::string normal(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c))) text += static_cast<char>(std::tolower(c));
  return text;
}

// The hint in canonical names, or why it is refused.
Result<ScheduleHint> judge(const ScheduleHint& hint, OpKind op) {
  const auto known = splittable_dimensions(op);
  if (known.empty()) return invalid_argument("no dimension of it may be split");
  const std::string honoured = fmt::format("{} would be honoured", fmt::join(known, ", "));
  if (hint.parallel_dims.empty()) return invalid_argument("it names no dimension; " + honoured);
  if (hint.parallelism && *hint.parallelism <= 0)
    return invalid_argument(fmt::format("parallelism {} is not above 0", *hint.parallelism));
  ScheduleHint good{{}, hint.parallelism};
  for (const std::string& wanted : hint.parallel_dims) {
    const auto at =
        std::find_if(known.begin(), known.end(), [&](std::string_view name) { return normal(name) == normal(wanted); });
    if (at == known.end())
      return invalid_argument(fmt::format("dimension '{}' cannot be split; {}", printable(wanted, 40), honoured));
    if (std::find(good.parallel_dims.begin(), good.parallel_dims.end(), *at) == good.parallel_dims.end())
      good.parallel_dims.emplace_back(*at);
  }
  return good;
}

class Annotation {
 public:
  explicit Annotation(Compilation& c) : c_(c) {
    for (const Note& n : c.notes)
      if (n.pass == kPass) decided_.insert(n.node);
  }

  void run() {
    for (const graph::NodeId id : c_.graph.order()) {
      Node& node = c_.graph.node(id);
      if (decided_.contains(node.name)) continue;
      if (node.schedule) {
        stamp(node, ScheduleHint(*node.schedule), "its own hint");
      } else if (splittable_dimensions(node.op).empty()) {
        continue;
      } else if (c_.graph.ambient_schedule) {
        stamp(node, *c_.graph.ambient_schedule, "the ambient hint");
      } else if (node.op == OpKind::attention) {
        stamp(node, {{std::begin(kAttention), std::end(kAttention)}, {}}, "the default of attention");
      }
    }
  }

 private:
  void stamp(Node& node, const ScheduleHint& hint, std::string_view whose) {
    node.schedule.reset();
    const std::string op(graph::op_info(node.op).name);
    Result<ScheduleHint> good = judge(hint, node.op);
    if (!good.ok()) {
      c_.notes.push_back({std::string(kPass), node.name, fmt::format("{}: hint refused", op),
                          fmt::format("{}: {}", whose, good.status().message())});
      return;
    }
    std::string why(whose);
    if (good->parallelism) why += fmt::format("; parallelism {} is advisory", *good->parallelism);
    c_.notes.push_back({std::string(kPass), node.name,
                        fmt::format("{}: may be split on {}", op, fmt::join(good->parallel_dims, ", ")), why});
    node.schedule = *std::move(good);
  }

  Compilation& c_;
  std::set<std::string> decided_;
};

}  // namespace

std::span<const std::string_view> splittable_dimensions(OpKind op) {
  if (op == OpKind::attention) return kAttention;
  if (op == OpKind::matmul) return kMatmul;
  if (op == OpKind::experts) return kExperts;
  return {};
}

Status schedule_annotation(Compilation& compilation) {
  Annotation(compilation).run();
  return {};
}

}  // namespace hone::passes
