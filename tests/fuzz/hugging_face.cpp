// The JSON of a checkpoint: any text as config.json, and as each of its neighbours. A config that is accepted is
// written as one that reads back as the same.
#include "engine/model/files/hugging_face_internal.h"
#include "tests/fuzz/model_files.h"
#include "tools/synthetic/model.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto stops = model::stops_of_hugging_face(text); !stops.ok()) fuzz::require_message(stops.status());
  if (const auto json = model::parse_json_object(text); json.ok()) (void)model::chat_template_of_hugging_face(*json);
  if (const auto map = model::weight_map_of_hugging_face(text); map.ok()) {
    for (const auto& [tensor, file] : *map) HONE_FUZZ_REQUIRE(file.find('/') == std::string::npos && file != "..");
  } else {
    fuzz::require_message(map.status());
  }
  const Result<model::DecoderConfig> config = model::config_of_hugging_face(text);
  if (!config.ok()) {
    fuzz::require_message(config.status());
    return 0;
  }
  HONE_FUZZ_REQUIRE(model::validate(*config).ok());
  const std::string written = synthetic::hugging_face_config({.config = *config});
  const Result<model::DecoderConfig> again = model::config_of_hugging_face(written);
  HONE_FUZZ_REQUIRE(again.ok() && synthetic::hugging_face_config({.config = *again}) == written);
  HONE_FUZZ_REQUIRE(again->rope_dims == config->rope_dims && again->rope_scaling == config->rope_scaling);
  return 0;
}
