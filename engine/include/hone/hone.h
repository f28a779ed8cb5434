/* hone for C (C99): the same engine as hone/engine.hpp, which states the mathematics and every promise about memory.
 *
 *   hone_engine* engine;
 *   hone_matmul* matmul;
 *   if (hone_engine_create(NULL, &engine) != HONE_OK) puts(hone_last_error());
 *   hone_matmul_spec spec;
 *   hone_matmul_spec_init(&spec, 4096, 4096);
 *   hone_matmul_prepare_weights(engine, &spec, weights, &matmul);
 *   hone_matmul_call call = {0};
 *   call.m = 1, call.a = x, call.c = y;
 *   hone_matmul_run(matmul, &call);
 *
 * Handles are opaque, made by *_create or *_prepare* and given back once to *_destroy (which accepts NULL). A matmul
 * keeps what it needs of its engine alive. Every function may be called from any thread, but not with a handle that
 * another thread is destroying. No exception leaves the library. A function that fails leaves its outputs NULL and sets
 * hone_last_error().
 *
 * A struct that grows, at its end, gets the library another SONAME, so that no program runs on a layout that it was not
 * compiled for. */
#ifndef HONE_HONE_H
#define HONE_HONE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HONE_C_API __attribute__((visibility("default")))
#else
#define HONE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hone_engine hone_engine;
typedef struct hone_matmul hone_matmul;
typedef struct hone_plan hone_plan;

typedef enum hone_status {
  HONE_OK = 0,
  HONE_INVALID_ARGUMENT, /* the caller's input is wrong; the message says where */
  HONE_UNSUPPORTED,      /* legal input that this build or machine cannot do */
  HONE_NOT_FOUND,
  HONE_FAILED_PRECONDITION, /* right call, wrong moment */
  HONE_RESOURCE_EXHAUSTED,  /* memory, disk */
  HONE_UNAVAILABLE,         /* busy; may succeed later */
  HONE_DATA_LOSS,           /* corrupt file */
  HONE_INTERNAL             /* a bug of ours */
} hone_status;

/* "invalid_argument"; never NULL. */
HONE_C_API const char* hone_status_name(hone_status status);
/* One line on the last failure in this thread, "" when there was none. Valid until the next call in this thread. */
HONE_C_API const char* hone_last_error(void);
/* "0.1.0" */
HONE_C_API const char* hone_version(void);

/* ---- engine ---- */

/* All zero is the default. */
typedef struct hone_engine_options {
  const char* database; /* file with tuned plans; NULL or "": the default place. Only read; may be missing. */
  int no_database;      /* not 0: default plans only */
  int threads;          /* at most; 0: detect */
  const char* codegen;  /* NULL or "": free; else the only code generator to use; "package": none */
  /* Gets one line per event that HONE_LOG asks for (not terminated by NUL); NULL: stderr. Process wide. */
  void (*log)(const char* line, size_t length, void* context);
  void* log_context;
  const char* schedule; /* "auto", "sequential", "tbb" or "dedicated"; NULL or "": $HONE_SCHEDULE */
} hone_engine_options;

/* options may be NULL. */
HONE_C_API hone_status hone_engine_create(const hone_engine_options* options, hone_engine** engine);
HONE_C_API void hone_engine_destroy(hone_engine* engine);

/* 0 and "" when engine is NULL. */
HONE_C_API int hone_engine_threads(const hone_engine* engine);
/* What runs regions of all threads, "tbb(2)", and what was asked for where that is another. Valid as long as the
 * engine.
 */
HONE_C_API const char* hone_engine_schedule(const hone_engine* engine);
HONE_C_API const char* hone_engine_schedule_requested(const hone_engine* engine);
/* Number of tuned problems found in the database. */
HONE_C_API int64_t hone_engine_decisions(const hone_engine* engine);
/* Adds the kernels of a package that `hone compile` wrote, a folder, for what is prepared from now on:
 * hone::Engine::load_package. */
HONE_C_API hone_status hone_engine_load_package(hone_engine* engine, const char* path);
/* What is not as asked with the database; "" when all is well. Valid as long as the engine. */
HONE_C_API const char* hone_engine_message(const hone_engine* engine);

/* ---- matmul ---- */

typedef enum hone_layout {
  HONE_LAYOUT_NN = 0, /* B is [k, n] row by row */
  HONE_LAYOUT_NT      /* B is [n, k] row by row, as model files store weights */
} hone_layout;

