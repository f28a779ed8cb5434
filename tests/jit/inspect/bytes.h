// Machine code in tests: bytes that an assembler made when the test was written, with the assembly beside them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "jit/inspect/facts.h"

namespace hone::jit {

// An instruction. Labels are part of the assembly: "top: dec rcx".
struct Line {
  std::string_view bytes, assembly;
};

// From hexadecimal digits; everything else in the text is ignored.
inline void append_hex(std::string_view text, std::vector<std::byte>& bytes) {
  int digits = 0, value = 0;
  for (char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) continue;
    value = (value % 16) * 16 + digit;
    if (++digits % 2 == 0) bytes.push_back(static_cast<std::byte>(value));
  }
}

inline std::vector<std::byte> bytes_of(std::span<const Line> lines) {
  std::vector<std::byte> bytes;
  for (const Line& line : lines) append_hex(line.bytes, bytes);
  return bytes;
}

// Is it a build that can read machine code at all?
inline bool can_inspect() { return inspect({}, Isa::kAvx2).ok(); }

// The facts, when every line was decoded as one instruction of its size.
inline CodeFacts facts_of(std::span<const Line> lines, Isa isa = Isa::kAvx512) {
  const Result<CodeFacts> facts = inspect(bytes_of(lines), isa);
  EXPECT_TRUE(facts.ok()) << facts.status().to_string();
  EXPECT_EQ(facts->instructions.size(), lines.size());
  for (size_t i = 0, offset = 0; i < std::min(lines.size(), facts->instructions.size()); ++i) {
    EXPECT_EQ(facts->instructions[i].offset, offset) << lines[i].assembly;
    offset += static_cast<size_t>(facts->instructions[i].size);
  }
  return *facts;
}

#define HONE_NEEDS_INSPECT() \
  if (!can_inspect()) GTEST_SKIP() << inspect({}, Isa::kAvx2).status().to_string()

}  // namespace hone::jit
