// The legacy files of llama2.c: seven int32, then f32 matrices in a fixed order, those of one role for all layers in a
// row; and its tokenizer.bin. Neither says what it is, so everything that can be held against the size is.
//
//   dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative: a classifier of its own), seq_len
//   embedding | attention norms | q | k | v | o | ff norms | gate (w1) | down (w2) | up (w3) | final norm
//   | cos and sin tables [seq_len, head_dim / 2] each, of old, skipped | classifier
//
//   tokenizer.bin: u32 longest token | f32 score, u32 length, bytes for each token
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "engine/model/files/assemble_internal.h"
#include "engine/model/files/byte_reader_internal.h"
#include "engine/model/files/formats_internal.h"
#include "engine/model/files/stops_internal.h"

namespace hone::model {
namespace {

constexpr int32_t kVersionedMagic = 0x616b3432;  // "24ka": versions 1 and later
constexpr uint32_t kLongestToken = 1 << 16;

struct Header {
  int32_t dim = 0, hidden_dim = 0, layers = 0, heads = 0, kv_heads = 0, vocabulary = 0, context = 0;
  bool read(ByteReader& reader) {
    return reader.read(dim) && reader.read(hidden_dim) && reader.read(layers) && reader.read(heads) &&
           reader.read(kv_heads) && reader.read(vocabulary) && reader.read(context);
  }
};

Result<DecoderConfig> config_of(const Header& h) {
  DecoderConfig c;
  c.architecture = "llama";
  c.layers = h.layers, c.width = h.dim, c.heads = h.heads, c.kv_heads = h.kv_heads, c.ff = h.hidden_dim;
  c.vocabulary = std::abs(int64_t{h.vocabulary});
  c.context = h.context;
  c.tied_embeddings = h.vocabulary > 0;
  if (h.heads < 1 || h.dim % h.heads != 0)
    return invalid_argument(fmt::format("dim ({}) is not a multiple of n_heads ({})", h.dim, h.heads));
  c.head_dim = c.rope_dims = h.dim / h.heads;
  c.rope_style = RopeStyle::kInterleaved;
  HONE_RETURN_IF_ERROR(validate(c));
  return c;
}

// Hands out the matrices in order. That there are as many bytes as all take was checked before.
class Matrices {
 public:
  explicit Matrices(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Weight next(std::string name, std::vector<int64_t> shape) {
    size_t size = sizeof(float);
    for (const int64_t n : shape) size *= static_cast<size_t>(n);
    Weight weight{std::move(name), DType::kF32, std::move(shape), bytes_.first(size)};
    bytes_ = bytes_.subspan(size);
    return weight;
  }
  // One for each layer.
  void next(DecoderWeights& weights, Weight LayerWeights::*role, const char* name, const std::vector<int64_t>& shape) {
    for (size_t i = 0; i < weights.layers.size(); ++i)
      weights.layers[i].*role = next(fmt::format("{}[{}]", name, i), shape);
  }

 private:
  std::span<const std::byte> bytes_;
};

// Bounded by validate(): no product overflows.
int64_t table_elements(const DecoderConfig& c) { return c.context * (c.head_dim / 2) * 2; }
int64_t file_elements(const DecoderConfig& c) {
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const int64_t layer = c.width * (2 + 2 * q + 2 * kv + 3 * c.ff);
  return c.vocabulary * c.width * (c.tied_embeddings ? 1 : 2) + c.layers * layer + c.width + table_elements(c);
}

}  // namespace

bool looks_like_llama2c(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Header header;
  return header.read(reader) && (header.dim == kVersionedMagic || config_of(header).ok());
}

Result<ModelFile> model_of_llama2c(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Header header;
  if (!header.read(reader)) return data_loss(fmt::format("{} bytes are no llama2.c model", bytes.size()));
  if (header.dim == kVersionedMagic)
    return unsupported(fmt::format("version {} of llama2.c's format; the legacy one is read", header.hidden_dim));
  ModelFile model;
  model.format = "llama2.c";
  HONE_ASSIGN_OR_RETURN(model.config, config_of(header));
  const DecoderConfig& c = model.config;
  const auto wanted = static_cast<uint64_t>(file_elements(c)) * sizeof(float);
  if (reader.left() != wanted)
    return data_loss(fmt::format("{} bytes follow the header of a llama2.c model, its geometry makes them {}",
                                 reader.left(), wanted));
  Matrices matrices(bytes.subspan(reader.position()));
  DecoderWeights& w = model.weights;
  w.layers.resize(static_cast<size_t>(c.layers));
  const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  w.embedding = matrices.next("token_embedding", {c.vocabulary, c.width});
  matrices.next(w, &LayerWeights::attention_norm, "rms_att", {c.width});
  matrices.next(w, &LayerWeights::q, "wq", {q, c.width});
  matrices.next(w, &LayerWeights::k, "wk", {kv, c.width});
  matrices.next(w, &LayerWeights::v, "wv", {kv, c.width});
  matrices.next(w, &LayerWeights::o, "wo", {c.width, q});
  matrices.next(w, &LayerWeights::ff_norm, "rms_ffn", {c.width});
  matrices.next(w, &LayerWeights::gate, "w1", {c.ff, c.width});
  matrices.next(w, &LayerWeights::down, "w2", {c.width, c.ff});
  matrices.next(w, &LayerWeights::up, "w3", {c.ff, c.width});
  w.output_norm = matrices.next("rms_final", {c.width});
  matrices.next("freq_cis", {table_elements(c)});
  if (!c.tied_embeddings) w.output = matrices.next("wcls", {c.vocabulary, c.width});
  return model;
}

Result<Vocabulary> vocabulary_of_llama2c(std::span<const std::byte> tokenizer_bin, std::optional<int64_t> tokens) {
  ByteReader reader(tokenizer_bin);
  uint32_t longest = 0;
  if (!reader.read(longest) || longest < 1 || longest > kLongestToken)
    return data_loss("not a tokenizer of llama2.c: it does not begin with the length of its longest token");
  Vocabulary v;
  v.add_bos = v.add_space_prefix = true;
  while (reader.left() > 0) {
    Token token;
    uint32_t length = 0;
    std::string_view text;
    if (!reader.read(token.score) || !reader.read(length) || !reader.take_text(length, text))
      return data_loss(fmt::format("token {} is cut off at the end of the file", v.tokens.size()));
    if (length > longest)
      return data_loss(fmt::format("token {} has {} bytes, the longest has {}", v.tokens.size(), length, longest));
    for (const char c : text)
      if (c == ' ')
        token.text += "\u2581";
      else
        token.text += c;
    v.tokens.push_back(std::move(token));
  }
  const auto count = static_cast<int64_t>(v.tokens.size());
  if (tokens && count != *tokens)  // fewer: it may have been cut off between two
    return {Status(count < *tokens ? Code::kDataLoss : Code::kInvalidArgument,
                   fmt::format("{} tokens, the model has {}", count, *tokens))};
  // The ids are SentencePiece's, and not in the file: the unknown token, begin, end, 256 bytes, then pieces.
  constexpr int64_t kFirstByte = 3, kBytes = 256;
  if (count < kFirstByte + kBytes)
    return data_loss(fmt::format("{} tokens, fewer than the {} that are not pieces", count, kFirstByte + kBytes));
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.tokens[0].kind = TokenKind::kUnknown;
  v.tokens[1] = {"<s>", 0, TokenKind::kControl};  // the file writes them with newlines, for show
  v.tokens[2] = {"</s>", 0, TokenKind::kControl};
  for (int64_t i = kFirstByte; i < kFirstByte + kBytes; ++i) {
    Token& token = v.tokens[static_cast<size_t>(i)];
    if (token.text != fmt::format("<0x{:02X}>", i - kFirstByte))
      return data_loss(fmt::format("token {} must be the byte <0x{:02X}>", i, i - kFirstByte));
    token.kind = TokenKind::kByte;
  }
  // Models of llama2.c end a text by beginning the next.
  add_stops(v, std::array{v.eos, v.bos});
  return v;
}

}  // namespace hone::model
