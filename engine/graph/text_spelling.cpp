#include <fmt/format.h>

#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include "engine/base/printable.h"
#include "engine/graph/text_internal.h"

namespace hone::graph {

namespace {

template <typename T>
std::string shortest(T v) {
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end.ptr};
}

// The whole word is a T.
template <typename T, typename... How>
bool read_whole(std::string_view word, T* v, How... how) {
  const std::from_chars_result end = std::from_chars(word.data(), word.data() + word.size(), *v, how...);
  return end.ec == std::errc() && end.ptr == word.data() + word.size();
}

Status wrong(std::string_view word, std::string_view rule) {
  return invalid_argument(fmt::format("'{}' is no {}", printable(word, 40), rule));
}

template <typename T>
void append(T v, std::vector<std::byte>* to) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(v);
  to->insert(to->end(), bytes.begin(), bytes.end());
}

}  // namespace

bool is_bare(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; }

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + '"';
}

std::string spell(float v) { return std::isnan(v) ? fmt::format("{:#010x}", std::bit_cast<uint32_t>(v)) : shortest(v); }

std::string spell(double v) { return shortest(v); }

std::string spell(const Constant& c, int64_t i) {
  switch (c.type.dtype) {
    case DType::kF32:
      return spell(c.f32_at(i));
    case DType::kS32:
      return std::to_string(c.s32_at(i));
    case DType::kU8:
      return std::to_string(c.u8_at(i));
    case DType::kBf16:
    case DType::kF16:
      return fmt::format("{:#06x}", c.bits16_at(i));
  }
  return {};
}

Status read_element(DType dtype, std::string_view word, std::vector<std::byte>* to) {
  switch (dtype) {
    case DType::kF32: {
      float v = 0;
      uint32_t bits = 0;
      if (word.starts_with("0x")) {
        if (word.size() != 10 || !read_whole(word.substr(2), &bits, 16))
          return wrong(word, "f32 in hexadecimal: 0x and 8 digits");
        v = std::bit_cast<float>(bits);
      } else if (!read_whole(word, &v)) {
        return wrong(word, "f32");
      }
      append(v, to);
      return {};
    }
    case DType::kS32: {
      int32_t v = 0;
      if (!read_whole(word, &v)) return wrong(word, "s32");
      append(v, to);
      return {};
    }
    case DType::kU8:
      if (word != "0" && word != "1") return wrong(word, "truth value: 0 or 1");
      to->push_back(std::byte{word == "1"});
      return {};
    case DType::kBf16:
    case DType::kF16: {
      uint16_t bits = 0;
      if (word.size() != 6 || !word.starts_with("0x") || !read_whole(word.substr(2), &bits, 16))
        return wrong(word, "16-bit float in hexadecimal: 0x and 4 digits");
      append(bits, to);
      return {};
    }
  }
  return {};
}

Result<double> read_double(std::string_view word) {
  double v = 0;
  if (!read_whole(word, &v) || !std::isfinite(v)) return wrong(word, "finite number");
  return v;
}

}  // namespace hone::graph
