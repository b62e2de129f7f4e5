/* SPDX-License-Identifier: Apache-2.0 */
/* Channels (acl/acl_tdt.h): items and data sets, order, capacity and back-pressure, stops. */
#include "acl/acl_op_compiler.h"
#include "acl/acl_tdt.h"

#include "acl_test.h"

/* A data set of one int32 item with the value, which stays the caller's. */
static acltdtDataset *dataset_of(int32_t *value) {
  const int64_t dims[] = {1};
  acltdtDataset *d = acltdtCreateDataset();
  assert_non_null(d);
  acltdtDataItem *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 1, ACL_INT32, value, sizeof *value);
  assert_non_null(item);
  CHECK_OK(acltdtAddDataItem(d, item));
  return d;
}

/* In either order, as clients do. */
static void dataset_end(acltdtDataset *d) {
  static bool item_first;
  acltdtDataItem *item = acltdtGetDataItem(d, 0);
  item_first = !item_first;
  if (item_first) CHECK_OK(acltdtDestroyDataItem(item));
  CHECK_OK(acltdtDestroyDataset(d));
  if (!item_first) CHECK_OK(acltdtDestroyDataItem(item));
}

static aclError send_value(acltdtChannelHandle *c, int32_t value, int32_t timeout) {
  acltdtDataset *d = dataset_of(&value);
  const aclError code = acltdtSendTensor(c, d, timeout);
  dataset_end(d);
  return code;
}

static int32_t receive_value(acltdtChannelHandle *c) {
  acltdtDataset *d = acltdtCreateDataset();
  CHECK_OK(acltdtReceiveTensor(c, d, -1));
  assert_int_equal(acltdtGetDatasetSize(d), 1);
  const acltdtDataItem *item = acltdtGetDataItem(d, 0);
  assert_int_equal(acltdtGetDataSizeFromItem(item), sizeof(int32_t));
  const int32_t value = *(int32_t *)acltdtGetDataAddrFromItem(item);
  CHECK_OK(acltdtDestroyDataset(d));
  return value;
}

static acltdtChannelHandle *channel_of(const char *name, size_t capacity) {
  acltdtChannelHandle *c = acltdtCreateChannelWithCapacity(0, name, capacity);
  assert_non_null(c);
  return c;
}

static void channel_end(acltdtChannelHandle *c) {
  CHECK_OK(acltdtStopChannel(c));
  CHECK_OK(acltdtDestroyChannel(c));
}

static void items_return_what_they_were_made_of(void **state) {
  (void)state;
  float data[6] = {0};
  const int64_t dims[] = {2, 3};
  acltdtDataItem *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 2, ACL_FLOAT, data, sizeof data);
  assert_non_null(item);
  assert_int_equal(acltdtGetTensorTypeFromItem(item), ACL_TENSOR_DATA_TENSOR);
  assert_int_equal(acltdtGetDataTypeFromItem(item), ACL_FLOAT);
  assert_ptr_equal(acltdtGetDataAddrFromItem(item), data);
  assert_int_equal(acltdtGetDataSizeFromItem(item), sizeof data);
  assert_int_equal(acltdtGetDimNumFromItem(item), 2);
  int64_t got[2] = {0};
  CHECK_OK(acltdtGetDimsFromItem(item, got, 2));
  assert_int_equal(got[0] * 10 + got[1], 23);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(item, got, 1));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtGetDimsFromItem(item, NULL, 2));
  size_t n_slices = 0, slice = 7;
  CHECK_OK(acltdtGetSliceInfoFromItem(item, &n_slices, &slice));
  CHECK_OK(acltdtDestroyDataItem(item));
  assert_null(acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 2, ACL_FLOAT, data, sizeof data));

  item = acltdtCreateDataItem(ACL_TENSOR_DATA_END_OF_SEQUENCE, NULL, 0, ACL_BOOL, NULL, 0);
  assert_non_null(item);
  assert_int_equal(acltdtGetDimNumFromItem(item), 0);
  CHECK_OK(acltdtGetDimsFromItem(item, NULL, 0));
  CHECK_OK(acltdtDestroyDataItem(item));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtDestroyDataItem(NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtDestroyDataset(NULL));
}

static void data_sets_list_items_in_order(void **state) {
  (void)state;
  int32_t values[5];
  acltdtDataset *d = acltdtCreateDataset();
  acltdtDataItem *items[5];
  assert_int_equal(acltdtGetDatasetSize(d), 0);
  for (int i = 0; i < 5; i++) {
    items[i] = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT32, &values[i], sizeof(int32_t));
    CHECK_OK(acltdtAddDataItem(d, items[i]));
  }
  assert_int_equal(acltdtGetDatasetSize(d), 5);
  for (size_t i = 0; i < 5; i++) assert_ptr_equal(acltdtGetDataItem(d, i), items[i]);
  assert_null(acltdtGetDataItem(d, 5));
  assert_null(acltdtGetDataItem(NULL, 0));
  CHECK_OK(acltdtDestroyDataset(d));
  for (int i = 0; i < 5; i++) CHECK_OK(acltdtDestroyDataItem(items[i]));
}

