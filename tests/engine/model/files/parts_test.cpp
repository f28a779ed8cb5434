// A model in several GGUF files is the model in one; parts that do not belong together are told.
#include <gmock/gmock.h>

#include "engine/model/files/formats_internal.h"
#include "tests/engine/model/files/files_testing.h"
#include "tools/synthetic/gguf_writer.h"

namespace hone::model {
namespace {

using synthetic::GgufWriter;
using ::testing::HasSubstr;

struct Split {
  int number = 0, count = 3, total = 0;
};

class ModelFilesParts : public ModelFolder {
 protected:
  ModelFilesParts() : whole_(gguf_of(model())), file_(GgufFile::parse(std::as_bytes(std::span(whole_))).value()) {
    for (const Weight& w : file_.tensors()) tensors_.push_back(&w);
  }

  static synthetic::SyntheticModel model() {
    synthetic::SyntheticModel m = *synthetic::synthetic_model("tiny");
    m.config.tied_embeddings = true;
    return m;
  }

  // The tensors [from, to) of the whole.
  std::string part(
      const Split& split, size_t from, size_t to, uint64_t alignment = 32,
      const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) const {
    GgufWriter w(3, alignment);
    more(w);
    if (split.number == 0) {
      const DecoderConfig c = model().config;
      w.text("general.architecture", "llama");
      w.u32("llama.block_count", static_cast<uint32_t>(c.layers));
      w.u32("llama.context_length", static_cast<uint32_t>(c.context));
      w.u32("llama.embedding_length", static_cast<uint32_t>(c.width));
      w.u32("llama.feed_forward_length", static_cast<uint32_t>(c.ff));
      w.u32("llama.attention.head_count", static_cast<uint32_t>(c.heads));
      w.u32("llama.attention.head_count_kv", static_cast<uint32_t>(c.kv_heads));
      w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
      w.text("tokenizer.ggml.model", "llama");
      w.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
    }
    if (alignment != 32) w.u32("general.alignment", static_cast<uint32_t>(alignment));
    if (split.count > 0) {
      w.u16("split.no", static_cast<uint16_t>(split.number));
      w.u16("split.count", static_cast<uint16_t>(split.count));
      w.u32("split.tensors.count", static_cast<uint32_t>(split.total));
    }
    for (size_t i = from; i < to; ++i) w.tensor(tensors_[i]->name, tensors_[i]->shape, tensors_[i]->dtype);
    std::string bytes = w.header();
    for (size_t i = from; i < to; ++i) {
      const std::span<const std::byte> data = tensors_[i]->data;
      bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
      bytes += GgufWriter::padding(data.size(), alignment);
    }
    return bytes;
  }
  std::string put_part(const Split& split, size_t from, size_t to) const {
    return put("m-0000" + std::to_string(split.number + 1) + "-of-0000" + std::to_string(split.count) + ".gguf",
               part(split, from, to));
  }
  int total() const { return static_cast<int>(tensors_.size()); }
  // The path of the first.
  std::string put_three(size_t first, size_t second) const {
    put_part({1, 3, total()}, first, second);
    put_part({2, 3, total()}, second, tensors_.size());
    return put_part({0, 3, total()}, 0, first);
  }
  void expect_refused(const std::string& path, Code code, const std::string& what) const {
    const Result<ModelFile> model = open_model(path);
    ASSERT_FALSE(model.ok()) << what;
    EXPECT_THAT(model.status().message(), ::testing::StartsWith(path + ": "));
    EXPECT_THAT(model.status().message(), HasSubstr(what));
    EXPECT_THAT(model.status().message(), ::testing::Not(HasSubstr("\n")));
    EXPECT_EQ(model.status().code(), code) << model.status().message();
  }

