// The choice of gc apart from its doing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "db/gc.h"

namespace hone::db {

// Index into `decisions`, and why it goes. worth[i] is of decisions[i]. Pure.
std::vector<std::pair<size_t, std::string>> choose_decisions(const std::vector<StoredDecision>& decisions,
                                                             const std::vector<Worth>& worth, const GcOptions& options);

}  // namespace hone::db
