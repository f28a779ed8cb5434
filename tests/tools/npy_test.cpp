// .npy files: what NumPy writes is read, what is read back is what was written, and headers from anywhere are refused
// with what is wrong before memory is asked for.
#include "tools/hone/npy.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/tools/scratch.h"

namespace hone::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string with_header(const std::string& text, int major = 1, const std::string& data = "") {
  std::string head = "\x93NUMPY";
  head += {static_cast<char>(major), '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  if (major > 1) head += std::string(2, '\0');
  return head + text + data;
}

Result<NpyHeader> parsed(const std::string& file) {
  return parse_npy_header(std::string_view(file).substr(0, kNpyHead), static_cast<int64_t>(file.size()));
}

// As numpy.save writes them, with 3 elements behind.
TEST(Npy, HeadersOfNumpy) {
  for (const int major : {1, 2, 3}) {
    const std::string file = with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }          \n", major,
                                         std::string(12, 'x'));
    const Result<NpyHeader> header = parsed(file);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->dtype, DType::kF32);
    EXPECT_EQ(header->shape, std::vector<int64_t>{3});
    EXPECT_EQ(header->data_begin, static_cast<int64_t>(file.size()) - 12);
  }
  const auto shape_of = [](const std::string& text, size_t bytes) {
    const Result<NpyHeader> header = parsed(with_header(text, 1, std::string(bytes, 'x')));
    EXPECT_TRUE(header.ok()) << header.status().message();
    return header.ok() ? header->shape : std::vector<int64_t>{-1};
  };
  EXPECT_EQ(shape_of("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(shape_of("{\"shape\":(0,5),\"descr\":\"|u1\",\"fortran_order\":False}", 0), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(shape_of("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 1), std::vector<int64_t>{});
  EXPECT_EQ(shape_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 7, 1), }", 28),
            (std::vector<int64_t>{1, 7, 1}));
}

TEST(Npy, HostileHeaders) {
  const auto refused = [](const std::string& file, const std::string& why) {
    const Result<NpyHeader> header = parsed(file);
    ASSERT_FALSE(header.ok()) << why;
    EXPECT_EQ(header.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(header.status().message(), HasSubstr(why));
  };
  refused("", "is not a .npy file");
  refused("\x93NUMP", "is not a .npy file");
  refused("\x93NUMPY", "version 0.0");
  refused(with_header("{}", 4), "version 4.0");
  refused(with_header("x").substr(0, 9), "ends within its header");
  refused(with_header("{'descr': '<f4'").substr(0, 14), "ends within its header");
  refused(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{", 13), "too long");
  for (const char* text :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr: <f4, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}"})
    refused(with_header(text, 1, "xxxx"), "has a header that is not one of NumPy's");
  refused(with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 1, std::string(8, 'x')),
          "type '<f8'; give float32");
  refused(with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 1, "xxxx"), "type '>f4'");
  refused(with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 1, "xxxx"),
          "array of records");
  refused(with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 1, std::string(16, 'x')),
          "Fortran order");
  const std::string few = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  refused(with_header(few, 1, std::string(11, 'x')),
          "has 11 bytes behind its header, which an array of f32 [3] has not");
  refused(with_header(few, 1, std::string(16, 'x')), "has 16 bytes");
  // Would be petabytes, and overflow.
  for (const char* shape : {"(4611686018427387904,)", "(2147483648, 2147483648)", "(1152921504606846976, 16)",
                            "(4294967296, 4294967296, 4294967296)"})
    refused(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(shape) + ", }", 1, "xxxx"),
            "has 4 bytes behind its header");
}

class NpyFile : public cli_test::Scratch {};

TEST_F(NpyFile, WrittenIsRead) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {5}, {0, 3}, {2, 3, 4}, {1, 1}}) {
    for (const DType dtype : {DType::kF32, DType::kS32, DType::kU8}) {
      NpyArray array = make_array(dtype, shape).value();
      const std::span<uint8_t> bytes =
          array.data.as<uint8_t>().first(static_cast<size_t>(array.elements() * dtype_bytes(dtype)));
      std::iota(bytes.begin(), bytes.end(), uint8_t{1});
      ASSERT_TRUE(write_npy(file("a.npy"), array).ok());
      const Result<NpyArray> back = read_npy(file("a.npy"));
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(back->dtype, dtype);
      EXPECT_EQ(back->shape, shape);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), back->data.as<uint8_t>().begin()));
      std::ifstream in(file("a.npy"), std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      EXPECT_EQ((text.size() - bytes.size()) % 64, 0u) << "elements are aligned, as NumPy has them";
    }
  }
}

TEST_F(NpyFile, FilesThatAreNone) {
  EXPECT_EQ(read_npy(file("none.npy")).status().code(), Code::kNotFound);
  EXPECT_THAT(read_npy(scratch_.string()).status().message(), HasSubstr("is not a regular file"));
  write("empty.npy", "");
  EXPECT_THAT(read_npy(file("empty.npy")).status().message(),
              AllOf(HasSubstr("empty.npy"), HasSubstr("is not a .npy file")));
  const NpyArray array = make_array(DType::kF32, {2}).value();
  EXPECT_THAT(write_npy(file("no/where.npy"), array).message(), HasSubstr("cannot write"));
  std::filesystem::create_directory(file("folder.npy"));
  EXPECT_FALSE(write_npy(file("folder.npy"), array).ok());
  EXPECT_TRUE(std::filesystem::is_directory(file("folder.npy")));
}

// What somebody else's file is, is not replaced; what a link means is.
TEST_F(NpyFile, OnlyArraysAreReplaced) {
  const NpyArray array = make_array(DType::kU8, {0}).value();
  for (const std::string& text : {std::string("GGUF"), std::string("SQLite format 3"), std::string("a,b\n1,2\n")}) {
    write("theirs", text);
    EXPECT_THAT(write_npy(file("theirs"), array).message(), AllOf(HasSubstr("theirs"), HasSubstr("name another file")));
    std::ifstream in(file("theirs"), std::ios::binary);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(in)), {}), text);
  }
  write("empty", "");
  EXPECT_TRUE(write_npy(file("empty"), array).ok());
  EXPECT_TRUE(write_npy(file("empty"), array).ok());
  for (const char* link : {"empty", "nothing"}) {
    std::filesystem::create_symlink(link, file("link"));
    EXPECT_TRUE(write_npy(file("link"), array).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(file("link")));
    EXPECT_TRUE(read_npy(file(link)).ok());
    std::filesystem::remove(file("link"));
  }
  std::filesystem::create_symlink("circle", file("circle"));
  EXPECT_FALSE(write_npy(file("circle"), array).ok());
  { const NewFile unfinished = create_npy(file("never.npy")).value(); }
  for (const auto& entry : std::filesystem::directory_iterator(scratch_))
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("theirs", "empty", "nothing", "circle"));
}

}  // namespace
}  // namespace hone::cli
