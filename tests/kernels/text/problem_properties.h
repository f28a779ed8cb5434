// What the texts of every op's problems must do: come back as they were, never crash a parser, and be refused with a
// line that says what is wrong and where. `parse` is an op's parse_problem.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <string>
#include <string_view>

#include "kernels/text/problem_text.h"

namespace hone::text {

// `random_problem(std::mt19937&)` gives a valid problem.
template <typename RandomProblem, typename Parse>
void expect_round_trips(const RandomProblem& random_problem, const Parse& parse) {
  std::mt19937 random(11);
  for (int i = 0; i < 5000; ++i) {
    const auto p = random_problem(random);
    ASSERT_TRUE(validate(p).ok()) << validate(p).to_string();
    const std::string text = to_string(p);
    const auto back = parse(text);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    ASSERT_EQ(*back, canonical(p)) << text;
    ASSERT_EQ(to_string(*back), text);
    ASSERT_EQ(canonical(canonical(p)), canonical(p)) << text;
  }
}

// `text` with 1 to 4 characters replaced, inserted (of `alphabet`) or erased.
inline std::string mutated(std::string text, std::string_view alphabet, std::mt19937& random) {
  for (int edits = static_cast<int>(random() % 4) + 1; edits > 0 && !text.empty(); --edits) {
    const size_t at = random() % text.size();
    const char c = alphabet[random() % alphabet.size()];
    switch (random() % 3) {
      case 0:
        text[at] = c;
        break;
      case 1:
        text.insert(at, 1, c);
        break;
      default:
        text.erase(at, 1 + random() % 3);
    }
  }
  return text;
}

// Mutated strings either parse to something that round-trips, or fail with one printable line.
template <typename RandomProblem, typename Parse, typename ParseLists>
void expect_answers_in_one_line(int count, std::string_view alphabet, const RandomProblem& random_problem,
                                const Parse& parse, const ParseLists& parse_lists) {
  std::mt19937 random(13);
  for (int i = 0; i < count; ++i) {
    const std::string text = mutated(to_string(random_problem(random)), alphabet, random);
    const auto p = parse(text);
    if (p.ok()) {
      ASSERT_TRUE(validate(*p).ok()) << text;
      ASSERT_EQ(*parse(to_string(*p)), *p) << text;
      continue;
    }
    for (unsigned char byte : p.status().message()) ASSERT_TRUE(byte >= 0x20 && byte < 0x7f) << text;
    (void)caret_display(text, p.status());
    (void)parse_lists(text);
  }
}

struct Bad {
  std::string text;
  std::string what;
  int column;  // 0: names none
  Code code = Code::kInvalidArgument;
};

template <typename Parse>
void expect_refused(std::span<const Bad> cases, std::string_view grammar, const Parse& parse) {
  for (const Bad& bad : cases) {
    const auto p = parse(bad.text);
    ASSERT_FALSE(p.ok()) << bad.text;
    const std::string& message = p.status().message();
    EXPECT_EQ(p.status().code(), bad.code) << message;
    EXPECT_THAT(message, testing::HasSubstr(bad.what));
    EXPECT_THAT(message, testing::HasSubstr(std::string(grammar)));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    if (bad.column > 0) {
      EXPECT_THAT(message, testing::HasSubstr(" at column " + std::to_string(bad.column) + ";")) << bad.text;
    } else {
      EXPECT_EQ(message.find(" at column "), std::string::npos) << message;
    }
  }
}

}  // namespace hone::text
