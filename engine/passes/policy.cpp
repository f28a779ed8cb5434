// One table: the keys, and the words of each. Printing and parsing both go by it.
#include "engine/passes/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "engine/base/printable.h"

namespace hone::passes {
namespace {

constexpr std::string_view kKeyWords[] = {"chosen", "rows", "blocked"};
constexpr std::string_view kLayoutWords[] = {"dense", "padded"};
constexpr std::string_view kBoundaryWords[] = {"fused", "separate"};
constexpr std::string_view kNormWords[] = {"separate", "folded"};
constexpr std::string_view kReuseWords[] = {"reuse", "apart"};
constexpr std::string_view kExpertsWords[] = {"chosen", "per_expert", "grouped", "dense"};
constexpr int kMostThreads = 1 << 16;

// A choice among words, the first of which is the default.
struct Choice {
  std::string_view key;
  std::span<const std::string_view> words;
  size_t (*get)(const PlanPolicy&);
  void (*set)(PlanPolicy&, size_t);
};

template <auto Member>
constexpr Choice choice(std::string_view key, std::span<const std::string_view> words) {
  return {key, words, [](const PlanPolicy& p) { return static_cast<size_t>(p.*Member); },
          [](PlanPolicy& p, size_t i) { p.*Member = static_cast<std::remove_reference_t<decltype(p.*Member)>>(i); }};
}

constexpr Choice kChoices[] = {
    choice<&PlanPolicy::keys>("keys", kKeyWords),
    choice<&PlanPolicy::layout>("layout", kLayoutWords),
    choice<&PlanPolicy::qkv>("qkv", kBoundaryWords),
    choice<&PlanPolicy::gate_up>("gate_up", kBoundaryWords),
    choice<&PlanPolicy::residual>("residual", kBoundaryWords),
    choice<&PlanPolicy::norm>("norm", kNormWords),
    choice<&PlanPolicy::reuse>("reuse", kReuseWords),
    choice<&PlanPolicy::experts>("experts", kExpertsWords),
};

std::string keys() {
  std::string text = "attention, ";
  for (const Choice& c : kChoices) text += fmt::format("{}, ", c.key);
  return text + "threads";
}

Status set_word(PlanPolicy& policy, std::string_view key, std::string_view value) {
  if (key == "attention") {
    if (value.empty()) return invalid_argument("attention= needs a numerics class, such as any or online(256)");
    policy.attention = value;
    return {};
  }
  if (key == "threads") {
    const auto end = std::from_chars(value.data(), value.data() + value.size(), policy.threads);
    if (end.ec == std::errc() && end.ptr == value.data() + value.size() && policy.threads >= 1 &&
        policy.threads <= kMostThreads)
      return {};
    return invalid_argument(
        fmt::format("threads={} must be a number from 1 to {}", printable(value, 40), kMostThreads));
  }
  const auto* c = std::find_if(std::begin(kChoices), std::end(kChoices), [&](const Choice& x) { return x.key == key; });
  if (c == std::end(kChoices))
    return invalid_argument(fmt::format("'{}' is no plan policy; there are {}", printable(key, 40), keys()));
  const auto word = std::find(c->words.begin(), c->words.end(), value);
  if (word == c->words.end())
    return invalid_argument(
        fmt::format("{}={} is unknown; it is one of {}", key, printable(value, 40), fmt::join(c->words, ", ")));
  c->set(policy, static_cast<size_t>(word - c->words.begin()));
  return {};
}

}  // namespace

std::string to_string(const PlanPolicy& policy) {
  std::string text;
  if (!policy.attention.empty()) text += fmt::format(" attention={}", policy.attention);
  for (const Choice& c : kChoices)
    if (const size_t i = c.get(policy); i != 0) text += fmt::format(" {}={}", c.key, c.words[i]);
  if (policy.threads != 0) text += fmt::format(" threads={}", policy.threads);
  return text.empty() ? "default" : text.substr(1);
}

Result<PlanPolicy> parse_policy(std::string_view text) {
  PlanPolicy policy;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty() || word == "default") continue;
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      return invalid_argument(
          fmt::format("'{}' is no plan policy; write key=value with one of {}", printable(word, 40), keys()));
    HONE_RETURN_IF_ERROR(set_word(policy, word.substr(0, equals), word.substr(equals + 1)));
  }
  return policy;
}

}  // namespace hone::passes
