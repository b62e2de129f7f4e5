/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of aclnn (tensors, scalars, lists, executors): their lifetimes and the values they hold. */
#include "acl_ops.h"

#include <sched.h>

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_mm.h"
#include "aclnnop/aclnn_reduce_sum.h"

/* ---- tensors ---- */

static void every_dtype_and_format_is_kept(void **state) {
  (void)state;
  static const aclDataType types[] = {ACL_DT_UNDEFINED, ACL_FLOAT,  ACL_FLOAT16, ACL_INT8,   ACL_INT32,
                                      ACL_UINT8,        ACL_INT16,  ACL_UINT16,  ACL_UINT32, ACL_INT64,
                                      ACL_UINT64,       ACL_DOUBLE, ACL_BOOL,    ACL_STRING, ACL_COMPLEX64,
                                      ACL_COMPLEX128,   ACL_BF16,   ACL_INT4,    ACL_UINT1,  ACL_COMPLEX32};
  static const aclFormat formats[] = {
      ACL_FORMAT_UNDEFINED, ACL_FORMAT_NCHW,        ACL_FORMAT_NHWC,  ACL_FORMAT_ND,    ACL_FORMAT_NC1HWC0,
      ACL_FORMAT_FRACTAL_Z, ACL_FORMAT_NC1HWC0_C04, ACL_FORMAT_HWCN,  ACL_FORMAT_NDHWC, ACL_FORMAT_FRACTAL_NZ,
      ACL_FORMAT_NCDHW,     ACL_FORMAT_NDC1HWC0,    ACL_FRACTAL_Z_3D, ACL_FORMAT_NC,    ACL_FORMAT_NCL};
  const int64_t dims[] = {2, 3}, strides[] = {3, 1};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
      aclTensor *x = aclCreateTensor(dims, 2, types[t], strides, 0, formats[f], dims, 2, NULL);
      assert_non_null(x);
      aclDataType type = (aclDataType)77;
      aclFormat format = (aclFormat)77;
      CHECK_OK(aclGetDataType(x, &type));
      CHECK_OK(aclGetFormat(x, &format));
      assert_int_equal(type, types[t]);
      assert_int_equal(format, formats[f]);
      CHECK_OK(aclDestroyTensor(x));
    }
  }
}

static void assert_int64s(int64_t *got, uint64_t n, const int64_t *want, uint64_t n_want) {
  assert_int_equal(n, n_want);
  for (uint64_t i = 0; i < n; i++) assert_int_equal(got[i], want[i]);
  free(got); /* the getter allocates the array, the caller frees it */
}

static void getters_return_the_values_given_to_the_creator(void **state) {
  (void)state;
  void *dev = dev_new(4096), *got = NULL;
  aclTensor *x = aclCreateTensor(DIMS(4, 3), ACL_FLOAT, (const int64_t[]){1, 8}, 5, ACL_FORMAT_ND, DIMS(64), dev);
  assert_non_null(x);
  int64_t *numbers = NULL, offset = 0;
  uint64_t n = 0;
  CHECK_OK(aclGetViewShape(x, &numbers, &n));
  assert_int64s(numbers, n, DIMS(4, 3));
  CHECK_OK(aclGetViewStrides(x, &numbers, &n));
  assert_int64s(numbers, n, DIMS(1, 8));
  CHECK_OK(aclGetStorageShape(x, &numbers, &n));
  assert_int64s(numbers, n, DIMS(64));
  CHECK_OK(aclGetViewOffset(x, &offset));
  assert_int_equal(offset, 5);
  CHECK_OK(aclGetRawTensorAddr(x, &got));
  assert_ptr_equal(got, dev);

  CHECK_OK(aclSetRawTensorAddr(x, (char *)dev + 256));
  CHECK_OK(aclGetRawTensorAddr(x, &got));
  assert_ptr_equal(got, (char *)dev + 256);

  aclDataType type = ACL_DT_UNDEFINED;
  CHECK_OK(aclInitTensor(x, DIMS(7), ACL_INT8, (const int64_t[]){2}, 1, ACL_FORMAT_NCL, DIMS(20, 2), dev));
  CHECK_OK(aclGetViewShape(x, &numbers, &n));
  assert_int64s(numbers, n, DIMS(7));
  CHECK_OK(aclGetStorageShape(x, &numbers, &n));
  assert_int64s(numbers, n, DIMS(20, 2));
  CHECK_OK(aclGetDataType(x, &type));
  assert_int_equal(type, ACL_INT8);
  CHECK_OK(aclGetRawTensorAddr(x, &got));
  assert_ptr_equal(got, dev);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclrtFree(dev));
}

