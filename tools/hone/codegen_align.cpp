// See codegen_align.h.
#include "tools/hone/codegen_align.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace hone::cli {
namespace {

// The table of the alignment takes two bytes a cell.
constexpr size_t kMostCells = size_t{1} << 24;

// The width of a vector register is part of what an instruction does, which one it is is not.
std::string_view register_class(std::string_view name) {
  constexpr std::string_view kSizes[] = {"byte", "word", "dword", "qword", "xmmword", "ymmword", "zmmword", "ptr"};
  if (std::find(std::begin(kSizes), std::end(kSizes), name) != std::end(kSizes)) return name;
  constexpr std::string_view kClasses[] = {"xmm", "ymm", "zmm", "k", "v", "q", "d", "s"};
  const std::string_view stem = name.substr(0, name.find_first_of("0123456789"));
  if (stem.size() < name.size() && std::find(std::begin(kClasses), std::end(kClasses), stem) != std::end(kClasses))
    return stem;
  return "r";
}

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// What stands on either side between two pairs.
void add_different(size_t i, size_t end_i, size_t j, size_t end_j, std::vector<AlignedLine>& lines) {
  for (; i < end_i || j < end_j; ++i, ++j)
    lines.push_back({i < end_i ? static_cast<int>(i) : -1, j < end_j ? static_cast<int>(j) : -1, false});
}

}  // namespace

std::string instruction_shape(std::string_view text) {
  const size_t operands = std::min(text.find_first_of(" \t"), text.size());
  std::string shape(text.substr(0, operands));
  for (size_t at = operands; at < text.size();) {
    const char c = text[at];
    if (c == '[') {
      shape += "[]";
      at = std::min(text.find(']', at), text.size() - 1) + 1;
    } else if (in_word(c)) {
      size_t end = at;
      while (end < text.size() && in_word(text[end])) ++end;
      const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
      shape += number ? "#" : register_class(text.substr(at, end - at));
      at = end;
    } else {
      shape += c == '\t' ? ' ' : c;
      ++at;
    }
  }
  return shape;
}

std::vector<AlignedLine> align(std::span<const jit::Instruction> left, std::span<const jit::Instruction> right) {
  const size_t n = left.size(), m = right.size();
  std::vector<AlignedLine> lines;
  if ((n + 1) * (m + 1) > kMostCells) {
    add_different(0, n, 0, m, lines);
    return lines;
  }
  std::vector<std::string> a, b;
  for (const jit::Instruction& i : left) a.push_back(instruction_shape(i.text));
  for (const jit::Instruction& i : right) b.push_back(instruction_shape(i.text));
  // longest[i][j]: pairs that can be had of a[i..] and b[j..]
  std::vector<uint16_t> longest((n + 1) * (m + 1));
  const auto at = [&](size_t i, size_t j) -> uint16_t& { return longest[i * (m + 1) + j]; };
  for (size_t i = n; i-- > 0;)
    for (size_t j = m; j-- > 0;)
      at(i, j) = a[i] == b[j] ? static_cast<uint16_t>(at(i + 1, j + 1) + 1) : std::max(at(i + 1, j), at(i, j + 1));
  size_t i = 0, j = 0, from_i = 0, from_j = 0;  // from_: behind the last pair
  while (i < n && j < m) {
    if (a[i] == b[j]) {
      add_different(from_i, i, from_j, j, lines);
      lines.push_back({static_cast<int>(i++), static_cast<int>(j++), true});
      from_i = i, from_j = j;
    } else if (at(i + 1, j) >= at(i, j + 1)) {
      ++i;
    } else {
      ++j;
    }
  }
  add_different(from_i, n, from_j, m, lines);
  return lines;
}

}  // namespace hone::cli
