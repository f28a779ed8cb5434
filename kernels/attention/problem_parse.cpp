// Problem strings to problems: the keys of attention and the options after them. What texts of all ops share is in
// kernels/text.
#include <fmt/format.h>

#include <array>

#include "kernels/attention/problem.h"
#include "kernels/text/problem_text.h"

namespace hone::attention {

std::string_view problem_grammar() {
  return "attention:f32:b=B,hq=H,hkv=H,q=Q,kv=KV,d=D[,dv=..][,ldq=..][,ldk=..][,ldv=..][,ldo=..][,layout=bhsd|bshd]"
         "[,k=rows|blocked][,page=..][:causal][:window=..][:mask|:boolmask][:softcap=..][:scale=..][:lse] where B, Q, "
         "KV are 8, 1-8+1, 1-512*2 or {1,4,16}";
}

namespace {

using text::printable;

enum class Key : uint8_t { kB, kHq, kHkv, kQ, kKv, kD, kDv, kLdq, kLdk, kLdv, kLdo, kLayout, kK, kPage };
constexpr std::array<std::string_view, 14> kKeys = {"b",   "hq",  "hkv", "q",   "kv",     "d", "dv",
                                                    "ldq", "ldk", "ldv", "ldo", "layout", "k", "page"};
constexpr std::array<size_t, 6> kNeeded = {0, 1, 2, 3, 4, 5};

enum class Option : uint8_t { kCausal, kWindow, kMask, kBoolMask, kSoftcap, kScale, kLse };
constexpr std::array<std::string_view, 7> kOptions = {"causal",  "window", "mask", "boolmask",
                                                      "softcap", "scale",  "lse"};

class Parser {
 public:
  Parser(std::string_view text, bool lists) : cursor_(text, problem_grammar(), lists) {}

  Result<std::vector<AttentionProblem>> run() {
    if (!cursor_.head("attention", kAttentionDTypes, &base_.dtype) ||
        !cursor_.keys(kKeys, kNeeded, [this](size_t key) { return value(key); }) || !layout_strides() || !options()) {
      return cursor_.error();
    }
    return text::expand(cursor_, base_, axes_, [](AttentionProblem& p, size_t key, int64_t value) {
      const auto k = static_cast<Key>(key);
      (k == Key::kB ? p.batch : k == Key::kQ ? p.q : p.kv) = value;
    });
  }

 private:
  bool value(size_t key);
  bool layout();
  bool layout_strides();
  bool k_layout();
  bool options();
  bool one_option();
  bool positive_window(size_t column);
  bool mask(MaskKind kind, size_t column);
  bool seen(Key key) const { return cursor_.seen(static_cast<size_t>(key)); }

