// Writes GGUF v3 (or v2): first all that describes the file, then tensor after tensor as bytes come.
//
//   GgufWriter w;  w.text("general.architecture", "llama");  w.tensor("token_embd.weight", {512, 64}, DType::kF32);
//   sink(w.header());  then for each tensor, in order: its bytes and w.padding(bytes)
//
// It checks nothing: tests of the reader write what is wrong with it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"

namespace hone::synthetic {

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3, uint64_t alignment = 32) : version_(version), alignment_(alignment) {}

  void u16(std::string_view key, uint16_t value);
  void u32(std::string_view key, uint32_t value);
  void f32(std::string_view key, float value);
  void flag(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  void texts(std::string_view key, const std::vector<std::string>& values);
  void flags(std::string_view key, const std::vector<bool>& values);
  void f32s(std::string_view key, const std::vector<float>& values);
  void i32s(std::string_view key, const std::vector<int32_t>& values);
  // Any other pair, with the bytes of its value.
  void raw(std::string_view key, uint32_t type, std::string_view value);

  // `shape` outermost first. The data of the last one begins where that of the one before, padded, ends.
  void tensor(std::string_view name, const std::vector<int64_t>& shape, DType dtype);
  void raw_tensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset);

  std::string header() const;  // padded: data follows
  static std::string padding(uint64_t bytes, uint64_t alignment = 32);

 private:
  uint32_t version_;
  uint64_t alignment_;
  uint64_t pairs_ = 0, tensors_ = 0, next_ = 0;
  std::string metadata_, infos_;
};

}  // namespace hone::synthetic
