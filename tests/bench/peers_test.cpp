// Every peer that is built computes what a naive loop computes: both layouts, one row and many, strides larger than
// rows with NaN in the gaps and in C, one thread and two, and all of them loaded into one process at once (OpenBLAS and
// BLIS define the same symbols).
#include "bench/peers/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/bench/peers_testing.h"

namespace hone {
namespace {

using testing::HasSubstr;

std::vector<float> matrix(int64_t rows, int64_t cols, int64_t stride, int64_t salt) {
  std::vector<float> all(static_cast<size_t>(rows * stride + 1), kNan);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) all[static_cast<size_t>(i * stride + j)] = value(i, j, salt);
  return all;
}

std::string text(const HonePeerProblem& p) {
  return "m=" + std::to_string(p.m) + " n=" + std::to_string(p.n) + " k=" + std::to_string(p.k) +
         " lda=" + std::to_string(p.lda) + " ldb=" + std::to_string(p.ldb) + " ldc=" + std::to_string(p.ldc) +
         (p.b_transposed ? " nt" : " nn") + (p.b_constant ? " constant" : "") + " threads=" + std::to_string(p.threads);
}

// Every element of C against a sum in double; what lies between its rows must be as it was.
void expect_right(const HonePeerProblem& p, const std::vector<float>& a, const std::vector<float>& b,
                  const std::vector<float>& c) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.ldc; ++j) {
      const float got = c[static_cast<size_t>(i * p.ldc + j)];
      if (j >= p.n) {
        ASSERT_TRUE(std::isnan(got)) << "wrote into the gap at " << i << ", " << j;
        continue;
      }
      double want = 0;
      for (int64_t q = 0; q < p.k; ++q)
        want += static_cast<double>(a[static_cast<size_t>(i * p.lda + q)]) *
                b[static_cast<size_t>(p.b_transposed ? j * p.ldb + q : q * p.ldb + j)];
      // Any order of k additions of terms below 1 stays within k * k * 2^-24; one of them wrong is off by about 1/3.
      const double most = static_cast<double>(p.k * (p.k + 1)) * std::ldexp(1.0, -24);
      ASSERT_LE(std::abs(got - want), std::min(most, 0.01)) << "at " << i << ", " << j;
    }
  }
}

void check(const HonePeer& peer, const HonePeerProblem& p) {
  SCOPED_TRACE(std::string(peer.name) + ": " + text(p));
  const std::vector<float> a = matrix(p.m, p.k, p.lda, 1);
  const std::vector<float> b = p.b_transposed ? matrix(p.n, p.k, p.ldb, 2) : matrix(p.k, p.n, p.ldb, 2);
  std::vector<float> c(static_cast<size_t>(p.m * p.ldc + 1), kNan);
  char error[256] = "";
  void* handle = peer.prepare(&p, p.b_constant ? b.data() : nullptr, error, sizeof error);
  ASSERT_NE(handle, nullptr) << error;
  EXPECT_THAT(peer.setting(handle), testing::ContainsRegex(".+, [12] threads?$"));
  size_t bytes = 1;
  const void* packed = peer.packed(handle, &bytes);
  EXPECT_EQ(packed == nullptr, bytes == 0);
  if (packed != nullptr) {
    EXPECT_GE(bytes, static_cast<size_t>(p.n * p.k) * sizeof(float));
  }
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(peer.run(handle, a.data(), b.data(), c.data()), 0);
    expect_right(p, a, b, c);
  }
  peer.release(handle);
}

HonePeerProblem dense(int64_t m, int64_t n, int64_t k, int nt, int constant, int threads) {
  return {m, n, k, k, nt ? k : n, n, nt, constant, threads};
}

class Peers : public PeerTest {};

TEST_P(Peers, SaysWhatItIs) {
  EXPECT_EQ(peer_->abi, HONE_PEER_ABI);
  EXPECT_STREQ(peer_->name, GetParam());
  EXPECT_THAT(peer_->describe(), testing::ContainsRegex("[0-9]+\\.[0-9]+"));
  EXPECT_EQ(peer_->describe(), peer_->describe());
  RecordProperty("describe", peer_->describe());
}

TEST_P(Peers, ComputesWhatALoopDoes) {
  struct {
    int64_t m, n, k;
  } shapes[] = {{1, 1, 1}, {1, 65, 33}, {5, 7, 3}, {50, 130, 300}, {3, 128, 600}};
  for (const auto& s : shapes)
    for (const int nt : {0, 1})
      for (const int constant : {0, 1})
        for (const int threads : {1, 2}) check(*peer_, dense(s.m, s.n, s.k, nt, constant, threads));
}