typedef enum hone_epilogue {
  HONE_EPILOGUE_BIAS = 0, /* v + bias[j] */
  HONE_EPILOGUE_GELU_TANH,
  HONE_EPILOGUE_GELU_ERF,
  HONE_EPILOGUE_SILU,
  HONE_EPILOGUE_RELU,
  HONE_EPILOGUE_GATE,     /* v * gate[i, j] */
  HONE_EPILOGUE_RESIDUAL, /* v + residual[i, j] */
  HONE_EPILOGUE_SWIGLU,   /* silu(v) * u: B has 16 columns of v, 16 of u and so on, C n / 2 (hone::Epilogue::kSwiglu) */
  HONE_EPILOGUE_ROW_SCALE /* v * row_scale[i]; the first step, of a batch of one (hone::Epilogue::kRowScale) */
} hone_epilogue;

#define HONE_MAX_EPILOGUE 16
#define HONE_MAX_EXPECTED_M 64
#define HONE_MAX_NUMERICS 32

/* What constant weights are stored in; those of 16 bits count as the f32 that they widen to. */
typedef enum hone_weight_type { HONE_WEIGHT_F32 = 0, HONE_WEIGHT_BF16, HONE_WEIGHT_F16 } hone_weight_type;

/* hone::MatmulSpec; sizes and strides in elements. Fill it with hone_matmul_spec_init or _parse, then change it. */
typedef struct hone_matmul_spec {
  int64_t n, k;
  hone_layout b;
  int64_t lda, ldb, ldc; /* distance of rows; 0: dense */
  int64_t batch;
  int64_t stride_a, stride_b, stride_c; /* distance of batch items; -1: dense, 0: shared (A, B) */
  float alpha, beta;
  size_t epilogue_length;
  hone_epilogue epilogue[HONE_MAX_EPILOGUE]; /* in the order in which they apply */
  size_t expected_m_length;
  int64_t
      expected_m[HONE_MAX_EXPECTED_M]; /* rows that matter most: a plan of their own; the first decides on packing */
  int64_t max_m; /* calls with up to so many rows compile nothing; 0: only expected_m are compiled beforehand */
  hone_weight_type weight_type;     /* others than f32: constant weights only */
  char numerics[HONE_MAX_NUMERICS]; /* "": ordered only; "bf16": with weights of bf16; "any" (hone::MatmulSpec) */
} hone_matmul_spec;

/* Dense, b = nt, batch 1, alpha 1, beta 0, no epilogue, one row expected, max_m 4096, weights of f32. */
HONE_C_API hone_status hone_matmul_spec_init(hone_matmul_spec* spec, int64_t n, int64_t k);
/* From a problem string, "matmul:f32:m=1,n=4096,k=4096,b=nt:+bias+gelu". */
HONE_C_API hone_status hone_matmul_spec_parse(hone_matmul_spec* spec, const char* problem);

/* B comes with each call. */
HONE_C_API hone_status hone_matmul_prepare(const hone_engine* engine, const hone_matmul_spec* spec,
                                           hone_matmul** matmul);
/* B is constant, of spec->weight_type: packed now; `weights` may be freed afterwards. */
HONE_C_API hone_status hone_matmul_prepare_weights(const hone_engine* engine, const hone_matmul_spec* spec,
                                                   const void* weights, hone_matmul** matmul);
HONE_C_API void hone_matmul_destroy(hone_matmul* matmul);

/* Operands of one call; NULL where the spec has no use for one. */
typedef struct hone_matmul_call {
  int64_t m;
  const float* a;
  const float* b;
  float* c;
  const float* bias;
  const float* gate;
  const float* residual;
  const float* row_scale;
} hone_matmul_call;

/* C = epilogue(alpha * A * B + beta * C). Calls on one matmul may run at the same time. */
HONE_C_API hone_status hone_matmul_run(const hone_matmul* matmul, const hone_matmul_call* call);

/* ---- which plan runs, and why ---- */

typedef struct hone_plan_info {
  const char* problem;
  const char* program;
  const char* codegen;
  const char* numerics;
  const char* reason;          /* "exact", "near_shape", "near_machine", "package" or "default" */
  const char* from;            /* the tuned or packaged problem behind it; NULL for "default" */
  const char* from_difference; /* what is not as it was measured, or packaged; NULL for "default" */
  int threads;
  size_t rejected_length; /* better ranked choices that could not be used */
  const char* schedule;   /* what its regions run on: "tbb(2)" */
  const char* package;    /* path of the package it is from; NULL for every other reason */
} hone_plan_info;

/* The plan for m >= 1 rows. */
HONE_C_API hone_status hone_matmul_plan(const hone_matmul* matmul, int64_t m, hone_plan** plan);
HONE_C_API void hone_plan_destroy(hone_plan* plan);
/* Valid as long as the plan; NULL when plan is NULL. */
HONE_C_API const hone_plan_info* hone_plan_get(const hone_plan* plan);
HONE_C_API const char* hone_plan_rejected_program(const hone_plan* plan, size_t index); /* NULL beyond the last */
HONE_C_API const char* hone_plan_rejected_why(const hone_plan* plan, size_t index);

#ifdef __cplusplus
}
#endif

#endif
