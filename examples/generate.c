/* Continues a text with a model: generate MODEL [PROMPT [TOKENS]], for example
 *   generate stories260K.gguf "Once upon a time" 64 */
#include <hone/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostIds = 4096 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, hone_last_error());
  return 1;
}

/* One token after the other, shown as it comes. */
static int generate(const hone_model* model, hone_sequence* sequence, hone_sampler* sampler, hone_text_stream* stream,
                    long tokens) {
  const char* text;
  size_t length;
  int32_t id;
  for (long i = 0; i < tokens; ++i) {
    if (hone_sampler_sample(sampler, sequence, &id) != HONE_OK) return failed("sample");
    if (hone_model_ends_generation(model, id)) break;
    if (hone_text_stream_push(stream, id, &text, &length) != HONE_OK) return failed("text");
    fwrite(text, 1, length, stdout);
    fflush(stdout);
    if (i + 1 < tokens && hone_sequence_decode(sequence, id) != HONE_OK) return failed("decode");
  }
  if (hone_text_stream_finish(stream, &text, &length) != HONE_OK) return failed("text");
  fwrite(text, 1, length, stdout);
  putchar('\n');
  return 0;
}

static int answer(const hone_model* model, const char* prompt, long tokens) {
  static int32_t ids[kMostIds];
  size_t count = 0;
  hone_sequence* sequence = NULL;
  hone_sampler* sampler = NULL;
  hone_text_stream* stream = NULL;
  int code = 1;
  if (hone_model_tokenize(model, prompt, strlen(prompt), NULL, ids, kMostIds, &count) != HONE_OK || count > kMostIds)
    return failed("tokenize");
  if (hone_sequence_create(model, &sequence) != HONE_OK || hone_sampler_create(NULL, &sampler) != HONE_OK ||
      hone_text_stream_create(model, 0, 0, &stream) != HONE_OK || hone_sampler_accept(sampler, ids, count) != HONE_OK ||
      hone_sequence_prefill(sequence, ids, count) != HONE_OK)
    failed("prefill");
  else
    code = generate(model, sequence, sampler, stream, tokens);
  hone_text_stream_destroy(stream);
  hone_sampler_destroy(sampler);
  hone_sequence_destroy(sequence);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "generate MODEL [PROMPT [TOKENS]]\n");
    return 2;
  }
  hone_engine* engine = NULL;
  hone_model* model = NULL;
  if (hone_engine_create(NULL, &engine) != HONE_OK) return failed("engine");
  int code = 1;
  if (hone_model_load(engine, argv[1], NULL, &model) != HONE_OK) {
    failed("load");
  } else {
    const hone_model_info* info = hone_model_get_info(model);
    fprintf(stderr, "%s: %s, %.1f M parameters, %s\n", info->path, info->architecture, (double)info->parameters / 1e6,
            info->weights);
    code = answer(model, argc > 2 ? argv[2] : "Once upon a time", argc > 3 ? strtol(argv[3], NULL, 10) : 64);
  }
  hone_model_destroy(model);
  hone_engine_destroy(engine);
  return code;
}
