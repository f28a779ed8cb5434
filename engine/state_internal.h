// What the matmuls of one engine share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan/kernel_cache.h"
#include "engine/plan/resolver.h"
#include "engine/schedules_internal.h"
#include "hone/engine.hpp"

namespace hone {

class Engine::State {
 public:
  EngineInfo info;
  plan::Target target;
  plan::Decisions decisions;
  std::vector<jit::CodeGenerator*> generators;  // that may be used, preferred first
  plan::KernelCache kernels;
  Schedules schedules;

  // The generators that emit `isa` here, `first` before the others.
  std::vector<jit::CodeGenerator*> generators_for(Isa isa, std::string_view first) const;
};

// Runs body and turns what the standard library throws when memory is short into a Status: no exception leaves.
template <typename Body>
auto guarded(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted, "out of memory");
  } catch (const std::exception& e) {
    return Status(Code::kInternal, e.what());
  }
}

}  // namespace hone
