// Memory of the peers: in huge pages, refused where there is none, and kept for the next way while ways are compared.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/memory.h"

namespace hone::peers {

constexpr size_t kHugePage = size_t{2} << 20;

struct Block {
  void* memory;
  size_t bytes;
};

// Large blocks that a losing way gave back, for the next way to use: to touch 2 GB of fresh memory takes seconds, many
// times longer than to compute with them.
inline std::vector<Block> spare_blocks;
inline bool keep_spare_blocks = false;

struct GiveBack {
  size_t bytes = 0;
  void operator()(void* memory) const {
    if (keep_spare_blocks && bytes >= kHugePage) return spare_blocks.push_back({memory, bytes});
    std::free(memory);
  }
};
using Floats = std::unique_ptr<float[], GiveBack>;

// While it lives, blocks are kept.
struct SpareBlocks {
  SpareBlocks() { keep_spare_blocks = true; }
  ~SpareBlocks() {
    keep_spare_blocks = false;
    for (const Block& block : spare_blocks) std::free(block.memory);
    spare_blocks.clear();
  }
  SpareBlocks(const SpareBlocks&) = delete;
  SpareBlocks& operator=(const SpareBlocks&) = delete;
};

// Memory in huge pages where the system has them, as hone's weights are: 4 KiB pages would make a packed matrix lose to
// one that is not. Asked for beyond what is there, the system would end the process once it is touched: hence the look.
inline Block large_block(size_t bytes) {
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  for (Block& block : spare_blocks) {
    if (block.bytes < bytes || block.bytes > bytes + bytes / 8) continue;
    std::swap(block, spare_blocks.back());
    const Block found = spare_blocks.back();
    spare_blocks.pop_back();
    return found;
  }
  const auto available = static_cast<size_t>(available_memory(""));
  if (bytes > available)
    throw std::runtime_error("no memory: " + std::to_string(bytes) + " bytes are needed, " + std::to_string(available) +
                             " are available");
  void* memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) throw std::runtime_error("no memory for " + std::to_string(bytes) + " bytes");
  (void)madvise(memory, bytes, MADV_HUGEPAGE);  // advice: small pages work too
  return {memory, bytes};
}

// Zeros, 64-byte aligned. Throws std::exception when there is no memory.
inline Floats zeros(int64_t count) {
  size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(float);
  Block block{nullptr, (bytes + 63) / 64 * 64};
  if (bytes >= kHugePage) {
    block = large_block(bytes);
  } else if (block.memory = std::aligned_alloc(64, block.bytes); block.memory == nullptr) {
    throw std::bad_alloc();
  }
  std::memset(block.memory, 0, bytes);
  return Floats(static_cast<float*>(block.memory), GiveBack{block.bytes});
}

}  // namespace hone::peers
