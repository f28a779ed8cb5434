// Row programs as one line of text: the key under which kernels are cached, and what packages store.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/base/printable.h"
#include "kernels/rows/plan_internal.h"

namespace hone::rows {
namespace {

constexpr std::array<std::string_view, 3> kRoles = {"in", "out", "scratch"};
constexpr std::array<std::string_view, 5> kColumns = {"dense", "one", "strided", "halves", "pairs"};
constexpr size_t kMaxText = 64 * 1024;

template <typename Names>
int index_of(const Names& names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

const std::array<std::string_view, static_cast<size_t>(StepOp::kStore) + 1>& step_names() {
  static constexpr std::array<std::string_view, static_cast<size_t>(StepOp::kStore) + 1> kNames = {
#define HONE_ROW_STEP(id, name, ...) name,
#include "kernels/rows/steps.inc"
#undef HONE_ROW_STEP
  };
  return kNames;
}

std::string operand_text(const Operand& o) {
  std::string text = fmt::format("{} {} {}", kRoles[static_cast<size_t>(o.role)], dtype_name(o.dtype),
                                 kColumns[static_cast<size_t>(o.columns)]);
  if (o.gather >= 0) text += fmt::format(" gather {}", o.gather);
  return text;
}

std::string step_text(const RowProgram& program, size_t i) {
  const Step& s = program.steps[i];
  std::string text = is_store(s) ? "store" : fmt::format("%{} = {}", i, step_info(s.op).name);
  if (s.operand >= 0) text += fmt::format(" {}", s.operand);
  if (s.op == StepOp::kLoad && has_two_parts(program.operands[static_cast<size_t>(s.operand)].columns))
    text += fmt::format(" {}", s.part);
  if (is_constant(s)) text += fmt::format(" 0x{:08x}", s.bits);
  for (const int arg : s.args)
    if (arg >= 0) text += fmt::format(" %{}", arg);
  return text;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<RowProgram> run() {
    if (text_.size() > kMaxText) return invalid_argument("row program: the text is longer than 64 KiB");
    for (bool more = true; more;) {
      more = split();
      const Status read = number_ == 1 ? head() : index_of(kRoles, words_.front()) >= 0 ? operand() : step();
      HONE_RETURN_IF_ERROR(read);
    }
    HONE_RETURN_IF_ERROR(validate(program_));
    return std::move(program_);
  }

 private:
  // The next statement into words_, which has one at least; false after the last.
  bool split() {
    ++number_;
    const size_t end = std::min(text_.find(';'), text_.size());
    statement_ = text_.substr(0, end);
    words_.clear();
    for (size_t at = 0; at < statement_.size();) {
      const size_t stop = std::min(statement_.find(' ', at), statement_.size());
      if (stop > at) words_.push_back(statement_.substr(at, stop - at));
      at = stop + 1;
    }
    if (words_.empty()) words_.push_back("");
    const bool more = end < text_.size();
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return more;
  }

  Status wrong(std::string_view expected) const {
    return invalid_argument(
        fmt::format("row program: statement {} '{}': expected {}", number_, printable(statement_), expected));
  }

  template <typename Int>
  static bool number(std::string_view word, Int* out, int base = 10) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out, base);
    return error == std::errc() && end == word.data() + word.size();
  }
  static bool prefixed(std::string_view prefix, std::string_view word, std::string_view* rest) {
    if (!word.starts_with(prefix)) return false;
    *rest = word.substr(prefix.size());
    return true;
  }

  Status head() {
    std::string_view outer, n;
    const bool shape = words_.size() == 4 && words_[0] == "rows" && prefixed("outer=", words_[2], &outer) &&
                       prefixed("n=", words_[3], &n) && number(outer, &program_.outer) &&
                       (n == "n" || (number(n, &program_.n) && program_.n >= 1));
    if (!shape) return wrong("'rows NAME outer=0..4 n=COLUMNS', COLUMNS a number or n");
    program_.name = words_[1];
    return {};
  }

