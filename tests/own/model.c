/* SPDX-License-Identifier: Apache-2.0 */
/* Models: .om files are made, loaded, described and run, with fixed and with open shapes, in memory of the library's
 * and of the program's. */
#include "cannon/model.h"

#include <unistd.h>

#include "acl_test.h"
#include "onnx_writer.h"

enum { ROWS = 4, PATH = 64 };

static char path[PATH];

/* Writes the small model into a file. */
static void write_file(int64_t rows) {
  written model = {0};
  write_small_model(&model, rows);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(model.bytes, 1, model.n, f), model.n);
  assert_int_equal(fclose(f), 0);
}

static void *made(int64_t rows, const cannon_model_shape *shape, size_t *bytes) {
  void *om = NULL;
  write_file(rows);
  const cannon_model_options o = {.name = "small", .shapes = shape, .n_shapes = shape != NULL};
  CHECK_OK(cannon_model_build(path, &o, &om, bytes, NULL));
  return om;
}

/* What the model computes, in float. */
static void expected(const float *x, int rows, float *y, float *z) {
  static const float w[2][3] = {{1, -1, 2}, {0, 1, -2}}, b[3] = {0.5f, 0, -1};
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < 3; ++k) {
      const float sum = x[2 * i] * w[0][k] + x[2 * i + 1] * w[1][k] + b[k];
      y[i * 3 + k] = z[k * rows + i] = sum > 0 ? sum : 0;
    }
}

typedef struct {
  aclmdlDataset *in, *out;
  void *x, *y, *z;
} buffers;

