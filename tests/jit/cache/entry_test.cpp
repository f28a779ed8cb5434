// The format of an entry: what was written is read, and whatever is not exactly what was written is refused.
#include "jit/cache/entry.h"

#include <gmock/gmock.h>

#include <set>

namespace hone::jit {
namespace {

using testing::HasSubstr;

const CacheKey kKey = {.generator = "llvm",
                       .version = "llvm-19.1.7/1",
                       .isa = "avx512",
                       .target = "x86_64 +avx512f",
                       .loop_ir = "kernel k {\n}\n"};

CachedCode some_code() {
  CachedCode code{
      .label = {"llvm", "llvm-19.1.7/1", "avx512", kKey.lowering(), "k"}, .symbol = "k_llvm", .size = 7, .object = ""};
  for (int i = 0; i < 300; ++i) code.object += static_cast<char>(i);  // every byte, newlines and zeros too
  return code;
}

TEST(JitCacheEntry, ReadsWhatWasWritten) {
  const CachedCode written = some_code();
  const Result<CachedCode> read = decode_entry(encode_entry(kKey.id(), written), kKey.id());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->label.generator, "llvm");
  EXPECT_EQ(read->label.version, "llvm-19.1.7/1");
  EXPECT_EQ(read->label.isa, "avx512");
  EXPECT_EQ(read->label.lowering, kKey.lowering());
  EXPECT_EQ(read->label.kernel, "k");
  EXPECT_EQ(read->symbol, "k_llvm");
  EXPECT_EQ(read->size, 7u);
  EXPECT_EQ(read->object, written.object);
}

// Whoever reads the code goes as far as the size says.
TEST(JitCacheEntry, AFunctionLargerThanItsObjectIsRefused) {
  CachedCode written = some_code();
  for (const uint64_t size : {uint64_t{300}, uint64_t{301}, UINT64_MAX}) {
    written.size = size;
    EXPECT_EQ(decode_entry(encode_entry(kKey.id(), written), kKey.id()).ok(), size == 300) << size;
  }
}

TEST(JitCacheEntry, AnotherFormatIsNoDamage) {
  for (const char* format : {"hone-kernel 1", "hone-kernel 3", "hone-kernel 20"}) {
    const Result<CachedCode> read = decode_entry(std::string(format) + "\nanything", kKey.id());
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.status().code(), Code::kUnsupported) << format;
    EXPECT_THAT(read.status().message(), HasSubstr(format));
  }
  for (const char* other : {"", "hone-kernel", "hone-kernel 2", "hone-kernel 1", "hone-kernels 3\n"})
    EXPECT_EQ(decode_entry(other, kKey.id()).status().code(), Code::kDataLoss) << other;
}

TEST(JitCacheEntry, TheLoweringIsNamed) {
  CacheKey other = kKey;
  other.target += "x";
  EXPECT_NE(other.lowering(), kKey.lowering());
  EXPECT_EQ(kKey.lowering().size(), 16u);
  other = kKey;
  other.loop_ir = other.version = "";
  EXPECT_EQ(other.lowering(), kKey.lowering()) << "which can be compared without the kernel";
}

TEST(JitCacheEntry, AnObjectMayBeEmpty) {
  CachedCode written = some_code();
  written.size = 0;
  written.object.clear();
  const Result<CachedCode> read = decode_entry(encode_entry(kKey.id(), written), kKey.id());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->object, "");
}

TEST(JitCacheEntry, TruncationAtEveryLengthIsSeen) {
  const std::string file = encode_entry(kKey.id(), some_code());
  for (size_t length = 0; length < file.size(); ++length) {
    const Result<CachedCode> read = decode_entry(std::string_view(file).substr(0, length), kKey.id());
    ASSERT_FALSE(read.ok()) << length;
    ASSERT_EQ(read.status().code(), Code::kDataLoss) << length;
  }
  EXPECT_FALSE(decode_entry(file + '\0', kKey.id()).ok());
}

TEST(JitCacheEntry, EveryChangedBitIsSeen) {
  const std::string file = encode_entry(kKey.id(), some_code());
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string changed = file;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(decode_entry(changed, kKey.id()).ok()) << "bit " << bit;
  }
}

// The checksum holds, and yet it is another kernel's code: a file that was renamed.
TEST(JitCacheEntry, AnotherKeysEntryIsRefused) {
  CacheKey other = kKey;
  other.loop_ir += "#";
  const Result<CachedCode> read = decode_entry(encode_entry(other.id(), some_code()), kKey.id());
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().message(), HasSubstr("made from something else"));
}

TEST(JitCacheEntry, EveryFieldIsInTheKey) {
  std::set<std::string> ids = {kKey.id()};
  for (std::string CacheKey::*field :
       {&CacheKey::generator, &CacheKey::version, &CacheKey::isa, &CacheKey::target, &CacheKey::loop_ir}) {
    CacheKey key = kKey;
    key.*field += "1";
    EXPECT_TRUE(ids.insert(key.id()).second);
  }
  // What moves from one field to its neighbour is another key.
  CacheKey moved = kKey;
  moved.target = "";
  moved.isa = kKey.isa + kKey.target;
  EXPECT_TRUE(ids.insert(moved.id()).second);
  for (const std::string& id : ids) {
    EXPECT_EQ(id.size(), 64u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(JitCacheEntry, LabelsAreOneShortLineHoweverTheKernelIsNamed) {
  CachedCode code = some_code();
  code.label.kernel = "a\nobject 3\n" + std::string(100'000, 'x') + "\xff";
  const std::string file = encode_entry(kKey.id(), code);
  EXPECT_LT(file.size(), 2'000u);
  const Result<CachedCode> read = decode_entry(file, kKey.id());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->label.kernel, "a_object 3_" + std::string(189, 'x'));
  EXPECT_EQ(read->object, code.object);
}

}  // namespace
}  // namespace hone::jit
