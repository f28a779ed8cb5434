// The version of this build: HONE_VERSION comes from project(VERSION) in the top CMakeLists.txt, and from nowhere else.
#pragma once

#include <string_view>

namespace hone {

constexpr std::string_view version() { return HONE_VERSION; }

}  // namespace hone