static void *device_memory(size_t bytes) {
  void *p;
  CHECK_OK(aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return p;
}

static void add(aclmdlDataset *d, void *data, size_t bytes) {
  CHECK_OK(aclmdlAddDatasetBuffer(d, aclCreateDataBuffer(data, bytes)));
}

static buffers make_buffers(int rows, const float *x) {
  buffers b = {aclmdlCreateDataset(), aclmdlCreateDataset(), device_memory(64), device_memory(64), device_memory(64)};
  const size_t in = (size_t)rows * 2 * sizeof(float), out = (size_t)rows * 3 * sizeof(float);
  CHECK_OK(aclrtMemcpy(b.x, 64, x, in, ACL_MEMCPY_HOST_TO_DEVICE));
  add(b.in, b.x, in);
  add(b.out, b.y, out);
  add(b.out, b.z, out);
  return b;
}

static void check_result(const buffers *b, const float *x, int rows) {
  float y[12], z[12], got[12];
  const size_t bytes = (size_t)rows * 3 * sizeof(float);
  expected(x, rows, y, z);
  CHECK_OK(aclrtMemcpy(got, sizeof got, b->y, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  assert_memory_equal(got, y, bytes);
  CHECK_OK(aclrtMemcpy(got, sizeof got, b->z, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  assert_memory_equal(got, z, bytes);
}

static void free_dataset(aclmdlDataset *d) {
  for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(d); ++i)
    CHECK_OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(d, i)));
  CHECK_OK(aclmdlDestroyDataset(d));
}

static void free_buffers(buffers *b) {
  free_dataset(b->in);
  free_dataset(b->out);
  CHECK_OK(aclrtFree(b->x));
  CHECK_OK(aclrtFree(b->y));
  CHECK_OK(aclrtFree(b->z));
}

static const float input[] = {1, 2, -3, 4, 0, 0, 5, -6};

static void test_fixed_shape(void **state) {
  size_t bytes;
  uint32_t id;
  void *om = made(ROWS, NULL, &bytes);
  (void)state;
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  memset(om, 0, bytes);
  free(om); /* everything needed was copied */
  buffers b = make_buffers(ROWS, input);
  CHECK_OK(aclmdlExecute(id, b.in, b.out));
  check_result(&b, input, ROWS);
  CHECK_OK(aclrtMemset(b.y, 64, 0, 64));
  aclrtStream s;
  CHECK_OK(aclrtCreateStream(&s));
  CHECK_OK(aclmdlExecuteAsync(id, b.in, b.out, s));
  CHECK_OK(aclmdlUnload(id)); /* the queued execution keeps what it needs */
  CHECK_OK(aclrtSynchronizeStream(s));
  check_result(&b, input, ROWS);
  CHECK_OK(aclrtDestroyStream(s));
  assert_int_equal(aclmdlUnload(id), 145003);
  assert_int_equal(aclmdlExecute(id, b.in, b.out), 145003);
  free_buffers(&b);
}

static void test_description(void **state) {
  size_t bytes, index, work, weight;
  uint32_t id;
  aclmdlIODims dims;
  void *om = made(ROWS, NULL, &bytes);
  aclmdlDesc *d = aclmdlCreateDesc();
  (void)state;
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  CHECK_OK(aclmdlGetDesc(d, id));
  CHECK_OK(aclmdlUnload(id));
  assert_int_equal(aclmdlGetNumInputs(d), 1);
  assert_int_equal(aclmdlGetNumOutputs(d), 2);
  assert_int_equal(aclmdlGetInputSizeByIndex(d, 0), ROWS * 2 * sizeof(float));
  assert_int_equal(aclmdlGetOutputSizeByIndex(d, 1), ROWS * 3 * sizeof(float));
  assert_int_equal(aclmdlGetOutputSizeByIndex(d, 2), 0);
  assert_string_equal(aclmdlGetInputNameByIndex(d, 0), "x");
  assert_string_equal(aclmdlGetOutputNameByIndex(d, 1), "turn:0:z");
  assert_null(aclmdlGetInputNameByIndex(d, 1));
  CHECK_OK(aclmdlGetOutputIndexByName(d, "turn:0:z", &index));
  assert_int_equal(index, 1);
  CHECK_OK(aclmdlGetInputIndexByName(d, "x", &index));
  assert_int_equal(aclmdlGetInputIndexByName(d, "y", &index), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclmdlGetOutputDims(d, 1, &dims));
  assert_int_equal(dims.dimCount, 2);
  assert_int_equal(dims.dims[0], 3);
  assert_int_equal(dims.dims[1], ROWS);
  CHECK_OK(aclmdlGetCurOutputDims(d, 0, &dims));
  assert_int_equal(aclmdlGetInputDataType(d, 0), ACL_FLOAT);
  assert_int_equal(aclmdlGetOutputFormat(d, 0), ACL_FORMAT_ND);
  CHECK_OK(aclmdlQuerySizeFromMem(om, bytes, &work, &weight));
  assert_true(work > 0 && weight >= 9 * sizeof(float));
  CHECK_OK(aclmdlGetDescFromMem(d, om, bytes));
  assert_int_equal(aclmdlGetNumOutputs(d), 2);
  CHECK_OK(aclmdlDestroyDesc(d));
  free(om);
}

static void test_open_shape(void **state) {
  size_t bytes, work, weight;
  uint32_t id;
  void *om = made(-1, NULL, &bytes);
  aclmdlDesc *d = aclmdlCreateDesc();
  aclmdlIODims dims;
  (void)state;
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  CHECK_OK(aclmdlGetDesc(d, id));
  assert_int_equal(aclmdlGetInputSizeByIndex(d, 0), 0);
  CHECK_OK(aclmdlGetInputDims(d, 0, &dims));
  assert_int_equal(dims.dims[0], -1);
  assert_int_equal(aclmdlGetCurOutputDims(d, 0, &dims), ACL_ERROR_INVALID_PARAM);
  assert_int_equal(aclmdlQuerySizeFromMem(om, bytes, &work, &weight), 145000);
  for (int rows = 1; rows <= ROWS; rows += 3) {
    buffers b = make_buffers(rows, input);
    assert_int_equal(aclmdlExecute(id, b.in, b.out), 145021); /* no shape was set */
    const int64_t shape[] = {rows, 2}, wrong[] = {rows, 3};
    aclTensorDesc *t = aclCreateTensorDesc(ACL_FLOAT, 2, wrong, ACL_FORMAT_ND);
    CHECK_OK(aclmdlSetDatasetTensorDesc(b.in, t, 0));
    aclDestroyTensorDesc(t);
    assert_int_equal(aclmdlExecute(id, b.in, b.out), 145021);
    t = aclCreateTensorDesc(ACL_FLOAT, 2, shape, ACL_FORMAT_ND);
    CHECK_OK(aclmdlSetDatasetTensorDesc(b.in, t, 0));
    aclDestroyTensorDesc(t);
    CHECK_OK(aclmdlExecute(id, b.in, b.out));
    check_result(&b, input, rows);
    const aclTensorDesc *said = aclmdlGetDatasetTensorDesc(b.out, 1);
    assert_int_equal(aclGetTensorDescSize(said), (size_t)rows * 3 * sizeof(float));
    free_buffers(&b);
  }
  CHECK_OK(aclmdlUnload(id));
  CHECK_OK(aclmdlDestroyDesc(d));
  free(om);
}

static void test_memory_of_the_program(void **state) {
  size_t bytes, work, weight;
  uint32_t id;
  const cannon_model_shape shape = {.name = "x", .n_dims = 2, .dims = {ROWS, 2}};
  void *om = made(-1, &shape, &bytes);
  (void)state;
  CHECK_OK(aclmdlQuerySizeFromMem(om, bytes, &work, &weight));
  void *w = device_memory(work), *c = device_memory(weight);
  assert_int_equal(aclmdlLoadFromMemWithMem(om, bytes, &id, w, work, c, 1), 145000);
  CHECK_OK(aclmdlLoadFromMemWithMem(om, bytes, &id, w, work, c, weight));
  buffers b = make_buffers(ROWS, input);
  CHECK_OK(aclmdlExecute(id, b.in, b.out));
  check_result(&b, input, ROWS);
  CHECK_OK(aclmdlUnload(id));
  CHECK_OK(aclrtFree(w));
  CHECK_OK(aclrtFree(c));
  free_buffers(&b);
  free(om);
}

static void test_outputs_of_the_library(void **state) {
  size_t bytes;
  uint32_t id;
  void *om = made(ROWS, NULL, &bytes);
  (void)state;
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  buffers b = make_buffers(ROWS, input);
  aclDataBuffer *y = aclmdlGetDatasetBuffer(b.out, 0);
  CHECK_OK(aclUpdateDataBuffer(y, NULL, 0));
  assert_int_equal(aclmdlExecuteAsync(id, b.in, b.out, NULL), ACL_ERROR_MODEL_OUTPUT_NOT_MATCH);
  CHECK_OK(aclmdlExecute(id, b.in, b.out));
  CHECK_OK(aclrtFree(b.y));
  b.y = aclGetDataBufferAddr(y);
  assert_int_equal(aclGetDataBufferSizeV2(y), ROWS * 3 * sizeof(float));
  check_result(&b, input, ROWS);
  CHECK_OK(aclmdlUnload(id));
  free_buffers(&b);
  free(om);
}

static void set_size(aclmdlConfigHandle *h, aclmdlConfigAttr attr, size_t size) {
  CHECK_OK(aclmdlSetConfigOpt(h, attr, &size, sizeof size));
}

static void test_configurations(void **state) {
  size_t bytes, work, weight;
  uint32_t id;
  void *om = made(ROWS, NULL, &bytes);
  const int32_t late = 1000, never = 0;
  aclmdlConfigHandle *h = aclmdlCreateConfigHandle();
  aclmdlExecConfigHandle *e = aclmdlCreateExecConfigHandle();
  (void)state;
  assert_int_equal(aclmdlLoadWithConfig(h, &id), ACL_ERROR_INVALID_PARAM); /* nothing is set */
  set_size(h, ACL_MDL_LOAD_TYPE_SIZET, 3);
  assert_int_equal(aclmdlLoadWithConfig(h, &id), ACL_ERROR_INVALID_PARAM); /* no model */
  CHECK_OK(aclmdlSetConfigOpt(h, ACL_MDL_MEM_ADDR_PTR, &om, sizeof om));
  set_size(h, ACL_MDL_MEM_SIZET, bytes);
  assert_int_equal(aclmdlSetConfigOpt(h, ACL_MDL_PRIORITY_INT32, &bytes, sizeof bytes), ACL_ERROR_INVALID_PARAM);
  assert_int_equal(aclmdlSetConfigOpt(h, ACL_MDL_INPUTQ_NUM_SIZET, &bytes, sizeof bytes), 200006);
  CHECK_OK(aclmdlLoadWithConfig(h, &id));
  CHECK_OK(aclmdlQuerySizeFromMem(om, bytes, &work, &weight));
  void *own = device_memory(work);
  CHECK_OK(aclmdlSetExecConfigOpt(e, ACL_MDL_STREAM_SYNC_TIMEOUT, &late, sizeof late));
  assert_int_equal(aclmdlSetExecConfigOpt(e, ACL_MDL_STREAM_SYNC_TIMEOUT, &never, sizeof never),
                   ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclmdlSetExecConfigOpt(e, ACL_MDL_WORK_ADDR_PTR, &own, sizeof own));
  buffers b = make_buffers(ROWS, input);
  aclrtStream s;
  CHECK_OK(aclrtCreateStream(&s));
  assert_int_equal(aclmdlExecuteV2(id, b.in, b.out, s, e), 145000); /* work memory of 0 bytes */
  CHECK_OK(aclmdlSetExecConfigOpt(e, ACL_MDL_WORK_SIZET, &work, sizeof work));
  CHECK_OK(aclmdlExecuteV2(id, b.in, b.out, s, e));
  check_result(&b, input, ROWS);
  assert_int_equal(aclmdlExecuteAsyncV2(id, b.in, b.out, NULL, NULL), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclmdlExecuteAsyncV2(id, b.in, b.out, s, NULL));
  CHECK_OK(aclrtSynchronizeStream(s));
  check_result(&b, input, ROWS);
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclmdlUnload(id));
  CHECK_OK(aclmdlDestroyConfigHandle(h));
  CHECK_OK(aclmdlDestroyExecConfigHandle(e));
  CHECK_OK(aclrtFree(own));
  free_buffers(&b);
  free(om);
}

/* A dataset for which no gear was set: what the program wrote into the added input counts, and must be a gear. */
static void check_written_gear(uint32_t id, int32_t written, bool is_gear) {
  buffers b = make_buffers(ROWS, input);
  void *gear = device_memory(sizeof written);
  add(b.in, gear, sizeof written);
  CHECK_OK(aclrtMemcpy(gear, sizeof written, &written, sizeof written, ACL_MEMCPY_HOST_TO_DEVICE));
  if (is_gear) {
    CHECK_OK(aclmdlExecute(id, b.in, b.out));
    check_result(&b, input, written);
  } else {
    assert_int_equal(aclmdlExecute(id, b.in, b.out), 145013);
    const char *const words = aclGetRecentErrMsg();
    assert_true(words && strstr(words, "no gear was set") && strstr(words, "it was made for"));
  }
  CHECK_OK(aclrtFree(gear));
  free_buffers(&b);
}

/* Gears of a kind: 1 and ROWS rows. */
static void check_gears(cannon_model_gears kind) {
  static const int64_t numbers[] = {1, ROWS};
  const cannon_model_options o = {.gears = kind, .n_gears = 2, .n_numbers = 1, .numbers = numbers};
  size_t bytes, index, count;
  uint32_t id;
  void *om;
  aclmdlIODims dims, both[2];
  aclmdlBatch batch;
  aclmdlDesc *d = aclmdlCreateDesc();
  write_file(-1);
  CHECK_OK(cannon_model_build(path, &o, &om, &bytes, NULL));
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  CHECK_OK(aclmdlGetDesc(d, id));
  assert_int_equal(aclmdlGetNumInputs(d), 2);
  assert_int_equal(aclmdlGetInputSizeByIndex(d, 0), ROWS * 2 * sizeof(float));
  assert_int_equal(aclmdlGetOutputSizeByIndex(d, 1), ROWS * 3 * sizeof(float));
  CHECK_OK(aclmdlGetInputIndexByName(d, ACL_DYNAMIC_TENSOR_NAME, &index));
  assert_int_equal(index, 1);
  CHECK_OK(aclmdlGetInputDims(d, 0, &dims));
  assert_int_equal(dims.dims[0], -1);
  CHECK_OK(aclmdlGetDynamicBatch(d, &batch));
  CHECK_OK(aclmdlGetInputDynamicGearCount(d, (size_t)-1, &count));
  assert_int_equal(batch.batchCount, kind == CANNON_MODEL_BATCH ? 2 : 0);
  assert_int_equal(count, kind == CANNON_MODEL_DIMS ? 2 : 0);
  if (kind == CANNON_MODEL_DIMS) {
    CHECK_OK(aclmdlGetInputDynamicDims(d, (size_t)-1, both, 2));
    assert_int_equal(both[1].dimCount, 2);
    assert_int_equal(both[1].dims[0], ROWS);
    assert_int_equal(both[1].dims[1], 2);
  }
  for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
    buffers b = make_buffers(rows, input);
    void *gear = device_memory(sizeof(uint64_t));
    add(b.in, gear, sizeof(uint64_t));
    const aclmdlIODims shape = {.dimCount = 2, .dims = {rows, 2}};
    if (kind == CANNON_MODEL_BATCH) {
      CHECK_OK(aclmdlSetDynamicBatchSize(id, b.in, index, (uint64_t)rows));
      assert_int_equal(aclmdlSetDynamicBatchSize(id, b.in, index, 3), 145013);
      assert_int_equal(aclmdlSetDynamicBatchSize(id, b.in, 7, 1), 145011);
      assert_int_equal(aclmdlSetDynamicBatchSize(id, b.in, 0, 1), 145011); /* the input itself, which stays as it is */
      assert_int_equal(aclmdlSetInputDynamicDims(id, b.in, index, &shape), ACL_ERROR_MODEL_NOT_DYNAMIC);
    } else {
      CHECK_OK(aclmdlSetInputDynamicDims(id, b.in, index, &shape));
      assert_int_equal(aclmdlSetInputDynamicDims(id, b.in, 0, &shape), 145011);
      assert_int_equal(aclmdlSetDynamicBatchSize(id, b.in, index, 1), ACL_ERROR_MODEL_NOT_DYNAMIC);
    }
    CHECK_OK(aclmdlGetCurOutputDims(d, 0, &dims));
    assert_int_equal(dims.dims[0], rows);
    CHECK_OK(aclmdlExecute(id, b.in, b.out));
    check_result(&b, input, rows);
    uint64_t written_back;
    CHECK_OK(aclrtMemcpy(&written_back, sizeof written_back, gear, sizeof written_back, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(written_back, rows);
    CHECK_OK(aclrtFree(gear));
    free_buffers(&b);
  }
  check_written_gear(id, ROWS, true);
  check_written_gear(id, 1, true);
  check_written_gear(id, 0, false);
  check_written_gear(id, ROWS + 1, false);
  CHECK_OK(aclmdlUnload(id));
  CHECK_OK(aclmdlDestroyDesc(d));
  free(om);
}

static void test_gears(void **state) {
  void *om;
  size_t bytes;
  (void)state;
  check_gears(CANNON_MODEL_BATCH);
  check_gears(CANNON_MODEL_DIMS);
  static const int64_t numbers[] = {1, 2, 3, 4};
  const cannon_model_options wrong = {.gears = CANNON_MODEL_IMAGE, .n_gears = 2, .n_numbers = 2, .numbers = numbers};
  assert_int_equal(cannon_model_build(path, &wrong, &om, &bytes, NULL), ACL_ERROR_INVALID_PARAM);
}

typedef struct {
  uint32_t id;
  int rows;
} thread_work;

/* Executes the model with its own buffers, shape and stream. */
static void *execute_often(void *argument) {
  const thread_work *w = argument;
  aclrtStream s;
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtCreateStream(&s));
  buffers b = make_buffers(w->rows, input);
  const int64_t shape[] = {w->rows, 2};
  aclTensorDesc *t = aclCreateTensorDesc(ACL_FLOAT, 2, shape, ACL_FORMAT_ND);
  CHECK_OK(aclmdlSetDatasetTensorDesc(b.in, t, 0));
  aclDestroyTensorDesc(t);
  for (int i = 0; i < 50; ++i) {
    CHECK_OK(aclmdlExecuteAsync(w->id, b.in, b.out, s));
    CHECK_OK(aclrtSynchronizeStream(s));
    check_result(&b, input, w->rows);
  }
  free_buffers(&b);
  CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtResetDevice(0));
  return NULL;
}

