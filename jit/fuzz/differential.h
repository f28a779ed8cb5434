// One kernel through the interpreter and through code generators on equal inputs; every byte that either may have
// written is compared.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/codegen.h"
#include "jit/fuzz/arguments.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// A code generator and an instruction set that it emits.
struct Target {
  CodeGenerator* generator;
  Isa isa;

  std::string name() const;  // "asmjit avx2"
};
// Of all code generators of this build but the interpreter, whether this CPU runs them or not.
std::vector<Target> all_targets();

// What is under way ("llvm avx2 compiles"), told before it starts: the last thing known when it does not come back.
using Progress = std::function<void(std::string_view)>;

class Differential {
 public:
  // Interprets a kernel, which has been verified as far as it can be, with each of these parameters. `seed` is that of
  // the data. Error: resource_exhausted when the arguments do not fit.
  static Result<Differential> create(const ir::Kernel& kernel, std::span<const std::vector<int64_t>> runs,
                                     uint64_t seed, const Progress& progress = {});

  // Compiles (never from the cache on disk), runs with each of the parameters and compares. Error: data_loss with the
  // parameters and the first difference, or what the code generator says.
  Status check(const Target& target, const Progress& progress = {});

 private:
  struct Run {
    std::vector<int64_t> params;
    Arguments arguments;
    Arguments::Contents expected;
  };
  explicit Differential(const ir::Kernel& kernel) : kernel_(kernel) {}

  ir::Kernel kernel_;
  std::vector<Run> runs_;
};

}  // namespace hone::jit
