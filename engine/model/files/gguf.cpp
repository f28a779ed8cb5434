// See gguf_internal.h. Reading is in the order of the file; a fault names the pair or tensor under way and the byte.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "engine/base/printable.h"
#include "engine/model/files/byte_reader_internal.h"
#include "engine/model/files/gguf_internal.h"

namespace hone::model {
namespace {

constexpr uint64_t kLeastPair = 8 + 4 + 1, kLeastTensor = 8 + 4 + 8 + 4 + 8;  // bytes that one takes at least
constexpr uint32_t kMostRank = 4;
constexpr int64_t kDefaultAlignment = 32, kMostAlignment = 1 << 20;

// Bytes of an element; 0: it has no fixed size, or is no type.
uint64_t element_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

// Element types of tensors by their number, those that a model file may well have and hone does not read by name.
struct TensorType {
  uint32_t id;
  const char* name;
  std::optional<DType> dtype;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32", DType::kF32}, {1, "F16", DType::kF16}, {30, "BF16", DType::kBf16},
    {2, "Q4_0", {}},         {3, "Q4_1", {}},         {6, "Q5_0", {}},
    {7, "Q5_1", {}},         {8, "Q8_0", {}},         {9, "Q8_1", {}},
    {10, "Q2_K", {}},        {11, "Q3_K", {}},        {12, "Q4_K", {}},
    {13, "Q5_K", {}},        {14, "Q6_K", {}},        {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},     {17, "IQ2_XS", {}},      {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},       {20, "IQ4_NL", {}},      {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},       {23, "IQ4_XS", {}},      {24, "I8", {}},
    {25, "I16", {}},         {26, "I32", {}},         {27, "I64", {}},
    {28, "F64", {}},         {29, "IQ1_M", {}},       {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},       {39, "MXFP4", {}},
};

struct Entry {
  Weight weight;
  uint64_t offset = 0, bytes = 0;  // of its data, from where data begins
};

class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes), reader_(bytes) {}

  Status header(uint32_t& version) {
    std::string_view magic;
    if (!reader_.take_text(4, magic)) return truncated("the header");
    if (magic != "GGUF") return data_loss("not a GGUF file: it does not begin with GGUF");
    if (!reader_.read(version) || !reader_.read(tensors_) || !reader_.read(pairs_)) return truncated("the header");
    if (version != 2 && version != 3) {
      if ((version & 0xffff) == 0) return unsupported("GGUF of a big-endian machine; convert it to little-endian");
      return unsupported(fmt::format("GGUF version {}; versions 2 and 3 are read", version));
    }
    if (pairs_ > reader_.left() / kLeastPair)
      return data_loss(fmt::format("{} metadata pairs do not fit into {} bytes", pairs_, bytes_.size()));
    if (tensors_ > reader_.left() / kLeastTensor)
      return data_loss(fmt::format("{} tensors do not fit into {} bytes", tensors_, bytes_.size()));
    return {};
  }

  Status metadata(std::map<std::string, GgufValue, std::less<>>& metadata) {
    for (uint64_t i = 0; i < pairs_; ++i) {
      std::string_view key;
      if (!text(key)) return truncated(fmt::format("the key of metadata pair {}", i + 1));
      GgufValue value;
      if (Status s = this->value(value); !s.ok())
        return {s.code(), fmt::format("metadata \"{}\": {}", printable(key), s.message())};
      if (!metadata.emplace(key, value).second)
        return data_loss(fmt::format("metadata \"{}\" is there twice", printable(key)));
    }
    return {};
  }

  Status tensors(std::vector<Weight>& weights, uint64_t alignment) {
    std::vector<Entry> entries;
    std::set<std::string_view> names;
    for (uint64_t i = 0; i < tensors_; ++i) {
      std::string_view name;
      if (!text(name)) return truncated(fmt::format("the name of tensor {} of {}", i + 1, tensors_));
      Entry entry;
      entry.weight.name = name;
      if (Status s = tensor(entry, alignment); !s.ok())
        return {s.code(), fmt::format("tensor \"{}\": {}", printable(name), s.message())};
      if (!names.insert(name).second) return data_loss(fmt::format("tensor \"{}\" is there twice", printable(name)));
      entries.push_back(std::move(entry));
    }
    return place(entries, weights, alignment);
  }

 private:
  Status truncated(const std::string& where) const {
    return data_loss(
        fmt::format("the file ends in {}: {} bytes are left at byte {}", where, reader_.left(), reader_.position()));
  }

  bool text(std::string_view& text) {
    uint64_t size = 0;
    return reader_.read(size) && reader_.take_text(size, text);
  }

