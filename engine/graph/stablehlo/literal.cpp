#include "engine/graph/stablehlo/literal.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/printable.h"

namespace hone::graph::stablehlo {

namespace {

Status wrong(int line, std::string_view what) { return invalid_argument(fmt::format("line {}: {}", line, what)); }

// One element of text at the front of `rest`, as the bytes of a graph.
class ElementReader {
 public:
  ElementReader(std::string_view element, int line) : element_(element), line_(line) {}

  Status read(std::string_view* rest, std::vector<std::byte>* out) const {
    if (element_ == "f32") return read_float(rest, out);
    if (element_ == "i1") {
      for (const auto& [word, value] :
           {std::pair<std::string_view, uint8_t>{"true", 1}, {"false", 0}, {"1", 1}, {"0", 0}}) {
        if (!rest->starts_with(word)) continue;
        rest->remove_prefix(word.size());
        out->push_back(std::byte{value});
        return {};
      }
      return bad(*rest, "true or false");
    }
    int64_t value = 0;
    HONE_RETURN_IF_ERROR(read_integer(rest, &value));
    return append_integer(value, out);
  }

  Status read_integer(std::string_view* rest, int64_t* value) const {
    const bool negative = rest->starts_with("-");
    const bool hex = rest->substr(negative ? 1 : 0).starts_with("0x");
    const size_t skip = (negative ? 1u : 0u) + (hex ? 2u : 0u);
    uint64_t size = 0;
    const char* end = rest->data() + rest->size();
    const auto [stop, ec] = std::from_chars(rest->data() + skip, end, size, hex ? 16 : 10);
    const uint64_t most = (uint64_t{1} << 63) - (negative ? 0 : 1);
    if (ec != std::errc() || size > most) return bad(*rest, "an integer of 64 bits");
    *value = static_cast<int64_t>(negative ? 0 - size : size);
    rest->remove_prefix(static_cast<size_t>(stop - rest->data()));
    return {};
  }

  // i64 becomes s32.
  Status append_integer(int64_t value, std::vector<std::byte>* out) const {
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
      return wrong(line_, fmt::format("{} does not fit s32, which is what integers become", value));
    append(static_cast<int32_t>(value), out);
    return {};
  }

 private:
  Status read_float(std::string_view* rest, std::vector<std::byte>* out) const {
    const char* end = rest->data() + rest->size();
    if (rest->starts_with("0x")) {  // the bits
      uint32_t bits = 0;
      const auto [stop, ec] = std::from_chars(rest->data() + 2, end, bits, 16);
      if (ec != std::errc()) return bad(*rest, "eight hexadecimal digits");
      rest->remove_prefix(static_cast<size_t>(stop - rest->data()));
      append(bits, out);
      return {};
    }
    double value = 0;
    const auto [stop, ec] = std::from_chars(rest->data(), end, value);
    if (ec == std::errc::result_out_of_range) return bad(*rest, "a number that fits f64");
    if (ec != std::errc()) return bad(*rest, "a number");
    // Rounded first: -3.40282347E+38 is the least f32 and a little below it.
    if (std::isfinite(value) && !std::isfinite(static_cast<float>(value))) return bad(*rest, "a number that fits f32");
    rest->remove_prefix(static_cast<size_t>(stop - rest->data()));
    append(static_cast<float>(value), out);
    return {};
  }

  template <typename T>
  static void append(T value, std::vector<std::byte>* out) {
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    out->insert(out->end(), bytes.begin(), bytes.end());
  }

  Status bad(std::string_view rest, std::string_view expected) const {
    return wrong(line_, fmt::format("'{}' in a literal of {}: expected {}",
                                    printable(rest.substr(0, rest.find_first_of(",] \n")), 30), element_, expected));
  }