static void operators_take_ranks_zero_to_eight(void **state) {
  (void)state;
  const int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (uint64_t rank = 0; rank <= 8; rank++) {
    aclTensor *x = aclCreateTensor(ones, rank, ACL_FLOAT, ones, 0, ACL_FORMAT_ND, ones, 1, NULL);
    assert_non_null(x);
    int64_t *dims = NULL;
    uint64_t n = 99;
    CHECK_OK(aclGetViewShape(x, &dims, &n));
    assert_int_equal(n, rank);
    free(dims);
    CHECK_OK(aclDestroyTensor(x));
  }
}

static void check_shape(const aclTensor *x, uint64_t rank, const int64_t *dims, const int64_t *strides,
                        uint64_t storage_rank, const int64_t *storage) {
  int64_t *got = NULL;
  uint64_t n = 99;
  CHECK_OK(aclGetViewShape(x, &got, &n));
  assert_int64s(got, n, dims, rank);
  CHECK_OK(aclGetViewStrides(x, &got, &n));
  assert_int64s(got, n, strides, rank);
  CHECK_OK(aclGetStorageShape(x, &got, &n));
  assert_int64s(got, n, storage, storage_rank);
}

static const int64_t nine[] = {1, 2, 1, 3, 1, 2, 1, 1, 2}, nine_strides[] = {24, 12, 12, 4, 4, 2, 2, 2, 1};

/* A tensor of nine dimensions, as long as no operator gets it, is like any other, also if it gets another shape. */
static void shapes_of_nine_dimensions_are_kept(void **state) {
  (void)state;
  int64_t many[64];
  for (int d = 0; d < 64; ++d) many[d] = 1;
  aclTensor *x = aclCreateTensor(nine, 9, ACL_INT32, nine_strides, 5, ACL_FORMAT_ND, nine, 9, many);
  assert_non_null(x);
  check_shape(x, 9, nine, nine_strides, 9, nine);
  aclDataType dtype;
  int64_t offset;
  void *address;
  CHECK_OK(aclGetDataType(x, &dtype));
  CHECK_OK(aclGetViewOffset(x, &offset));
  CHECK_OK(aclGetRawTensorAddr(x, &address));
  assert_int_equal(dtype, ACL_INT32);
  assert_int_equal(offset, 5);
  assert_ptr_equal(address, many);
  CHECK_OK(aclInitTensor(x, many, 64, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 1, NULL));
  check_shape(x, 64, many, many, 1, nine);
  CHECK_OK(aclInitTensor(x, nine + 1, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, NULL));
  check_shape(x, 1, nine + 1, many, 9, nine);
  const int64_t negative[9] = {1, 1, 1, 1, 1, 1, 1, 1, -1};
  CHECK_CODE(161002, aclInitTensor(x, negative, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, NULL));
  check_shape(x, 1, nine + 1, many, 9, nine);
  CHECK_OK(aclInitTensor(x, nine, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 2, NULL));
  check_shape(x, 2, nine, (const int64_t[]){2, 1}, 2, nine);
  CHECK_OK(aclDestroyTensor(x));
  assert_null(aclCreateTensor(nine, UINT64_MAX, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, NULL));
  assert_null(aclCreateTensor(nine, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, UINT64_MAX, NULL));
  assert_null(aclCreateTensor(NULL, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, NULL));
}

static void refuse_wide(aclnnStatus code, const char *argument) {
  const char *const message = aclGetRecentErrMsg();
  assert_int_equal(code, 161002);
  assert_non_null(message);
  assert_non_null(strstr(message, argument));
  assert_non_null(strstr(message, "cannot be larger than 8 dimensions"));
}

