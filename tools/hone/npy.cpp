// See npy.h.
#include "tools/hone/npy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

namespace hone::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxDims = 32;  // as NumPy

struct Spelling {
  std::string_view text;
  DType dtype;
};
// What NumPy writes first. A bool is a byte of 0 or 1.
constexpr Spelling kSpellings[] = {
    {"<f4", DType::kF32}, {"<i4", DType::kS32}, {"|u1", DType::kU8}, {"|b1", DType::kU8}};

Status bad(std::string what) { return invalid_argument(std::move(what)); }

// Elements of a shape; nothing when they do not fit 63 bits in bytes.
std::optional<int64_t> count(const std::vector<int64_t>& shape, int64_t bytes) {
  int64_t elements = 1;
  for (const int64_t d : shape)
    if (d == 0) return 0;
  for (const int64_t d : shape)
    if (__builtin_mul_overflow(elements, d, &elements)) return std::nullopt;
  int64_t all = 0;
  if (__builtin_mul_overflow(elements, bytes, &all)) return std::nullopt;
  return elements;
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}

  Status parse() {
    if (!accept('{')) return malformed();
    while (!accept('}')) {
      const std::optional<std::string_view> key = quoted();
      if (!key || !accept(':')) return malformed();
      HONE_RETURN_IF_ERROR(value(*key));
      if (accept(',')) continue;
      if (!accept('}')) return malformed();
      break;
    }
    skip();
    if (!rest_.empty() || seen_ != (kDescr | kFortran | kShape)) return malformed();
    return {};
  }

  std::string_view descr() const { return descr_; }
  bool fortran() const { return fortran_; }
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  static Status malformed() {
    return bad("has a header that is not one of NumPy's: {'descr': .., 'fortran_order': .., 'shape': ..}");
  }

  enum Key : unsigned { kNone = 0, kDescr = 1, kFortran = 2, kShape = 4 };

  Status value(std::string_view key) {
    const Key which = key == "descr" ? kDescr : key == "fortran_order" ? kFortran : key == "shape" ? kShape : kNone;
    if (which == kNone || (seen_ & which) != 0) return malformed();
    seen_ |= which;
    skip();
    if (which == kShape) return tuple();
    if (which == kFortran) return truth();
    if (rest_.starts_with('[')) return bad("is an array of records; give one of float32, int32 or uint8");
    const std::optional<std::string_view> descr = quoted();
    if (!descr) return malformed();
    descr_ = *descr;
    return {};
  }

  Status truth() {
    fortran_ = rest_.starts_with("True");
    if (!fortran_ && !rest_.starts_with("False")) return malformed();
    rest_.remove_prefix(fortran_ ? 4 : 5);
    return {};
  }

  Status tuple() {
    if (!accept('(')) return malformed();
    while (!accept(')')) {
      skip();
      int64_t number = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (error != std::errc() || number < 0 || shape_.size() == kMaxDims) return malformed();
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape_.push_back(number);
      if (accept(',')) continue;
      if (!accept(')')) return malformed();
      break;
    }
    return {};
  }

  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string_view rest_;
  unsigned seen_ = 0;  // keys
  std::string_view descr_;
  bool fortran_ = false;
  std::vector<int64_t> shape_;
};

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

std::string header_of(const NpyArray& array) {
  std::string_view descr;
  for (const Spelling& s : kSpellings)
    if (s.dtype == array.dtype && descr.empty()) descr = s.text;
  std::string shape;
  for (const int64_t d : array.shape) shape += fmt::format("{}{}", shape.empty() ? "" : " ", fmt::format("{},", d));
  if (array.shape.size() > 1) shape.pop_back();
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  text.append(63 - (kMagic.size() + 4 + text.size()) % 64, ' ');  // elements begin at a multiple of 64
  text += '\n';
  std::string head(kMagic);
  head += {'\1', '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  return head + text;
}

std::string reason() { return std::strerror(errno); }

Result<NpyArray> read_open(std::ifstream& in, int64_t bytes) {
  std::string head(static_cast<size_t>(std::min(bytes, kNpyHead)), '\0');
  if (!in.read(head.data(), static_cast<std::streamsize>(head.size()))) return bad("cannot be read");
  HONE_ASSIGN_OR_RETURN(NpyHeader header, parse_npy_header(head, bytes));
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(header.dtype, std::move(header.shape)));
  in.seekg(header.data_begin);
  const int64_t wanted = array.elements() * dtype_bytes(array.dtype);
  if (wanted > 0 && !in.read(reinterpret_cast<char*>(array.data.data()), wanted)) return bad("cannot be read");
  return array;
}

}  // namespace

