// GGUF as a container: metadata by key and tensors by name, checked against the file's size, with no idea of what they
// mean (gguf_model.cpp and gguf_vocabulary.cpp know that).
//
//   "GGUF" | u32 version | u64 tensors | u64 pairs
//   pair:    string key | u32 type | value          string: u64 length, bytes; array: u32 type, u64 count, elements
//   tensor:  string name | u32 rank | u64 sizes (innermost first) | u32 type | u64 offset
//   padding to general.alignment | data, each tensor at its offset from here, a multiple of the alignment
//
// Numbers are little-endian. Version 1 had 32-bit counts and is refused, as are files of big-endian machines.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/files/model_file.h"

namespace hone::model {

enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// A value as it lies in the file: arrays of 280,000 strings are looked through once when the file is read, and copied
// only by who wants them.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of an element
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  // The spans of what is returned lie in `bytes`. A tensor whose element type is not f32, f16 or bf16 is `unsupported`.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  uint32_t version() const { return version_; }
  std::vector<Weight>& tensors() { return tensors_; }

  // Metadata. Nothing where the key is absent; invalid_argument where it is of another type.
  bool has(std::string_view key) const { return metadata_.contains(key); }
  bool is_array(std::string_view key) const { return has(key) && find(key)->is_array; }
  Result<std::optional<int64_t>> integer(std::string_view key) const;  // of any width; an array of equal ones is one
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> flag(std::string_view key) const;
  Result<std::optional<std::string_view>> text(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> texts(std::string_view key) const;
  Result<std::optional<std::vector<float>>> floats(std::string_view key) const;      // f32
  Result<std::optional<std::vector<int32_t>>> integers(std::string_view key) const;  // i32 or u32
  Result<std::vector<bool>> flags(std::string_view key) const;  // truth values or integers; empty where absent

 private:
  const GgufValue* find(std::string_view key) const;

  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<Weight> tensors_;
};

}  // namespace hone::model
