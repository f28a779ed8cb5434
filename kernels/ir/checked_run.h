// What verify() proves for all parameters, looked at for some: runs the loops of a kernel and checks each access as it
// happens. Obvious where the verifier is clever, so it judges the verifier; and kernels that are right for some
// parameters only are known to be so here.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "kernels/ir/ir.h"

namespace hone::ir {

struct RunCheck {
  enum class Verdict {
    kClean,
    kFault,    // an access outside its buffer, a register read before it is written, two tasks that store to one
               // element, a value outside its range: `text` has the statement and what is wrong
    kPromise,  // a table has no element below its bound: the caller's promise, and nothing can be said
    kTooLong,  // more than max_steps statements
  };
  Verdict verdict = Verdict::kClean;
  std::string text;
  int64_t steps = 0;  // statements run

  bool clean() const { return verdict == Verdict::kClean; }
};

// The element of a table of indices at `index`, which is inside; `below` is at least 1.
using ReadTable = std::function<int64_t(BufferId table, int64_t index, int64_t below)>;

// The structure and the registers' indices of the kernel must have been verified. Masks written by a comparison count
// as all lanes.
RunCheck check_run(const Kernel& kernel, std::span<const int64_t> params, const ReadTable& table,
                   int64_t max_steps = INT64_MAX);

}  // namespace hone::ir
