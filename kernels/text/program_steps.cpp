// See program_steps.h.
#include "kernels/text/program_steps.h"

#include <utility>

#include "engine/base/printable.h"

namespace hone::text {

Status program_error(std::string_view text, size_t column, const std::string& what) {
  constexpr size_t kShown = 400;  // twice what any program takes
  return invalid_argument(
      fmt::format("program '{}': {} at column {}", printable(text, kShown), printable(what, kShown), column + 1));
}

Result<StepReader> StepReader::open(std::string_view text) {
  std::vector<Step> steps;
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    const size_t open = text.find('(', at);
    if (open == std::string_view::npos) return program_error(text, at, "expected 'step(arguments)'");
    const size_t close = text.find(')', open);
    if (close == std::string_view::npos) return program_error(text, open, "'(' without ')'");
    Step step{text.substr(at, open - at), {}, at};
    std::string_view args = text.substr(open + 1, close - open - 1);
    while (true) {
      const size_t comma = args.find(',');
      step.args.push_back(args.substr(0, comma));
      if (comma == std::string_view::npos) break;
      args.remove_prefix(comma + 1);
    }
    steps.push_back(std::move(step));
    at = close + 1;
  }
  return StepReader(text, std::move(steps));
}

Result<const Step*> StepReader::next(std::string_view name, size_t args) {
  if (at_ >= steps_.size()) return program_error(text_, text_.size(), fmt::format("step {}(...) is missing", name));
  const Step& step = steps_[at_++];
  if (step.name != name)
    return program_error(text_, step.column, fmt::format("expected {}(...), got '{}'", name, step.name));
  if (step.args.size() != args)
    return program_error(text_, step.column,
                         fmt::format("{} takes {} arguments, got {}", name, args, step.args.size()));
  return &step;
}

Result<const Step*> StepReader::optional(std::string_view name, size_t args) {
  if (at_ >= steps_.size() || steps_[at_].name != name) return static_cast<const Step*>(nullptr);
  return next(name, args);
}

Status StepReader::option(std::string_view name, bool* on) {
  HONE_ASSIGN_OR_RETURN(const Step* const step, optional(name, 1));
  if (step == nullptr) return {};
  int value = 0;
  HONE_RETURN_IF_ERROR(integer(*step, 0, 1, &value));
  if (value != 1) return program_error(text_, step->column, fmt::format("{} takes 1, or is left out", name));
  *on = true;
  return {};
}

Status StepReader::at_end() const {
  if (at_ == steps_.size()) return {};
  return program_error(text_, steps_[at_].column, fmt::format("unexpected step '{}'", steps_[at_].name));
}

}  // namespace hone::text
