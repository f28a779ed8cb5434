// Matmuls of one engine that differ in nothing but their weights, as the layers of a model do, have one set of plans:
// resolving, lowering and looking up code for ten buckets takes milliseconds, and is the same every time.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/matmul/problem.h"

namespace hone {

class MatmulPlans;
namespace plan {
class Packages;
}

class SharedPlans {
 public:
  // All that plans are made from. Packages: those that were loaded by then.
  struct Key {
    matmul::MatmulProblem problem;
    bool constant = false;  // its weights are to be packed
    std::string numerics;   // classes that its plans may have
    std::vector<int64_t> expected_m;
    int64_t max_m = 0;
    std::shared_ptr<const plan::Packages> packages;
    bool operator==(const Key&) const = default;
  };

  // Null: nobody has made them, or who had them is gone.
  std::shared_ptr<MatmulPlans> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    for (const Entry& e : entries_)
      if (e.key == key)
        if (std::shared_ptr<MatmulPlans> plans = e.plans.lock()) return plans;
    return nullptr;
  }
  void add(Key key, const std::shared_ptr<MatmulPlans>& plans) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const Entry& e) { return e.plans.expired(); });
    entries_.push_back({std::move(key), plans});
  }

 private:
  struct Entry {
    Key key;
    std::weak_ptr<MatmulPlans> plans;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace hone
