// See gguf_writer.h.
#include "tools/synthetic/gguf_writer.h"

#include <cstring>

namespace hone::synthetic {
namespace {

constexpr uint32_t kU16 = 2, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8,
                   kArray = 9;  // GGUF's types of values

template <typename T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void put_text(std::string& to, std::string_view text) {
  put(to, uint64_t{text.size()});
  to += text;
}

template <typename T>
std::string one(T value) {
  std::string bytes;
  put(bytes, value);
  return bytes;
}

std::string array(uint32_t type, uint64_t count) {
  std::string bytes = one(type);
  put(bytes, count);
  return bytes;
}

uint32_t type_of(DType dtype) { return dtype == DType::kF16 ? 1 : dtype == DType::kBf16 ? 30 : 0; }

}  // namespace

void GgufWriter::raw(std::string_view key, uint32_t type, std::string_view value) {
  put_text(metadata_, key);
  put(metadata_, type);
  metadata_ += value;
  ++pairs_;
}

void GgufWriter::u16(std::string_view key, uint16_t value) { raw(key, kU16, one(value)); }
void GgufWriter::u32(std::string_view key, uint32_t value) { raw(key, kU32, one(value)); }
void GgufWriter::f32(std::string_view key, float value) { raw(key, kF32, one(value)); }
void GgufWriter::flag(std::string_view key, bool value) { raw(key, kBool, one(uint8_t{value})); }

void GgufWriter::text(std::string_view key, std::string_view value) {
  std::string bytes;
  put_text(bytes, value);
  raw(key, kString, bytes);
}

void GgufWriter::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string bytes = array(kString, values.size());
  for (const std::string& value : values) put_text(bytes, value);
  raw(key, kArray, bytes);
}

void GgufWriter::flags(std::string_view key, const std::vector<bool>& values) {
  std::string bytes = array(kBool, values.size());
  for (const bool value : values) put(bytes, uint8_t{value});
  raw(key, kArray, bytes);
}

void GgufWriter::f32s(std::string_view key, const std::vector<float>& values) {
  std::string bytes = array(kF32, values.size());
  for (const float value : values) put(bytes, value);
  raw(key, kArray, bytes);
}

void GgufWriter::i32s(std::string_view key, const std::vector<int32_t>& values) {
  std::string bytes = array(kI32, values.size());
  for (const int32_t value : values) put(bytes, value);
  raw(key, kArray, bytes);
}

void GgufWriter::raw_tensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset) {
  put_text(infos_, name);
  put(infos_, static_cast<uint32_t>(sizes.size()));
  for (const uint64_t size : sizes) put(infos_, size);
  put(infos_, type);
  put(infos_, offset);
  ++tensors_;
}

void GgufWriter::tensor(std::string_view name, const std::vector<int64_t>& shape, DType dtype) {
  auto bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  raw_tensor(name, std::vector<uint64_t>(shape.rbegin(), shape.rend()), type_of(dtype), next_);
  next_ += bytes + padding(bytes, alignment_).size();
}

std::string GgufWriter::padding(uint64_t bytes, uint64_t alignment) {
  return std::string((alignment - bytes % alignment) % alignment, '\0');
}

std::string GgufWriter::header() const {
  std::string bytes = "GGUF";
  put(bytes, version_);
  put(bytes, tensors_);
  put(bytes, pairs_);
  bytes += metadata_ + infos_;
  return bytes + padding(bytes.size(), alignment_);
}

}  // namespace hone::synthetic
