#include "engine/model/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace hone::model {
namespace {

constexpr size_t kLanes = 8;
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio

using Lanes = std::array<uint64_t, kLanes>;

[[gnu::always_inline]] inline void take(Lanes& lanes, const std::byte* from) {
  Lanes words;
  std::memcpy(words.data(), from, sizeof words);
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = std::rotl(lanes[i] ^ words[i], 29) * kOdd;
}

}  // namespace

uint64_t checksum64(std::span<const std::byte> bytes) {
  Lanes lanes;
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = (i + 1) * kOdd;
  constexpr size_t kStep = sizeof(Lanes);
  size_t at = 0;
  for (; at + kStep <= bytes.size(); at += kStep) take(lanes, bytes.data() + at);
  if (at < bytes.size()) {  // the rest, zeros behind it: the length tells it from one that has them
    std::array<std::byte, kStep> rest{};
    std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
    take(lanes, rest.data());
  }
  uint64_t sum = bytes.size() * kOdd;
  for (const uint64_t lane : lanes) sum = (std::rotl(sum, 23) ^ lane ^ lane >> 32) * kOdd;
  return sum ^ sum >> 29;
}

}  // namespace hone::model