static void test_threads(void **state) {
  size_t bytes;
  uint32_t id;
  void *om = made(-1, NULL, &bytes);
  pthread_t threads[3];
  thread_work work[3];
  (void)state;
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  for (int i = 0; i < 3; ++i) {
    work[i] = (thread_work){id, 1 + i};
    assert_int_equal(pthread_create(&threads[i], NULL, execute_often, &work[i]), 0);
  }
  for (int i = 0; i < 3; ++i) assert_int_equal(pthread_join(threads[i], NULL), 0);
  CHECK_OK(aclmdlUnload(id));
  free(om);
}

static void test_refused(void **state) {
  size_t bytes, n;
  uint32_t id;
  void *om = made(ROWS, NULL, &bytes), *other;
  const cannon_model_shape unknown = {.name = "q", .n_dims = 1, .dims = {1}},
                           wrong = {.name = "x", .n_dims = 2, .dims = {5, 2}};
  (void)state;
  assert_int_equal(aclmdlLoadFromFile("/nonexistent/m.om", &id), 145002);
  assert_int_equal(aclmdlLoadFromMem(om, bytes - 40, &id), ACL_ERROR_PARSE_FILE);
  assert_int_equal(aclmdlLoadFromMem("IMOD of nothing", 15, &id), ACL_ERROR_PARSE_FILE);
  assert_int_equal(
      cannon_model_build(path, &(cannon_model_options){.shapes = &unknown, .n_shapes = 1}, &other, &n, NULL),
      ACL_ERROR_INVALID_PARAM);
  assert_int_equal(cannon_model_build(path, &(cannon_model_options){.shapes = &wrong, .n_shapes = 1}, &other, &n, NULL),
                   ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclmdlLoadFromMem(om, bytes, &id));
  buffers b = make_buffers(ROWS, input);
  CHECK_OK(aclUpdateDataBuffer(aclmdlGetDatasetBuffer(b.in, 0), b.x, 8));
  assert_int_equal(aclmdlExecute(id, b.in, b.out), ACL_ERROR_MODEL_INPUT_NOT_MATCH);
  assert_int_equal(aclmdlExecute(id, b.in, b.in), ACL_ERROR_INVALID_PARAM); /* one output, expected two */
  CHECK_OK(aclmdlUnload(id));
  free_buffers(&b);
  free(om);
}

