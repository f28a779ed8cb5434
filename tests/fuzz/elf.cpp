// Objects of a package, as they are looked at before the dynamic loader sees them.
#include "jit/aot/elf_object.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const char* arch : {"x86_64", "aarch64"}) {
    const Result<std::vector<jit::ElfFunction>> functions =
        jit::check_elf_object({reinterpret_cast<const std::byte*>(data), size}, arch);
    if (!functions.ok()) {
      fuzz::require_message(functions.status());
      continue;
    }
    for (const jit::ElfFunction& f : *functions) HONE_FUZZ_REQUIRE(!f.name.empty() && f.size <= size);
  }
  return 0;
}
