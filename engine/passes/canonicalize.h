// Recognises in the primitive ops that frameworks export what a decoder is made of. Structure decides, never a name.
//
// A graph that is no decoder stays what it is. What is recognised means the same; the order of sums may change, as
// ops.h says for each op. What looks like a decoder's op and is not gets a note with the reason.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

Status canonicalize(Compilation& compilation);

}  // namespace hone::passes
