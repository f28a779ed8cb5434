#include <fmt/format.h>

#include <algorithm>

#include "engine/graph/text.h"
#include "engine/graph/text_internal.h"

namespace hone::graph {

namespace {

template <typename List, typename Spell>
std::string joined(const List& list, const Spell& spell_one) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + spell_one(item);
  return text;
}

std::string named(char sign, std::string_view name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_bare);
  return sign + (bare ? std::string(name) : quoted(name));
}

struct AttributeText {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return spell(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(const Dim& v) const { return to_string(v); }
  std::string operator()(const std::vector<int64_t>& v) const {
    return "[" + joined(v, [](int64_t i) { return std::to_string(i); }) + "]";
  }
};

std::string spell(const ScheduleHint& hint) {
  std::string text =
      fmt::format("{{parallel_dims = [{}]", joined(hint.parallel_dims, [](const std::string& d) { return quoted(d); }));
  if (hint.parallelism) text += fmt::format(", parallelism = {}", *hint.parallelism);
  return text + "}";
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : g_(graph) {}

  std::string run() {
    text_ = fmt::format("graph {} {{\n", named('@', g_.name));
    for (const Symbol& s : g_.symbols) line(symbol(s));
    for (const ValueId v : g_.inputs()) {
      const Value& value = g_.value(v);
      const std::string alias = value.aliases_output < 0 ? "" : fmt::format(" aliases {}", value.aliases_output);
      line(fmt::format("input {} : {}{}", name(v), to_string(value.type), alias));
    }
    for (const ValueId v : g_.states()) line(fmt::format("state {} : {}", name(v), to_string(g_.value(v).type)));
    for (const NodeId n : g_.order()) line(node(g_.node(n)));
    for (const NodeId n : g_.order())
      if (g_.node(n).schedule)
        line(fmt::format("schedule {} = {}", named('%', g_.node(n).name), spell(*g_.node(n).schedule)));
    if (g_.ambient_schedule) line(fmt::format("schedule = {}", spell(*g_.ambient_schedule)));
    for (const auto& [of, layout] : g_.layouts) line(fmt::format("layout {} = {}", quoted(of), quoted(layout)));
    if (!g_.outputs().empty()) line("output " + names(g_.outputs()));
    return text_ + "}\n";
  }

 private:
  void line(const std::string& text) { text_ += "  " + text + "\n"; }
  std::string name(ValueId v) const { return named('%', g_.value(v).name); }
  std::string names(const std::vector<ValueId>& values) const {
    return joined(values, [this](ValueId v) { return name(v); });
  }

  std::string symbol(const Symbol& s) const {
    if (s.name == g_.position)
      return fmt::format("position {} in {}..{} step {}", s.name, s.min, s.max, to_string(g_.tokens));
    std::string text = fmt::format("symbol {} in {}..{}", s.name, s.min, s.max);
    if (s.multiple_of != 1) text += fmt::format(" multiple {}", s.multiple_of);
    return text;
  }

  std::string node(const Node& n) const {
    const std::string types = joined(n.results, [this](ValueId v) { return to_string(g_.value(v).type); });
    const std::string left = names(n.results) + " = ";
    if (n.constant) return fmt::format("{}constant {} : {}", left, elements(n), types);
    std::string text = fmt::format("{}{}({})", left, op_info(n.op).name, names(n.operands));
    if (!n.attributes.empty())
      text += fmt::format(" {{{}}}", joined(n.attributes, [](const auto& entry) {
                            return fmt::format("{} = {}", entry.first, std::visit(AttributeText(), entry.second));
                          }));
    return text + " : " + types;
  }

  static std::string elements(const Node& n) {
    const Constant& c = *n.constant;
    if (c.splat) return fmt::format("splat({})", spell(c, 0));
    const int64_t count = c.type.elements();
    if (count < 0 || count > kInlineElements) return quoted(n.name);
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += (i ? ", " : "") + spell(c, i);
    return "dense(" + text + ")";
  }

  const Graph& g_;
  std::string text_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).run(); }

}  // namespace hone::graph
