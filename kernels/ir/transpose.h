// Transposition of a square of vector registers, for code that packs.
#pragma once

#include "kernels/ir/builder.h"

namespace hone::ir {

// `x` and `y` are tiles of `lanes` registers of `lanes` (4, 8 or 16) lanes; x holds a row in each register. Emits the
// transposition and returns the tile that holds column c in register c: x or y, the other one is scratch.
RegId emit_transpose(Builder& b, int lanes, RegId x, RegId y);

}  // namespace hone::ir
