/* C ABI between `hone bench --compare` and a peer library.
 *
 * A peer is a shared object libhone_peer_NAME.so that wraps one other library's f32 matmul at its best setting. It is
 * built only where that library is, loaded at run time only when it is asked for, and never linked by hone itself, so
 * that no peer is a dependency and no two of them share symbols.
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
} HonePeer;

#define HONE_PEER_ABI 3u

/* The one symbol that a peer exports. */
const HonePeer* hone_peer(void);

#ifdef __cplusplus
}
#endif

#endif
