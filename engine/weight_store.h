// Where packed weights may be kept between processes: what packing made is put there under a key, and found again
// instead of being made. The engine knows no files: engine/model has a store on disk.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/dtype.h"
#include "hone/engine.hpp"

namespace hone {

class WeightStore {
 public:
  virtual ~WeightStore() = default;

  struct Found {
    std::span<const std::byte> bytes;   // 64-byte aligned
    std::shared_ptr<const void> owner;  // keeps them there
  };
  // Exactly `bytes` bytes under `key`, checked against damage; nothing where they are not there.
  virtual std::optional<Found> find(std::string_view key, int64_t bytes) = 0;
  // Best effort: what cannot be kept is not an error of the caller's.
  virtual void put(std::string_view key, std::span<const std::byte> bytes) = 0;
};

// Constant B of a matmul that may never have to be looked at: with a store that has them packed, `elements` is not
// called.
struct WeightSource {
  // B as the spec says (layout, ldb, dtype), valid until the function object is destroyed.
  std::function<Result<const void*>()> elements;
  // Says what the elements are, of whichever machine: equal keys, equal elements. "": they are not stored.
  std::string content_key;
  WeightStore* store = nullptr;  // null: none
};

}  // namespace hone
