// What the texts of all problems have in common: "op:dtype:key=value,..:rest", with ranges and lists in some keys, and
// errors of one line that name a column.
//
// A parser walks the text with one ProblemCursor. Every step answers false after a failure, whose Status is then
// error(); the op's own parser only adds its keys and what follows them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/printable.h"
#include "engine/base/status.h"

namespace hone::text {

// More problems than these in one text, or one list, are refused.
inline constexpr int64_t kMaxProblems = 100000;

using hone::printable;
// Shortest decimal that reads back as the same float.
std::string float_text(float v);
// For a terminal: the text and, below it, a caret under the column that `error` names ("" when it names none).
std::string caret_display(std::string_view text, const Status& error);

// The values of one key: one, or a range or list.
struct Axis {
  size_t key = 0;  // index into the keys of the op
  std::vector<int64_t> values;
};

class ProblemCursor {
 public:
  // `lists`: ranges and lists are allowed.
  ProblemCursor(std::string_view text, std::string_view grammar, bool lists)
      : text_(text), grammar_(grammar), lists_(lists) {}

  // "problem 'TEXT': WHAT at column C; grammar: .."; columns count from 1 in the message.
  Status report(Code code, const std::string& what, std::optional<size_t> column = {}) const;
  bool fail(const std::string& what, size_t column, Code code = Code::kInvalidArgument);
  const Status& error() const { return *error_; }

  size_t column() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool accept(char c);
  // What stands at the cursor, for "expected X, found Y".
  std::string found() const;
  std::string_view until(std::string_view stops);
  std::string_view word();  // of a-z, 0-9 and _

  // "op:dtype:", dtype being one of the list.
  bool head(std::string_view op, std::span<const DType> dtypes, DType* dtype);
  // "name=value,..", each name one of `keys` and there once, up to ':' or the end; all of `needed` are there.
  // `value(i)` reads what follows the name with index i.
  template <typename Value>
  bool keys(std::span<const std::string_view> keys, std::span<const size_t> needed, const Value& value) {
    do {
      size_t i = 0;
      if (!key(keys, &i) || !value(i)) return false;
    } while (accept(','));
    return end_of_keys(keys, needed);
  }
  bool seen(size_t key) const { return key < seen_.size() && seen_[key]; }

  bool integer(int64_t* out);
  bool real(float* out);  // decimal, up to ',' or ':' or the end
  // One of `names`; its index. Else "unknown WHAT 'NAME'OF (LISTED)", as in "unknown layout 'x' of B (nn, nt or
  // packed)".
  bool choice(std::span<const std::string_view> names, std::string_view what, std::string_view of, size_t* index);
  // 8, 1-8+1, 1-512*2 or {1,4,16}
  bool values(Axis* axis);

 private:
  bool key(std::span<const std::string_view> keys, size_t* index);
  bool end_of_keys(std::span<const std::string_view> keys, std::span<const size_t> needed);
  bool list(Axis* axis);
  bool range(Axis* axis, int64_t first, size_t column);
  bool add(Axis* axis, int64_t value, size_t column);

  std::string_view text_, grammar_;
  bool lists_;
  size_t at_ = 0;
  std::optional<Status> error_;
  std::vector<bool> seen_;
};

// All combinations of the axes, the first slowest, validated and canonical. `set(problem, key, value)` stores one
// value.
template <typename Problem, typename Set>
Result<std::vector<Problem>> expand(const ProblemCursor& cursor, const Problem& base, const std::vector<Axis>& axes,
                                    const Set& set) {
  int64_t count = 1;
  for (const Axis& axis : axes) {
    count *= static_cast<int64_t>(axis.values.size());
    if (count > kMaxProblems) {
      return cursor.report(Code::kInvalidArgument, "more than " + std::to_string(kMaxProblems) + " problems");
    }
  }
  std::vector<Problem> problems;
  problems.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    Problem p = base;
    int64_t rest = i;
    for (size_t a = axes.size(); a-- > 0;) {
      const auto size = static_cast<int64_t>(axes[a].values.size());
      set(p, axes[a].key, axes[a].values[static_cast<size_t>(rest % size)]);
      rest /= size;
    }
    if (Status s = validate(p); !s.ok()) return cursor.report(s.code(), s.message());
    problems.push_back(canonical(std::move(p)));
  }
  return problems;
}

}  // namespace hone::text
