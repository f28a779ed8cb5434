// What the peers have of attention computes what a naive loop computes: prefill and decode, shared KV heads, causal and
// not, heads one after another and side by side, NaN in every gap and in O, and on one thread and two.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bench/peers/peer.h"
#include "tests/bench/attention_testing.h"

namespace hone {
namespace {

using testing::HasSubstr;

void check(const HonePeer& peer, const HonePeerAttention& p) {
  SCOPED_TRACE(std::string(peer.name) + ": " + text(p));
  char error[256] = "";
  void* handle = peer.prepare_attention(&p, error, sizeof error);
  ASSERT_NE(handle, nullptr) << error;
  EXPECT_THAT(peer.setting(handle), testing::ContainsRegex(".+, [12] threads?$"));
  expect_right(p, [&](const float* q, const float* k, const float* v, float* o) {
    return peer.run_attention(handle, q, k, v, o);
  });
  peer.wake(handle);
  EXPECT_EQ(peer.packed(handle, nullptr), nullptr);
  peer.release(handle);
}

class AttentionPeers : public PeerTest {
 protected:
  void SetUp() override {
    PeerTest::SetUp();
    if (peer_ != nullptr && peer_->prepare_attention == nullptr)
      GTEST_SKIP() << "peer " << GetParam() << " has no attention";
  }
};

TEST_P(AttentionPeers, ComputeWhatALoopDoes) {
  for (const HonePeerAttention& p : attention_problems()) check(*peer_, p);
}

TEST_P(AttentionPeers, RefuseBadArgumentsWithAReason) {
  auto why = [&](const HonePeerAttention& p) {
    char error[128] = "";
    EXPECT_EQ(peer_->prepare_attention(&p, error, sizeof error), nullptr);
    return std::string(error);
  };
  const HonePeerAttention good = problem(1, 4, 2, 3, 8, 4, 4);
  HonePeerAttention p = good;
  p.kv = 0;
  EXPECT_THAT(why(p), HasSubstr("at least 1"));
  p = good, p.kv_heads = 3;
  EXPECT_THAT(why(p), HasSubstr("multiple of kv_heads"));
  p = good, p.causal = 1, p.kv = 2;
  EXPECT_THAT(why(p), HasSubstr("as many keys as queries"));
  p = good, p.k_stride.row = 3;
  EXPECT_THAT(why(p), HasSubstr("Q or K"));
  p = good, p.o_stride.row = 3;
  EXPECT_THAT(why(p), HasSubstr("V or O"));
  p = good, p.v_stride.head = -4;
  EXPECT_THAT(why(p), HasSubstr("negative"));
  p = good, p.scale = kNan;
  EXPECT_THAT(why(p), HasSubstr("scale"));
  p = good, p.threads = 0;
  EXPECT_THAT(why(p), HasSubstr("threads"));
  p = problem(1, 1, 1, int64_t{1} << 24, int64_t{1} << 24, 1 << 20, 1);  // Q alone has 64 TiB
  EXPECT_THAT(why(p), HasSubstr("no memory"));
  EXPECT_EQ(peer_->prepare_attention(nullptr, nullptr, 0), nullptr);
  void* handle = peer_->prepare_attention(&good, nullptr, 0);
  ASSERT_NE(handle, nullptr);
  const float x[64] = {};
  EXPECT_NE(peer_->run_attention(handle, x, x, x, nullptr), 0);
  EXPECT_NE(peer_->run_attention(nullptr, x, x, x, nullptr), 0);
  peer_->release(handle);
}

INSTANTIATE_TEST_SUITE_P(Built, AttentionPeers, testing::ValuesIn(kPeerNames),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace hone
