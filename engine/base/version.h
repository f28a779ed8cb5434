// The version of this build: HONE_VERSION comes from project(VERSION) in the top CMakeLists.txt, and from nowhere else.
#pragma once

#include <string_view>

namespace hone {

constexpr std::string_view version() { return HONE_VERSION; }
// How this build is named to people and in the database ("hone 0.1.0"). Plans are exact only where it matches.
constexpr std::string_view engine_label() { return "hone " HONE_VERSION; }

}  // namespace hone
