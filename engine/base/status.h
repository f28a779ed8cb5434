// Status and Result come from the installed header; here are the macros that keep propagating them short.
#pragma once

#include "hone/status.h"

// Returns the Status from the enclosing function when `expr` failed.
#define HONE_RETURN_IF_ERROR(expr)                                                  \
  do {                                                                              \
    if (::hone::Status hone_status = (expr); !hone_status.ok()) return hone_status; \
  } while (0)

#define HONE_CONCAT_INNER(a, b) a##b
#define HONE_CONCAT(a, b) HONE_CONCAT_INNER(a, b)
// `HONE_ASSIGN_OR_RETURN(auto x, f())`: unwraps a Result or returns its Status.
#define HONE_ASSIGN_OR_RETURN(lhs, expr) HONE_ASSIGN_OR_RETURN_IMPL(HONE_CONCAT(hone_result_, __LINE__), lhs, expr)
#define HONE_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return tmp.status();              \
  lhs = std::move(tmp).value()
