/* SPDX-License-Identifier: Apache-2.0 */
/* Support for tests that capture streams: a fixture with two streams and a device buffer of floats, and helpers that
 * begin, end, fill and execute captures. */
#ifndef CANNON_TESTS_SUPPORT_ACL_CAPTURE_H
#define CANNON_TESTS_SUPPORT_ACL_CAPTURE_H

#include "acl_ops.h"

#include "aclnnop/aclnn_add.h"

enum { N = 16, BYTES = N * sizeof(float) };

static aclrtStream stream, other;
static float *numbers;

static inline int captures_up(void **state) {
  (void)state;
  stream = stream_new();
  other = stream_new();
  numbers = dev_filled(0, BYTES);
  return 0;
}

static inline int captures_down(void **state) {
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  aclmdlRI left = NULL;
  aclmdlRICaptureThreadExchangeMode(&mode);
  /* left over from a failed test */
  if (aclmdlRICaptureEnd(stream, &left) == ACL_SUCCESS && left) aclmdlRIDestroy(left);
  settle_ops(state);
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(numbers));
  return 0;
}

#define CAPTURE_TEST(function) cmocka_unit_test_setup_teardown(function, captures_up, captures_down)

static inline void begin_in(aclrtStream in, aclmdlRICaptureMode mode) { CHECK_OK(aclmdlRICaptureBegin(in, mode)); }

static inline aclmdlRI end_in(aclrtStream in) {
  aclmdlRI model = NULL;
  CHECK_OK(aclmdlRICaptureEnd(in, &model));
  assert_non_null(model);
  return model;
}

static inline void begin(aclmdlRICaptureMode mode) { begin_in(stream, mode); }
static inline aclmdlRI end(void) { return end_in(stream); }

static inline void execute(aclmdlRI model, aclrtStream in) {
  CHECK_OK(aclmdlRIExecuteAsync(model, in));
  CHECK_OK(aclrtSynchronizeStream(in));
}

/* Launches aclnnAdds in the stream `to`: result = from + value. The tensors and scalars are destroyed before it
 * returns; only the device buffers must stay. */
static inline void add_to(aclrtStream to, float *from, float value, float *result) {
  aclTensor *self = TENSOR(from, ACL_FLOAT, N), *out = TENSOR(result, ACL_FLOAT, N);
  aclScalar *scalar = float_scalar(value), *one = float_scalar(1);
  LAUNCH(to, aclnnAdds, self, scalar, one, out);
  aclDestroyScalar(scalar);
  aclDestroyScalar(one);
  aclDestroyTensor(self);
  aclDestroyTensor(out);
}

static inline void add(aclrtStream to, float value) { add_to(to, numbers, value, numbers); }

static inline void assert_all(const float *dev, float want) {
  float got[N];
  from_dev(got, dev, BYTES);
  for (int i = 0; i < N; i++) {
    if (got[i] != want) print_error("element %d is %g, expected %g\n", i, (double)got[i], (double)want);
    assert_true(got[i] == want);
  }
}

static inline aclrtEvent event_new(void) {
  aclrtEvent event = NULL;
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  return event;
}

static inline aclmdlRICaptureStatus state_of(aclrtStream s) {
  aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)9;
  CHECK_OK(aclmdlRICaptureGetInfo(s, &status, NULL));
  return status;
}

/* Ends a capture that an earlier call has invalidated. */
static inline void end_invalid(void) {
  aclmdlRI model = &model;
  assert_int_equal(state_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  CHECK_FAILS(aclmdlRICaptureEnd(stream, &model));
  assert_null(model);
  assert_int_equal(state_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

/* Ends a capture whose validity the documentation leaves open. */
static inline void end_any(void) {
  aclmdlRI model = NULL;
  if (aclmdlRICaptureEnd(stream, &model) == ACL_SUCCESS) CHECK_OK(aclmdlRIDestroy(model));
  assert_int_equal(state_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

#endif