static void a_received_data_set_is_a_copy(void **state) {
  (void)state;
  double data[] = {1, 2, 3};
  const int64_t dims[] = {3, 1};
  acltdtChannelHandle *c = channel_of("copy", 2);
  acltdtDataset *d = acltdtCreateDataset();
  acltdtDataItem *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 2, ACL_DOUBLE, data, sizeof data);
  acltdtDataItem *end = acltdtCreateDataItem(ACL_TENSOR_DATA_END_OF_SEQUENCE, NULL, 0, ACL_BOOL, NULL, 0);
  CHECK_OK(acltdtAddDataItem(d, item));
  CHECK_OK(acltdtAddDataItem(d, end));
  CHECK_OK(acltdtSendTensor(c, d, -1));
  data[1] = 77;
  CHECK_OK(acltdtDestroyDataset(d));
  CHECK_OK(acltdtDestroyDataItem(item));
  CHECK_OK(acltdtDestroyDataItem(end));

  acltdtDataset *got = acltdtCreateDataset();
  CHECK_OK(acltdtReceiveTensor(c, got, -1));
  assert_int_equal(acltdtGetDatasetSize(got), 2);
  assert_string_equal(acltdtGetDatasetName(got), "copy");
  const acltdtDataItem *first = acltdtGetDataItem(got, 0);
  int64_t shape[2] = {0};
  CHECK_OK(acltdtGetDimsFromItem(first, shape, 2));
  assert_int_equal(shape[0], 3);
  assert_int_equal(acltdtGetDataTypeFromItem(first), ACL_DOUBLE);
  assert_true(((double *)acltdtGetDataAddrFromItem(first))[1] == 2);
  assert_int_equal(acltdtGetTensorTypeFromItem(acltdtGetDataItem(got, 1)), ACL_TENSOR_DATA_END_OF_SEQUENCE);
  CHECK_OK(acltdtDestroyDataset(got));
  channel_end(c);
}

static void a_full_channel_refuses_and_an_empty_one_has_nothing(void **state) {
  (void)state;
  acltdtChannelHandle *c = channel_of("full", 2);
  acltdtDataset *d = acltdtCreateDataset();
  size_t n = 7;
  CHECK_CODE(ACL_ERROR_RT_QUEUE_EMPTY, acltdtReceiveTensor(c, d, 0));
  CHECK_CODE(ACL_ERROR_RT_QUEUE_EMPTY, acltdtReceiveTensor(c, d, 5));
  CHECK_OK(acltdtDestroyDataset(d));
  for (int32_t i = 0; i < 2; i++) CHECK_OK(send_value(c, i, 0));
  CHECK_CODE(ACL_ERROR_RT_QUEUE_FULL, send_value(c, 2, 0));
  CHECK_CODE(ACL_ERROR_RT_QUEUE_FULL, send_value(c, 2, 5));
  CHECK_OK(acltdtQueryChannelSize(c, &n));
  assert_int_equal(n, 2);
  assert_int_equal(receive_value(c), 0);
  CHECK_OK(send_value(c, 2, 0));
  assert_int_equal(receive_value(c), 1);
  CHECK_OK(acltdtCleanChannel(c));
  CHECK_OK(acltdtQueryChannelSize(c, &n));
  assert_int_equal(n, 0);
  CHECK_FAILS(send_value(c, 2, -2));
  channel_end(c);
}

/* ---- threads ---- */

enum { N_VALUES = 2000 };

typedef struct {
  acltdtChannelHandle *channel;
  atomic_int code, done;
} sender;

static void *send_all(void *arg) {
  sender *s = arg;
  const int64_t dims[] = {1};
  for (int32_t i = 0; i < N_VALUES; i++) {
    acltdtDataset *d = acltdtCreateDataset();
    acltdtDataItem *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 1, ACL_INT32, &i, sizeof i);
    aclError code = acltdtAddDataItem(d, item);
    if (!code) code = acltdtSendTensor(s->channel, d, -1);
    acltdtDestroyDataset(d);
    acltdtDestroyDataItem(item);
    if (code) {
      atomic_store(&s->code, code);
      break;
    }
    atomic_fetch_add(&s->done, 1);
  }
  return NULL;
}

