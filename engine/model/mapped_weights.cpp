#include "engine/model/mapped_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace hone::model {

MappedWeights::MappedWeights(const DecoderWeights& w) {
  const auto add = [&](const Weight& weight) {
    if (!weight.data.empty()) stretches_.emplace_back(weight.data.data(), weight.data.data() + weight.data.size());
  };
  for (const Weight* each : {&w.embedding, &w.output_norm, &w.output}) add(*each);
  for (const LayerWeights& l : w.layers)
    for (const Weight* each : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) add(*each);
  std::sort(stretches_.begin(), stretches_.end());
  // Runs of neighbours may come as one.
  size_t kept = 0;
  for (size_t i = 1; i < stretches_.size(); ++i) {
    if (stretches_[i].first <= stretches_[kept].second) {
      stretches_[kept].second = std::max(stretches_[kept].second, stretches_[i].second);
    } else {
      stretches_[++kept] = stretches_[i];
    }
  }
  stretches_.resize(std::min(stretches_.size(), kept + 1));
}

bool MappedWeights::release(std::span<const std::byte> bytes) const {
  const auto after = std::upper_bound(stretches_.begin(), stretches_.end(), bytes.data(),
                                      [](const std::byte* at, const auto& stretch) { return at < stretch.first; });
  if (bytes.empty() || after == stretches_.begin() || bytes.data() + bytes.size() > std::prev(after)->second)
    return false;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t last = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);  // else it stays
  return true;
}

}  // namespace hone::model
