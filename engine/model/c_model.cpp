// Models through the C API: hone/model.h to hone/model.hpp and back.
#include "hone/model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/c_api_internal.h"
#include "hone/model.hpp"

struct hone_model {
  hone::Model model;
  hone_model_info info;
};
struct hone_sequence {
  hone::Sequence sequence;
};
struct hone_sampler {
  hone::Sampler sampler;
};
struct hone_text_stream {
  hone::TextStream stream;
  std::string text;
};

namespace {

using hone::Status;
using hone::c_api::call;
using hone::c_api::null_argument;

hone_model_info info_to_c(const hone::ModelInfo& i) {
  return {.path = i.path.c_str(),
          .format = i.format.c_str(),
          .architecture = i.architecture.c_str(),
          .name = i.name.c_str(),
          .weights = i.weights.c_str(),
          .chat_template = i.chat_template.c_str(),
          .parameters = i.parameters,
          .weight_bytes = i.weight_bytes,
          .packed_bytes = i.packed_bytes,
          .sequence_bytes = i.sequence_bytes,
          .layers = i.layers,
          .width = i.width,
          .heads = i.heads,
          .kv_heads = i.kv_heads,
          .head_dim = i.head_dim,
          .ff = i.ff,
          .vocabulary = i.vocabulary,
          .context = i.context,
          .model_context = i.model_context,
          .max_batch = i.max_batch,
          .plans_exact = i.plans.exact,
          .plans_near_shape = i.plans.near_shape,
          .plans_near_machine = i.plans.near_machine,
          .plans_package = i.plans.package,
          .plans_default = i.plans.by_default,
          .load_ns = i.times.total_ns,
          .tokenizer = i.tokenizer ? 1 : 0,
          .numerics = i.numerics.c_str()};
}

void clear(const char** text, size_t* length) {
  if (text != nullptr) *text = nullptr;
  if (length != nullptr) *length = 0;
}

Status give(hone_text_stream* stream, std::string text, const char** out, size_t* length) {
  stream->text = std::move(text);
  *out = stream->text.c_str();
  if (length != nullptr) *length = stream->text.size();
  return {};
}

std::span<const int32_t> tokens_of(const int32_t* tokens, size_t count) {
  return count == 0 ? std::span<const int32_t>() : std::span(tokens, count);
}

}  // namespace

extern "C" {

hone_status hone_model_load(const hone_engine* engine, const char* path, const hone_model_options* options,
                            hone_model** model) {
  if (model != nullptr) *model = nullptr;
  return call([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (path == nullptr) return null_argument("path");
    if (model == nullptr) return null_argument("model");
    hone::ModelOptions o;
    if (options != nullptr) {
      if (options->tokenizer != nullptr) o.tokenizer = options->tokenizer;
      o.context = options->context;
      if (options->max_batch != 0) o.max_batch = options->max_batch;
      o.weight_cache = options->no_weight_cache == 0;
      if (options->numerics != nullptr) o.numerics = options->numerics;
    }
    HONE_ASSIGN_OR_RETURN(hone::Model loaded, hone::Model::load(engine->engine, path, o));
    const hone_model_info info = info_to_c(loaded.info());  // texts are of what copies share
    *model = new hone_model{std::move(loaded), info};
    return {};
  });
}

void hone_model_destroy(hone_model* model) { delete model; }
const hone_model_info* hone_model_get_info(const hone_model* model) {
  return model == nullptr ? nullptr : &model->info;
}

hone_status hone_model_tokenize(const hone_model* model, const char* text, size_t length,
                                const hone_tokenize_options* options, int32_t* ids, size_t capacity, size_t* count) {
  if (count != nullptr) *count = 0;
  return call([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (text == nullptr && length > 0) return null_argument("text");
    if (ids == nullptr && capacity > 0) return null_argument("ids");
    if (count == nullptr) return null_argument("count");
    hone::TokenizeOptions o;
    if (options != nullptr) {
      if (options->bos < -1 || options->bos > 1)
        return hone::invalid_argument("bos=" + std::to_string(options->bos) + " must be -1, 0 or 1");
      if (options->bos != 0) o.add_bos = options->bos > 0;
      o.parse_special = options->parse_special != 0;
    }
    HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                          model->model.tokenize(length == 0 ? std::string_view() : std::string_view(text, length), o));
    std::copy_n(tokens.begin(), std::min(capacity, tokens.size()), ids);
    *count = tokens.size();
    return {};
  });
}

int hone_model_ends_generation(const hone_model* model, int32_t id) {
  return model != nullptr && model->model.ends_generation(id) ? 1 : 0;
}

hone_status hone_text_stream_create(const hone_model* model, int special, int from_start, hone_text_stream** stream) {
  if (stream != nullptr) *stream = nullptr;
  return call([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (stream == nullptr) return null_argument("stream");
    *stream = new hone_text_stream{model->model.text_stream(special != 0, from_start != 0), {}};
    return {};
  });
}

