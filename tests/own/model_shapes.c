/* SPDX-License-Identifier: Apache-2.0 */
/* A model with an open shape is run with more shapes than programs are kept. What it computes of its constants is there
 * once for all of them. */
#include "acl_test.h"
#include "onnx_writer.h"

enum { SIDE = 512, MOST_ROWS = 40 };

static float row_weight(int i) { return (float)(i % 5 - 2); }

/* y = x @ w, where x is [-1, SIDE], and w is computed: [SIDE, SIDE], each row the squares of r. */
static written product_model(void) {
  static const int64_t r_dims[] = {SIDE}, w_dims[] = {SIDE, SIDE}, n_dims[] = {2}, x_dims[] = {-1, SIDE};
  float r[SIDE];
  written graph = {0}, model = {0};
  for (int i = 0; i < SIDE; ++i) r[i] = row_weight(i);
  write_text(&graph, 2, "shapes");
  write_initialiser(&graph, "r", WRITTEN_FLOAT, r_dims, 1, r, sizeof r);
  write_initialiser(&graph, "n", WRITTEN_INT64, n_dims, 1, w_dims, sizeof w_dims);
  write_value(&graph, 11, "x", WRITTEN_FLOAT, x_dims, 2);
  write_node(&graph, "rows", "Expand", (const char *const[]){"r", "n", NULL}, "e");
  write_node(&graph, "squares", "Mul", (const char *const[]){"e", "r", NULL}, "w");
  write_node(&graph, "product", "MatMul", (const char *const[]){"x", "w", NULL}, "y");
  write_value(&graph, 12, "y", WRITTEN_FLOAT, x_dims, 2);
  write_model(&model, &graph);
  return model;
}

typedef struct {
  aclmdlDataset *in, *out;
  float *x, *y;
} buffers;

static buffers make_buffers(void) {
  const size_t bytes = MOST_ROWS * SIDE * sizeof(float);
  buffers b = {.in = aclmdlCreateDataset(), .out = aclmdlCreateDataset()};
  CHECK_OK(aclrtMalloc((void **)&b.x, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMalloc((void **)&b.y, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclmdlAddDatasetBuffer(b.in, aclCreateDataBuffer(b.x, bytes)));
  CHECK_OK(aclmdlAddDatasetBuffer(b.out, aclCreateDataBuffer(b.y, bytes)));
  return b;
}

static void free_buffers(buffers *b) {
  CHECK_OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(b->in, 0)));
  CHECK_OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(b->out, 0)));
  CHECK_OK(aclmdlDestroyDataset(b->in));
  CHECK_OK(aclmdlDestroyDataset(b->out));
  CHECK_OK(aclrtFree(b->x));
  CHECK_OK(aclrtFree(b->y));
}

/* Runs the model with so many rows of small integers, so that the result is exact. */
static void run_rows(uint32_t id, const buffers *b, int rows) {
  static float x[MOST_ROWS * SIDE], y[MOST_ROWS * SIDE];
  const size_t bytes = (size_t)rows * SIDE * sizeof *x;
  const int64_t dims[] = {rows, SIDE};
  for (int i = 0; i < rows * SIDE; ++i) x[i] = (float)((i * 7 + rows) % 4);
  CHECK_OK(aclrtMemcpy(b->x, bytes, x, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtMemset(b->y, bytes, 0xff, bytes));
  aclTensorDesc *t = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
  CHECK_OK(aclmdlSetDatasetTensorDesc(b->in, t, 0));
  aclDestroyTensorDesc(t);
  CHECK_OK(aclmdlExecute(id, b->in, b->out));
  CHECK_OK(aclrtMemcpy(y, bytes, b->y, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < rows; ++i) {
    float sum = 0;
    for (int k = 0; k < SIDE; ++k) sum += x[i * SIDE + k];
    for (int k = 0; k < SIDE; ++k) assert_float_equal(y[i * SIDE + k], sum * row_weight(k) * row_weight(k), 0);
  }
}

static size_t free_bytes(void) {
  size_t free, total;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  return free;
}

static void test_constants_are_computed_once(void **state) {
  const written model = product_model();
  uint32_t id;
  (void)state;
  const size_t before = free_bytes();
  CHECK_OK(aclmdlLoadFromMem(model.bytes, model.n, &id));
  buffers b = make_buffers();
  run_rows(id, &b, MOST_ROWS); /* the largest arena first */
  const size_t after_one = free_bytes();
  for (int rows = 1; rows < MOST_ROWS; ++rows) run_rows(id, &b, rows);
  run_rows(id, &b, MOST_ROWS);
  const size_t after_all = free_bytes();
  /* Forms that only some shapes want are there, too. */
  assert_true(after_one <= after_all + 3 * SIDE * SIDE * sizeof(float));
  CHECK_OK(aclmdlUnload(id));
  free_buffers(&b);
  assert_int_equal(free_bytes(), before);
}

static int set_up(void **state) {
  (void)state;
  return aclInit(NULL) || aclrtSetDevice(0);
}

static int tear_down(void **state) {
  (void)state;
  return aclrtResetDevice(0) || aclFinalize();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants_are_computed_once)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