static void a_sender_waits_for_room_and_order_is_kept(void **state) {
  (void)state;
  sender s = {.channel = channel_of("order", 3)};
  acltdtChannelHandle *other = channel_of("order", 3); /* the same channel */
  const pthread_t thread = thread_start(send_all, &s);
  while (atomic_load(&s.done) < 3) nap_ms(1);
  nap_ms(20);
  const int ahead = atomic_load(&s.done);
  for (int32_t i = 0; i < N_VALUES; i++) assert_int_equal(receive_value(other), i);
  pthread_join(thread, NULL);
  assert_int_equal(ahead, 3);
  assert_int_equal(atomic_load(&s.code), 0);
  channel_end(s.channel);
  channel_end(other);
}

static void a_stop_ends_waits(void **state) {
  (void)state;
  sender s = {.channel = channel_of("stop", 1)};
  const pthread_t thread = thread_start(send_all, &s);
  while (atomic_load(&s.done) < 1) nap_ms(1);
  nap_ms(5);
  CHECK_OK(acltdtStopChannel(s.channel));
  pthread_join(thread, NULL);
  assert_int_not_equal(atomic_load(&s.code), 0);
  assert_int_equal(atomic_load(&s.done), 1);
  CHECK_OK(acltdtDestroyChannel(s.channel));

  acltdtChannelHandle *c = channel_of("stop", 1); /* a new channel: nothing is left */
  size_t n = 7;
  CHECK_OK(acltdtQueryChannelSize(c, &n));
  assert_int_equal(n, 0);
  channel_end(c);
}

static void impossible_channels_are_refused(void **state) {
  (void)state;
  assert_null(acltdtCreateChannel(0, NULL));
  assert_null(acltdtCreateChannel(1000, "far"));
  acltdtChannelHandle *c = acltdtCreateChannel(0, "plain");
  assert_non_null(c);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtQueryChannelSize(c, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtSendTensor(c, NULL, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtReceiveTensor(NULL, NULL, 0));
  channel_end(c);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtStopChannel(NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acltdtDestroyChannel(NULL));
}

/* ---- GetNext: a stream takes data sets from a channel ---- */

static aclError get_next(const char *channel, int32_t *to, aclrtStream stream) {
  const int64_t dims[] = {1};
  aclTensorDesc *desc = aclCreateTensorDesc(ACL_INT32, 1, dims, ACL_FORMAT_ND);
  aclDataBuffer *buffer = aclCreateDataBuffer(to, sizeof *to);
  aclopAttr *attr = aclopCreateAttr();
  if (channel) CHECK_OK(aclopSetAttrString(attr, "channel_name", channel));
  const aclError code = aclopCompileAndExecute("GetNext", 0, NULL, NULL, 1, (const aclTensorDesc *const *)&desc,
                                               &buffer, attr, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, stream);
  aclopDestroyAttr(attr);
  aclDestroyTensorDesc(desc);
  CHECK_OK(aclDestroyDataBuffer(buffer));
  return code;
}

static void a_stream_waits_for_data_sets(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  int32_t *to = dev_filled(0, 8), got[2];
  CHECK_OK(get_next("feed", to, stream)); /* before there is a channel */
  CHECK_OK(get_next("feed", to + 1, stream));
  acltdtChannelHandle *c = channel_of("feed", 4);
  CHECK_OK(send_value(c, 71, -1));
  CHECK_OK(send_value(c, 72, -1));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtMemcpy(got, sizeof got, to, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
  assert_int_equal(got[0] * 100 + got[1], 7172);
  CHECK_FAILS(get_next(NULL, to, stream));
  channel_end(c);
  CHECK_OK(aclrtFree(to));
  CHECK_OK(aclrtDestroyStream(stream));
}

static void the_end_of_the_data_fails_the_stream(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *to = dev_filled(0, 4);
  acltdtChannelHandle *c = channel_of("short", 4);
  acltdtDataset *empty = acltdtCreateDataset();
  CHECK_OK(acltdtSendTensor(c, empty, -1));
  CHECK_OK(acltdtDestroyDataset(empty));
  CHECK_OK(get_next("short", to, stream));
  CHECK_FAILS(aclrtSynchronizeStream(stream));
  channel_end(c);
  CHECK_OK(aclrtFree(to));
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(items_return_what_they_were_made_of),
      TEST(data_sets_list_items_in_order),
      TEST(a_received_data_set_is_a_copy),
      TEST(a_full_channel_refuses_and_an_empty_one_has_nothing),
      TEST(a_sender_waits_for_room_and_order_is_kept),
      TEST(a_stop_ends_waits),
      TEST(impossible_channels_are_refused),
      TEST(a_stream_waits_for_data_sets),
      TEST(the_end_of_the_data_fails_the_stream),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
