// Does a program do what it must, through every code generator? Runs in a worker, as it may crash.
//
//   loopir   print(parse(text)) is the text; what verify() accepts runs clean; every code generator gives the
//            interpreter's bits
//   an op    problem and program read back as they are written; what is not legal is refused with a reason, and not
//            lowered; what is legal lowers to verified LoopIR, whose text reads back; interpreter and code generators
//            give the bits of the numerics class, from its naive reference
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jit/codegen.h"
#include "jit/fuzz/differential.h"
#include "tools/hone/fuzz_case.h"

namespace hone::cli {

struct Verdict {
  enum class Kind {
    kPassed,
    kRefused,  // not legal, and that was said; or too large to be run here
    kInvalid,  // a kernel that leaves its buffers, and verify() does not accept it either: nothing can be said
    kFaulty,
  };
  Kind kind = Kind::kPassed;
  // What failed, without details: "asmjit avx2 differs". Shrinking keeps it.
  std::string fault;
  std::string details;
  int64_t compiled = 0;  // kernels

  static Verdict failed(std::string fault, std::string details) {
    return {Kind::kFaulty, std::move(fault), std::move(details), 0};
  }
};

// By all that run here.
Verdict check_case(const FuzzCase& c, const std::vector<jit::CodeGenerator*>& generators,
                   const jit::Progress& progress);

// Lowered kernels of an op's case as cases of their own, with the parameters that the op calls them with; empty when it
// is not legal.
std::vector<FuzzCase> lowered_cases(const FuzzCase& c);

// For the way back from the worker.
std::string encode(const Verdict& verdict);
Verdict decode_verdict(std::string_view text);

}  // namespace hone::cli
