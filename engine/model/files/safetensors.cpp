// See hugging_face_internal.h.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/printable.h"
#include "engine/model/files/byte_reader_internal.h"
#include "engine/model/files/hugging_face_internal.h"
#include "engine/model/json.h"

namespace hone::model {
namespace {

struct Entry {
  Weight weight;
  uint64_t begin = 0, end = 0;
};

std::optional<DType> dtype_of(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBf16;
  return std::nullopt;
}

// Non-negative, and no fraction.
std::optional<uint64_t> size_at(const Json& array, size_t i) {
  if (!array.is_array() || i >= array.size() || !array[i].is_number_unsigned()) return std::nullopt;
  return array[i].get<uint64_t>();
}

// `data`: bytes of all tensors.
Result<Entry> entry_of(const std::string& name, const Json& json, uint64_t data) {
  Entry entry;
  entry.weight.name = name;
  if (!json.is_object()) return data_loss("not an object");
  const Json &dtype = member(json, "dtype"), &shape = member(json, "shape"), &offsets = member(json, "data_offsets");
  if (!dtype.is_string()) return data_loss("it has no dtype");
  const auto& dtype_text = dtype.get_ref<const std::string&>();
  const std::optional<DType> known = dtype_of(dtype_text);
  if (!known) return unsupported(fmt::format("element type {}; F32, F16 and BF16 are read", printable(dtype_text, 32)));
  entry.weight.dtype = *known;
  if (!shape.is_array()) return data_loss("it has no shape");
  uint64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const std::optional<uint64_t> size = size_at(shape, i);
    if (!size || *size < 1 || *size > data / elements)
      return data_loss(fmt::format("dimension {} of its shape does not fit into the file", i));
    elements *= *size;
    entry.weight.shape.push_back(static_cast<int64_t>(*size));
  }
  if (entry.weight.shape.empty()) entry.weight.shape = {1};
  const std::optional<uint64_t> begin = size_at(offsets, 0), end = size_at(offsets, 1);
  if (!begin || !end || offsets.size() != 2 || *begin > *end || *end > data)
    return data_loss(fmt::format("its data_offsets are not two places within {} bytes of data", data));
  const auto bytes = elements * static_cast<uint64_t>(dtype_bytes(*known));
  if (*end - *begin != bytes)
    return data_loss(fmt::format("its data_offsets span {} bytes, its shape takes {}", *end - *begin, bytes));
  entry.begin = *begin, entry.end = *end;
  return entry;
}

Status check_order(std::vector<Entry>& entries, uint64_t data) {
  std::ranges::sort(entries, {}, &Entry::begin);
  uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at)
      return data_loss(fmt::format("tensor \"{}\" begins at {} of the data, where {} is free", printable(e.weight.name),
                                   e.begin, at));
    at = e.end;
  }
  if (at != data) return data_loss(fmt::format("{} bytes of data, the tensors take {}", data, at));
  return {};
}

}  // namespace

Result<std::vector<Weight>> tensors_of_safetensors(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  uint64_t size = 0;
  std::string_view header;
  if (!reader.read(size)) return data_loss("the file ends in the size of its header");
  if (!reader.take_text(size, header))
    return data_loss(fmt::format("the file ends in its header: {} of {} bytes are there", reader.left(), size));
  Result<Json> json = parse_json_object(header);
  if (!json.ok()) return Status(json.status().code(), fmt::format("its header: {}", json.status().message()));
  const uint64_t data = reader.left();
  std::vector<Entry> entries;
  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") continue;
    Result<Entry> entry = entry_of(name, value, data);
    if (!entry.ok())
      return Status(entry.status().code(), fmt::format("tensor \"{}\": {}", printable(name), entry.status().message()));
    entry->weight.data = bytes.subspan(static_cast<size_t>(reader.position() + entry->begin),
                                       static_cast<size_t>(entry->end - entry->begin));
    entries.push_back(*std::move(entry));
  }
  HONE_RETURN_IF_ERROR(check_order(entries, data));
  std::vector<Weight> weights;
  for (Entry& e : entries) weights.push_back(std::move(e.weight));
  return weights;
}

}  // namespace hone::model