static void operators_refuse_nine_dimensions(void **state) {
  (void)state;
  uint64_t bytes;
  aclOpExecutor *e;
  aclTensor *wide = aclCreateTensor(nine, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, NULL);
  aclTensor *stored = aclCreateTensor(nine, 8, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, NULL);
  aclTensor *x = TENSOR(NULL, ACL_FLOAT, 2);
  aclScalar *one = float_scalar(1);
  refuse_wide(aclnnAddGetWorkspaceSize(wide, x, one, x, &bytes, &e), "self has shape [1, 2, 1, 3, 1, 2, 1, 1, 2]");
  refuse_wide(aclnnAddGetWorkspaceSize(x, wide, one, x, &bytes, &e), "other");
  refuse_wide(aclnnAddGetWorkspaceSize(x, x, one, wide, &bytes, &e), "out");
  refuse_wide(aclnnAddGetWorkspaceSize(stored, x, one, x, &bytes, &e), "self has a storage");
  const aclTensor *const members[] = {x, wide, stored};
  aclTensorList *list = aclCreateTensorList(members, 3);
  assert_non_null(list);
  refuse_wide(aclnnCatGetWorkspaceSize(list, 0, stored, &bytes, &e), "tensors[1]");
  CHECK_OK(aclDestroyTensorList(list));
  CHECK_OK(aclDestroyScalar(one));
}

static void impossible_shapes_are_refused(void **state) {
  (void)state;
  const int64_t dims[] = {2, 3}, negative[] = {2, -3}, empty[] = {0, 3}, strides[] = {3, 1};
  assert_null(aclCreateTensor(negative, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, NULL));
  assert_null(aclCreateTensor(NULL, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, NULL));
  assert_null(aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, NULL, 2, NULL));
  aclTensor *x = aclCreateTensor(empty, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, empty, 2, NULL);
  assert_non_null(x); /* an empty tensor is valid */
  CHECK_OK(aclDestroyTensor(x));
}

/* ---- lists ---- */

static void lists_report_their_size_and_own_their_members(void **state) {
  (void)state;
  const aclTensor *tensors[5];
  const aclScalar *scalars[4];
  for (int i = 0; i < 5; i++) tensors[i] = TENSOR(NULL, ACL_FLOAT, 2);
  for (int i = 0; i < 4; i++) scalars[i] = float_scalar((float)i);
  aclTensorList *tl = aclCreateTensorList(tensors, 5);
  aclScalarList *sl = aclCreateScalarList(scalars, 4);
  aclIntArray *ia = aclCreateIntArray(DIMS(7, 8, 9));
  aclFloatArray *fa = aclCreateFloatArray(FLOATS(1, 2), 2);
  aclBoolArray *ba = aclCreateBoolArray((const bool[]){true}, 1);
  uint64_t n[5] = {0};
  CHECK_OK(aclGetTensorListSize(tl, &n[0]));
  CHECK_OK(aclGetScalarListSize(sl, &n[1]));
  CHECK_OK(aclGetIntArraySize(ia, &n[2]));
  CHECK_OK(aclGetFloatArraySize(fa, &n[3]));
  CHECK_OK(aclGetBoolArraySize(ba, &n[4]));
  for (int i = 0; i < 5; i++) assert_int_equal(n[i], 5 - i);
  CHECK_OK(aclDestroyTensorList(tl)); /* destroys its members, too; leak checkers report it if not */
  CHECK_OK(aclDestroyScalarList(sl));
  CHECK_OK(aclDestroyIntArray(ia));
  CHECK_OK(aclDestroyFloatArray(fa));
  CHECK_OK(aclDestroyBoolArray(ba));
}

static void destroying_null_is_allowed(void **state) {
  (void)state;
  CHECK_OK(aclDestroyTensor(NULL));
  CHECK_OK(aclDestroyScalar(NULL));
  CHECK_OK(aclDestroyIntArray(NULL));
  CHECK_OK(aclDestroyFloatArray(NULL));
  CHECK_OK(aclDestroyBoolArray(NULL));
  CHECK_OK(aclDestroyTensorList(NULL));
  CHECK_OK(aclDestroyScalarList(NULL));
}

/* ---- small operators ---- */

