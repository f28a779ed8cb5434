// What the benchmarks share: a machine, operands, one call of a kernel, and an end without a result when something
// fails.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/base/aligned_buffer.h"
#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "jit/launch.h"
#include "kernels/matmul/bind.h"
#include "kernels/matmul/blocking.h"
#include "kernels/matmul/program.h"

namespace hone::bench {

// The value, or an entry in `state` that the benchmark was skipped because of the error, and then nullptr.
template <typename T>
const T* value_or_skip(benchmark::State& state, const Result<T>& result) {
  if (result.ok()) return &*result;
  state.SkipWithError(result.status().to_string().c_str());
  return nullptr;
}

inline const Machine& this_machine() {
  static const Machine machine = [] {
    Result<Machine> found = detect_machine();
    return found.ok() ? *found : Machine{};
  }();
  return machine;
}

// Floats that are present and not denormal.
inline AlignedBuffer floats(int64_t count) {
  Result<AlignedBuffer> buffer = AlignedBuffer::allocate(count * static_cast<int64_t>(sizeof(float)), Touch::kNow);
  if (!buffer.ok()) return {};
  std::ranges::fill(buffer->as<float>(), 0.5F);
  return std::move(*buffer);
}

// Every task of a kernel, on this thread.
inline void call(const jit::Executable& executable, void* const* buffers, const int64_t* params) {
  static jit::WorkspacePool workspaces;
  jit::Launch launch(executable, buffers, params, &workspaces);
  jit::Launch::run_range(&launch, 0, launch.tasks());
}

// Lowers and compiles.
inline Result<jit::Executable> make(const matmul::MatmulProblem& problem, const matmul::TransformProgram& program,
                                    jit::CodeGenerator& generator) {
  HONE_ASSIGN_OR_RETURN(const ir::Kernel kernel, matmul::lower(problem, program));
  return jit::make_executable(kernel, generator, program.isa);
}

}  // namespace hone::bench
