// StableHLO texts: parse and import. What is accepted is a verified graph, whose export is a text that is accepted.
#include "engine/graph/stablehlo/export.h"
#include "engine/graph/stablehlo/import.h"
#include "engine/graph/verify.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<graph::Graph> graph = graph::stablehlo::import_stablehlo(fuzz::text_of(data, size));
  if (!graph.ok()) {
    fuzz::require_message(graph.status());
    return 0;
  }
  HONE_FUZZ_REQUIRE(graph::verify(*graph).ok());
  const Result<std::string> text = graph::stablehlo::export_stablehlo(*graph);
  if (!text.ok()) {
    fuzz::require_message(text.status());
    return 0;
  }
  HONE_FUZZ_REQUIRE(graph::stablehlo::import_stablehlo(*text).ok());
  return 0;
}