static void add_scales_broadcasts_and_reads_views(void **state) {
  (void)state;
  void *a = DEV_FLOATS(1, 2, 3, 4, 5, 6), *b = DEV_FLOATS(10, 20, 30), *c = dev_filled(0, 24);
  aclScalar *two = float_scalar(2);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 2, 3), *row = TENSOR(b, ACL_FLOAT, 3), *out = TENSOR(c, ACL_FLOAT, 2, 3);
  LAUNCH(NULL, aclnnAdd, x, row, two, out);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 21, 42, 63, 24, 45, 66);

  /* the last two columns of the first operand, transposed; the result is column-major */
  aclTensor *view = aclCreateTensor(DIMS(2, 2), ACL_FLOAT, (const int64_t[]){1, 3}, 1, ACL_FORMAT_ND, DIMS(6), a);
  aclTensor *two_of_b = TENSOR(b, ACL_FLOAT, 2);
  aclTensor *columns = aclCreateTensor(DIMS(2, 2), ACL_FLOAT, (const int64_t[]){1, 2}, 2, ACL_FORMAT_ND, DIMS(6), c);
  LAUNCH(NULL, aclnnAdd, view, two_of_b, two, columns);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  /* view is {2,5},{3,6}; the first two elements of the storage keep their values */
  ASSERT_FLOATS(c, 21, 42, 22, 23, 45, 46);

  const aclTensor *all[] = {x, row, out, view, two_of_b, columns};
  for (int i = 0; i < 6; i++) CHECK_OK(aclDestroyTensor(all[i]));
  CHECK_OK(aclDestroyScalar(two));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtFree(c));
}

static void mm_multiplies(void **state) {
  (void)state;
  void *a = DEV_FLOATS(1, 2, 3, 4, 5, 6), *b = DEV_FLOATS(1, 0, 2, 1, 0, 3), *c = dev_filled(0, 16);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 2, 3), *y = TENSOR(b, ACL_FLOAT, 3, 2), *out = TENSOR(c, ACL_FLOAT, 2, 2);
  aclTensor *transposed = /* the memory of y as the transpose of a [2,3] matrix */
      aclCreateTensor(DIMS(3, 2), ACL_FLOAT, (const int64_t[]){1, 3}, 0, ACL_FORMAT_ND, DIMS(6), b);
  LAUNCH(NULL, aclnnMm, x, y, out, 0);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 5, 11, 14, 23);
  LAUNCH(NULL, aclnnMm, x, transposed, out, 0);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 7, 10, 16, 22);
  const aclTensor *all[] = {x, y, out, transposed};
  for (int i = 0; i < 4; i++) CHECK_OK(aclDestroyTensor(all[i]));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtFree(c));
}

static void reduce_sum_adds_up(void **state) {
  (void)state;
  static const struct {
    int64_t dims[2];
    uint64_t n_dims;
    int64_t kept[2];
    float want[3];
    size_t n;
  } cases[] = {{{0}, 1, {1, 3}, {5, 7, 9}, 3},
               {{1}, 1, {2, 1}, {6, 15}, 2},
               {{-1}, 1, {2, 1}, {6, 15}, 2},
               {{0, 1}, 2, {1, 1}, {21}, 1},
               {{0}, 0, {1, 1}, {21}, 1}}; /* an empty list of dimensions reduces all */
  void *a = DEV_FLOATS(1, 2, 3, 4, 5, 6), *c = dev_filled(0, 12);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 2, 3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    aclIntArray *dims = aclCreateIntArray(cases[i].dims, cases[i].n_dims);
    aclTensor *out = tensor_new(c, ACL_FLOAT, cases[i].kept, 2);
    LAUNCH(NULL, aclnnReduceSum, x, dims, true, ACL_FLOAT, out);
    CHECK_OK(aclrtSynchronizeStream(NULL));
    assert_floats(c, cases[i].want, cases[i].n);
    CHECK_OK(aclDestroyTensor(out));
    CHECK_OK(aclDestroyIntArray(dims));
  }
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(c));
}

static void illegal_operands_are_refused_in_phase_one(void **state) {
  (void)state;
  void *a = dev_new(1024);
  uint64_t bytes = 0;
  aclOpExecutor *executor = NULL;
  aclScalar *one = float_scalar(1);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 2, 3), *y = TENSOR(a, ACL_FLOAT, 4), *z = TENSOR(a, ACL_STRING, 2, 3);
  CHECK_CODE(NULL_ARGUMENT, aclnnAddGetWorkspaceSize(NULL, x, one, x, &bytes, &executor));
  CHECK_CODE(NULL_ARGUMENT, aclnnAddGetWorkspaceSize(x, NULL, one, x, &bytes, &executor));
  CHECK_CODE(NULL_ARGUMENT, aclnnAddGetWorkspaceSize(x, x, NULL, x, &bytes, &executor));
  CHECK_CODE(NULL_ARGUMENT, aclnnAddGetWorkspaceSize(x, x, one, NULL, &bytes, &executor));
  CHECK_CODE(ILLEGAL_ARGUMENT, aclnnAddGetWorkspaceSize(x, y, one, x, &bytes, &executor)); /* lengths 3 and 4 */
  CHECK_CODE(ILLEGAL_ARGUMENT, aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor));
  CHECK_CODE(ILLEGAL_ARGUMENT, aclnnAddGetWorkspaceSize(z, z, one, z, &bytes, &executor));
  CHECK_CODE(ILLEGAL_ARGUMENT, aclnnMmGetWorkspaceSize(x, x, x, 0, &bytes, &executor)); /* 2x3 times 2x3 */
  const aclTensor *all[] = {x, y, z};
  for (int i = 0; i < 3; i++) CHECK_OK(aclDestroyTensor(all[i]));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtFree(a));
}

