/* C ABI between `hone bench --compare` and a peer library.
 *
 * A peer is a shared object libhone_peer_NAME.so that wraps one other library's f32 matmul, and what it has of
 * attention, at its best setting. It is built only where that library is, loaded at run time only when it is asked for,
 * and never linked by hone itself, so that no peer is a dependency and no two of them share symbols.
 */
#ifndef HONE_BENCH_PEERS_PEER_H_
#define HONE_BENCH_PEERS_PEER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C[m,n] = A[m,k] * B, rows lda, ldb, ldc elements apart. b_transposed: B is [n,k], else [k,n].
 * b_constant: B stays the same over all calls, so it may be packed in prepare. */
typedef struct {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int b_transposed;
  int b_constant;
  int threads;
} HonePeerProblem;

/* O[b,h,i,:] = softmax over j of (scale * Q[b,h,i,:] . K[b,g,j,:]) times V[b,g,j,:], g = h / (heads / kv_heads).
 * causal: row i of q sees the keys j <= i + kv - q, and kv >= q. Strides in elements; a row's elements lie together. */
typedef struct {
  int64_t row, head, batch;
} HonePeerStrides;

typedef struct {
  int64_t batch, heads, kv_heads, q, kv, d, dv;
  HonePeerStrides q_stride, k_stride, v_stride, o_stride;
  int causal;
  float scale;
  int threads;
} HonePeerAttention;

typedef struct {
  uint32_t abi; /* HONE_PEER_ABI */
  const char* name;
  /* Version, the kernel that the library picked, and the settings that were chosen for it. */
  const char* (*describe)(void);
  /* A handle, or NULL with the reason in `error` (no memory is one). `b` is valid until release. */
  void* (*prepare)(const HonePeerProblem* problem, const float* b, char* error, size_t error_size);
  /* How this problem is computed: which of the library's ways, and on how many threads. Valid until release. */
  const char* (*setting)(void* handle);
  /* 0, or not 0 when the library reports an error. */
  int (*run)(void* handle, const float* a, const float* b, float* c);
  /* Gets the library's threads out of bed, with a small problem of its own: emptying caches takes so long that they
   * have gone to sleep, which between two calls of a model they do not. */
  void (*wake)(void* handle);
  /* Memory of its own that a call reads (packed weights), so that it can be flushed like B; NULL when there is none. */
  const void* (*packed)(void* handle, size_t* bytes);
  void (*release)(void* handle);
  /* NULL when the library has nothing to make attention of. A handle as that of prepare, for all of setting, wake and
   * release; it runs by run_attention. */
  void* (*prepare_attention)(const HonePeerAttention* problem, char* error, size_t error_size);
  int (*run_attention)(void* handle, const float* q, const float* k, const float* v, float* o);
} HonePeer;

#define HONE_PEER_ABI 4u

/* The one symbol that a peer exports. */
const HonePeer* hone_peer(void);

#ifdef __cplusplus
}
#endif

#endif
