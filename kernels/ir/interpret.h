// The oracle: executes LoopIR statement by statement. Obvious, and bit-exact with every code generator. It is asked
// about hundreds of candidates on real shapes, so a kernel is resolved once into a flat program (flat_internal.h) and
// then run.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "kernels/ir/task.h"

namespace hone::ir {

struct FlatProgram;

// One kernel, ready to run. Immutable: any number of threads may call run() at once; copies share the program.
class Interpreter {
 public:
  // The kernel must have been verified; it need not outlive the Interpreter.
  explicit Interpreter(const Kernel& kernel);

  // Runs one task with the calling convention of TaskFn. Rounds and treats denormals as the caller's MXCSR says.
  void run(void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace) const;

 private:
  std::shared_ptr<const FlatProgram> program_;
};

// Resolves and runs one task. For kernels that run once; otherwise keep an Interpreter.
void interpret(const Kernel& kernel, void* const* buffers, const int64_t* params, const int64_t* tasks,
               void* workspace);

}  // namespace hone::ir
