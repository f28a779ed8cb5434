// Memory that a kernel is tried on: every buffer ends (or begins) at a page that may not be touched, and holds what
// code generators get wrong, NaN, infinities, denormals and both zeros, among ordinary numbers.
//
// A buffer's contents depend on the seed and on its name alone, so that a kernel keeps its data while a shrinker takes
// other buffers away from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "kernels/ir/checked_run.h"
#include "kernels/ir/task.h"

namespace hone::jit {

// Bits of random floats; how many are specials depends on the seed.
void fill_floats(std::span<uint32_t> words, uint64_t seed);

// True when a and b are the same bits, or both are f32 NaNs, whose payloads LoopIR leaves open.
bool same_value(uint32_t a, uint32_t b, DType dtype);

class Arguments {
 public:
  // What a kernel holds for these parameters. Elements of tables of indices are below the least bound that the kernel
  // puts on them. Error: resource_exhausted naming a buffer of more than max_bytes, or for which there is no memory.
  static Result<Arguments> create(const ir::Kernel& kernel, std::span<const int64_t> params, uint64_t seed,
                                  int64_t max_bytes = int64_t{1} << 32);

  // run(buffers, params, tasks, workspace) for every task, in order; the workspace holds NaN before each.
  template <typename Run>
  void run_tasks(const Run& run) {
    std::vector<int64_t> values(static_cast<size_t>(space_.rank) + 1);
    for (int64_t i = 0; i < space_.count; ++i) {
      space_.values(i, values.data());
      workspace_.poison();
      run(pointers_.data(), params_.data(), values.data(), static_cast<void*>(workspace_.data()));
    }
  }
  // As before the first task.
  void reset();

  // The bytes of every buffer, as they are.
  using Contents = std::vector<std::vector<uint8_t>>;
  Contents contents() const;
  // "" when all is as in `expected`, nothing around the buffers was written and none of those that are only read;
  // else the first difference.
  std::string difference(const Contents& expected) const;

  // What a run is given, for who runs it elsewhere: a buffer for each of the kernel's arguments.
  std::vector<const GuardedBuffer*> memory() const;
  void* const* pointers() const { return pointers_.data(); }
  const std::vector<int64_t>& params() const { return params_; }

  // Of the tables in this memory, for ir::check_run().
  ir::ReadTable tables() const;

 private:
  struct Argument {
    ir::BufferId id;
    std::string name;
    DType dtype;
    GuardedBuffer memory;
    std::vector<uint8_t> initial;
  };
  explicit Arguments(GuardedBuffer workspace) : workspace_(std::move(workspace)) {}
  void fill(Argument& argument, uint64_t seed, int64_t below);

  std::vector<Argument> arguments_;
  std::vector<void*> pointers_;
  std::vector<int64_t> params_;
  ir::TaskSpace space_;
  GuardedBuffer workspace_;
};

}  // namespace hone::jit
