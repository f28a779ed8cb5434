// Machine descriptions as HONE_CPU takes them, and labels of machines from databases of other builds.
#include "engine/base/machine.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  (void)machine_to_json(read_machine_label(text));
  const Result<Machine> machine = parse_machine_description(text);
  if (!machine.ok()) {
    fuzz::require_message(machine.status());
    return 0;
  }
  const std::string json = machine_to_json(*machine);
  const Result<Machine> again = parse_machine_description(json);
  HONE_FUZZ_REQUIRE(again.ok() && machine_to_json(*again) == json);
  HONE_FUZZ_REQUIRE(machine->cpus_usable >= 1);
  (void)machine->best_isa();
  return 0;
}
