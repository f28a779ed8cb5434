// What tuner and worker say to each other: either may have gone mad.
#include "autotune/isolate/message.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::optional<autotune::Message> message = autotune::decode(fuzz::text_of(data, size));
  if (!message) return 0;
  const std::string bytes = autotune::encode(*message);
  const std::optional<autotune::Message> again = autotune::decode(bytes);
  HONE_FUZZ_REQUIRE(again && autotune::encode(*again) == bytes);
  return 0;
}
