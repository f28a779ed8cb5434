// See fuzz_case.h.
#include "tools/hone/fuzz_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/base/machine.h"
#include "engine/base/random.h"
#include "jit/fuzz/differential.h"
#include "kernels/ir/random.h"
#include "kernels/ir/text.h"
#include "kernels/op/trial.h"

namespace hone::cli {
namespace {

// Of 100 programs of all kinds. Lowered kernels of an op take ten times as long to compile as random ones, and are
// alike; and each op's share is enough for some thousands of programs in a long run.
constexpr int kLoopIrPercent = 90;
// Of 100 programs of an op, those in whose texts one number is made extreme.
constexpr int kExtremePercent = 25;

std::vector<Isa> isas_here() {
  std::vector<Isa> isas;
  for (const jit::Target& t : jit::all_targets())
    if (t.generator->targets(t.isa) && std::ranges::find(isas, t.isa) == isas.end()) isas.push_back(t.isa);
  if (isas.empty()) isas.assign(all_isas().begin(), all_isas().end());
  return isas;
}

// What this CPU has of features that programs need beyond their ISA.
const FeatureSet& features_here() {
  static const FeatureSet features = [] {
    const Result<Machine> machine = detect_machine();
    return machine.ok() ? machine->features : FeatureSet();
  }();
  return features;
}

int most_lanes(const std::vector<Isa>& isas) {
  int lanes = 1;
  for (const Isa isa : isas) lanes = std::max(lanes, isa_info(isa).lanes_f32());
  return lanes;
}

// One number of the text becomes one that nobody expects there.
std::string with_extreme(std::string text, Random& random) {
  struct Number {
    size_t begin, end;
  };
  std::vector<Number> numbers;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) continue;
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    numbers.push_back({i, end});
    i = end;
  }
  if (numbers.empty()) return text;
  const Number at = random.element(numbers);
  const char* with = random.one_of({"0",
                                    "1",
                                    "2",
                                    "3",
                                    "5",
                                    "7",
                                    "13",
                                    "16",
                                    "31",
                                    "48",
                                    "64",
                                    "100",
                                    "255",
                                    "4096",
                                    "4097",
                                    "65536",
                                    "-1",
                                    "2147483647",
                                    "2147483648",
                                    "4294967296",
                                    "1152921504606846976",
                                    "4611686018427387904",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "99999999999999999999"});
  return text.replace(at.begin, at.end - at.begin, with);
}

FuzzCase random_op_case(const std::string& kind, Random& random, const std::vector<Isa>& isas) {
  FuzzCase c{.kind = kind, .seed = random.next() >> 1, .kernel = "", .runs = {}, .problem = "", .program = ""};
  // A program for some problem is nearly always there; where chance finds none, another problem will do.
  for (int tried = 0; tried < 20; ++tried) {
    const Result<op::Problem> problem = op::random_problem(kind, random.next());
    const std::optional<op::Program> program =
        problem.ok() ? op::random_program(*problem, random.next(), random.element(isas)) : std::nullopt;
    if (!program || !op::missing(*program, features_here()).empty()) continue;
    c.problem = op::to_string(*problem), c.program = op::to_string(*program);
    break;
  }
  if (random.chance(kExtremePercent)) {
    std::string& text = random.chance(70) ? c.program : c.problem;
    text = with_extreme(text, random);
  }
  return c;
}

std::optional<std::vector<int64_t>> integers(std::string_view text) {
  std::vector<int64_t> values;
  while (!text.empty()) {
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    values.push_back(value);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return values;
}

}  // namespace

std::vector<std::string> fuzz_kinds() {
  std::vector<std::string> kinds = {std::string(kLoopIr)};
  for (const std::string_view op : op::names()) kinds.emplace_back(op);
  return kinds;
}

FuzzCase random_case(uint64_t seed, uint64_t index, const std::vector<std::string>& kinds) {
  static const std::vector<Isa> isas = isas_here();
  // Where no code generator could be tried on pairs of bf16, they only cost time.
  static const bool pairs = features_here().has(Feature::kAvx512Bf16);
  Random random(seed * 0x9e3779b97f4a7c15u + index);
  std::vector<std::string> ops;
  std::ranges::copy_if(kinds, std::back_inserter(ops), [](const std::string& k) { return k != kLoopIr; });
  const bool loop_ir = ops.size() < kinds.size() && (ops.empty() || random.chance(kLoopIrPercent));
  if (!loop_ir) return random_op_case(random.element(ops), random, isas);
  const uint64_t kernel_seed = random.next() >> 1;
  ir::RandomKernel kernel = ir::random_kernel(kernel_seed, most_lanes(isas), pairs && random.chance(30));
  return {.kind = std::string(kLoopIr),
          .seed = random.next() >> 1,
          .kernel = ir::print(kernel.kernel),
          .runs = std::move(kernel.runs),
          .problem = "",
          .program = ""};
}

std::string to_text(const FuzzCase& c) {
  std::string text = fmt::format("# seed {}\n", c.seed);
  if (c.kind != kLoopIr) return text + fmt::format("# problem {}\n# program {}\n", c.problem, c.program);
  for (const std::vector<int64_t>& run : c.runs)
    text += fmt::format("# parameters{}{}\n", run.empty() ? "" : " ", fmt::join(run, " "));
  return text + c.kernel;
}

Result<FuzzCase> parse_case(std::string_view text) {
  FuzzCase c{.kind = std::string(kLoopIr), .seed = 1, .kernel = "", .runs = {}, .problem = "", .program = ""};
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    auto says = [&](std::string_view word) { return line.starts_with(word); };
    auto value = [&](std::string_view word) { return line.substr(word.size()); };
    if (says("# parameters")) {
      const std::optional<std::vector<int64_t>> run = integers(value("# parameters"));
      if (!run || std::ranges::any_of(*run, [](int64_t v) { return v < 0; }))
        return invalid_argument("'# parameters' must be followed by numbers of at least 0");
      c.runs.push_back(*run);
    } else if (says("# seed ")) {
      const std::string_view seed = value("# seed ");
      const auto [last, error] = std::from_chars(seed.data(), seed.data() + seed.size(), c.seed);
      if (error != std::errc() || last != seed.data() + seed.size())
        return invalid_argument("'# seed' must be followed by one number of at least 0");
    } else if (says("# problem ")) {
      c.problem = value("# problem ");
    } else if (says("# program ")) {
      c.program = value("# program ");
    } else if (says("kernel ")) {
      c.kernel = rest;
      break;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (c.kernel.empty() == c.problem.empty())
    return invalid_argument("a repeat file has a LoopIR kernel, or lines '# problem ..' and '# program ..'");
  if (c.kernel.empty()) {
    c.kind = c.problem.substr(0, c.problem.find(':'));
    c.runs.clear();
  } else {
    c.program.clear();
    if (c.runs.empty()) c.runs = {{}};
  }
  return c;
}

}  // namespace hone::cli
