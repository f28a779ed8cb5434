// tokenizer.json, after the first line, which is the tokenizer_config.json beside it. What is read makes a tokenizer or
// is refused.
#include "engine/model/tokenizer/tokenizer_json.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;
using namespace hone::model;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  const std::string_view config = fuzz::take_line(text);
  Result<Json> json = Json();
  if (!config.empty()) json = parse_json_object(config);
  if (!json.ok()) {
    fuzz::require_message(json.status());
    return 0;
  }
  const Result<Vocabulary> v = vocabulary_of_tokenizer_json(text, *json);
  if (!v.ok()) {
    fuzz::require_message(v.status());
    return 0;
  }
  HONE_FUZZ_REQUIRE(v->tokens.size() < 200000 + size);
  const Result<Tokenizer> t = Tokenizer::create(*v);
  if (!t.ok()) {
    fuzz::require_message(t.status());
    return 0;
  }
  const Result<std::vector<int32_t>> ids = t->encode("ab <s> 12'S\n\xc3\xa9\xff", {.parse_special = true});
  if (!ids.ok()) fuzz::require_message(ids.status());
  if (ids.ok())
    for (const int32_t id : *ids) HONE_FUZZ_REQUIRE(id >= 0 && static_cast<size_t>(id) < v->tokens.size());
  return 0;
}
