#include "kernel/product/gemm.h"

#include <dnnl.h>
#include <pthread.h>
#include <string.h>

#include "op/parallel.h"

/* libgomp's. It is there because oneDNN needs it, also where Cannon itself is built without OpenMP. */
__attribute__((weak)) int omp_get_max_threads(void);
__attribute__((weak)) void omp_set_num_threads(int n);

static status dnnl_status(dnnl_status_t st, const gemm_call *g) {
  if (likely(st == dnnl_success)) return ST_OK;
  return fail(ST_INTERNAL, "oneDNN failed with %d for a product of [%jd, %jd] and [%jd, %jd]", (int)st, (intmax_t)g->m,
              (intmax_t)g->k, (intmax_t)g->k, (intmax_t)g->n);
}

/* ---- bfloat16: oneDNN's matmul primitives ------------------------------------------------------------------------ */

/* Making a primitive costs microseconds even when oneDNN has its code, so used ones wait in a pool. A thread
 * takes one out, has it alone while it runs (so its memory objects and stream can belong to it), and puts it
 * back. */
typedef struct {
  int64_t dims[3];        /* m, n, k */
  dnnl_dims_t strides[3]; /* of A, B, C; two of each are used */
} bf16_key;

typedef struct {
  bf16_key key;
  uint64_t last_used; /* 0: the slot is empty */
  dnnl_primitive_t primitive;
  dnnl_stream_t stream;
  dnnl_memory_t memory[3]; /* A, B, C */
} bf16_product;

enum { POOL_SLOTS = 64 };