  Status operand() {
    constexpr std::string_view kForm = "'in|out|scratch TYPE dense|one|strided|halves|pairs [gather DIMENSION]'";
    Operand o;
    if (words_.size() != 3 && words_.size() != 5) return wrong(kForm);
    const int columns = index_of(kColumns, words_[2]);
    const std::optional<DType> dtype = parse_dtype(words_[1]);
    if (columns < 0 || !dtype) return wrong(kForm);
    if (words_.size() == 5 && (words_[3] != "gather" || !number(words_[4], &o.gather) || o.gather < 0))
      return wrong(kForm);
    if (!program_.steps.empty()) return wrong("a step: operands come before steps");
    o.role = static_cast<Role>(index_of(kRoles, words_[0]));
    o.dtype = *dtype;
    o.columns = static_cast<Columns>(columns);
    program_.operands.push_back(o);
    return program_.operands.size() > kMaxOperands ? wrong("a step: that is too many operands") : Status();
  }

  Status step() {
    if (program_.steps.size() >= kMaxSteps) return wrong("the end: that is too many steps");
    size_t at = 0;
    if (words_[0] != "store") {
      std::string_view name;
      size_t value = 0;
      if (words_.size() < 3 || !prefixed("%", words_[0], &name) || !number(name, &value) ||
          value != program_.steps.size() || words_[1] != "=")
        return wrong(fmt::format("'%{} = STEP ..', an operand or a store", program_.steps.size()));
      at = 2;
    }
    const int op = index_of(step_names(), words_[at]);
    if (op < 0 || (at == 2 && static_cast<StepOp>(op) == StepOp::kStore)) return wrong("a step of steps.inc");
    Step s{.op = static_cast<StepOp>(op)};
    ++at;
    const StepFamily family = step_info(s.op).family;
    if (family == StepFamily::kLoad || family == StepFamily::kStore) {
      if (at >= words_.size() || !number(words_[at++], &s.operand) || s.operand < 0 ||
          static_cast<size_t>(s.operand) >= program_.operands.size())
        return wrong("the number of an operand");
      const bool parts = has_two_parts(program_.operands[static_cast<size_t>(s.operand)].columns);
      if (family == StepFamily::kLoad && parts && (at >= words_.size() || !number(words_[at++], &s.part)))
        return wrong("which part, 0 or 1");
    }
    std::string_view bits;
    if (family == StepFamily::kConst &&
        (at >= words_.size() || !prefixed("0x", words_[at++], &bits) || !number(bits, &s.bits, 16)))
      return wrong("bits, 0x..");
    for (size_t i = 0; at < words_.size(); ++i, ++at) {
      std::string_view value;
      if (i >= s.args.size() || !prefixed("%", words_[at], &value) || !number(value, &s.args[i]) || s.args[i] < 0)
        return wrong("at most three values, %NUMBER");
    }
    program_.steps.push_back(s);
    return {};
  }

  std::string_view text_, statement_;
  std::vector<std::string_view> words_;
  size_t number_ = 0;
  RowProgram program_;
};

uint32_t fnv1a(std::string_view text) {
  uint32_t h = 0x811c9dc5u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return h;
}

}  // namespace

std::string to_string(const RowProgram& program) {
  std::string text = fmt::format("rows {} outer={} n={}", program.name, program.outer,
                                 program.n == kRuntime ? "n" : std::to_string(program.n));
  for (const Operand& o : program.operands) text += "; " + operand_text(o);
  for (size_t i = 0; i < program.steps.size(); ++i) text += "; " + step_text(program, i);
  return text;
}

Result<RowProgram> parse(std::string_view text) { return Parser(text).run(); }

std::string kernel_name(const RowProgram& program, Isa isa) {
  return fmt::format("rows_{}_{}_{:08x}_{}", program.name, program.n == kRuntime ? "n" : std::to_string(program.n),
                     fnv1a(to_string(program)), isa_info(isa).name);
}

}  // namespace hone::rows