/* Queues, bundles and .exeom files; and what describes the operators of a task that failed. */
static void test_not_supported(void **state) {
  const uint32_t queue = 0;
  uint32_t id;
  size_t n;
  aclmdlExeOMDesc sizes;
  aclTensorDesc *in, *out;
  char name[8];
  (void)state;
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlLoadFromFileWithQ(path, &id, &queue, 1, &queue, 1));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlLoadFromMemWithQ("IMOD", 4, &id, &queue, 1, &queue, 1));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlQueryExeOMDesc(path, &sizes));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlBundleLoadFromFile(path, &id));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlBundleLoadFromMem("IMOD", 4, &id));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlBundleGetModelNum(1, &n));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlBundleGetModelId(1, 0, &id));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlBundleUnload(1));
  CHECK_CODE(ACL_ERROR_FEATURE_UNSUPPORTED, aclmdlCreateAndGetOpDesc(0, 0, 0, name, sizeof name, &in, &n, &out, &n));
  aclmdlDesc *d = aclmdlCreateDesc();
  assert_string_equal(aclmdlGetOpAttr(d, "matmul", "_datadump_original_op_names"), "");
  assert_null(aclmdlGetOpAttr(NULL, "matmul", "_datadump_original_op_names"));
  CHECK_OK(aclmdlDestroyDesc(d));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclmdlBundleLoadFromFile(NULL, &id));
}

static int set_up(void **state) {
  (void)state;
  snprintf(path, sizeof path, "/tmp/cannon_model_%d.onnx", (int)getpid());
  return aclInit(NULL) || aclrtSetDevice(0);
}

static int tear_down(void **state) {
  (void)state;
  unlink(path);
  return aclrtResetDevice(0) || aclFinalize();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fixed_shape),
      cmocka_unit_test(test_description),
      cmocka_unit_test(test_open_shape),
      cmocka_unit_test(test_memory_of_the_program),
      cmocka_unit_test(test_outputs_of_the_library),
      cmocka_unit_test(test_gears),
      cmocka_unit_test(test_configurations),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_not_supported),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
