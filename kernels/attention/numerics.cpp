// Numerics classes by name, and which of them a caller allows.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "engine/base/printable.h"
#include "kernels/attention/blocking.h"

namespace hone::attention {
namespace {

std::string default_class() { return fmt::format("online({})", kDefaultKeyBlock); }

bool is_default(std::string_view wanted) { return wanted.empty() || wanted == "default"; }

// Reads `name(a)` or `name(a,b)`, as many numbers as there are pointers.
bool read_form(std::string_view text, std::string_view name, std::initializer_list<int64_t*> numbers) {
  if (!text.starts_with(name) || text.size() < name.size() + 2 || text[name.size()] != '(' || text.back() != ')')
    return false;
  const char* at = text.data() + name.size() + 1;
  const char* const end = text.data() + text.size() - 1;
  size_t left = numbers.size();
  for (int64_t* number : numbers) {
    const auto [next, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || next == at) return false;
    at = next;
    if (--left > 0 && (at == end || *at++ != ',')) return false;
  }
  return at == end;
}

std::string spelled(const NumericsClass& c) {
  if (c.algorithm == Algorithm::kTiled) return "ordered";
  if (c.algorithm == Algorithm::kSplit) return fmt::format("split({},{})", c.bk, c.splits);
  return fmt::format("online({})", c.bk);
}

}  // namespace

std::optional<NumericsClass> parse_class(std::string_view name) {
  NumericsClass c;
  if (name == "ordered") {
    c.algorithm = Algorithm::kTiled;
  } else if (read_form(name, "online", {&c.bk})) {
    c.algorithm = Algorithm::kOnline;
  } else if (read_form(name, "split", {&c.bk, &c.splits})) {
    c.algorithm = Algorithm::kSplit;
  } else {
    return std::nullopt;
  }
  if (c.bk > kMaxKeyBlock || spelled(c) != name) return std::nullopt;  // one spelling: names are compared as text
  if (c.bk < 0 || c.bk % kKeyGroup != 0 || (c.algorithm != Algorithm::kTiled && c.bk == 0)) return std::nullopt;
  if (c.algorithm == Algorithm::kSplit && (c.splits < 2 || c.splits > kMaxSplits)) return std::nullopt;
  return c;
}

Status check_numerics(std::string_view wanted) {
  if (is_default(wanted) || wanted == "any" || parse_class(wanted)) return {};
  return invalid_argument(fmt::format(
      "numerics '{}' is none of: default (which is {}), any, ordered, online(KEYS), split(KEYS,SPLITS); KEYS "
      "is a multiple of {}, SPLITS from 2 to {}",
      printable(wanted), default_class(), kKeyGroup, kMaxSplits));
}

bool numerics_allowed(std::string_view wanted, std::string_view offered) {
  return wanted == "any" || offered == (is_default(wanted) ? default_class() : wanted);
}

}  // namespace hone::attention
