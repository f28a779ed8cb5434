// The last line of "no exception leaves a module": public entry points run their body through it.
#pragma once

#include <exception>
#include <new>

#include "engine/base/status.h"

namespace hone {

// Runs body (which returns a Status or Result) and turns what the standard library throws when memory, threads or
// descriptors are short into a Status.
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
