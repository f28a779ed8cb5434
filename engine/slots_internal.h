// What a prepared op keeps for calls of similar sizes: slots that go from empty to filled once. A filled slot is read
// with one acquire load; filling is done by one thread at a time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/status.h"

namespace hone {

template <typename Ready>
struct Slot {
  std::atomic<const Ready*> ready{nullptr};
};

// Owns what the slots point to.
template <typename Ready>
class SlotFiller {
 public:
  // What is in the slot; make() -> Result<std::unique_ptr<Ready>> if it is empty. Error: that of make(), and the slot
  // stays empty.
  template <typename Make>
  Result<const Ready*> fill(Slot<Ready>& slot, Make make) {
    if (const Ready* ready = slot.ready.load(std::memory_order_acquire)) return ready;
    const std::lock_guard lock(filling_);
    if (const Ready* ready = slot.ready.load(std::memory_order_acquire)) return ready;
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<const Ready> made, make());
    owned_.push_back(std::move(made));
    slot.ready.store(owned_.back().get(), std::memory_order_release);
    return owned_.back().get();
  }

 private:
  std::mutex filling_;
  std::vector<std::unique_ptr<const Ready>> owned_;
};

}  // namespace hone
