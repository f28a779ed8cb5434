// manifest.json of a package.
#include "jit/aot/manifest.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<jit::Manifest> manifest = jit::parse_manifest(fuzz::text_of(data, size));
  if (!manifest.ok()) {
    fuzz::require_message(manifest.status());
    return 0;
  }
  const std::string printed = jit::print(*manifest);
  const Result<jit::Manifest> again = jit::parse_manifest(printed);
  HONE_FUZZ_REQUIRE(again.ok() && *again == *manifest && jit::print(*again) == printed);
  for (const jit::PackageFile& file : manifest->files) {
    HONE_FUZZ_REQUIRE(!file.name.empty() && file.name.front() != '.' && file.name.find('/') == std::string::npos);
    HONE_FUZZ_REQUIRE(manifest->file(file.name) == &file);
  }
  return 0;
}