/* ---- ownership and lifetimes ---- */

static void creators_copy_what_they_are_given(void **state) {
  (void)state;
  void *a = DEV_FLOATS(1, 2, 3, 4), *c = dev_filled(0, 16);
  int64_t dims[] = {2, 2}, strides[] = {2, 1}, storage[] = {4}, axis[] = {0};
  float value = 3;
  aclTensor *x = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, a);
  aclTensor *out = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, c);
  aclTensor *row = TENSOR(c, ACL_FLOAT, 2);
  aclScalar *alpha = aclCreateScalar(&value, ACL_FLOAT);
  aclIntArray *axes = aclCreateIntArray(axis, 1);
  dims[0] = strides[0] = storage[0] = axis[0] = 77;
  value = -100;
  LAUNCH(NULL, aclnnAdd, x, x, alpha, out);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 4, 8, 12, 16);
  LAUNCH(NULL, aclnnReduceSum, x, axes, false, ACL_FLOAT, row);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 4, 6, 12, 16);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(out));
  CHECK_OK(aclDestroyTensor(row));
  CHECK_OK(aclDestroyScalar(alpha));
  CHECK_OK(aclDestroyIntArray(axes));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(c));
}

/* An addition whose first phase may run on another thread. */
typedef struct {
  aclrtContext context;
  aclTensor *self, *other, *out;
  aclScalar *alpha;
  uint64_t bytes;
  aclOpExecutor *executor;
  aclError code;
} addition;

static void *add_phase_one(void *arg) {
  addition *x = arg;
  x->code = aclrtSetCurrentContext(x->context);
  if (x->code == 0) x->code = aclnnAddGetWorkspaceSize(x->self, x->other, x->alpha, x->out, &x->bytes, &x->executor);
  return NULL;
}

static void add_objects_destroy(addition *x) {
  CHECK_OK(aclDestroyTensor(x->self));
  CHECK_OK(aclDestroyTensor(x->other));
  CHECK_OK(aclDestroyTensor(x->out));
  CHECK_OK(aclDestroyScalar(x->alpha));
}

static void objects_may_be_destroyed_after_phase_two(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *a = DEV_FLOATS(1, 2, 3, 4), *c = dev_filled(0, 16);
  gate *g = gate_close(stream);
  addition x = {.self = TENSOR(a, ACL_FLOAT, 2, 2),
                .other = TENSOR(a, ACL_FLOAT, 2, 2),
                .out = TENSOR(c, ACL_FLOAT, 2, 2),
                .alpha = float_scalar(9)};
  CHECK_OK(aclrtGetCurrentContext(&x.context));
  on_thread(add_phase_one, &x); /* phase one and phase two may run on different threads */
  CHECK_OK(x.code);
  CHECK_OK(aclnnAdd(workspace(x.bytes), x.bytes, x.executor, stream));
  add_objects_destroy(&x);
  for (int i = 0; i < 100; i++) /* reuses the freed objects' memory, which must not affect the queued task */
    CHECK_OK(aclDestroyTensor(TENSOR(NULL, ACL_INT8, 7, 7, 7, 7, 7, 7, 7, 7)));
  ASSERT_FLOATS(c, 0, 0, 0, 0);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  ASSERT_FLOATS(c, 10, 20, 30, 40);
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(c));
  CHECK_OK(aclrtDestroyStream(stream));
}

enum { N_CHAIN = 300 };
static addition chain[N_CHAIN];
static atomic_int chain_made;

