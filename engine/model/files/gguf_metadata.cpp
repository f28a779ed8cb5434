// Metadata of a GGUF file by key and type: GgufFile's typed questions.
#include <fmt/format.h>

#include <cstring>

#include "engine/base/printable.h"
#include "engine/model/files/byte_reader_internal.h"
#include "engine/model/files/gguf_internal.h"

namespace hone::model {
namespace {

Status wrong_type(std::string_view key, std::string_view wanted) {
  return invalid_argument(fmt::format("metadata \"{}\" is not {}", printable(key), wanted));
}

template <typename T>
T element(const GgufValue& value, uint64_t i) {
  T read;
  std::memcpy(&read, value.data.data() + i * sizeof(T), sizeof(T));
  return read;
}

// Nothing where it is no integer, or one above 2^63 - 1.
std::optional<int64_t> integer_at(const GgufValue& v, uint64_t i) {
  switch (v.type) {
    case GgufType::kU8:
      return element<uint8_t>(v, i);
    case GgufType::kI8:
      return element<int8_t>(v, i);
    case GgufType::kU16:
      return element<uint16_t>(v, i);
    case GgufType::kI16:
      return element<int16_t>(v, i);
    case GgufType::kU32:
      return element<uint32_t>(v, i);
    case GgufType::kI32:
      return element<int32_t>(v, i);
    case GgufType::kI64:
      return element<int64_t>(v, i);
    case GgufType::kU64: {
      const auto value = element<uint64_t>(v, i);
      if (value > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

Result<std::optional<int64_t>> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (value->count == 0) return wrong_type(key, "an integer");
  const std::optional<int64_t> first = integer_at(*value, 0);
  if (!first) return wrong_type(key, "an integer");
  for (uint64_t i = 1; i < value->count; ++i)
    if (integer_at(*value, i) != first)
      return unsupported(fmt::format("metadata \"{}\" differs between layers", printable(key)));
  return first;
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (value->is_array) return wrong_type(key, "a number");
  if (value->type == GgufType::kF32) return std::optional<double>(element<float>(*value, 0));
  if (value->type == GgufType::kF64) return std::optional<double>(element<double>(*value, 0));
  const std::optional<int64_t> whole = integer_at(*value, 0);
  if (!whole) return wrong_type(key, "a number");
  return std::optional<double>(static_cast<double>(*whole));
}

Result<std::optional<bool>> GgufFile::flag(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->is_array || value->type != GgufType::kBool) return wrong_type(key, "a truth value");
  return std::optional<bool>(element<uint8_t>(*value, 0) != 0);
}

Result<std::optional<std::string_view>> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::string_view>();
  if (value->is_array || value->type != GgufType::kString) return wrong_type(key, "a string");
  const auto size = element<uint64_t>(*value, 0);
  return std::optional(std::string_view(reinterpret_cast<const char*>(value->data.data()) + sizeof size, size));
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<std::string_view>>();
  if (!value->is_array || value->type != GgufType::kString) return wrong_type(key, "an array of strings");
  std::vector<std::string_view> texts;
  texts.reserve(value->count);  // each takes 8 bytes of the file at least
  ByteReader reader(value->data);
  for (uint64_t i = 0; i < value->count; ++i) {
    uint64_t size = 0;
    std::string_view text;
    if (!reader.read(size) || !reader.take_text(size, text)) return internal_error("strings of GGUF changed");
    texts.push_back(text);
  }
  return std::optional(std::move(texts));
}

Result<std::optional<std::vector<float>>> GgufFile::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<float>>();
  if (!value->is_array || value->type != GgufType::kF32) return wrong_type(key, "an array of f32");
  std::vector<float> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->data.data(), value->data.size());
  return std::optional(std::move(numbers));
}

Result<std::optional<std::vector<int32_t>>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<int32_t>>();
  if (!value->is_array || (value->type != GgufType::kI32 && value->type != GgufType::kU32))
    return wrong_type(key, "an array of 32-bit integers");
  std::vector<int32_t> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->data.data(), value->data.size());
  return std::optional(std::move(numbers));
}

Result<std::vector<bool>> GgufFile::flags(std::string_view key) const {
  const GgufValue* value = find(key);
  std::vector<bool> flags;
  if (value == nullptr) return flags;
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> flag =
        value->type == GgufType::kBool ? std::optional<int64_t>(element<uint8_t>(*value, i)) : integer_at(*value, i);
    if (!flag || !value->is_array) return wrong_type(key, "an array of truth values");
    flags.push_back(*flag != 0);
  }
  return flags;
}

}  // namespace hone::model
