// The default TransformProgram: chosen from shape, ISA and cache sizes alone, without a database. A pure function, so
// that "what would you choose on that machine" is a test.
#pragma once

#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "kernels/matmul/program.h"

namespace hone::matmul {

struct BlockingTarget {
  Isa isa = Isa::kAvx2;
  BlockingCaches caches;
  int threads = 1;
  Dot dot = Dot::kNone;
};

// How a default program multiplies for a caller who allows the classes `numerics` (checked) on a CPU with `features`:
// by pairs wherever that is allowed, for every m, so that all plans of one matmul read the same panels and give the
// same class. Where class `bf16` is asked for and cannot be, that is the program's, which then is not legal.
Dot dot_for(const MatmulProblem& problem, std::string_view numerics, const FeatureSet& features, Isa isa);
// "any" as the class that default programs have under it where some ISA of the CPU has pairs: packed weights lie as one
// class reads them, whatever was found to be fastest for some m. All else as it is.
std::string narrow_numerics(const MatmulProblem& problem, std::string_view numerics, const FeatureSet& features,
                            Arch arch);

// Always legal for the problem. `panel` > 0 fixes the panel width of b=packed (weights that are packed already): then
// it is as legal as panels of that width let it be.
TransformProgram default_program(const MatmulProblem& problem, const BlockingTarget& target, int64_t panel = 0);

// A program that was made for `tuned_m` rows and panels of its own, as it fits this problem and panels of `panel`
// (0: any). Says in `difference` what was changed.
TransformProgram adapt(const MatmulProblem& problem, int64_t tuned_m, TransformProgram program, int64_t panel,
                       std::string* difference);

// Multiply-adds of a problem, or those that one core does while it moves the operands to and from memory if these are
// more: what decides whether threads pay (kernels/op/region.h).
double region_work(const MatmulProblem& problem);

// Register tiles worth considering on an ISA: those that fill the register budget from 1 row up, widest first.
struct RegisterTile {
  int64_t mr, nr;
};
std::vector<RegisterTile> register_tiles(Isa isa);

}  // namespace hone::matmul
