// Random choices that are the same for equal seeds, whatever standard library there is: the distributions of <random>
// are not. For test programs and their data, and for drawing tokens (its 64 bits, not its small ranges); nothing here
// is for statistics or secrets.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace hone {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // splitmix64: any two seeds give unrelated sequences.
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }  // n >= 1
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }                   // both inclusive
  bool chance(int percent) { return below(100) < percent; }
  float uniform(float lo, float hi) { return lo + (hi - lo) * (static_cast<float>(next() >> 40) * 0x1p-24F); }

  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }
  template <typename Container>
  const auto& element(const Container& values) {
    return values[static_cast<size_t>(below(static_cast<int64_t>(std::size(values))))];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  uint64_t state_;
};

}  // namespace hone
