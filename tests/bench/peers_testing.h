// What tests of peers share: loading one as `hone bench` does, values.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "bench/peers/peer.h"

namespace hone {

inline constexpr const char* kPeerNames[] = {"openblas", "blis", "onednn", "eigen", "libxsmm"};
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline std::string file_of(const std::string& name) {
  return std::string(HONE_PEER_DIR "/libhone_peer_") + name + ".so";
}
inline bool is_built(const std::string& name) { return access(file_of(name).c_str(), F_OK) == 0; }

// Null when it cannot be loaded, which fails the test.
inline const HonePeer* load_peer(const std::string& name) {
  for (const char* variable : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"})
    unsetenv(variable);
  void* library = dlopen(file_of(name).c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: some do not survive it
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  auto* entry = reinterpret_cast<const HonePeer* (*)()>(dlsym(library, "hone_peer"));
  if (entry == nullptr) ADD_FAILURE() << dlerror();
  return entry == nullptr ? nullptr : entry();
}

// A value in [-1, 1) that depends on its place alone.
inline float value(int64_t i, int64_t j, int64_t salt) {
  const uint64_t x = static_cast<uint64_t>(i * 1000003 + j * 8191 + salt) * 0x9e3779b97f4a7c15U;
  return static_cast<float>(static_cast<double>(x >> 40) / (1 << 23) - 1);
}

// A test per peer, skipped where it is not built.
class PeerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!is_built(GetParam())) GTEST_SKIP() << "peer " << GetParam() << " is not built: its -dev package was not found";
    peer_ = load_peer(GetParam());
    ASSERT_NE(peer_, nullptr);
  }
  const HonePeer* peer_ = nullptr;
};

}  // namespace hone