  std::string_view element_;
  int line_;
};

void skip_blank(std::string_view* text) {
  while (!text->empty() &&
         (text->front() == ' ' || text->front() == '\n' || text->front() == '\t' || text->front() == '\r'))
    text->remove_prefix(1);
}

// [[1, 2], [3, 4]] for dims [2, 2]: every list has as many items as its dimension says.
template <typename Sink>
Status read_list(std::string_view text, const std::vector<int64_t>& dims, int line, const Sink& element) {
  const auto fail = [&](std::string_view what) { return wrong(line, fmt::format("literal: {}", what)); };
  std::vector<int64_t> counts;  // of the lists that are open
  bool after = false;           // an item: ',' or ']' comes next
  do {
    skip_blank(&text);
    if (text.empty()) return fail("']' is missing");
    const char c = text.front();
    if (c == ']') {
      if (counts.empty() || (!after && counts.back() != 0)) return fail("an unexpected ']'");
      if (counts.back() != dims[counts.size() - 1])
        return fail(fmt::format("a list of {} where the type says {}", counts.back(), dims[counts.size() - 1]));
      counts.pop_back();
      after = true;
      if (!counts.empty()) ++counts.back();
      text.remove_prefix(1);
    } else if (c == ',') {
      if (!after) return fail("an unexpected ','");
      after = false;
      text.remove_prefix(1);
    } else if (after) {
      return fail("',' is missing");
    } else if (c == '[') {
      if (counts.size() == dims.size()) return fail("lists are nested deeper than the type says");
      counts.push_back(0);
      text.remove_prefix(1);
    } else {
      if (counts.size() != dims.size()) return fail("lists are nested less deep than the type says");
      HONE_RETURN_IF_ERROR(element(&text));
      ++counts.back();
      after = true;
    }
  } while (!counts.empty());
  skip_blank(&text);
  return text.empty() ? Status() : fail("text after the last ']'");
}

// 00FF..: two digits a byte.
Result<std::vector<std::byte>> read_digits(std::string_view hex, int line) {
  static constexpr auto kNibbles = [] {
    std::array<int8_t, 256> table{};
    for (int c = 0; c < 256; ++c)
      table[static_cast<size_t>(c)] = static_cast<int8_t>(c >= '0' && c <= '9'   ? c - '0'
                                                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                                                 : -1);
    return table;
  }();
  if (hex.size() % 2 != 0) return wrong(line, "a blob must have two digits for each byte");
  std::vector<std::byte> bytes(hex.size() / 2);
  int bad = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = kNibbles[static_cast<uint8_t>(hex[2 * i])], low = kNibbles[static_cast<uint8_t>(hex[2 * i + 1])];
    bad |= high | low;
    bytes[i] = static_cast<std::byte>((high << 4 | low) & 0xff);
  }
  if (bad < 0) return wrong(line, "a blob has a character that is no hexadecimal digit");
  return bytes;
}

std::vector<std::byte> narrowed(std::vector<std::byte> bytes, int line, Status* status) {
  std::vector<std::byte> out;
  out.reserve(bytes.size() / 2);
  const ElementReader reader("i64", line);
  for (size_t i = 0; i + 8 <= bytes.size() && status->ok(); i += 8) {
    int64_t value = 0;
    std::memcpy(&value, bytes.data() + i, 8);
    *status = reader.append_integer(value, &out);
  }
  return out;
}

Constant owning(TensorType type, bool splat, std::vector<std::byte> bytes) {
  auto storage = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  Constant c;
  c.type = std::move(type);
  c.splat = splat;
  c.data = *storage;
  c.owner = std::move(storage);
  return c;
}

Result<Constant> from_blob(TensorType type, std::string_view element, std::string_view hex, int line) {
  if (element == "i1")
    return unsupported(fmt::format("line {}: a blob of i1 is not supported; write true and false", line));
  HONE_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, read_digits(hex, line));
  const int64_t width = element == "i64" ? 8 : 4, elements = type.elements();
  const auto size = static_cast<int64_t>(bytes.size());
  const bool splat = size == width && elements > 1;
  if (!splat && (size % width != 0 || size / width != elements))
    return wrong(line, fmt::format("a blob of {} bytes for {} elements of {}", size, elements, element));
  Status status;
  if (element == "i64") bytes = narrowed(std::move(bytes), line, &status);
  HONE_RETURN_IF_ERROR(status);
  return owning(std::move(type), splat, std::move(bytes));
}

// The blob of a resource begins with its alignment, in four bytes.
Result<Constant> from_resource(const Module& module, TensorType type, const Attribute& a) {
  const auto at = module.resources.find(a.text);
  if (at == module.resources.end())
    return wrong(a.line,
                 fmt::format("dense_resource<{}> has no blob in dialect_resources; export with the weights in the text",
                             printable(a.text, 40)));
  if (at->second.size() < 10 || !at->second.starts_with("0x"))
    return wrong(a.line, "the blob of a resource must begin with its alignment in four bytes");
  const std::string_view hex = at->second;
  HONE_ASSIGN_OR_RETURN(const std::vector<std::byte> alignment, read_digits(hex.substr(2, 8), a.line));
  uint32_t align = 0;
  std::memcpy(&align, alignment.data(), 4);
  if (!std::has_single_bit(align)) return wrong(a.line, "the alignment of a resource is no power of two");
  return from_blob(std::move(type), a.type->element, hex.substr(10), a.line);
}

}  // namespace

