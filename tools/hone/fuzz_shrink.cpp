// See fuzz_shrink.h. Problems and programs are shrunk as texts, so that no op is named here: what does not parse or is
// not legal does not fail in the same way.
#include "tools/hone/fuzz_shrink.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ir/shrink.h"
#include "kernels/ir/text.h"
#include "kernels/op/op.h"

namespace hone::cli {
namespace {

struct Piece {
  size_t begin, end;
};

// Runs of digits.
std::vector<Piece> numbers(std::string_view text) {
  std::vector<Piece> all;
  auto digit = [&](size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!digit(i) || (i > 0 && std::isalpha(static_cast<unsigned char>(text[i - 1])) != 0)) continue;
    size_t end = i;
    while (end < text.size() && digit(end)) ++end;
    all.push_back({i, end});
    i = end;
  }
  return all;
}

// What may be left out of a problem: from a separator to the next.
std::vector<Piece> options(std::string_view text) {
  constexpr std::string_view kSeparators = ",:+*";
  std::vector<Piece> all;
  for (size_t i = text.find_first_of(kSeparators); i < text.size();) {
    const size_t end = std::min(text.find_first_of(kSeparators, i + 1), text.size());
    all.push_back({i, end});
    if (text[i] == ':') all.push_back({i, std::min(text.find(':', i + 1), text.size())});
    i = end;
  }
  return all;
}

std::string replaced(const std::string& text, Piece at, std::string_view with) {
  return text.substr(0, at.begin) + std::string(with) + text.substr(at.end);
}

std::vector<std::string> smaller_numbers(std::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) return {"1"};
  std::vector<std::string> all;
  for (const uint64_t to : {uint64_t{0}, uint64_t{1}, value / 2, value - 1})
    if (value > 0 && to < value) all.push_back(std::to_string(to));
  return all;
}

std::vector<std::string> smaller_problems(const std::string& text) {
  std::vector<std::string> all;
  for (const Piece& p : options(text)) all.push_back(replaced(text, p, ""));
  for (const Piece& p : numbers(text))
    for (const std::string& n : smaller_numbers(std::string_view(text).substr(p.begin, p.end - p.begin)))
      all.push_back(replaced(text, p, n));
  return all;
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find(' ', i), text.size());
    if (end > i) all.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return all;
}

// The default program, its steps one by one, then smaller numbers.
std::vector<std::string> simpler_programs(const FuzzCase& c) {
  std::vector<std::string> all;
  const Result<op::Problem> problem = op::parse_problem(c.problem);
  if (!problem.ok()) return all;
  const Result<op::Program> program = op::parse_program(*problem, c.program);
  if (program.ok()) {
    const std::string normal = op::to_string(op::default_program(
        *problem, {.isa = op::isa(*program), .caches = {}, .threads = 1, .panel = 0, .numerics = "any"}));
    all.push_back(normal);
    for (const std::string& theirs : words(normal))
      for (const std::string& ours : words(c.program)) {
        const std::string_view name = std::string_view(ours).substr(0, ours.find('(') + 1);
        if (theirs == ours || !theirs.starts_with(name)) continue;
        all.push_back(replaced(c.program, {c.program.find(ours), c.program.find(ours) + ours.size()}, theirs));
      }
  }
  for (const Piece& p : numbers(c.program))
    for (const std::string& n : smaller_numbers(std::string_view(c.program).substr(p.begin, p.end - p.begin)))
      all.push_back(replaced(c.program, p, n));
  return all;
}

FuzzCase shrink_op(FuzzCase now, const StillFails& still_fails) {
  std::set<std::string> tried;
  auto attempt = [&](FuzzCase candidate) {
    if (!tried.insert(candidate.problem + "|" + candidate.program).second || !still_fails(candidate)) return false;
    now = std::move(candidate);
    return true;
  };
  // After each success what is left to try is another list.
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::string& problem : smaller_problems(now.problem)) {
      FuzzCase candidate = now;
      candidate.problem = problem;
      if ((changed = attempt(std::move(candidate)))) break;
    }
    if (changed) continue;
    for (const std::string& program : simpler_programs(now)) {
      FuzzCase candidate = now;
      candidate.program = program;
      if ((changed = attempt(std::move(candidate)))) break;
    }
  }
  return now;
}

FuzzCase shrink_loop_ir(const FuzzCase& failing, const StillFails& still_fails) {
  Result<ir::Kernel> kernel = ir::parse(failing.kernel);
  if (!kernel.ok()) return failing;
  auto as_case = [&](const ir::Specimen& s) {
    FuzzCase c = failing;
    c.kernel = ir::print(s.kernel);
    c.runs = s.runs;
    return c;
  };
  return as_case(
      ir::shrink({std::move(*kernel), failing.runs}, [&](const ir::Specimen& s) { return still_fails(as_case(s)); }));
}

}  // namespace

FuzzCase shrink_case(FuzzCase failing, const StillFails& still_fails) {
  return failing.kind == kLoopIr ? shrink_loop_ir(failing, still_fails) : shrink_op(std::move(failing), still_fails);
}

}  // namespace hone::cli