static void *make_chain(void *arg) {
  for (int i = 0; i < N_CHAIN; i++) {
    add_phase_one(&chain[i]);
    atomic_store(&chain_made, i + 1);
  }
  return arg;
}

/* One thread runs first phases; another runs second phases and destroys the objects at once, as frameworks do. */
static void phases_may_run_on_two_threads(void **state) {
  (void)state;
  enum { SCRATCH = 1 << 20 };
  void *a = DEV_FLOATS(1, 2), *c = dev_filled(0, 8), *scratch = dev_new(SCRATCH);
  aclrtContext context = NULL;
  CHECK_OK(aclrtGetCurrentContext(&context));
  for (int i = 0; i < N_CHAIN; i++)
    chain[i] = (addition){.context = context,
                          .self = TENSOR(c, ACL_FLOAT, 2),
                          .other = TENSOR(a, ACL_FLOAT, 2),
                          .out = TENSOR(c, ACL_FLOAT, 2),
                          .alpha = float_scalar(1)};
  atomic_store(&chain_made, 0);
  pthread_t thread = thread_start(make_chain, NULL);
  aclError code = 0;
  int done = 0;
  for (; done < N_CHAIN && code == 0; done++) {
    addition *x = &chain[done];
    while (atomic_load(&chain_made) <= done) sched_yield();
    code = x->code;
    if (code == 0 && x->bytes > SCRATCH) code = ACL_ERROR_FAILURE;
    if (code == 0) code = aclnnAdd(x->bytes ? scratch : NULL, x->bytes, x->executor, NULL);
    if (code == 0) add_objects_destroy(x);
  }
  pthread_join(thread, NULL);
  CHECK_OK(code);
  assert_int_equal(done, N_CHAIN);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, N_CHAIN, 2 * N_CHAIN);
  CHECK_OK(aclrtFree(scratch));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(c));
}

/* ---- repeatable executors ---- */

static void a_repeatable_executor_reads_its_inputs_at_each_run(void **state) {
  (void)state;
  void *a = DEV_FLOATS(1, 2), *b = DEV_FLOATS(10, 20), *c = dev_filled(0, 8);
  addition x = {.self = TENSOR(a, ACL_FLOAT, 2),
                .other = TENSOR(b, ACL_FLOAT, 2),
                .out = TENSOR(c, ACL_FLOAT, 2),
                .alpha = float_scalar(1)};
  CHECK_OK(aclrtGetCurrentContext(&x.context));
  add_phase_one(&x);
  CHECK_OK(x.code);
  CHECK_OK(aclSetAclOpExecutorRepeatable(x.executor));
  void *scratch = workspace(x.bytes);
  for (int i = 1; i <= 3; i++) {
    CHECK_OK(aclnnAdd(scratch, x.bytes, x.executor, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    ASSERT_FLOATS(c, (float)(i + 10), 22);
    CHECK_OK(aclrtMemcpy(a, 4, FLOATS((float)(i + 1)), 4, ACL_MEMCPY_HOST_TO_DEVICE));
  }
  CHECK_OK(aclDestroyAclOpExecutor(x.executor));
  add_objects_destroy(&x);
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtFree(c));
}

/* A launch uses the addresses that the executor has at that moment, so they may be changed immediately afterwards. */
static void addresses_may_change_between_queued_launches(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *a = DEV_FLOATS(1, 2), *b = DEV_FLOATS(10, 20), *other_b = DEV_FLOATS(100, 200);
  void *c[4];
  for (int i = 0; i < 4; i++) c[i] = dev_filled(0, 8);
  addition x = {.self = TENSOR(a, ACL_FLOAT, 2),
                .other = TENSOR(b, ACL_FLOAT, 2),
                .out = TENSOR(c[0], ACL_FLOAT, 2),
                .alpha = float_scalar(1)};
  CHECK_OK(aclrtGetCurrentContext(&x.context));
  add_phase_one(&x);
  CHECK_OK(x.code);
  CHECK_OK(aclSetAclOpExecutorRepeatable(x.executor));
  void *scratch = workspace(x.bytes);
  gate *g = gate_close(stream);
  CHECK_OK(aclnnAdd(scratch, x.bytes, x.executor, stream));
  CHECK_OK(aclSetOutputTensorAddr(x.executor, 0, x.out, c[1]));
  CHECK_OK(aclnnAdd(scratch, x.bytes, x.executor, stream));
  CHECK_OK(aclSetInputTensorAddr(x.executor, 1, x.other, other_b));
  CHECK_OK(aclSetTensorAddr(x.executor, 2, x.out, c[2])); /* the index counts inputs and outputs */
  CHECK_OK(aclnnAdd(scratch, x.bytes, x.executor, stream));
  CHECK_OK(AclSetInputTensorAddr(x.executor, 0, x.self, other_b)); /* the older names behave the same */
  CHECK_OK(AclSetOutputTensorAddr(x.executor, 0, x.out, c[3]));
  CHECK_OK(AclSetTensorAddr(x.executor, 1, x.other, b));
  CHECK_OK(aclnnAdd(scratch, x.bytes, x.executor, stream));

  CHECK_CODE(ILLEGAL_ARGUMENT, aclSetInputTensorAddr(x.executor, 2, x.out, c[0]));
  CHECK_CODE(ILLEGAL_ARGUMENT, aclSetOutputTensorAddr(x.executor, 1, x.out, c[0]));
  CHECK_CODE(ILLEGAL_ARGUMENT, aclSetTensorAddr(x.executor, 3, x.out, c[0]));
  CHECK_CODE(NULL_EXECUTOR, aclSetInputTensorAddr(NULL, 0, x.self, a));
  CHECK_CODE(NULL_EXECUTOR, aclSetInputTensorAddr(x.executor, 0, NULL, a));

  CHECK_OK(aclDestroyAclOpExecutor(x.executor)); /* while its launches are still queued */
  add_objects_destroy(&x);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  ASSERT_FLOATS(c[0], 11, 22);
  ASSERT_FLOATS(c[1], 11, 22);
  ASSERT_FLOATS(c[2], 101, 202);
  ASSERT_FLOATS(c[3], 110, 220);
  for (int i = 0; i < 4; i++) CHECK_OK(aclrtFree(c[i]));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtFree(other_b));
  CHECK_OK(aclrtDestroyStream(stream));
}

