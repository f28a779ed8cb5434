// GGUF: with weights or with a tokenizer alone.
#include "engine/model/files/formats_internal.h"
#include "tests/fuzz/model_files.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const Result<model::ModelFile> read = model::model_of_gguf(bytes);
  if (read.ok())
    fuzz::require_sound(*read);
  else
    fuzz::require_message(read.status());
  const Result<model::GgufFile> file = model::GgufFile::parse(bytes);
  if (!file.ok()) return 0;
  const auto vocabulary = model::vocabulary_of_gguf(*file);
  if (!vocabulary.ok()) {
    fuzz::require_message(vocabulary.status());
  } else if (const auto& found = *vocabulary; found.has_value()) {
    fuzz::require_sound(*found);
  }
  return 0;
}
