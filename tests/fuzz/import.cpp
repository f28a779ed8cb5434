// Lines of an exported database. What is imported is exported again, and that imports into an empty store as it is.
#include <cstdio>

#include "db/store.h"
#include "db/transfer.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;

namespace {

Result<std::vector<db::TransferCount>> import_text(db::Store& store, std::string_view text) {
  std::FILE* file = std::tmpfile();
  HONE_FUZZ_REQUIRE(file != nullptr);
  (void)!std::fwrite(text.data(), 1, text.size(), file);
  std::rewind(file);
  Result<std::vector<db::TransferCount>> counts = db::import_lines(store, file, "input");
  std::fclose(file);
  return counts;
}

std::string exported(db::Store& store) {
  std::string text;
  const Status status = db::export_lines(store, {.problem = "", .machine_key = "", .rankers = true},
                                         [&](std::string_view line) -> Status {
                                           text += line;
                                           return {};
                                         });
  HONE_FUZZ_REQUIRE(status.ok());
  return text;
}

std::unique_ptr<db::Store> empty_store() {
  return std::move(db::open({.path = ":memory:", .mode = db::OpenMode::kReadWrite})).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Making a store takes longer than all the rest, and an import that failed has left none of it behind.
  static std::unique_ptr<db::Store> store = empty_store();
  static const std::string before = exported(*store);
  const Result<std::vector<db::TransferCount>> counts = import_text(*store, fuzz::text_of(data, size));
  const std::string after = exported(*store);
  if (!counts.ok()) {
    fuzz::require_message(counts.status());
    HONE_FUZZ_REQUIRE(after == before);  // everything or nothing
    return 0;
  }
  const std::unique_ptr<db::Store> other = empty_store();
  HONE_FUZZ_REQUIRE(import_text(*other, after).ok());
  HONE_FUZZ_REQUIRE(exported(*other) == after);
  if (after != before) store = empty_store();
  return 0;
}
