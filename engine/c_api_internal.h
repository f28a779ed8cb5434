// What the files of the C API share: handles, and the way every function that can fail goes, which keeps the message
// for this thread and lets no exception out.
#pragma once

#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "hone/engine.hpp"
#include "hone/hone.h"

struct hone_engine {
  hone::Engine engine;
  hone::EngineInfo info;
};

struct hone_plan {
  hone::PlanInfo plan;
  hone_plan_info info;
};

namespace hone::c_api {

// Keeps the message for hone_last_error().
hone_status fail(hone_status code, const char* message) noexcept;

// What a caller in C has written into an enumerator, which may be any int: C++ may not even load it as one.
template <typename CEnum>
int number_of(const CEnum& field) {
  static_assert(sizeof(CEnum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

inline Status null_argument(const char* name) { return invalid_argument(std::string(name) + " is NULL"); }

// Owned by the caller.
hone_plan* make_plan(PlanInfo info);

template <typename Body>
hone_status call(Body body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return HONE_OK;
    return fail(static_cast<hone_status>(status.code()), status.message().c_str());
  } catch (const std::bad_alloc&) {
    return fail(HONE_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& e) {
    return fail(HONE_INTERNAL, e.what());
  } catch (...) {
    return fail(HONE_INTERNAL, "unknown exception");
  }
}

}  // namespace hone::c_api