  const std::string whole_;
  GgufFile file_;
  std::vector<const Weight*> tensors_;
};

TEST_F(ModelFilesParts, AreOneModel) {
  const Result<ModelFile> whole = open_model(put("whole.gguf", whole_));
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  for (const size_t first : {size_t{5}, size_t{0}}) {
    const Result<ModelFile> model = open_model(put_three(first, 9));
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_EQ(model->weight_bytes, whole->weight_bytes);
    EXPECT_TRUE(same(model->weights.embedding, whole->weights.embedding));
    EXPECT_TRUE(same(model->weights.layers[1].down, whole->weights.layers[1].down));
    EXPECT_TRUE(model->vocabulary.has_value());
    EXPECT_EQ(open_vocabulary(file("m-00001-of-00003.gguf"))->tokens.size(), 4u);
  }
}

TEST_F(ModelFilesParts, IdentityIsThatOfAll) {
  const std::string path = put_three(5, 9);
  const std::string identity = open_model(path)->identity;
  EXPECT_EQ(open_model(path)->identity, identity);
  put_part({2, 3, total()}, 9, tensors_.size());
  EXPECT_NE(open_model(path)->identity, identity) << "the last one was written anew";
}

TEST_F(ModelFilesParts, AnotherThanTheFirstNamesIt) {
  put_three(5, 9);
  expect_refused(file("m-00002-of-00003.gguf"), Code::kInvalidArgument,
                 "part 2 of 3 of a model; open the first one, m-00001-of-00003.gguf");
  expect_refused(put("other.gguf", part({2, 3, total()}, 9, 10)), Code::kInvalidArgument, "open the first one");
  EXPECT_THAT(open_vocabulary(file("m-00002-of-00003.gguf")).status().message(),
              HasSubstr("part 2 of 3 of a model has no tokenizer, name the first one"));
  std::filesystem::rename(file("m-00001-of-00003.gguf"), file("first.gguf"));
  expect_refused(file("first.gguf"), Code::kInvalidArgument, "a name that ends in -00001-of-00003.gguf");
}

TEST_F(ModelFilesParts, ThatAreMissingOrMixedUp) {
  const std::string path = put_three(5, 9);
  std::filesystem::remove(file("m-00002-of-00003.gguf"));
  expect_refused(path, Code::kNotFound,
                 "m-00002-of-00003.gguf: part 2 of 3 is missing; all parts must lie in one folder");
  std::filesystem::create_directory(file("m-00002-of-00003.gguf"));
  expect_refused(path, Code::kInvalidArgument, "m-00002-of-00003.gguf: not a regular file");
  std::filesystem::remove(file("m-00002-of-00003.gguf"));
  put("m-00002-of-00003.gguf", part({2, 3, total()}, 9, tensors_.size()));
  expect_refused(path, Code::kDataLoss, "m-00002-of-00003.gguf: it is part 3 of 3, by its name part 2 of 3");
  put("m-00002-of-00003.gguf", part({1, 2, total()}, 5, 9));
  expect_refused(path, Code::kDataLoss, "m-00002-of-00003.gguf: it is part 2 of 2, by its name part 2 of 3");
  put("m-00002-of-00003.gguf", part({0, 0, 0}, 5, 9));
  expect_refused(path, Code::kDataLoss, "m-00002-of-00003.gguf: it is part 1 of 1");
  put_part({1, 3, total() + 1}, 5, 9);
  expect_refused(path, Code::kDataLoss, "it belongs to a model of 21 tensors, the first part to one of 20");
  put_part({1, 3, total()}, 4, 9);
  expect_refused(path, Code::kDataLoss, "m-00002-of-00003.gguf: tensor \"" + tensors_[4]->name + "\" is in part 1 too");
  put_part({1, 3, total()}, 6, 9);
  expect_refused(path, Code::kDataLoss, "19 tensors in 3 parts, metadata \"split.tensors.count\" is 20");
  put("m-00002-of-00003.gguf", "GGUF");
  expect_refused(path, Code::kDataLoss, "m-00002-of-00003.gguf: the file ends in the header");
}

TEST_F(ModelFilesParts, NumbersThatCannotBe) {
  const auto refused = [&](const std::function<void(GgufWriter&)>& fill, const std::string& what) {
    GgufWriter w;
    fill(w);
    expect_refused(put("m-00001-of-00003.gguf", w.header()), Code::kDataLoss, what);
  };
  refused([](GgufWriter& w) { w.u32("split.count", 65536); }, "\"split.count\" is 65536, it must be 0 to 65535");
  refused([](GgufWriter& w) { w.u32("split.count", 3); }, "\"split.no\" is missing");
  refused([](GgufWriter& w) { w.u32("split.count", 3), w.u32("split.no", 3); }, "\"split.no\" is 3, of 3 parts");
  refused([](GgufWriter& w) { w.u32("split.count", 3), w.u32("split.no", 0); }, "\"split.tensors.count\" is missing");
  // A model that is not split may say so.
  const Result<ModelFile> one = open_model(put("one.gguf", part({0, 1, total()}, 0, tensors_.size())));
  EXPECT_TRUE(one.ok()) << one.status().to_string();
}

// Alignments of each part are its own.
TEST_F(ModelFilesParts, AnotherAlignment) {
  const Result<ModelFile> whole = open_model(put("whole.gguf", whole_));
  for (const uint64_t alignment : {8, 64, 4096}) {
    put("m-00002-of-00002.gguf", part({1, 2, total()}, 9, tensors_.size(), alignment));
    const Result<ModelFile> model = open_model(put_part({0, 2, total()}, 0, 9));
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_TRUE(same(model->weights.layers[1].down, whole->weights.layers[1].down)) << alignment;
  }
}

// ---- windows that differ between layers, as keys of a file say it ----

class ModelFilesWindows : public ModelFilesParts {
 protected:
  Result<ModelFile> with(const std::function<void(GgufWriter&)>& more) const {
    return open_model(put("m.gguf", part({0, 0, 0}, 0, tensors_.size(), 32, more)));
  }
  static constexpr const char* kPattern = "llama.attention.sliding_window_pattern";
  static void window(GgufWriter& w) { w.u32("llama.attention.sliding_window", 7); }
};

TEST_F(ModelFilesWindows, ByTruthValuesOrByAPeriod) {
  const auto windows = [&](const std::function<void(GgufWriter&)>& more) {
    const Result<ModelFile> model = with(more);
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return std::pair(window_of(model->config, 0), window_of(model->config, 1));
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(windows([](GgufWriter& w) { window(w); }), Pair(7, 7));
  EXPECT_EQ(windows([](GgufWriter& w) { window(w), w.flags(kPattern, {false, true}); }), Pair(0, 7));
  EXPECT_EQ(windows([](GgufWriter& w) { window(w), w.i32s(kPattern, {1, 0}); }), Pair(7, 0));
  EXPECT_EQ(windows([](GgufWriter& w) { window(w), w.u32(kPattern, 2); }), Pair(7, 0)) << "each second sees all";
  EXPECT_EQ(windows([](GgufWriter& w) { window(w), w.u32(kPattern, 0); }), Pair(7, 7));
  EXPECT_EQ(windows([](GgufWriter& w) { window(w), w.u32(kPattern, 1); }), Pair(0, 0));
  EXPECT_EQ(windows([](GgufWriter& w) { w.flags(kPattern, {false, true}); }), Pair(0, 0)) << "no window at all";
}

TEST_F(ModelFilesWindows, Refusals) {
  const auto refused = [&](const std::function<void(GgufWriter&)>& more, const char* what) {
    const Result<ModelFile> model = with([&](GgufWriter& w) { window(w), more(w); });
    ASSERT_FALSE(model.ok()) << what;
    EXPECT_THAT(model.status().message(), HasSubstr(what));
  };
  refused([](GgufWriter& w) { w.flags(kPattern, {true}); }, "is of 1 layers, there are 2");
  refused([](GgufWriter& w) { w.f32s(kPattern, {1, 0}); }, "is not an array of truth values");
  refused([](GgufWriter& w) { w.f32(kPattern, 2); }, "is not an integer");
}

}  // namespace
}  // namespace hone::model