TEST_P(Peers, ReadsAndWritesNothingBetweenRows) {
  for (const int nt : {0, 1})
    for (const int constant : {0, 1})
      for (const int64_t m : {1, 17}) {
        HonePeerProblem p = dense(m, 70, 40, nt, constant, 2);
        p.lda += 5, p.ldb += 3, p.ldc += 9;
        check(*peer_, p);
      }
}

TEST_P(Peers, ThreadsMayChangeFromCallToCall) {
  for (const int threads : {2, 1, 2}) check(*peer_, dense(64, 96, 80, 1, 1, threads));
}

TEST_P(Peers, EmptyProblems) {
  char error[64] = "";
  for (const HonePeerProblem& p : {dense(0, 4, 4, 1, 1, 1), dense(4, 0, 4, 0, 1, 1), dense(2, 3, 0, 1, 1, 1)}) {
    SCOPED_TRACE(text(p));
    const float a[16] = {}, b[16] = {};
    float c[6] = {kNan, kNan, kNan, kNan, kNan, kNan};
    void* handle = peer_->prepare(&p, b, error, sizeof error);
    ASSERT_NE(handle, nullptr) << error;
    EXPECT_EQ(peer_->run(handle, a, b, c), 0);
    for (const float x : c) {
      EXPECT_TRUE(p.k == 0 ? x == 0 : std::isnan(x)) << x;
    }
    peer_->release(handle);
  }
}

TEST_P(Peers, RefusesBadArgumentsWithAReason) {
  const float b[16] = {};
  auto why = [&](const HonePeerProblem& p, const float* weights) {
    char error[128] = "";
    EXPECT_EQ(peer_->prepare(&p, weights, error, sizeof error), nullptr);
    return std::string(error);
  };
  EXPECT_THAT(why(dense(-1, 4, 4, 0, 1, 1), b), HasSubstr("negative"));
  HonePeerProblem p = dense(4, 4, 4, 0, 1, 1);
  p.lda = 3;
  EXPECT_THAT(why(p, b), HasSubstr("lda"));
  EXPECT_THAT(why(dense(4, 4, int64_t{1} << 40, 1, 1, 1), b), HasSubstr("too large"));
  EXPECT_THAT(why(dense(4, 4, 4, 0, 1, 0), b), HasSubstr("threads"));
  EXPECT_THAT(why(dense(4, 4, 4, 0, 1, 1), nullptr), HasSubstr("constant B"));
  p = dense(4, 4, 4, 0, 1, 1);
  EXPECT_EQ(peer_->prepare(&p, nullptr, nullptr, 0), nullptr);
  void* handle = peer_->prepare(&p, b, nullptr, 0);
  ASSERT_NE(handle, nullptr);
  EXPECT_NE(peer_->run(handle, nullptr, b, nullptr), 0);
  peer_->release(handle);
}

TEST_P(Peers, MoreMemoryThanThereIsGivesAReason) {
  const HonePeerProblem p = dense(int64_t{1} << 24, 1, int64_t{1} << 20, 1, 0, 2);  // A alone has 64 TiB
  char error[128] = "";
  EXPECT_EQ(peer_->prepare(&p, nullptr, error, sizeof error), nullptr);
  EXPECT_THAT(error, HasSubstr("no memory"));
}

INSTANTIATE_TEST_SUITE_P(Built, Peers, testing::ValuesIn(kPeerNames),
                         [](const auto& i) { return std::string(i.param); });

TEST(PeersTogether, EachKeepsItsOwnLibrary) {
  std::vector<const HonePeer*> all;
  for (const char* name : kPeerNames)
    if (is_built(name)) all.push_back(load_peer(name));
  if (all.size() < 2) GTEST_SKIP() << "fewer than two peers are built";
  for (const HonePeer* peer : all) {
    ASSERT_NE(peer, nullptr);
    check(*peer, dense(33, 65, 70, 1, 1, 2));
    check(*peer, dense(1, 65, 70, 0, 0, 1));
  }
  // The libraries name themselves from the inside: a symbol that bound to the other one would show here.
  for (const HonePeer* peer : all) {
    const std::string name = peer->name;
    const std::string itself = name == "openblas" ? "OpenBLAS" : name == "blis" ? "BLIS" : "";
    EXPECT_THAT(peer->describe(), HasSubstr(itself));
  }
}

}  // namespace
}  // namespace hone
