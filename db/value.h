// One value of a row, of any kind that SQLite knows.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>

namespace hone::db {

struct Blob {
  std::string bytes;
  auto operator<=>(const Blob&) const = default;
};
// monostate: NULL. In the order in which SQLite sorts values of different kinds.
using Value = std::variant<std::monostate, int64_t, double, std::string, Blob>;

}  // namespace hone::db
