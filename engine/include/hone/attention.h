/* hone for C (C99): attention, the same as hone/attention.hpp, which states the mathematics and every promise about
 * memory. Conventions of handles, errors and growing structs: hone/hone.h.
 *
 *   hone_attention_spec spec;
 *   hone_attention_spec_init(&spec, 32, 8, 128);
 *   spec.causal = 1;
 *   hone_attention_prepare(engine, &spec, &attention);
 *   hone_attention_sequence s;
 *   hone_attention_sequence_init(&s, 512, 512);
 *   s.query = q, s.key = k, s.value = v, s.out = o;
 *   hone_attention_run(attention, &s, 1, NULL);
 */
#ifndef HONE_ATTENTION_H
#define HONE_ATTENTION_H

#include "hone/hone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hone_attention hone_attention;
typedef struct hone_kv_cache hone_kv_cache;

typedef enum hone_head_layout {
  HONE_HEADS_FIRST = 0, /* [heads][rows][dim], "bhsd" */
  HONE_ROWS_FIRST       /* [rows][heads][dim], "bshd" */
} hone_head_layout;

typedef enum hone_attention_mask {
  HONE_MASK_NONE = 0,
  HONE_MASK_ADDITIVE, /* f32, added to the scores after soft-capping; -inf hides a key */
  HONE_MASK_BOOLEAN   /* one byte each, 0 hides a key */
} hone_attention_mask;

typedef enum hone_key_layout {
  HONE_KEYS_CHOSEN = 0, /* by the plan */
  HONE_KEYS_ROWS,
  HONE_KEYS_BLOCKED /* 16 keys side by side */
} hone_key_layout;

typedef struct hone_attention_shape {
  int64_t q, kv;
} hone_attention_shape;

#define HONE_MAX_EXPECTED_SHAPES 64

/* hone::AttentionSpec; sizes and strides in elements. Fill it with hone_attention_spec_init or _parse, then change it.
 */
typedef struct hone_attention_spec {
  int64_t heads, kv_heads;     /* kv_heads 0: heads */
  int64_t head_dim, value_dim; /* value_dim 0: head_dim */
  hone_head_layout layout;
  int64_t ldq, ldk, ldv, ldo; /* distance of rows; 0: that of the layout */
  int causal;
  int64_t window; /* 0: none */
  hone_attention_mask mask;
  float softcap; /* 0: none */
  float scale;   /* 0: 1 / sqrt(head_dim) */
  int lse;
  int64_t page; /* keys in a page; 0: contiguous */
  int cache;    /* not 0: keys and values come from a hone_kv_cache */
  hone_key_layout key_layout;
  char numerics[HONE_MAX_NUMERICS]; /* "": online(256) only; "any"; or one class */
  int64_t batch;                    /* sequences that a call usually has */
  size_t expected_length;
  hone_attention_shape expected[HONE_MAX_EXPECTED_SHAPES]; /* that matter most: a plan of their own */
  int64_t max_q, max_kv; /* calls up to these compile nothing; max_q 0: only `expected` is compiled beforehand */
} hone_attention_spec;

/* As a hone::AttentionSpec with these numbers. */
HONE_C_API hone_status hone_attention_spec_init(hone_attention_spec* spec, int64_t heads, int64_t kv_heads,
                                                int64_t head_dim);
/* From a problem string, "attention:f32:b=1,hq=32,hkv=8,q=512,kv=512,d=128:causal". */
HONE_C_API hone_status hone_attention_spec_parse(hone_attention_spec* spec, const char* problem);

HONE_C_API hone_status hone_attention_prepare(const hone_engine* engine, const hone_attention_spec* spec,
                                              hone_attention** attention);
HONE_C_API void hone_attention_destroy(hone_attention* attention);

/* hone::AttentionSequence: one sequence of a call; NULL where the spec has no use for an operand. */
typedef struct hone_attention_sequence {
  int64_t q, kv; /* rows and keys; from a cache, kv 0: all that it holds */
  const float* query;
  const float* key;
  const float* value;
  float* out;
  const void* mask;
  float* lse;
  int64_t q_head, k_head, v_head, o_head, lse_head; /* distance of heads; -1: that of the layout */
  int64_t mask_head, mask_row;                      /* 0: shared by heads, by rows; mask_row -1: kv */
  const int32_t* page_table;                        /* spec.page > 0, without a cache */
  int64_t pages;
  int64_t k_page, v_page; /* distance of pages; -1: dense */
  int64_t cached;         /* which sequence of the cache */
} hone_attention_sequence;

/* Lengths, and every stride its default; operands NULL. */
HONE_C_API hone_status hone_attention_sequence_init(hone_attention_sequence* sequence, int64_t q, int64_t kv);

/* `cache` is NULL unless spec.cache. Calls on one attention may run at the same time. */
HONE_C_API hone_status hone_attention_run(const hone_attention* attention, const hone_attention_sequence* sequences,
                                          size_t count, const hone_kv_cache* cache);

/* The plan for sequences of up to q rows and kv keys. hone_plan_destroy() gives it back. */
HONE_C_API hone_status hone_attention_plan(const hone_attention* attention, int64_t q, int64_t kv, hone_plan** plan);

/* ---- keys and values that the engine keeps ---- */

/* For `sequences` sequences of up to `capacity` keys; `pages` of a shared pool if spec.page > 0, 0: enough for all. */
HONE_C_API hone_status hone_kv_cache_create(const hone_attention* attention, int64_t sequences, int64_t capacity,
                                            int64_t pages, hone_kv_cache** cache);
HONE_C_API void hone_kv_cache_destroy(hone_kv_cache* cache);
/* Rows [kv_heads][tokens][dim] of K and V, laid out as the spec says; head strides of -1 are the layout's. All or
 * nothing. */
HONE_C_API hone_status hone_kv_cache_append(hone_kv_cache* cache, int64_t sequence, int64_t tokens, const float* key,
                                            int64_t k_head, const float* value, int64_t v_head);
/* Forgets all keys from `length` on. */
HONE_C_API hone_status hone_kv_cache_truncate(hone_kv_cache* cache, int64_t sequence, int64_t length);
/* 0 when cache is NULL or has no such sequence. */
HONE_C_API int64_t hone_kv_cache_length(const hone_kv_cache* cache, int64_t sequence);
HONE_C_API int64_t hone_kv_cache_bytes(const hone_kv_cache* cache);
HONE_C_API int64_t hone_kv_cache_free_pages(const hone_kv_cache* cache);

#ifdef __cplusplus
}
#endif

#endif
