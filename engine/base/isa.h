// Instruction sets, as values: what a kernel is generated for is an argument, never a query, so that choosing a kernel
// for a CPU that is not here can be tested.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hone {

// What machine code is for. kOther: a machine that hone runs on and generates no code for.
enum class Arch : uint8_t { kX86_64, kAarch64, kOther };

std::string_view arch_name(Arch arch);  // "x86-64", "aarch64", "other"

// That of this process.
constexpr Arch host_arch() {
#if defined(__x86_64__)
  return Arch::kX86_64;
#elif defined(__aarch64__)
  return Arch::kAarch64;
#else
  return Arch::kOther;
#endif
}

enum class Feature : uint8_t {
#define HONE_FEATURE(id, ...) id,
#include "engine/base/isa.inc"
#undef HONE_FEATURE
};

std::string_view feature_name(Feature f);
Arch feature_arch(Feature f);
std::optional<Feature> parse_feature(std::string_view name);

class FeatureSet {
 public:
  FeatureSet() = default;
  FeatureSet(std::initializer_list<Feature> features) {
    for (Feature f : features) add(f);
  }
  void add(Feature f) { bits_ |= uint64_t{1} << static_cast<int>(f); }
  void remove(Feature f) { bits_ &= ~(uint64_t{1} << static_cast<int>(f)); }
  bool has(Feature f) const { return (bits_ >> static_cast<int>(f)) & 1; }
  bool contains(const FeatureSet& other) const { return (bits_ & other.bits_) == other.bits_; }
  bool intersects(const FeatureSet& other) const { return (bits_ & other.bits_) != 0; }
  FeatureSet both(const FeatureSet& other) const { return FeatureSet(bits_ & other.bits_); }
  FeatureSet without(const FeatureSet& other) const { return FeatureSet(bits_ & ~other.bits_); }
  bool operator==(const FeatureSet&) const = default;
  std::vector<std::string> names() const;  // in the order of isa.inc

 private:
  explicit FeatureSet(uint64_t bits) : bits_(bits) {}

  uint64_t bits_ = 0;
};

FeatureSet features_of(Arch arch);  // all of them

enum class Isa : uint8_t {
#define HONE_ISA(id, ...) id,
#include "engine/base/isa.inc"
#undef HONE_ISA
};

// What code generation needs to know of an instruction set.
struct IsaInfo {
  Isa isa;
  std::string_view name;
  Arch arch;
  int vector_bits;
  int vector_registers;
  bool mask_registers;  // predication by k registers; otherwise masks occupy vector registers
  FeatureSet required;

  int lanes_f32() const { return vector_bits / 32; }
};

const IsaInfo& isa_info(Isa isa);
std::optional<Isa> parse_isa(std::string_view name);
std::span<const Isa> all_isas();
std::vector<Isa> isas_of(Arch arch);  // weakest first

}  // namespace hone
