// Shape files.
#include "kernels/op/shape_file.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<std::vector<op::Shape>> shapes = op::parse_shapes(fuzz::text_of(data, size), "list.txt");
  if (!shapes.ok()) {
    fuzz::require_message(shapes.status());
    return 0;
  }
  HONE_FUZZ_REQUIRE(!shapes->empty());
  std::string text;
  for (const op::Shape& s : *shapes) {
    HONE_FUZZ_REQUIRE(op::validate(s.problem).ok());
    HONE_FUZZ_REQUIRE(s.weight > 0 && s.weight < 1e300);
    text += op::to_string(s.problem) + "\n";
  }
  const Result<std::vector<op::Shape>> again = op::parse_shapes(text, "list.txt");
  HONE_FUZZ_REQUIRE(again.ok() && again->size() == shapes->size());
  for (size_t i = 0; i < shapes->size(); ++i) HONE_FUZZ_REQUIRE((*again)[i].problem == (*shapes)[i].problem);
  return 0;
}