/* The first argument of an in-place operator is tensor 0, input 0 and an output, although InplaceCopy does not read it.
 * Frameworks that cache executors rely on this. */
static void addresses_of_an_in_place_copy_can_be_changed(void **state) {
  (void)state;
  void *to[4], *from[4];
  for (int i = 0; i < 4; i++) to[i] = dev_filled(0, 8), from[i] = DEV_FLOATS((float)(10 * i), (float)(10 * i + 1));
  aclTensor *self = TENSOR(to[0], ACL_FLOAT, 2), *src = TENSOR(from[0], ACL_FLOAT, 2);
  uint64_t bytes = 0;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnInplaceCopyGetWorkspaceSize(self, src, &bytes, &executor));
  CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
  void *scratch = workspace(bytes);
  CHECK_OK(aclnnInplaceCopy(scratch, bytes, executor, NULL));
  CHECK_OK(aclSetTensorAddr(executor, 0, self, to[1]));
  CHECK_OK(aclSetTensorAddr(executor, 1, src, from[1]));
  CHECK_OK(aclnnInplaceCopy(scratch, bytes, executor, NULL));
  CHECK_OK(aclSetInputTensorAddr(executor, 0, self, to[2]));
  CHECK_OK(aclSetInputTensorAddr(executor, 1, src, from[2]));
  CHECK_OK(aclnnInplaceCopy(scratch, bytes, executor, NULL));
  CHECK_OK(aclSetOutputTensorAddr(executor, 0, self, to[3]));
  CHECK_OK(aclSetTensorAddr(executor, 1, src, from[3]));
  CHECK_OK(aclnnInplaceCopy(scratch, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  for (int i = 0; i < 4; i++) {
    ASSERT_FLOATS(to[i], (float)(10 * i), (float)(10 * i + 1));
    ASSERT_FLOATS(from[i], (float)(10 * i), (float)(10 * i + 1));
    CHECK_OK(aclrtFree(to[i]));
    CHECK_OK(aclrtFree(from[i]));
  }
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclDestroyTensor(self));
  CHECK_OK(aclDestroyTensor(src));
}