static struct {
  pthread_mutex_t lock; /* of everything below */
  uint64_t clock;
  bf16_product slot[POOL_SLOTS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static dnnl_engine_t engine;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static bool has_bf16;

static void bf16_destroy(bf16_product *p) {
  for (int i = 0; i < 3; ++i)
    if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
  if (p->stream) dnnl_stream_destroy(p->stream);
  if (p->primitive) dnnl_primitive_destroy(p->primitive);
}

static dnnl_status_t bf16_describe(const bf16_key *key, dnnl_memory_desc_t md[3], dnnl_primitive_desc_t *pd) {
  const dnnl_dims_t dims[3] = {
      {key->dims[0], key->dims[2]}, {key->dims[2], key->dims[1]}, {key->dims[0], key->dims[1]}};
  for (int i = 0; i < 3; ++i) {
    const dnnl_status_t st =
        dnnl_memory_desc_init_by_strides(&md[i], 2, dims[i], i < 2 ? dnnl_bf16 : dnnl_f32, key->strides[i]);
    if (st != dnnl_success) return st;
  }
  dnnl_matmul_desc_t desc;
  const dnnl_status_t st = dnnl_matmul_desc_init(&desc, &md[0], &md[1], NULL, &md[2]);
  return st != dnnl_success ? st : dnnl_primitive_desc_create(pd, &desc, NULL, engine, NULL);
}

static dnnl_status_t bf16_create(const bf16_key *key, bf16_product *p) {
  *p = (bf16_product){.key = *key};
  dnnl_memory_desc_t md[3];
  dnnl_primitive_desc_t pd;
  dnnl_status_t st = bf16_describe(key, md, &pd);
  if (st != dnnl_success) return st;
  st = dnnl_primitive_create(&p->primitive, pd);
  dnnl_primitive_desc_destroy(pd);
  if (st == dnnl_success) st = dnnl_stream_create(&p->stream, engine, dnnl_stream_default_flags);
  for (int i = 0; st == dnnl_success && i < 3; ++i)
    st = dnnl_memory_create(&p->memory[i], &md[i], engine, DNNL_MEMORY_NONE);
  if (st != dnnl_success) bf16_destroy(p);
  return st;
}

static dnnl_status_t bf16_take(const bf16_key *key, bf16_product *p) {
  bool found = false;
  pthread_mutex_lock(&pool.lock);
  for (int i = 0; !found && i < POOL_SLOTS; ++i)
    if (pool.slot[i].last_used && !memcmp(&pool.slot[i].key, key, sizeof *key)) {
      *p = pool.slot[i];
      pool.slot[i].last_used = 0;
      found = true;
    }
  pthread_mutex_unlock(&pool.lock);
  return found ? dnnl_success : bf16_create(key, p);
}

/* The slot longest unused makes room. */
static void bf16_put(bf16_product *p) {
  pthread_mutex_lock(&pool.lock);
  bf16_product *slot = &pool.slot[0];
  for (int i = 1; i < POOL_SLOTS; ++i)
    if (pool.slot[i].last_used < slot->last_used) slot = &pool.slot[i];
  bf16_product old = *slot;
  *slot = *p;
  slot->last_used = ++pool.clock;
  pthread_mutex_unlock(&pool.lock);
  if (old.last_used) bf16_destroy(&old);
}

static dnnl_status_t bf16_run(const gemm_call *g, const void *a, const void *b, void *c) {
  const bf16_key key = {.dims = {g->m, g->n, g->k},
                        .strides = {{g->trans_a ? 1 : g->lda, g->trans_a ? g->lda : 1},
                                    {g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1},
                                    {g->ldc, 1}}};
  bf16_product p;
  dnnl_status_t st = bf16_take(&key, &p);
  if (st != dnnl_success) return st;
  void *const handles[3] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c};
  static const int names[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  dnnl_exec_arg_t args[3];
  for (int i = 0; st == dnnl_success && i < 3; ++i) {
    args[i] = (dnnl_exec_arg_t){.arg = names[i], .memory = p.memory[i]};
    st = dnnl_memory_set_data_handle(p.memory[i], handles[i]);
  }
  if (st == dnnl_success) st = dnnl_primitive_execute(p.primitive, p.stream, 3, args);
  if (st == dnnl_success) st = dnnl_stream_wait(p.stream);
  bf16_put(&p);
  return st;
}

/* oneDNN may have nothing for bfloat16, or only its reference loops. */
static void find_bf16(void) {
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return;
  const bf16_key key = {.dims = {64, 64, 64}, .strides = {{64, 1}, {64, 1}, {64, 1}}};
  dnnl_memory_desc_t md[3];
  dnnl_primitive_desc_t pd;
  if (bf16_describe(&key, md, &pd) != dnnl_success) return;
  const char *name = "ref";
  has_bf16 =
      dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success && strncmp(name, "ref", 3) != 0;
  dnnl_primitive_desc_destroy(pd);
}

bool gemm_has_bf16(void) {
  pthread_once(&engine_once, find_bf16);
  return has_bf16;
}

/* ---- double: rare, so a loop that is good enough ----------------------------------------------------------------- */

enum { F64_BLOCK = 128 }; /* rows of B that stay in the cache while rows of A pass */

/* Rows [begin, end) of C. */
static void f64_rows(const gemm_call *g, const double *a, const double *b, double *c, int64_t begin, int64_t end) {
  const int64_t a_row = g->trans_a ? 1 : g->lda, a_col = g->trans_a ? g->lda : 1;
  const int64_t b_row = g->trans_b ? 1 : g->ldb, b_col = g->trans_b ? g->ldb : 1;
  for (int64_t i = begin; i < end; ++i) memset(c + i * g->ldc, 0, (size_t)g->n * sizeof *c);
  for (int64_t block = 0; block < g->k; block += F64_BLOCK) {
    const int64_t stop = block + F64_BLOCK < g->k ? block + F64_BLOCK : g->k;
    for (int64_t i = begin; i < end; ++i) {
      double *row = c + i * g->ldc;
      for (int64_t l = block; l < stop; ++l) {
        const double x = a[i * a_row + l * a_col], *y = b + l * b_row;
        for (int64_t j = 0; j < g->n; ++j) row[j] += x * y[j * b_col];
      }
    }
  }
}

static void f64_run(const gemm_call *g, const double *a, const double *b, double *c, int n_threads) {
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
  for (int t = 0; t < n_threads; ++t) {
    int64_t begin, end;
    parallel_share(g->m, 1, t, n_threads, &begin, &end);
    f64_rows(g, a, b, c, begin, end);
  }
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

uint64_t gemm_cost_ns(gemm_type type, int64_t m, int64_t n, int64_t k) {
  /* Measured on one core of a Granite Rapids (oneDNN 2.6.3, 256 to 1024 cubed); elsewhere they set the order
   * of magnitude. Below 2^50 whatever the shape. */
  static const double flops_per_ns[] = {[GEMM_F32] = 150, [GEMM_BF16] = 1000, [GEMM_F64] = 4};
  const double ns = 2.0 * (double)m * (double)n * (double)k / flops_per_ns[type];
  return ns < 0x1p50 ? (uint64_t)ns : UINT64_C(1) << 50;
}

static status gemm_zero(gemm_type type, const gemm_call *g, void *c) {
  const size_t bytes = type == GEMM_F64 ? sizeof(double) : sizeof(float);
  for (int64_t i = 0; !g->accumulate && i < g->m; ++i)
    memset((char *)c + (size_t)(i * g->ldc) * bytes, 0, (size_t)g->n * bytes);
  return ST_OK;
}

status gemm(gemm_type type, const gemm_call *g, const void *a, const void *b, void *c) {
  if (g->m == 0 || g->n == 0) return ST_OK;
  if (g->k == 0) return gemm_zero(type, g, c); /* oneDNN leaves C as it was */
  const int n_threads = parallel_begin(gemm_cost_ns(type, g->m, g->n, g->k));
  /* oneDNN takes as many threads as OpenMP's default of this thread, which may be the user's. */
  const int before = omp_get_max_threads ? omp_get_max_threads() : n_threads;
  if (before != n_threads) omp_set_num_threads(n_threads);
  dnnl_status_t st = dnnl_success;
  if (type == GEMM_F32)
    st = dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->m, g->n, g->k, g->alpha, a, g->lda, b, g->ldb,
                    g->accumulate ? 1 : 0, c, g->ldc);
  else if (type == GEMM_BF16)
    st = bf16_run(g, a, b, c);
  else
    f64_run(g, a, b, c, n_threads);
  if (before != n_threads) omp_set_num_threads(before);
  parallel_end(n_threads);
  return dnnl_status(st, g);
}
