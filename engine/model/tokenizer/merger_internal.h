// Byte-pair encoding of one piece: of all neighbours that merge, the best ones (lowest priority number, then leftmost)
// are merged, until none do. A heap of candidates over a linked list makes it O(n log n); candidates that a merge has
// made wrong stay in the heap and are told by their length, which symbols only ever grow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hone::model {

class Merger {
 public:
  struct Symbol {
    uint32_t begin = 0, length = 0;  // of the piece; length 0: merged into the one before
    int32_t id = -1;
    uint32_t before = kNone, after = kNone;
  };
  static constexpr uint32_t kNone = ~0u;

  void clear() { symbols_.clear(); }
  void add(uint32_t begin, uint32_t length, int32_t id) {
    const auto at = static_cast<uint32_t>(symbols_.size());
    if (at > 0) symbols_.back().after = at;
    symbols_.push_back({.begin = begin, .length = length, .id = id, .before = at == 0 ? kNone : at - 1});
  }

  // bool pair(const Symbol& left, const Symbol& right, uint32_t& priority, int32_t& id)
  template <typename Pair>
  void merge(Pair pair) {
    heap_.clear();
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) consider(i, pair, false);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate best = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<uint32_t>(best.order);
      Symbol& left = symbols_[at];
      if (left.length == 0 || left.after == kNone) continue;
      Symbol& right = symbols_[left.after];
      if (left.length + right.length != best.length) continue;
      left.length = best.length;
      left.id = best.id;
      right.length = 0;
      left.after = right.after;
      if (left.after != kNone) symbols_[left.after].before = at;
      if (left.before != kNone) consider(left.before, pair, true);
      consider(at, pair, true);
    }
  }
  template <typename Visit>
  void each(Visit visit) const {
    for (uint32_t i = 0; i < symbols_.size(); i = symbols_[i].after) visit(symbols_[i]);
  }

 private:
  struct Candidate {
    uint64_t order;   // priority << 32 | place of the left symbol
    uint32_t length;  // of both
    int32_t id;
    bool operator<(const Candidate& other) const {
      return order > other.order;
    }  // of std's heaps the greatest is first
  };

  template <typename Pair>
  void consider(uint32_t at, Pair& pair, bool sift) {
    const Symbol& left = symbols_[at];
    if (left.after == kNone) return;
    const Symbol& right = symbols_[left.after];
    uint32_t priority = 0;
    int32_t id = -1;
    if (!pair(left, right, priority, id)) return;
    heap_.push_back({.order = uint64_t{priority} << 32 | at, .length = left.length + right.length, .id = id});
    if (sift) std::push_heap(heap_.begin(), heap_.end());
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace hone::model
