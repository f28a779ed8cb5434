// Problem strings to problems. One pass over the text with a cursor, so that every error knows its column.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "kernels/matmul/problem.h"

namespace hone::matmul {

std::string_view problem_grammar() {
  return "matmul:f32:m=M,n=N,k=K[,b=nn|nt|packed][,lda=..][,ldb=..][,ldc=..][,batch=..][,sa=..][,sb=..][,sc=..][,alpha="
         "..]"
         "[,beta=..][:EPILOGUE] where M, N, K are 8, 1-8+1, 1-512*2 or {1,4,16} and EPILOGUE is a chain of +bias "
         "+gelu_tanh "
         "+gelu_erf +silu +relu *gate +residual";
}

namespace {

enum class Key : uint8_t { kM, kN, kK, kB, kLda, kLdb, kLdc, kBatch, kSa, kSb, kSc, kAlpha, kBeta };
constexpr std::array<std::string_view, 13> kKeys = {"m",     "n",  "k",  "b",  "lda",   "ldb", "ldc",
                                                    "batch", "sa", "sb", "sc", "alpha", "beta"};

// Text as it may be shown: printable ASCII, other bytes as \xNN, long input cut.
std::string printable(std::string_view text) {
  constexpr size_t kShown = 160;
  std::string out;
  for (unsigned char c : text.substr(0, kShown)) {
    if (c >= 0x20 && c < 0x7f) {
      out += static_cast<char>(c);
    } else {
      out += fmt::format("\\x{:02x}", c);
    }
  }
  if (text.size() > kShown) out += "...";
  return out;
}

// One parse. After the first failure `error_` is set and every step returns false.
class Parser {
 public:
  Parser(std::string_view text, bool lists) : text_(text), lists_(lists) {}

  Result<std::vector<MatmulProblem>> run() {
    if (!op() || !dtype() || !keys() || !epilogue()) return *error_;
    return expand();
  }

 private:
  struct Axis {
    Key key;
    std::vector<int64_t> values;
  };

