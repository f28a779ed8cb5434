// A fuzz target is one file here: LLVMFuzzerTestOneInput takes any bytes, hands them to a parser of outside text, and
// requires what must hold of every input. In the `fuzz` preset libFuzzer calls it (tools/fuzz); in any other build the
// driver does, on the corpus and on some thousands of mutations of it, as a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/base/status.h"

// Ends the process: that is how a fuzzer is told.
#define HONE_FUZZ_REQUIRE(condition)                                                      \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (0)

namespace hone::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A refusal says something, in one line that a terminal can show.
inline void require_message(const Status& status) {
  HONE_FUZZ_REQUIRE(!status.ok());
  HONE_FUZZ_REQUIRE(!status.message().empty());
  HONE_FUZZ_REQUIRE(status.message().size() < 4000);
  for (const char c : status.message()) HONE_FUZZ_REQUIRE(c >= ' ' || c < 0);
}

// Up to the next newline, which is taken away as well.
inline std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace hone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