  text::ProblemCursor cursor_;
  AttentionProblem base_;
  std::vector<text::Axis> axes_;
  bool bshd_ = false;
  size_t layout_column_ = 0;
  std::array<bool, kOptions.size()> given_{};
};

bool Parser::value(size_t key) {
  switch (static_cast<Key>(key)) {
    case Key::kB:
    case Key::kQ:
    case Key::kKv:
      axes_.push_back({key, {}});
      return cursor_.values(&axes_.back());
    case Key::kHq:
      return cursor_.integer(&base_.heads);
    case Key::kHkv:
      return cursor_.integer(&base_.kv_heads);
    case Key::kD:
      return cursor_.integer(&base_.d);
    case Key::kDv:
      return cursor_.integer(&base_.dv);
    case Key::kLdq:
      return cursor_.integer(&base_.ldq);
    case Key::kLdk:
      return cursor_.integer(&base_.ldk);
    case Key::kLdv:
      return cursor_.integer(&base_.ldv);
    case Key::kLdo:
      return cursor_.integer(&base_.ldo);
    case Key::kLayout:
      return layout();
    case Key::kK:
      return k_layout();
    case Key::kPage:
      return cursor_.integer(&base_.page);
  }
  return false;
}

bool Parser::layout() {
  layout_column_ = cursor_.column();
  constexpr std::array<std::string_view, 2> kNames = {"bhsd", "bshd"};
  size_t i = 0;
  if (!cursor_.choice(kNames, "layout", "", &i)) return false;
  bshd_ = i == 1;
  return true;
}

bool Parser::k_layout() {
  constexpr std::array<std::string_view, 2> kNames = {"rows", "blocked"};
  size_t i = 0;
  if (!cursor_.choice(kNames, "layout", " of K", &i)) return false;
  base_.k = static_cast<KeyLayout>(i);
  return true;
}

// The row strides of [b, s, h, d].
bool Parser::layout_strides() {
  if (!bshd_) return true;
  for (Key key : {Key::kLdq, Key::kLdk, Key::kLdv, Key::kLdo}) {
    if (seen(key)) {
      return cursor_.fail(fmt::format("layout=bshd gives {} already", kKeys[static_cast<size_t>(key)]), layout_column_);
    }
  }
  const bool k_rows = base_.k == KeyLayout::kRows;
  if (__builtin_mul_overflow(base_.heads, base_.d, &base_.ldq) ||
      __builtin_mul_overflow(base_.kv_heads, k_rows ? base_.d : 0, &base_.ldk) ||
      __builtin_mul_overflow(base_.kv_heads, base_.value_dim(), &base_.ldv) ||
      __builtin_mul_overflow(base_.heads, base_.value_dim(), &base_.ldo)) {
    return cursor_.fail("too large: a row stride of layout=bshd does not fit 63 bits", layout_column_);
  }
  return true;
}

bool Parser::options() {
  while (cursor_.accept(':'))
    if (!one_option()) return false;
  return cursor_.done() || cursor_.fail("expected ':', found " + cursor_.found(), cursor_.column());
}

bool Parser::one_option() {
  const size_t column = cursor_.column();
  const std::string_view name = cursor_.word();
  if (name.empty()) return cursor_.fail("expected an option, found " + cursor_.found(), column);
  size_t i = 0;
  while (i < kOptions.size() && kOptions[i] != name) ++i;
  if (i == kOptions.size()) return cursor_.fail(fmt::format("unknown option '{}'", printable(name)), column);
  if (given_[i]) return cursor_.fail(fmt::format("option '{}' appears twice", name), column);
  given_[i] = true;
  const auto option = static_cast<Option>(i);
  const bool valued = option == Option::kWindow || option == Option::kSoftcap || option == Option::kScale;
  if (valued && !cursor_.accept('=')) {
    return cursor_.fail(fmt::format("expected '=' after '{}', found {}", name, cursor_.found()), cursor_.column());
  }
  switch (option) {
    case Option::kCausal:
      return base_.causal = true;
    case Option::kWindow:
      return positive_window(cursor_.column());
    case Option::kMask:
      return mask(MaskKind::kAdditive, column);
    case Option::kBoolMask:
      return mask(MaskKind::kBoolean, column);
    case Option::kSoftcap:
      return cursor_.real(&base_.softcap);
    case Option::kScale:
      return cursor_.real(&base_.scale);
    case Option::kLse:
      return base_.lse = true;
  }
  return false;
}

bool Parser::positive_window(size_t column) {
  if (!cursor_.integer(&base_.window)) return false;
  return base_.window > 0 || cursor_.fail("a window has at least 1 key; leave it out for none", column);
}

bool Parser::mask(MaskKind kind, size_t column) {
  if (base_.mask != MaskKind::kNone) return cursor_.fail("there is one mask: mask or boolmask", column);
  base_.mask = kind;
  return true;
}

}  // namespace

Result<AttentionProblem> parse_problem(std::string_view text) {
  HONE_ASSIGN_OR_RETURN(std::vector<AttentionProblem> problems, Parser(text, false).run());
  return std::move(problems.front());
}

Result<std::vector<AttentionProblem>> parse_problems(std::string_view text) { return Parser(text, true).run(); }

}  // namespace hone::attention
