// llama2.c: the same bytes as a model and as a tokenizer.
#include "engine/model/files/formats_internal.h"
#include "tests/fuzz/model_files.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const Result<model::ModelFile> read = model::model_of_llama2c(bytes);
  if (read.ok()) {
    HONE_FUZZ_REQUIRE(model::looks_like_llama2c(bytes));
    fuzz::require_sound(*read);
  } else {
    fuzz::require_message(read.status());
  }
  const Result<model::Vocabulary> vocabulary = model::vocabulary_of_llama2c(bytes);
  if (vocabulary.ok())
    fuzz::require_sound(*vocabulary);
  else
    fuzz::require_message(vocabulary.status());
  return 0;
}