static void addresses_of_list_members_can_be_changed(void **state) {
  (void)state;
  void *p[6], *c = dev_filled(0, 16);
  for (int i = 0; i < 6; i++) p[i] = DEV_FLOATS((float)(10 * i), (float)(10 * i + 1));
  const aclTensor *members[] = {TENSOR(p[0], ACL_FLOAT, 2), TENSOR(p[1], ACL_FLOAT, 2)};
  aclTensorList *list = aclCreateTensorList(members, 2);
  aclTensor *out = TENSOR(c, ACL_FLOAT, 4);
  uint64_t bytes = 0;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnCatGetWorkspaceSize(list, 0, out, &bytes, &executor));
  CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
  void *scratch = workspace(bytes);
  CHECK_OK(aclnnCat(scratch, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 0, 1, 10, 11);

  CHECK_OK(aclSetDynamicInputTensorAddr(executor, 0, 1, list, p[2]));
  CHECK_OK(aclnnCat(scratch, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 0, 1, 20, 21);

  CHECK_OK(aclSetDynamicTensorAddr(executor, 0, 0, list, p[3]));
  CHECK_OK(aclnnCat(scratch, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 30, 31, 20, 21);

  CHECK_OK(AclSetDynamicInputTensorAddr(executor, 0, 0, list, p[4]));
  CHECK_OK(AclSetDynamicTensorAddr(executor, 0, 1, list, p[5]));
  CHECK_OK(aclnnCat(scratch, bytes, executor, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 40, 41, 50, 51);

  CHECK_FAILS(aclSetDynamicInputTensorAddr(executor, 0, 2, list, p[0])); /* past the end of the list */
  CHECK_FAILS(aclSetDynamicInputTensorAddr(executor, 9, 0, list, p[0]));
  CHECK_FAILS(aclSetDynamicOutputTensorAddr(executor, 9, 0, list, p[0]));
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclDestroyTensorList(list));
  CHECK_OK(aclDestroyTensor(out));
  for (int i = 0; i < 6; i++) CHECK_OK(aclrtFree(p[i]));
  CHECK_OK(aclrtFree(c));
}

static void operators_work_after_aclnn_finalize(void **state) {
  (void)state;
  CHECK_OK(aclnnInit(NULL));
  CHECK_OK(aclnnFinalize());
  void *a = DEV_FLOATS(1), *c = dev_filled(0, 4); /* operators do not need aclnnInit */
  aclScalar *one = float_scalar(1);
  aclTensor *x = TENSOR(a, ACL_FLOAT, 1), *out = TENSOR(c, ACL_FLOAT, 1);
  LAUNCH(NULL, aclnnAdd, x, x, one, out);
  CHECK_OK(aclrtSynchronizeStream(NULL));
  ASSERT_FLOATS(c, 2);
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(out));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(c));
}

/* A view without elements may have a negative storage size: ggml computes one for an index of zero rows. */
static void empty_views_may_have_any_storage_size(void **state) {
  (void)state;
  const int64_t dims[] = {0, 128}, strides[] = {0, 1}, storage[] = {-127};
  aclTensor *t = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, NULL);
  assert_non_null(t);
  CHECK_OK(aclDestroyTensor(t));
  const int64_t full[] = {1, 128};
  assert_null(aclCreateTensor(full, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, storage, 1, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      OP_TEST(every_dtype_and_format_is_kept),
      OP_TEST(getters_return_the_values_given_to_the_creator),
      OP_TEST(operators_take_ranks_zero_to_eight),
      OP_TEST(shapes_of_nine_dimensions_are_kept),
      OP_TEST(operators_refuse_nine_dimensions),
      OP_TEST(impossible_shapes_are_refused),
      OP_TEST(lists_report_their_size_and_own_their_members),
      OP_TEST(destroying_null_is_allowed),
      OP_TEST(add_scales_broadcasts_and_reads_views),
      OP_TEST(mm_multiplies),
      OP_TEST(reduce_sum_adds_up),
      OP_TEST(illegal_operands_are_refused_in_phase_one),
      OP_TEST(creators_copy_what_they_are_given),
      OP_TEST(objects_may_be_destroyed_after_phase_two),
      OP_TEST(phases_may_run_on_two_threads),
      OP_TEST(a_repeatable_executor_reads_its_inputs_at_each_run),
      OP_TEST(addresses_may_change_between_queued_launches),
      OP_TEST(addresses_of_an_in_place_copy_can_be_changed),
      OP_TEST(addresses_of_list_members_can_be_changed),
      OP_TEST(operators_work_after_aclnn_finalize),
      TEST(empty_views_may_have_any_storage_size),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
