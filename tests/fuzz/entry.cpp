// Files of the cache of compiled kernels. A checksum stands in front of everything, so an input is also tried with the
// right one in its place.
#include "jit/cache/entry.h"
#include "engine/base/sha256.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

namespace {

constexpr std::string_view kId = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

void decode(std::string_view file) {
  const Result<jit::CachedCode> code = jit::decode_entry(file, kId);
  if (!code.ok()) {
    fuzz::require_message(code.status());
    return;
  }
  const std::string encoded = jit::encode_entry(kId, *code);
  const Result<jit::CachedCode> again = jit::decode_entry(encoded, kId);
  HONE_FUZZ_REQUIRE(again.ok() && again->object == code->object && again->symbol == code->symbol);
  HONE_FUZZ_REQUIRE(again->size == code->size && jit::encode_entry(kId, *again) == encoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  decode(text);
  std::string_view rest = text;
  const std::string_view first = fuzz::take_line(rest);
  fuzz::take_line(rest);
  decode(std::string(first) + "\nsha256 " + sha256_hex(rest) + "\n" + std::string(rest));
  return 0;
}
