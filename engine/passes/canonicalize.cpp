#include "engine/passes/canonicalize.h"

#include "engine/passes/canonicalize_internal.h"
#include "engine/passes/shape_inference.h"

namespace hone::passes {
namespace {

// Guards of the states and the position that caches have become. Equations of shapes stay.
void guard_states(Compilation& c) {
  std::vector<Guard> equal;
  for (Guard& g : c.guards)
    if (g.kind == Guard::Kind::kEqual) equal.push_back(std::move(g));
  collect_guards(c, std::move(equal));
}

}  // namespace

Status canonicalize(Compilation& compilation) {
  Rewriter r(compilation, "canonicalize");
  simplify(r);
  recognise_activations(r);
  recognise_norms(r);
  recognise_ropes(r);
  // Before matmuls: products without a batch are then still products.
  recognise_attention(r);
  recognise_matmuls(r);
  simplify(r);
  recognise_swiglu(r);
  if (recognise_experts(r) > 0) simplify(r);
  if (recognise_caches(r) > 0) {
    simplify(r);
    guard_states(compilation);
  }
  r.g.erase_dead();
  return r.status();
}

}  // namespace hone::passes
