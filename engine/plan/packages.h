// Packages as a source of plans: which of their ops may run here, and what a problem gets from them.
//
// Reading a package (jit/aot) proves that its files are whole and its LoopIR is safe. Here it is proven that this
// LoopIR is what this build makes of the problem and the program: arguments are bound by the lowering of this build, so
// code of another lowering would be called wrongly.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "jit/aot/package.h"
#include "kernels/op/op.h"

namespace hone::plan {

// One op of a package with the variant for this machine.
struct PackagedOp {
  std::string package;          // its path
  std::string engine, codegen;  // who wrote it, with what
  op::Problem problem;
  op::Program program;
  int threads = 0;                   // preferred; 0: none
  std::vector<std::string> loop_ir;  // of its kernels
  size_t variant = 0;
};

// Errors name the package and the problem: invalid_argument (a problem or program that this build does not know),
// unsupported (no variant for the machine; a lowering that is not that of this build, with the first line that
// differs).
Result<PackagedOp> admit(const jit::Package& package, const jit::PackageOp& op, const jit::PackageHost& host);

// Those of all packages of an engine. A value: who resolves holds one that does not change.
class Packages {
 public:
  // One that says the same as an earlier one takes its place.
  void add(PackagedOp op);
  std::span<const PackagedOp> of_family(const std::string& family) const;
  size_t size() const;

 private:
  std::map<std::string, std::vector<PackagedOp>> families_;  // newest first
};

// Whether `loop_ir` is what the problem with this program lowers to.
bool is_lowering_of(const op::Problem& problem, const op::Program& program, std::span<const std::string> loop_ir);

}  // namespace hone::plan
