// The text of a program: steps, "name(argument, ..)", one after the other. Each op's parse_program says which steps and
// what their arguments may be; what they share is here.
#pragma once

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine/base/status.h"

namespace hone::text {

inline constexpr int64_t kMaxKnob = int64_t{1} << 40;

struct Step {
  std::string_view name;
  std::vector<std::string_view> args;
  size_t column;  // from 0
};

// "program 'TEXT': WHAT at column C".
Status program_error(std::string_view text, size_t column, const std::string& what);

// Reads the steps of a program in order. `text` must outlive the reader.
class StepReader {
 public:
  static Result<StepReader> open(std::string_view text);

  // The next step must have this name and this many arguments.
  Result<const Step*> next(std::string_view name, size_t args);
  // The same for a step that may be left out: null where another one comes.
  Result<const Step*> optional(std::string_view name, size_t args);
  // A step "name(1)" that may be left out.
  Status option(std::string_view name, bool* on);
  Status at_end() const;

  template <typename Int>
  Status integer(const Step& step, size_t arg, Int lowest, Int* out) const {
    const std::string_view s = step.args[arg];
    Int value = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    if (error != std::errc() || end != s.data() + s.size() || value < lowest || static_cast<int64_t>(value) > kMaxKnob)
      return program_error(text_, step.column,
                           fmt::format("{} needs an integer from {} to {}, got '{}'", step.name, lowest, kMaxKnob, s));
    *out = value;
    return {};
  }

  template <typename Enum, size_t N>
  Status choice(const Step& step, const std::array<std::string_view, N>& names, Enum* out) const {
    for (size_t i = 0; i < N; ++i) {
      if (names[i] == step.args[0]) {
        *out = static_cast<Enum>(i);
        return {};
      }
    }
    return program_error(text_, step.column,
                         fmt::format("{} takes one of {}, got '{}'", step.name, fmt::join(names, ", "), step.args[0]));
  }

 private:
  StepReader(std::string_view text, std::vector<Step> steps) : text_(text), steps_(std::move(steps)) {}

  std::string_view text_;
  std::vector<Step> steps_;
  size_t at_ = 0;
};

}  // namespace hone::text
