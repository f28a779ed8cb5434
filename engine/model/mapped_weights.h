// Pages of a model file that nothing reads any more: while weights are packed one after the other, memory holds what is
// packed and one weight of the file, not both in full.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "engine/model/files/model_file.h"

namespace hone::model {

// Where the weights of a file lie in memory. Keeps nothing mapped.
class MappedWeights {
 public:
  explicit MappedWeights(const DecoderWeights& weights);

  // Lets the whole pages among `bytes` go; they are read again from the file when somebody looks at them. What is not
  // of the file's weights, memory that would not come back, is left alone: false.
  bool release(std::span<const std::byte> bytes) const;

 private:
  std::vector<std::pair<const std::byte*, const std::byte*>> stretches_;  // sorted, apart
};

}  // namespace hone::model
