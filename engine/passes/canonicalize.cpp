#include "engine/passes/canonicalize.h"

#include "engine/passes/canonicalize_internal.h"

namespace hone::passes {

Status canonicalize(Compilation& compilation) {
  Rewriter r(compilation, "canonicalize");
  simplify(r);
  recognise_activations(r);
  recognise_norms(r);
  recognise_matmuls(r);
  simplify(r);
  recognise_swiglu(r);
  r.g.erase_dead();
  return r.status();
}

}  // namespace hone::passes