  Status value(GgufValue& value) {
    uint32_t type = 0;
    if (!reader_.read(type)) return truncated("its type");
    value.type = static_cast<GgufType>(type);
    if (value.type == GgufType::kArray) {
      value.is_array = true;
      if (!reader_.read(type) || !reader_.read(value.count)) return truncated("its array");
      value.type = static_cast<GgufType>(type);
      if (value.type == GgufType::kArray) return unsupported("an array of arrays");
    }
    const size_t begin = reader_.position();
    if (value.type == GgufType::kString) {
      std::string_view skipped;
      for (uint64_t i = 0; i < value.count; ++i)
        if (!text(skipped)) return truncated(value.is_array ? fmt::format("its string {}", i + 1) : "its string");
      value.data = bytes_.subspan(begin, reader_.position() - begin);
      return {};
    }
    const uint64_t size = element_bytes(value.type);
    if (size == 0) return data_loss(fmt::format("type {} is none of GGUF's", type));
    return reader_.take_elements(value.count, size, value.data) ? Status() : truncated("its value");
  }

  // All but the place of its data.
  Status tensor(Entry& entry, uint64_t alignment) {
    uint32_t rank = 0, type = 0;
    if (!reader_.read(rank)) return truncated("its rank");
    if (rank < 1 || rank > kMostRank) return data_loss(fmt::format("rank {}, it must be 1 to {}", rank, kMostRank));
    uint64_t elements = 1;
    std::vector<int64_t>& shape = entry.weight.shape;
    for (uint32_t i = 0; i < rank; ++i) {
      uint64_t size = 0;
      if (!reader_.read(size)) return truncated("its shape");
      // An element takes a byte at least, so no tensor of the file has more of them than it has bytes.
      if (size < 1 || size > bytes_.size() / elements)
        return data_loss(fmt::format("dimension {} of size {} does not fit into the file", i + 1, size));
      elements *= size;
      shape.push_back(static_cast<int64_t>(size));
    }
    std::reverse(shape.begin(), shape.end());
    if (!reader_.read(type) || !reader_.read(entry.offset)) return truncated("its type and offset");
    const auto* known = std::ranges::find(kTensorTypes, type, &TensorType::id);
    const bool named = known != std::end(kTensorTypes);
    if (!named || !known->dtype)
      return unsupported(fmt::format("element type {}; F32, F16 and BF16 are read",
                                     named ? std::string(known->name) : fmt::format("number {}", type)));
    entry.weight.dtype = *known->dtype;
    entry.bytes = elements * static_cast<uint64_t>(dtype_bytes(entry.weight.dtype));  // below 2^63: a file's size by 4
    if (entry.offset % alignment != 0)
      return data_loss(fmt::format("offset {} is not a multiple of the alignment {}", entry.offset, alignment));
    return {};
  }

  Status place(std::vector<Entry>& entries, std::vector<Weight>& weights, uint64_t alignment) {
    if (entries.empty()) return {};
    const uint64_t at = reader_.position(), begin = at + (alignment - at % alignment) % alignment;
    const uint64_t data = begin < bytes_.size() ? bytes_.size() - begin : 0;
    for (Entry& e : entries) {
      if (e.offset > data || e.bytes > data - e.offset)
        return data_loss(fmt::format("tensor \"{}\": {} bytes at offset {} are outside the file's {} bytes of data",
                                     printable(e.weight.name), e.bytes, e.offset, data));
      e.weight.data = bytes_.subspan(static_cast<size_t>(begin + e.offset), static_cast<size_t>(e.bytes));
    }
    std::vector<const Entry*> sorted;
    for (const Entry& e : entries) sorted.push_back(&e);
    std::ranges::sort(sorted, {}, &Entry::offset);
    for (size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i]->offset - sorted[i - 1]->offset < sorted[i - 1]->bytes)
        return data_loss(fmt::format("tensors \"{}\" and \"{}\" overlap", printable(sorted[i - 1]->weight.name),
                                     printable(sorted[i]->weight.name)));
    for (Entry& e : entries) weights.push_back(std::move(e.weight));
    return {};
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  uint64_t tensors_ = 0, pairs_ = 0;
};

}  // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  GgufFile file;
  Parser parser(bytes);
  HONE_RETURN_IF_ERROR(parser.header(file.version_));
  HONE_RETURN_IF_ERROR(parser.metadata(file.metadata_));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> given, file.integer("general.alignment"));
  const int64_t alignment = given.value_or(kDefaultAlignment);
  if (alignment < 8 || alignment > kMostAlignment || !std::has_single_bit(static_cast<uint64_t>(alignment)))
    return data_loss(fmt::format("metadata \"general.alignment\" is {}, it must be a power of two from 8 to {}",
                                 alignment, kMostAlignment));
  HONE_RETURN_IF_ERROR(parser.tensors(file.tensors_, static_cast<uint64_t>(alignment)));
  return file;
}

}  // namespace hone::model
