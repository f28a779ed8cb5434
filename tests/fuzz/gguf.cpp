// GGUF: with weights or with a tokenizer alone; a model in two parts, where the input has a second beginning of one.
#include "engine/model/files/formats_internal.h"
#include "tests/fuzz/model_files.h"

using namespace hone;

namespace {

void read(std::span<const std::byte> bytes, const model::GgufParts& parts) {
  const Result<model::ModelFile> read = model::model_of_gguf(bytes, true, parts);
  if (read.ok())
    fuzz::require_sound(*read);
  else
    fuzz::require_message(read.status());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const size_t second = text.rfind("GGUF"); second != std::string_view::npos && second > 0) {
    const auto open = [&](const std::string& name) -> Result<std::span<const std::byte>> {
      HONE_FUZZ_REQUIRE(name.starts_with("m-000") && name.ends_with(".gguf"));
      return bytes.subspan(second);
    };
    read(bytes.first(second), {"m-00001-of-00002.gguf", open});
  }
  read(bytes, {});
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
