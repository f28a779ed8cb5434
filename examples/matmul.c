/* The same layer through the C API. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "hone/hone.h"

enum { N = 1024, K = 512 };

static int fail(hone_status status) {
  fprintf(stderr, "%s: %s\n", hone_status_name(status), hone_last_error());
  return 1;
}

static int run(const hone_matmul* matmul, const float* weights, int m) {
  float* x = malloc((size_t)m * K * sizeof *x);
  float* y = malloc((size_t)m * N * sizeof *y);
  hone_matmul_call call = {0};
  hone_status status;
  hone_plan* plan = NULL;
  float want = 0;
  int p, result = 1;
  if (x == NULL || y == NULL) goto done;
  for (p = 0; p < m * K; ++p) x[p] = (float)(p % 13) / 8 - 0.75f;

  call.m = m, call.a = x, call.c = y;
  status = hone_matmul_run(matmul, &call);
  if (status == HONE_OK) status = hone_matmul_plan(matmul, m, &plan);
  if (status != HONE_OK) {
    fail(status);
    goto done;
  }
  printf("m=%d: %s plan, %s: %s\n", m, hone_plan_get(plan)->reason, hone_plan_get(plan)->codegen,
         hone_plan_get(plan)->program);
  for (p = 0; p < K; ++p) want = fmaf(x[(m - 1) * K + p], weights[(N - 3) * K + p], want);
  printf("  C[%d, %d] = %g\n", m - 1, N - 3, (double)y[(m - 1) * N + N - 3]);
  result = y[(m - 1) * N + N - 3] == want ? 0 : 1;
done:
  hone_plan_destroy(plan);
  free(x);
  free(y);
  return result;
}

int main(void) {
  hone_engine* engine = NULL;
  hone_matmul* matmul = NULL;
  hone_matmul_spec spec;
  hone_status status = hone_engine_create(NULL, &engine);
  float* weights = malloc((size_t)N * K * sizeof *weights);
  int i, result;
  if (status != HONE_OK || weights == NULL) return fail(status);
  for (i = 0; i < N * K; ++i) weights[i] = (float)(i % 17) / 16 - 0.5f;

  status = hone_matmul_spec_parse(&spec, "matmul:f32:m={1,128},n=1024,k=512,b=nt");
  if (status == HONE_OK) status = hone_matmul_prepare_weights(engine, &spec, weights, &matmul);
  if (status != HONE_OK) return fail(status);
  hone_engine_destroy(engine); /* the matmul keeps what it needs */
  result = run(matmul, weights, 1) + run(matmul, weights, 128);
  hone_matmul_destroy(matmul);
  free(weights);
  return result == 0 ? 0 : 1;
}
