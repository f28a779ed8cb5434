// How each op is spelled in text: one list, indexed by the enumerator, for the printer and the parser.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "kernels/ir/ir.h"

namespace hone::ir {

inline constexpr std::array<std::string_view, 6> kBinaryNames = {"add", "sub", "mul", "div", "min", "max"};
inline constexpr std::string_view kPairsName = "pairs", kDotPairsName = "dot_pairs";
inline constexpr std::array<std::string_view, 9> kUnaryNames = {"move",     "neg",     "abs", "round", "to_int",
                                                                "to_float", "bitcast", "shl", "sqrt"};
inline constexpr std::array<std::string_view, 3> kCompareNames = {"lt", "le", "eq"};
inline constexpr std::array<std::string_view, 5> kPermuteNames = {"unpack_lo32", "unpack_hi32", "unpack_lo64",
                                                                  "unpack_hi64", "groups"};
inline constexpr std::array<std::string_view, 4> kScopeNames = {"in", "out", "inout", "workspace"};
inline constexpr std::array<std::string_view, 3> kLocalityNames = {"t0", "t1", "t2"};

// Words that begin a declaration or statement, or end an expression: never a name.
inline constexpr std::array<std::string_view, 17> kReserved = {
    "kernel", "param", "in", "out",        "inout", "workspace", "reg",  "parallel", "for",
    "unroll", "let",   "if", "specialise", "else",  "store",     "step", "prefetch"};

// Index of `name` in `list`, or -1.
template <size_t N>
constexpr int spelled(const std::array<std::string_view, N>& list, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (list[i] == name) return static_cast<int>(i);
  return -1;
}

constexpr bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// May `name` name a kernel, variable, buffer or register?
constexpr bool is_name(std::string_view name) {
  if (name.empty() || !is_name_start(name.front()) || spelled(kReserved, name) >= 0) return false;
  for (char c : name)
    if (!is_name_start(c) && !is_digit(c)) return false;
  return true;
}

// Blocks nest at most this deep; parentheses too. Bounds recursion on text from outside.
inline constexpr int kMaxDepth = 64;

}  // namespace hone::ir
