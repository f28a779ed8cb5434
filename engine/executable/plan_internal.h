// What a plan keeps.
#pragma once

#include "engine/executable/step_internal.h"

namespace hone::executable {

class ExecutablePlan::Impl {
 public:
  // A dimension of an input: the symbol that it gives a value, or what it has to be.
  struct InputDim {
    int binds = -1;  // index of the symbol, where it is one and nothing else
    Size size;
  };
  struct Input {
    std::string name;
    int buffer = -1;
    bool truth = false;  // u8: elements are 0 or 1
    std::vector<InputDim> dims;
    std::vector<std::string> rules;  // the dimensions as text
  };
  struct Output {
    std::string name;
    int buffer = -1;
    int64_t element_bytes = 4;
    std::vector<Size> dims;
  };
  struct Check {
    passes::Guard::Kind kind;
    Size left, right;
    std::string what, rule;
  };

  explicit Impl(const Engine& its_engine) : engine(its_engine) {}

  // Values of all symbols, in order, for inputs of these shapes. Error: invalid_argument naming dimension, value, rule.
  Status bind(std::span<const InputTensor> tensors, int64_t position, std::span<int64_t> values) const;

  // Those of a call with so many tokens at a position.
  std::vector<int64_t> values_of(int64_t count, int64_t position) const;

  Engine engine;
  passes::Compilation compilation;
  std::vector<std::string> symbols;
  std::vector<int64_t> least;  // value of a symbol that no dimension has
  int position_symbol = -1;
  Size tokens;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Check> checks;
  std::vector<const std::byte*> constants;  // by buffer; null: not one that steps read
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<int64_t> arena_offsets;  // by buffer; -1: not in the arena
  std::vector<Preparation::CacheNeed> caches;
  Steps steps;
  PlanMemory memory;
};

}  // namespace hone::executable
