// Texts of tensor graphs: what parses is verified, and prints as something that reads back as the same.
#include "engine/graph/text.h"
#include "engine/graph/verify.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

namespace {

// Elements that are not in the text: zeros, unless they were many.
Result<graph::Constant> zeros(const std::string&, const graph::TensorType& type) {
  if (type.bytes() > 1 << 20) return resource_exhausted("too large");
  return graph::Constant::copy_of(type, std::vector<std::byte>(static_cast<size_t>(type.bytes())));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<graph::Graph> graph = graph::parse(fuzz::text_of(data, size), zeros);
  if (!graph.ok()) {
    fuzz::require_message(graph.status());
    return 0;
  }
  HONE_FUZZ_REQUIRE(graph::verify(*graph).ok());
  const std::string printed = graph::print(*graph);
  const Result<graph::Graph> again = graph::parse(printed, zeros);
  HONE_FUZZ_REQUIRE(again.ok() && graph::print(*again) == printed);
  return 0;
}
