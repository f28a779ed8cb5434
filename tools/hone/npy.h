// Arrays in NumPy's .npy format, versions 1 to 3, of the element types that operands have.
//
// Of our own because no library of Debian's reads it, and the format is a header and then the elements. The header is a
// Python dictionary with three keys; it is parsed as just that, as a file may come from anywhere: every number is
// checked against the length of the file before memory is asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "tools/hone/new_file.h"

namespace hone::cli {

struct NpyArray {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // C order
  AlignedBuffer data;

  int64_t elements() const;
  template <typename T>
  std::span<T> as() const {
    return data.as<T>().first(static_cast<size_t>(elements()));
  }
};

// An array of unspecified content. Error: resource_exhausted naming the size.
Result<NpyArray> make_array(DType dtype, std::vector<int64_t> shape);

// What a header says. `file_bytes`: of the whole file.
struct NpyHeader {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t data_begin = 0;  // byte of the first element
};
// `head`: the beginning of the file, at least kNpyHead bytes of it or all. Error: invalid_argument saying what is wrong
// and how to write such an array.
inline constexpr int64_t kNpyHead = 1 << 16;
Result<NpyHeader> parse_npy_header(std::string_view head, int64_t file_bytes);

// Errors name the file: not_found, invalid_argument (not such an array), resource_exhausted.
Result<NpyArray> read_npy(const std::string& path);
// A file for an array, checked before there is one: what is there is replaced only if it is a .npy file or empty.
Result<NewFile> create_npy(const std::string& path);
// Ends with its commit(). Error: what cannot() says.
Status write_npy(NewFile& file, const NpyArray& array);
// Both.
Status write_npy(const std::string& path, const NpyArray& array);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace hone::cli