Result<TensorType> tensor_type(const Type& type) {
  if (!type.tensor)
    return unsupported(fmt::format("line {}: type {} is not supported; supported are ranked tensors", type.line,
                                   printable(type.text, 60)));
  TensorType out;
  if (type.element == "f32") {
    out.dtype = DType::kF32;
  } else if (type.element == "i32" || type.element == "i64") {
    out.dtype = DType::kS32;
  } else if (type.element == "i1") {
    out.dtype = DType::kU8;
  } else {
    return unsupported(
        fmt::format("line {}: element type {} is not supported; supported are f32, i32, i64 (which becomes s32) and i1",
                    type.line, printable(type.element, 40)));
  }
  for (const int64_t d : type.dims) out.dims.push_back(d < 0 ? Dim::unknown() : Dim(d));
  return out;
}

Result<Constant> parse_literal(const Module& module, const Attribute& a) {
  if ((a.kind != Attribute::Kind::kDense && a.kind != Attribute::Kind::kResource) || !a.type)
    return wrong(a.line, "a constant must be dense<..> or dense_resource<..> with its type");
  HONE_ASSIGN_OR_RETURN(TensorType type, tensor_type(*a.type));
  const int64_t elements = type.elements();
  if (!type.is_static() || elements < 0)
    return wrong(a.line, fmt::format("a constant of type {}: its shape must be static", to_string(type)));
  if (a.kind == Attribute::Kind::kResource) return from_resource(module, std::move(type), a);
  std::string_view text = a.text;
  skip_blank(&text);
  if (text.starts_with('"')) {
    const size_t close = text.find('"', 1);
    std::string_view after = text.substr(close + 1);
    skip_blank(&after);
    if (!after.empty()) return wrong(a.line, "literal: text after the blob");
    const std::string_view blob = text.substr(1, close - 1);
    if (!blob.starts_with("0x")) return wrong(a.line, "a blob must begin with 0x");
    return from_blob(std::move(type), a.type->element, blob.substr(2), a.line);
  }
  std::vector<std::byte> bytes;
  const ElementReader reader(a.type->element, a.line);
  if (text.empty()) {
    if (elements != 0) return wrong(a.line, fmt::format("literal: nothing for {} elements", elements));
    return owning(std::move(type), false, {});
  }
  if (text.front() == '[') {
    HONE_RETURN_IF_ERROR(
        read_list(text, a.type->dims, a.line, [&](std::string_view* rest) { return reader.read(rest, &bytes); }));
    return owning(std::move(type), false, std::move(bytes));
  }
  HONE_RETURN_IF_ERROR(reader.read(&text, &bytes));
  skip_blank(&text);
  if (!text.empty()) return wrong(a.line, fmt::format("literal: '{}' after the element", printable(text, 30)));
  if (elements == 0) bytes.clear();
  return owning(std::move(type), elements != 1 && elements != 0, std::move(bytes));
}

Result<std::vector<int64_t>> parse_integers(const Module& module, const Attribute& list) {
  constexpr size_t kMost = 256;
  const Attribute& a = resolve(module, list);
  std::vector<int64_t> numbers;
  if (a.kind == Attribute::Kind::kArray) {
    for (const Attribute& item : a.items) {
      if (item.kind != Attribute::Kind::kInteger) return wrong(item.line, "expected a list of integers");
      numbers.push_back(item.integer);
    }
  } else if (a.kind == Attribute::Kind::kDense && a.type && a.type->tensor &&
             (a.type->element == "i64" || a.type->element == "i32")) {
    // Before anything is decoded: this is asked again for every call of a function.
    HONE_ASSIGN_OR_RETURN(const TensorType type, tensor_type(*a.type));
    if (type.elements() > static_cast<int64_t>(kMost)) return wrong(a.line, "more than 256 integers");
    HONE_ASSIGN_OR_RETURN(const Constant c, parse_literal(module, a));
    for (int64_t i = 0; i < c.type.elements(); ++i) numbers.push_back(c.s32_at(i));
  } else {
    return wrong(a.line, "expected a list of integers");
  }
  if (numbers.size() > kMost) return wrong(a.line, "more than 256 integers");
  return numbers;
}

}  // namespace hone::graph::stablehlo