  Status report(Code code, const std::string& what, std::optional<size_t> column) const {
    std::string at = column ? fmt::format(" at column {}", *column + 1) : "";
    return {code, fmt::format("problem '{}': {}{}; grammar: {}", printable(text_), what, at, problem_grammar())};
  }
  bool fail(const std::string& what, size_t column, Code code = Code::kInvalidArgument) {
    error_ = report(code, what, column);
    return false;
  }

  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool accept(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // What stands at the cursor, for "expected X, found Y".
  std::string found() const { return done() ? "the end" : "'" + printable(text_.substr(at_, 1)) + "'"; }
  std::string_view until(std::string_view stops) {
    const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }
  std::string_view word() {
    const size_t start = at_;
    while (!done() && ((peek() >= 'a' && peek() <= 'z') || (peek() >= '0' && peek() <= '9') || peek() == '_')) ++at_;
    return text_.substr(start, at_ - start);
  }

  bool op();
  bool dtype();
  bool keys();
  bool one_key();
  bool layout();
  bool integer(int64_t* out);
  bool real(float* out);
  bool values(Axis* axis);
  bool list(Axis* axis);
  bool range(Axis* axis, int64_t first, size_t column);
  bool add(Axis* axis, int64_t value, size_t column);
  bool epilogue();
  Result<std::vector<MatmulProblem>> expand() const;

  std::string_view text_;
  bool lists_;
  size_t at_ = 0;
  std::optional<Status> error_;
  MatmulProblem base_;
  std::vector<Axis> axes_;
  std::array<bool, kKeys.size()> seen_{};
};

bool Parser::op() {
  if (text_.empty()) return fail("is empty", 0);
  const std::string_view name = until(":");
  if (name != "matmul") {
    return fail(fmt::format("op '{}' is not supported; ops: matmul", printable(name)), 0, Code::kUnsupported);
  }
  return accept(':') || fail("expected ':' and a dtype after 'matmul', found the end", at_);
}

bool Parser::dtype() {
  const size_t column = at_;
  const std::string_view name = until(":");
  if (name != kMatmulDTypes) {
    return fail(fmt::format("dtype '{}' is not supported by matmul; dtypes: {}", printable(name), kMatmulDTypes),
                column, Code::kUnsupported);
  }
  return accept(':') || fail("expected ':' and the sizes after the dtype, found the end", at_);
}

bool Parser::keys() {
  do {
    if (!one_key()) return false;
  } while (accept(','));
  if (!done() && peek() != ':') return fail("expected ',' or ':', found " + found(), at_);
  for (Key key : {Key::kM, Key::kN, Key::kK}) {
    const auto i = static_cast<size_t>(key);
    if (!seen_[i]) return fail(fmt::format("key '{}' is missing", kKeys[i]), at_);
  }
  return true;
}

bool Parser::one_key() {
  const size_t column = at_;
  const std::string_view name = word();
  if (name.empty()) return fail("expected a key, found " + found(), at_);
  size_t i = 0;
  while (i < kKeys.size() && kKeys[i] != name) ++i;
  if (i == kKeys.size()) return fail(fmt::format("unknown key '{}'", printable(name)), column);
  if (seen_[i]) return fail(fmt::format("key '{}' appears twice", name), column);
  seen_[i] = true;
  if (!accept('=')) return fail(fmt::format("expected '=' after '{}', found {}", name, found()), at_);
  switch (static_cast<Key>(i)) {
    case Key::kM:
    case Key::kN:
    case Key::kK:
      axes_.push_back({static_cast<Key>(i), {}});
      return values(&axes_.back());
    case Key::kB:
      return layout();
    case Key::kLda:
      return integer(&base_.lda);
    case Key::kLdb:
      return integer(&base_.ldb);
    case Key::kLdc:
      return integer(&base_.ldc);
    case Key::kBatch:
      return integer(&base_.batch);
    case Key::kSa:
      return integer(&base_.sa);
    case Key::kSb:
      return integer(&base_.sb);
    case Key::kSc:
      return integer(&base_.sc);
    case Key::kAlpha:
      return real(&base_.alpha);
    case Key::kBeta:
      return real(&base_.beta);
  }
  return false;
}

bool Parser::layout() {
  const size_t column = at_;
  const std::string_view name = word();
  for (BLayout b : {BLayout::kNn, BLayout::kNt, BLayout::kPacked}) {
    if (layout_name(b) != name) continue;
    base_.b = b;
    return true;
  }
  return fail(fmt::format("unknown layout '{}' of B (nn, nt or packed)", name.empty() ? found() : printable(name)),
              column);
}

bool Parser::integer(int64_t* out) {
  const size_t column = at_;
  if (peek() == '-') return fail("negative numbers are not allowed", column);
  const char* end = text_.data() + text_.size();
  const auto [ptr, ec] = std::from_chars(text_.data() + at_, end, *out);
  if (ec == std::errc::invalid_argument) return fail("expected a number, found " + found(), column);
  at_ = static_cast<size_t>(ptr - text_.data());
  if (ec == std::errc::result_out_of_range) {
    return fail(fmt::format("{} is too large (sizes are 64 bit)", printable(text_.substr(column, at_ - column))),
                column);
  }
  return true;
}

bool Parser::real(float* out) {
  const size_t column = at_;
  const std::string_view part = until(",:");
  const char* end = part.data() + part.size();
  const auto [ptr, ec] = std::from_chars(part.data(), end, *out);
  const bool letters = part.find_first_not_of("0123456789+-.e") != std::string_view::npos;  // "inf", "nan"
  if (ec == std::errc() && ptr == end && !letters) return true;
  return fail(fmt::format("'{}' is not a decimal number that a float can hold", printable(part)), column);
}

bool Parser::add(Axis* axis, int64_t value, size_t column) {
  if (static_cast<int64_t>(axis->values.size()) >= kMaxProblems) {
    return fail(fmt::format("more than {} problems", kMaxProblems), column);
  }
  axis->values.push_back(value);
  return true;
}

bool Parser::values(Axis* axis) {
  const size_t column = at_;
  if (peek() == '{') {
    if (!lists_) return fail("a list where one problem is wanted", column);
    return list(axis);
  }
  int64_t first = 0;
  if (!integer(&first)) return false;
  if (peek() != '-') return add(axis, first, column);
  if (!lists_) return fail("a range where one problem is wanted", column);
  return range(axis, first, column);
}

bool Parser::list(Axis* axis) {
  ++at_;
  do {
    const size_t column = at_;
    int64_t value = 0;
    if (!integer(&value) || !add(axis, value, column)) return false;
  } while (accept(','));
  return accept('}') || fail("expected ',' or '}', found " + found(), at_);
}

bool Parser::range(Axis* axis, int64_t first, size_t column) {
  ++at_;
  int64_t last = 0, step = 1;
  if (!integer(&last)) return false;
  const char kind = peek();
  if (kind == '+' || kind == '*') {
    const size_t step_column = ++at_;
    if (!integer(&step)) return false;
    if (kind == '+' && step < 1) return fail("the step must be at least 1", step_column);
    if (kind == '*' && step < 2) return fail("the factor must be at least 2", step_column);
  }
  if (last < first) return fail("the range ends before it begins", column);
  if (kind == '*' && first < 1) return fail("a range with a factor must begin at 1 or more", column);
  for (int64_t v = first;;) {
    if (!add(axis, v, column)) return false;
    if (kind == '*' ? v > last / step : v > last - step) return true;
    v = kind == '*' ? v * step : v + step;
  }
}

bool Parser::epilogue() {
  if (done()) return true;
  ++at_;  // ':'
  if (done()) return fail("expected an epilogue after ':', found the end", at_);
  while (!done()) {
    const size_t column = at_;
    const char sign = peek();
    if (sign != '+' && sign != '*') return fail("expected '+' or '*', found " + found(), column);
    ++at_;
    const std::string name = std::string(word());
    std::optional<EpilogueOp> op;
    for (int i = 0; i <= static_cast<int>(EpilogueOp::kResidual); ++i) {
      const std::string_view full = epilogue_name(static_cast<EpilogueOp>(i));
      if (full.substr(1) == (name == "gelu" ? "gelu_tanh" : name)) op = static_cast<EpilogueOp>(i);
    }
    if (name.empty()) return fail("expected the name of an epilogue op, found " + found(), at_);
    if (!op) return fail(fmt::format("unknown epilogue op '{}'", printable(name)), column);
    if (epilogue_name(*op)[0] != sign) {
      return fail(fmt::format("'{}{}' should be '{}'", sign, name, epilogue_name(*op)), column);
    }
    if (const bool operand = *op == EpilogueOp::kBias || *op == EpilogueOp::kGate || *op == EpilogueOp::kResidual;
        operand && base_.has(*op)) {
      return fail(fmt::format("{} appears twice; its operand exists once", epilogue_name(*op)), column);
    }
    base_.epilogue.push_back(*op);
  }
  return true;
}

Result<std::vector<MatmulProblem>> Parser::expand() const {
  int64_t count = 1;
  for (const Axis& axis : axes_) {
    count *= static_cast<int64_t>(axis.values.size());
    if (count > kMaxProblems) {
      return report(Code::kInvalidArgument, fmt::format("more than {} problems", kMaxProblems), std::nullopt);
    }
  }
  std::vector<MatmulProblem> problems;
  problems.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    MatmulProblem p = base_;
    int64_t rest = i;
    for (size_t a = axes_.size(); a-- > 0;) {
      const auto size = static_cast<int64_t>(axes_[a].values.size());
      const int64_t value = axes_[a].values[static_cast<size_t>(rest % size)];
      (axes_[a].key == Key::kM ? p.m : axes_[a].key == Key::kN ? p.n : p.k) = value;
      rest /= size;
    }
    if (Status s = validate(p); !s.ok()) return report(s.code(), s.message(), std::nullopt);
    problems.push_back(canonical(std::move(p)));
  }
  return problems;
}

}  // namespace

Result<MatmulProblem> parse_problem(std::string_view text) {
  HONE_ASSIGN_OR_RETURN(std::vector<MatmulProblem> problems, Parser(text, false).run());
  return std::move(problems.front());
}

Result<std::vector<MatmulProblem>> parse_problems(std::string_view text) { return Parser(text, true).run(); }

std::string caret_display(std::string_view text, const Status& error) {
  constexpr std::string_view kMark = " at column ";
  const size_t mark = error.message().rfind(kMark);
  if (mark == std::string::npos) return "";
  size_t column = 0;
  const std::string_view digits = std::string_view(error.message()).substr(mark + kMark.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), column);
  if (column < 1 || column > text.size() + 1) return "";
  // The bytes before the column take more room when escaped.
  return fmt::format("{}\n{}^", printable(text), std::string(printable(text.substr(0, column - 1)).size(), ' '));
}

}  // namespace hone::matmul
