// Running a model file: GGUF, safetensors (a folder) or llama2.c, of a Llama-like decoder.
//
//   auto engine = hone::Engine::create();
//   auto model = hone::Model::load(*engine, "stories260K.gguf");
//   auto sequence = model->sequence();
//   auto ids = model->tokenize("Once upon a time");
//   auto logits = sequence->prefill(*ids);                    of the last token
//   auto sampler = hone::Sampler::create();
//   hone::TextStream text = model->text_stream();
//   for (int i = 0; i < 64; ++i) {
//     const int32_t id = *sampler->sample(*logits);
//     if (model->ends_generation(id)) break;
//     std::cout << text.push(id);
//     logits = sequence->decode(id);
//   }
//
// The bits of logits depend on the file, the tokens of the sequence and ModelInfo::numerics alone: not on tuning,
// threads, code generators, or how the prompt is cut into calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/engine.hpp"
#include "hone/sampler.hpp"

namespace hone {

struct ModelOptions {
  std::string tokenizer = {};  // a file to take the tokenizer from instead: GGUF, tokenizer.json or tokenizer.bin
  int64_t context = 0;         // tokens of a sequence at most; 0: the model's, 4096 at most
  int64_t max_batch = 512;     // tokens that prefill puts into one call; lowered to the context
  // Packed weights are kept on disk, and found there by the next load.
  bool weight_cache = true;
  // Numbers of tokens of a call that matter most, the first most of all; lowered to max_batch. Empty: {1, max_batch}.
  std::vector<int64_t> expected_tokens = {};
  // Classes that matmuls with weights of bf16 may have, as MatmulSpec::numerics: "" or "default" and "ordered"; "bf16"
  // (activations are rounded to bf16; `unsupported` on a CPU without AVX512_BF16, invalid_argument where the model's
  // weights are of another type); "any" takes bf16 where it can be had. Attention and all else stay as they are.
  std::string numerics = {};
};

struct ModelInfo {
  std::string path, format, architecture, name;
  std::string weights;         // element type of most matrices: "f32", "bf16", "f16"
  std::string numerics;        // class of matmuls with these weights: "ordered", "bf16"
  int64_t parameters = 0;      // tied tables once
  int64_t weight_bytes = 0;    // in the file
  int64_t packed_bytes = 0;    // as matmuls read them
  int64_t sequence_bytes = 0;  // keys and values of one sequence, when it is full
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, ff = 0, vocabulary = 0;
  int64_t context = 0;        // of a sequence
  int64_t model_context = 0;  // that the model was made for
  int64_t max_batch = 0;
  bool tokenizer = false;     // there is one
  std::string chat_template;  // its name; "": none that is known
  // Plans of matmuls and attention for the expected numbers of tokens, each once however many layers share it, by where
  // they come from.
  struct Plans {
    int64_t exact = 0, near_shape = 0, near_machine = 0, package = 0, by_default = 0;
  } plans;
  struct Times {
    int64_t open_ns = 0, tokenizer_ns = 0, passes_ns = 0, prepare_ns = 0, total_ns = 0;
  } times;  // of load(): the file's description, the tokenizer (beside graph and passes where the engine has
            // threads), graph and passes, weights and code
};

struct ChatTurn {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct TokenizeOptions {
  std::optional<bool> add_bos;  // absent: as the model's vocabulary says
  bool parse_special = false;   // "<|im_end|>" in the text is that token
};

// Text of tokens as they come: whole UTF-8 characters, U+FFFD for bytes that are none.
class HONE_API TextStream {
 public:
  std::string push(int32_t id);
  std::string finish();  // what was held back

  class Impl;
  explicit TextStream(std::unique_ptr<Impl> impl);
  TextStream(TextStream&&) noexcept;
  TextStream& operator=(TextStream&&) noexcept;
  ~TextStream();

 private:
  std::unique_ptr<Impl> impl_;
};

struct ModelAccess;

// The tokens of one text so far, with their keys and values. Not for several threads at once.
class HONE_API Sequence {
 public:
  // Appends tokens, max_batch at a time; the logits after the last. They are valid until the next call. Errors, with
  // the sequence as it was: invalid_argument (no tokens, an id outside the vocabulary), resource_exhausted (the context
  // is full).
  Result<std::span<const float>> prefill(std::span<const int32_t> tokens);
  Result<std::span<const float>> decode(int32_t token);

  // Of the last call that worked; empty before the first, after truncate(), and after a call that failed on its way.
  // One that is refused before anything ran (no tokens, an id outside the vocabulary, a full context) leaves them.
  std::span<const float> logits() const;
  int64_t position() const;  // tokens so far
  int64_t context() const;
  // Forgets all tokens from `position` on. Error: invalid_argument (there are not so many).
  Status truncate(int64_t position);

  class Impl;
  explicit Sequence(std::unique_ptr<Impl> impl);
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;
  ~Sequence();

 private:
  friend struct ModelAccess;
  std::unique_ptr<Impl> impl_;
};

// Immutable; copies share everything; thread safe. Keeps the file mapped: it must not shrink meanwhile.
class HONE_API Model {
 public:
  // Reads the description, packs the weights, compiles the plan. Errors: not_found, data_loss, unsupported,
  // invalid_argument, resource_exhausted; one line that names file and field.
  static Result<Model> load(const Engine& engine, const std::string& path, const ModelOptions& options = {});

  const ModelInfo& info() const;

  // Errors: failed_precondition (the model has no tokenizer), invalid_argument, resource_exhausted.
  Result<std::vector<int32_t>> tokenize(std::string_view text, const TokenizeOptions& options = {}) const;
  // `chat_template`: a name; "": the model's own. What is written in turns is never taken for special tokens.
  Result<std::vector<int32_t>> tokenize_chat(std::span<const ChatTurn> turns,
                                             std::string_view chat_template = {}) const;
  // For tokens that continue a text; `from_start`: for all of one, without the space that SentencePiece puts in front.
  // Texts of special tokens are shown with `special`. Without a tokenizer tokens have no text.
  TextStream text_stream(bool special = false, bool from_start = false) const;
  bool ends_generation(int32_t id) const;

  // Error: resource_exhausted.
  Result<Sequence> sequence() const;

  class Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend struct ModelAccess;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace hone