void hone_text_stream_destroy(hone_text_stream* stream) { delete stream; }

hone_status hone_text_stream_push(hone_text_stream* stream, int32_t id, const char** text, size_t* length) {
  clear(text, length);
  return call([&]() -> Status {
    if (stream == nullptr) return null_argument("stream");
    if (text == nullptr) return null_argument("text");
    return give(stream, stream->stream.push(id), text, length);
  });
}

hone_status hone_text_stream_finish(hone_text_stream* stream, const char** text, size_t* length) {
  clear(text, length);
  return call([&]() -> Status {
    if (stream == nullptr) return null_argument("stream");
    if (text == nullptr) return null_argument("text");
    return give(stream, stream->stream.finish(), text, length);
  });
}

hone_status hone_sequence_create(const hone_model* model, hone_sequence** sequence) {
  if (sequence != nullptr) *sequence = nullptr;
  return call([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (sequence == nullptr) return null_argument("sequence");
    HONE_ASSIGN_OR_RETURN(hone::Sequence made, model->model.sequence());
    *sequence = new hone_sequence{std::move(made)};
    return {};
  });
}

void hone_sequence_destroy(hone_sequence* sequence) { delete sequence; }

hone_status hone_sequence_prefill(hone_sequence* sequence, const int32_t* tokens, size_t count) {
  return call([&]() -> Status {
    if (sequence == nullptr) return null_argument("sequence");
    if (tokens == nullptr && count > 0) return null_argument("tokens");
    return sequence->sequence.prefill(tokens_of(tokens, count)).status();
  });
}

hone_status hone_sequence_decode(hone_sequence* sequence, int32_t token) {
  return call([&]() -> Status {
    if (sequence == nullptr) return null_argument("sequence");
    return sequence->sequence.decode(token).status();
  });
}

const float* hone_sequence_logits(const hone_sequence* sequence, size_t* count) {
  const std::span<const float> logits = sequence == nullptr ? std::span<const float>() : sequence->sequence.logits();
  if (count != nullptr) *count = logits.size();
  return logits.empty() ? nullptr : logits.data();
}

int64_t hone_sequence_position(const hone_sequence* sequence) {
  return sequence == nullptr ? 0 : sequence->sequence.position();
}

hone_status hone_sequence_truncate(hone_sequence* sequence, int64_t position) {
  return call([&]() -> Status {
    if (sequence == nullptr) return null_argument("sequence");
    return sequence->sequence.truncate(position);
  });
}

hone_status hone_sampler_options_init(hone_sampler_options* options) {
  return call([&]() -> Status {
    if (options == nullptr) return null_argument("options");
    const hone::SamplerOptions o;
    *options = {.temperature = o.temperature,
                .top_k = o.top_k,
                .top_p = o.top_p,
                .min_p = o.min_p,
                .repeat_penalty = o.repeat_penalty,
                .repeat_window = o.repeat_window,
                .seed = o.seed};
    return {};
  });
}

hone_status hone_sampler_create(const hone_sampler_options* options, hone_sampler** sampler) {
  if (sampler != nullptr) *sampler = nullptr;
  return call([&]() -> Status {
    if (sampler == nullptr) return null_argument("sampler");
    hone::SamplerOptions o;
    if (options != nullptr)
      o = {.temperature = options->temperature,
           .top_k = options->top_k,
           .top_p = options->top_p,
           .min_p = options->min_p,
           .repeat_penalty = options->repeat_penalty,
           .repeat_window = options->repeat_window,
           .seed = options->seed};
    HONE_ASSIGN_OR_RETURN(hone::Sampler made, hone::Sampler::create(o));
    *sampler = new hone_sampler{std::move(made)};
    return {};
  });
}

void hone_sampler_destroy(hone_sampler* sampler) { delete sampler; }

hone_status hone_sampler_accept(hone_sampler* sampler, const int32_t* tokens, size_t count) {
  return call([&]() -> Status {
    if (sampler == nullptr) return null_argument("sampler");
    if (tokens == nullptr && count > 0) return null_argument("tokens");
    sampler->sampler.accept(tokens_of(tokens, count));
    return {};
  });
}

hone_status hone_sampler_sample(hone_sampler* sampler, const hone_sequence* sequence, int32_t* token) {
  if (token != nullptr) *token = -1;
  return call([&]() -> Status {
    if (sampler == nullptr) return null_argument("sampler");
    if (sequence == nullptr) return null_argument("sequence");
    if (token == nullptr) return null_argument("token");
    if (sequence->sequence.logits().empty())
      return hone::failed_precondition("the sequence has no logits; prefill it first");
    HONE_ASSIGN_OR_RETURN(*token, sampler->sampler.sample(sequence->sequence.logits()));
    return {};
  });
}

}  // extern "C"