int64_t NpyArray::elements() const { return count(shape, dtype_bytes(dtype)).value_or(0); }

Result<NpyArray> make_array(DType dtype, std::vector<int64_t> shape) {
  const std::optional<int64_t> elements = count(shape, dtype_bytes(dtype));
  if (!elements) return resource_exhausted(fmt::format("no memory for an array of {}", shape_text(shape)));
  NpyArray array{.dtype = dtype, .shape = std::move(shape), .data = {}};
  HONE_ASSIGN_OR_RETURN(array.data, AlignedBuffer::allocate_elements(*elements, dtype_bytes(dtype)));
  return array;
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<NpyHeader> parse_npy_header(std::string_view head, int64_t file_bytes) {
  if (!head.starts_with(kMagic)) return bad("is not a .npy file");
  const auto at = [&](size_t i) { return static_cast<int>(static_cast<uint8_t>(i < head.size() ? head[i] : 0)); };
  const int major = at(kMagic.size());
  if (major < 1 || major > 3 || at(kMagic.size() + 1) != 0)
    return bad(fmt::format("is of version {}.{} of the format; 1.0 to 3.0 are read", major, at(kMagic.size() + 1)));
  const size_t length_bytes = major == 1 ? 2 : 4, length_at = kMagic.size() + 2;
  if (head.size() < length_at + length_bytes) return bad("ends within its header");
  const uint64_t length = little_endian(head.substr(length_at, length_bytes));
  const size_t begin = length_at + length_bytes;
  if (length > head.size() - begin) return bad("ends within its header, or has one that is too long");
  Dictionary dictionary(head.substr(begin, length));
  HONE_RETURN_IF_ERROR(dictionary.parse());

  NpyHeader header{.shape = dictionary.shape(), .data_begin = static_cast<int64_t>(begin + length)};
  const Spelling* known = nullptr;
  for (const Spelling& s : kSpellings)
    if (s.text == dictionary.descr()) known = &s;
  if (known == nullptr)
    return bad(
        fmt::format("has elements of type '{}'; give float32, int32 or uint8, little-endian: a.astype(numpy.float32)",
                    dictionary.descr().substr(0, 16)));
  header.dtype = known->dtype;
  const auto wide = [](const std::vector<int64_t>& shape) {
    int dims = 0;
    for (const int64_t d : shape) dims += d > 1;
    return dims > 1;
  };
  if (dictionary.fortran() && wide(header.shape)) return bad("is in Fortran order; save numpy.ascontiguousarray(a)");
  const std::optional<int64_t> elements = count(header.shape, dtype_bytes(header.dtype));
  const int64_t there = file_bytes - header.data_begin;
  if (!elements || *elements * dtype_bytes(header.dtype) != there)
    return bad(fmt::format("has {} bytes behind its header, which an array of {} {} has not", there,
                           dtype_name(header.dtype), shape_text(header.shape)));
  return header;
}

Result<NpyArray> read_npy(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return not_found(fmt::format("cannot open {}: {}", path, reason()));
  if (!S_ISREG(info.st_mode)) return invalid_argument(fmt::format("{} is not a regular file", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) return not_found(fmt::format("cannot open {}: {}", path, reason()));
  Result<NpyArray> array = read_open(in, info.st_size);
  if (!array.ok()) return Status(array.status().code(), fmt::format("{} {}", path, array.status().message()));
  return array;
}

Result<NewFile> create_npy(const std::string& path) { return NewFile::create(path, "array.npy", kMagic); }

Status write_npy(NewFile& file, const NpyArray& array) {
  const auto bytes = static_cast<size_t>(array.elements() * dtype_bytes(array.dtype));
  HONE_RETURN_IF_ERROR(file.write(header_of(array)));
  HONE_RETURN_IF_ERROR(file.write({reinterpret_cast<const char*>(array.data.data()), bytes}));
  return file.commit();
}

Status write_npy(const std::string& path, const NpyArray& array) {
  HONE_ASSIGN_OR_RETURN(NewFile file, create_npy(path));
  return write_npy(file, array);
}

}  // namespace hone::cli
