// Synthetic models on disk, in every format, and comparisons of what was read.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/half.h"
#include "engine/model/files/model_file.h"
#include "tools/synthetic/model.h"

namespace hone::model {

inline std::string written(const std::function<Status(const synthetic::Sink&)>& write) {
  std::string bytes;
  const Status status = write([&](std::string_view piece) {
    bytes += piece;
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return bytes;
}

inline std::string gguf_of(const synthetic::SyntheticModel& m) {
  return written([&](const synthetic::Sink& sink) { return write_gguf(m, sink); });
}

// A folder that is gone when the test is over.
class ModelFolder : public ::testing::Test {
 protected:
  ModelFolder() {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::to_string(getpid()) + "_" + test.test_suite_name() + "_" + test.name();
    std::ranges::replace(name, '/', '_');
    folder_ = std::filesystem::path(::testing::TempDir()) / ("hone_" + name);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ModelFolder() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  // The folder itself.
  std::string put_checkpoint(const synthetic::SyntheticModel& m, const std::string& name, int shards = 1) const {
    put(name + "/config.json", hugging_face_config(m));
    if (shards > 1) put(name + "/model.safetensors.index.json", safetensors_index(m, shards));
    for (int i = 0; i < shards; ++i)
      put(name + "/" + synthetic::safetensors_name(i, shards),
          written([&](const synthetic::Sink& sink) { return write_safetensors(m, i, shards, sink); }));
    return file(name);
  }

  std::filesystem::path folder_;
};

inline bool same(const Weight& a, const Weight& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.data.size() == b.data.size() &&
         (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0);
}

// The elements in f32, whatever they are stored in.
inline std::vector<float> values(const Weight& w) {
  std::vector<float> all;
  const auto bytes = static_cast<size_t>(dtype_bytes(w.dtype));
  for (size_t at = 0; at < w.data.size(); at += bytes) {
    uint32_t bits = 0;
    std::memcpy(&bits, w.data.data() + at, bytes);
    const auto half = static_cast<uint16_t>(bits);
    all.push_back(w.dtype == DType::kF32    ? std::bit_cast<float>(bits)
                  : w.dtype == DType::kBf16 ? bf16_to_f32(half)
                                            : f16_to_f32(half));
  }
  return all;
}

}  // namespace hone::model
