// One .safetensors file: the tensors lie behind each other, from the header to the end.
#include "engine/model/files/hugging_face_internal.h"
#include "tests/fuzz/model_files.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<std::vector<model::Weight>> tensors =
      model::tensors_of_safetensors(std::as_bytes(std::span(data, size)));
  if (!tensors.ok()) {
    fuzz::require_message(tensors.status());
    return 0;
  }
  const auto* const end = reinterpret_cast<const std::byte*>(data) + size;
  for (size_t i = 0; i < tensors->size(); ++i) {
    const model::Weight& w = (*tensors)[i];
    fuzz::require_sound(w);
    const std::byte* const next = i + 1 < tensors->size() ? (*tensors)[i + 1].data.data() : end;
    HONE_FUZZ_REQUIRE(w.data.data() + w.data.size() == next);
  }
  return 0;
}
