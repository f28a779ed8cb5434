// Is the verifier right? Kernels with random mistakes are judged twice: by verify(), symbolically, and here by running
// every loop for real and checking every access as it happens. Whatever verify() accepts must run clean for all
// parameters tried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/ir/checked_run.h"
#include "kernels/ir/random.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"
#include "tests/kernels/ir/sample_kernels.h"

namespace hone::ir {
namespace {

int64_t some_row(BufferId, int64_t index, int64_t below) { return (index * 7 + 3) % below; }

// Changes one number after the declarations by a little, or swaps two words.
std::string mutate(std::string text, std::mt19937& random) {
  std::vector<size_t> numbers;
  for (size_t i = text.find("parallel"); i < text.size(); ++i)
    if (isdigit(text[i]) && !isalnum(text[i - 1]) && text[i - 1] != '_') numbers.push_back(i);
  const size_t at = numbers[random() % numbers.size()];
  size_t end = at;
  while (isdigit(text[end])) ++end;
  const int64_t was = std::stoll(text.substr(at, end - at));
  const int64_t deltas[] = {-16, -4, -2, -1, 1, 1, 2, 4, 16};
  return text.replace(at, end - at, std::to_string(std::max<int64_t>(0, was + deltas[random() % 9])));
}

struct Verdicts {
  int accepted = 0, refused_rightly = 0, refused_warily = 0;
};

Verdicts judge(const std::vector<std::string>& sources, const std::vector<std::vector<int64_t>>& params, int rounds,
               uint32_t seed) {
  std::mt19937 random(seed);
  Verdicts out;
  for (int round = 0; round < rounds; ++round) {
    std::string text = sources[random() % sources.size()];
    for (size_t edits = 1 + random() % 2; edits-- > 0;) text = mutate(text, random);
    const Result<Kernel> kernel = parse(text);
    if (!kernel.ok()) continue;
    const Status status = verify(*kernel);
    // Beyond structure there is a meaning to run.
    if (!status.ok() && status.message().find("cannot prove") == std::string::npos &&
        status.message().find("tasks that differ") == std::string::npos &&
        status.message().find("read before") == std::string::npos)
      continue;
    std::string wrong;
    for (const std::vector<int64_t>& p : params)
      if (wrong.empty()) wrong = check_run(*kernel, p, some_row).text;
    EXPECT_TRUE(!status.ok() || wrong.empty()) << "accepted, but " << wrong << "\n" << text;
    ++(status.ok() ? out.accepted : wrong.empty() ? out.refused_warily : out.refused_rightly);
  }
  return out;
}

TEST(IrVerifyProperty, WhatIsAcceptedRunsClean) {
  const std::vector<std::string> one = {kAxpyText, print(sample_matmul({})),
                                        print(sample_matmul({.k = 24, .kc = 8, .split_tail = true}))};
  const Verdicts v = judge(one, {{0}, {1}, {7}, {8}, {9}, {17}, {64}, {65}, {79}, {80}, {81}}, 700, 20261129);
  const Verdicts w = judge({print(sample_matmul({.n = 64, .batch = true, .split_tail = true}))},
                           {{0, 0, 0}, {5, 400, 900}, {9, 400, 900}}, 150, 7);
  // Rows that a table names, in blocks: the page table of attention in small.
  const std::string paged = R"(kernel paged {
  param n
  param pages
  in T: s32[12] stride [1] align 4
  in x: f32[pages, 16] stride [16, 1] align 4
  out y: f32[n] stride [1] align 4
  reg a: f32x4
  reg m: mask4
  parallel i in 0..n step 8 {
    let e = min(8, n - i)
    for j in 0..e step 4 {
      let block = (j) / 4
      let v = load T[block + 3] below pages
      let w = max(v - 1, 0)
      m = lanes(e - j)
      a = load x[v, 12]
      a = load x[w, 2*j] if m
      store y[i + j] = a if m
    }
  }
}
)";
  const Verdicts p = judge({paged}, {{0, 1}, {5, 2}, {8, 3}, {9, 1}, {16, 4}}, 300, 30);
  EXPECT_GT(p.accepted, 30);
  EXPECT_GT(p.refused_rightly, 30);
  std::cout << "accepted " << v.accepted + w.accepted << ", refused " << v.refused_rightly + w.refused_rightly
            << ", refused although it ran clean " << v.refused_warily + w.refused_warily << "\n";
  EXPECT_GT(v.accepted, 100);
  EXPECT_GT(v.refused_rightly, 150);
  // Not a promise, but a verifier that refuses what is right gets in the way.
  EXPECT_LT(v.refused_warily + w.refused_warily, (v.refused_rightly + w.refused_rightly) / 2);
}

// Kernels of random structure run clean for the parameters that they come with; those that verify() accepts, and that
// is most of them, for others too.
TEST(IrVerifyProperty, RandomKernelsRunClean) {
  int accepted = 0;
  constexpr int kKernels = 2000;
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    const RandomKernel random = random_kernel(seed, 16, seed % 2 == 1);
    std::vector<std::vector<int64_t>> runs = random.runs;
    const bool verified = verify(random.kernel).ok();
    accepted += verified ? 1 : 0;
    if (verified) runs.insert(runs.end(), {{0, 0, 0, 200}, {11, 50, 3, 200}, {2, 1, 70, 200}});
    for (const std::vector<int64_t>& params : runs) {
      const RunCheck check = check_run(random.kernel, params, some_row);
      ASSERT_NE(check.verdict, RunCheck::Verdict::kFault) << check.text << "\n" << print(random.kernel);
    }
  }
  EXPECT_GT(accepted, kKernels * 8 / 10);
  EXPECT_LT(accepted, kKernels);
}

}  // namespace
}  // namespace hone::ir
