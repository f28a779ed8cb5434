/* hone for C (C99): models from files, the same as hone/model.hpp and hone/sampler.hpp, which state every promise.
 * Conventions of handles, errors and growing structs: hone/hone.h.
 *
 *   hone_model_load(engine, "stories260K.gguf", NULL, &model);
 *   hone_model_tokenize(model, text, strlen(text), NULL, ids, 256, &count);
 *   hone_sequence_create(model, &sequence);
 *   hone_sampler_create(NULL, &sampler);
 *   hone_text_stream_create(model, 0, 0, &stream);
 *   hone_sequence_prefill(sequence, ids, count);
 *   while (hone_sampler_sample(sampler, sequence, &id) == HONE_OK && !hone_model_ends_generation(model, id)) {
 *     hone_text_stream_push(stream, id, &piece, &length);
 *     fwrite(piece, 1, length, stdout);
 *     if (hone_sequence_decode(sequence, id) != HONE_OK) break;
 *   }
 */
#ifndef HONE_MODEL_H
#define HONE_MODEL_H

#include "hone/hone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hone_model hone_model;
typedef struct hone_sequence hone_sequence;
typedef struct hone_sampler hone_sampler;
typedef struct hone_text_stream hone_text_stream;

/* ---- model ---- */

/* All zero is the default. */
typedef struct hone_model_options {
  const char* tokenizer; /* file to take the tokenizer from instead; NULL or "": the model's */
  int64_t context;       /* tokens of a sequence at most; 0: the model's, 4096 at most */
  int64_t max_batch;     /* tokens that prefill puts into one call; 0: 512 */
  int no_weight_cache;   /* not 0: packed weights are not kept on disk */
  const char* numerics;  /* of matmuls with weights of bf16: "ordered" (NULL, ""), "bf16", "any" */
} hone_model_options;

typedef struct hone_model_info {
  const char* path;
  const char* format;
  const char* architecture;
  const char* name;
  const char* weights;       /* element type of most matrices: "f32", "bf16", "f16" */
  const char* chat_template; /* its name; "": none that is known */
  int64_t parameters;
  int64_t weight_bytes;   /* in the file */
  int64_t packed_bytes;   /* as matmuls read them */
  int64_t sequence_bytes; /* keys and values of one sequence, when it is full */
  int64_t layers, width, heads, kv_heads, head_dim, ff, vocabulary;
  int64_t context, model_context, max_batch;
  int64_t plans_exact, plans_near_shape, plans_near_machine, plans_package, plans_default;
  int64_t load_ns;
  int tokenizer;        /* 1: there is one */
  const char* numerics; /* class of matmuls with these weights: "ordered", "bf16" */
} hone_model_info;

/* options may be NULL. A model keeps what it needs of its engine alive, and its file mapped. */
HONE_C_API hone_status hone_model_load(const hone_engine* engine, const char* path, const hone_model_options* options,
                                       hone_model** model);
HONE_C_API void hone_model_destroy(hone_model* model);
/* Valid as long as the model; NULL when model is NULL. */
HONE_C_API const hone_model_info* hone_model_get_info(const hone_model* model);

/* All zero is the default. */
typedef struct hone_tokenize_options {
  int bos;           /* 0: as the vocabulary says; 1: with one in front; -1: without */
  int parse_special; /* not 0: text of special tokens is these tokens */
} hone_tokenize_options;

/* The first `capacity` ids go to `ids`, and their number to *count, which may be more than `capacity`: then call again.
 * options may be NULL, ids too where capacity is 0. */
HONE_C_API hone_status hone_model_tokenize(const hone_model* model, const char* text, size_t length,
                                           const hone_tokenize_options* options, int32_t* ids, size_t capacity,
                                           size_t* count);
/* 1: a token that ends an answer; 0 otherwise, and when model is NULL. */
HONE_C_API int hone_model_ends_generation(const hone_model* model, int32_t id);

/* Text of tokens as they come, in whole UTF-8 characters. special: not 0, texts of special tokens are shown.
 * from_start: 0, the tokens continue a text; else they are all of one, whose space of SentencePiece's in front goes. */
HONE_C_API hone_status hone_text_stream_create(const hone_model* model, int special, int from_start,
                                               hone_text_stream** stream);
HONE_C_API void hone_text_stream_destroy(hone_text_stream* stream);
/* *text is ended by NUL, may be empty, and is valid until the next call with this stream. length may be NULL. */
HONE_C_API hone_status hone_text_stream_push(hone_text_stream* stream, int32_t id, const char** text, size_t* length);
/* What was held back. */
HONE_C_API hone_status hone_text_stream_finish(hone_text_stream* stream, const char** text, size_t* length);

/* ---- sequences: not for several threads at once ---- */

HONE_C_API hone_status hone_sequence_create(const hone_model* model, hone_sequence** sequence);
HONE_C_API void hone_sequence_destroy(hone_sequence* sequence);
/* Appends tokens. With an error the sequence is as it was. */
HONE_C_API hone_status hone_sequence_prefill(hone_sequence* sequence, const int32_t* tokens, size_t count);
HONE_C_API hone_status hone_sequence_decode(hone_sequence* sequence, int32_t token);
/* After the last token: as many as the vocabulary has tokens. NULL before the first call, after truncate, and after a
 * call that failed on its way; one that is refused before anything ran (no tokens, an id outside the vocabulary, a full
 * context) leaves them. Valid until the next call with this sequence. count may be NULL. */
HONE_C_API const float* hone_sequence_logits(const hone_sequence* sequence, size_t* count);
/* Tokens so far; 0 when sequence is NULL. */
HONE_C_API int64_t hone_sequence_position(const hone_sequence* sequence);
/* Forgets all tokens from `position` on, and the logits. */
HONE_C_API hone_status hone_sequence_truncate(hone_sequence* sequence, int64_t position);

/* ---- sampling ---- */

/* hone::SamplerOptions. Fill it with hone_sampler_options_init, then change it. */
typedef struct hone_sampler_options {
  double temperature;
  int64_t top_k;
  double top_p;
  double min_p;
  double repeat_penalty;
  int64_t repeat_window;
  uint64_t seed;
} hone_sampler_options;

HONE_C_API hone_status hone_sampler_options_init(hone_sampler_options* options);
/* options may be NULL: the most probable token. */
HONE_C_API hone_status hone_sampler_create(const hone_sampler_options* options, hone_sampler** sampler);
HONE_C_API void hone_sampler_destroy(hone_sampler* sampler);
/* Tokens that the repetition penalty shall know of: a prompt. */
HONE_C_API hone_status hone_sampler_accept(hone_sampler* sampler, const int32_t* tokens, size_t count);
/* The next token by the logits of `sequence`, which it is not appended to. */
HONE_C_API hone_status hone_sampler_sample(hone_sampler* sampler, const hone_sequence* sequence, int32_t* token);

#ifdef __cplusplus
}
#endif

#endif
