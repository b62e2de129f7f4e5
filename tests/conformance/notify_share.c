/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies shared between processes: one process creates and waits, others record. */
#include "acl_test.h"
#include "peer_process.h"

enum { KEY_LENGTH = 65 };

/* ---- the other process ---- */

typedef enum { NOTHING, IMPORT, RECORD, WAIT, EXPORT, DESTROY } deed;

typedef struct {
  deed deed;
  char key[KEY_LENGTH];
} order;

typedef struct {
  aclError code;
  int32_t pid;
} report;

static aclError obey(const order *o) {
  static aclrtNotify notify;
  char key[KEY_LENGTH];
  aclError code;
  switch (o->deed) {
  case NOTHING: return ACL_SUCCESS;
  case IMPORT: return aclrtNotifyImportByKey(&notify, o->key, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS);
  case RECORD: code = aclrtRecordNotify(notify, NULL); return code ? code : aclrtSynchronizeStream(NULL);
  case WAIT: return aclrtWaitAndResetNotify(notify, NULL, 1);
  case EXPORT: return aclrtNotifyGetExportKey(notify, key, KEY_LENGTH, 0);
  case DESTROY: return aclrtDestroyNotify(notify);
  }
  return 1;
}

static int recorder_main(void) {
  if (aclInit(NULL) || aclrtSetDevice(0)) return 2;
  for (order o; peer_next(&o, sizeof o);) {
    report r = {.code = obey(&o)};
    if (aclrtDeviceGetBareTgid(&r.pid)) return 4;
    peer_answer(&r, sizeof r);
  }
  return 0;
}

/* ---- this process ---- */

static report tell(peer *p, order o) {
  report r;
  peer_tell(p, &o, sizeof o);
  peer_hear(p, &r, sizeof r);
  return r;
}

static aclError told(peer *p, deed d) { return tell(p, (order){.deed = d}).code; }

static aclError import(peer *p, const char *key) {
  order o = {.deed = IMPORT};
  memcpy(o.key, key, KEY_LENGTH);
  return tell(p, o).code;
}

static aclrtNotify notify_new(void) {
  aclrtNotify notify;
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  return notify;
}

static aclrtNotify exported(char key[KEY_LENGTH]) {
  aclrtNotify notify = notify_new();
  CHECK_OK(aclrtNotifyGetExportKey(notify, key, KEY_LENGTH, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  return notify;
}

static void each_record_of_another_process_lets_one_wait_pass(void **state) {
  (void)state;
  char key[KEY_LENGTH];
  peer p = peer_start("recorder", NULL);
  aclrtNotify notify = exported(key);
  aclrtStream stream = stream_new();
  uint8_t *after = dev_filled(0, 64);
  CHECK_OK(import(&p, key));
  for (int i = 1; i < 4; ++i) {
    CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
    CHECK_OK(aclrtMemsetAsync(after, 32, i, 32, stream));
    nap_ms(2);
    assert_int_equal(stream_status(stream), ACL_STREAM_STATUS_NOT_READY);
    assert_int_equal(dev_byte(after, 0), i - 1);
    /* Gives ThreadSanitizer an order between the earlier check and this task; it cannot see order that goes through
     * another process. */
    CHECK_OK(aclrtMemsetAsync(after + 32, 32, i, 32, stream));
    CHECK_OK(told(&p, RECORD));
    CHECK_OK(aclrtSynchronizeStream(stream));
    assert_dev_filled(after, i, 64);
  }
  CHECK_OK(told(&p, RECORD)); /* before the wait */
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtRecordNotify(notify, NULL)); /* records in this process work as before */
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(after));
  peer_end(&p);
}

static void sharing_keeps_earlier_records_and_waits(void **state) {
  (void)state;
  char key[KEY_LENGTH];
  peer p = peer_start("recorder", NULL);
  aclrtStream stream = stream_new();
  aclrtNotify recorded = notify_new(), waited = notify_new();
  CHECK_OK(aclrtRecordNotify(recorded, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtNotifyGetExportKey(recorded, key, KEY_LENGTH, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  CHECK_OK(aclrtWaitAndResetNotify(recorded, stream, 0));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtWaitAndResetNotify(waited, stream, 0));
  nap_ms(2);
  CHECK_OK(aclrtNotifyGetExportKey(waited, key, KEY_LENGTH, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  CHECK_OK(import(&p, key));
  CHECK_OK(told(&p, RECORD));
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyNotify(recorded));
  CHECK_OK(aclrtDestroyNotify(waited));
  CHECK_OK(aclrtDestroyStream(stream));
  peer_end(&p);
}

static void only_named_processes_can_import(void **state) {
  (void)state;
  char key[KEY_LENGTH];
  peer p = peer_start("recorder", NULL);
  int32_t pid = tell(&p, (order){.deed = NOTHING}).pid;
  aclrtNotify notify = notify_new();
  CHECK_FAILS(aclrtNotifySetImportPid(notify, &pid, 1)); /* not exported yet */
  CHECK_OK(aclrtNotifyGetExportKey(notify, key, KEY_LENGTH, ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT));
  assert_int_not_equal(import(&p, key), ACL_SUCCESS);
  CHECK_OK(aclrtNotifySetImportPid(notify, &pid, 1));
  CHECK_OK(import(&p, key));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyNotify(notify));
  peer_end(&p);
}

static void only_the_creator_may_wait(void **state) {
  (void)state;
  char key[KEY_LENGTH];
  peer p = peer_start("recorder", NULL);
  aclrtNotify notify = exported(key);
  CHECK_OK(import(&p, key));
  assert_int_not_equal(told(&p, WAIT), ACL_SUCCESS);
  assert_int_not_equal(told(&p, EXPORT), ACL_SUCCESS);
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyNotify(notify));
  peer_end(&p);
}

/* The notify exists until all processes have destroyed it. */
static void any_process_may_destroy_it_first(void **state) {
  (void)state;
  char key[KEY_LENGTH], other[KEY_LENGTH];
  peer p = peer_start("recorder", NULL), late = peer_start("recorder", NULL);
  aclrtStream stream = stream_new();
  aclrtNotify notify = exported(key);
  CHECK_OK(import(&p, key));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(told(&p, RECORD));
  assert_int_not_equal(import(&late, key), ACL_SUCCESS);
  notify = exported(other); /* not the notify that the first process still records */
  CHECK_OK(told(&p, RECORD));
  CHECK_OK(aclrtWaitAndResetNotify(notify, NULL, 0));
  nap_ms(2);
  assert_int_equal(stream_status(NULL), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aclrtRecordNotify(notify, stream));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(told(&p, DESTROY));
  CHECK_OK(aclrtDestroyNotify(notify));
  peer_end(&p);
  peer_end(&late);
}

static void invalid_arguments_are_refused(void **state) {
  (void)state;
  char key[2 * KEY_LENGTH] = {0};
  int32_t pid = 1;
  aclrtNotify notify = notify_new(), imported;
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtNotifyGetExportKey(NULL, key, KEY_LENGTH, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtNotifyGetExportKey(notify, NULL, KEY_LENGTH, 0));
  CHECK_FAILS(aclrtNotifyGetExportKey(notify, key, KEY_LENGTH - 1, 0));
  CHECK_FAILS(aclrtNotifyGetExportKey(notify, key, KEY_LENGTH, 1));
  CHECK_OK(aclrtNotifyGetExportKey(notify, key, sizeof key, 0));
  assert_true(strlen(key) > 0 && strlen(key) < KEY_LENGTH);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtNotifySetImportPid(notify, NULL, 1));
  CHECK_FAILS(aclrtNotifySetImportPid(notify, &pid, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtNotifyImportByKey(NULL, key, 0));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, aclrtNotifyImportByKey(&imported, NULL, 0));
  CHECK_FAILS(aclrtNotifyImportByKey(&imported, key, 1));
  CHECK_FAILS(aclrtNotifyImportByKey(&imported, "no key", 0));
  CHECK_OK(aclrtDestroyNotify(notify));
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "recorder")) return recorder_main();
  const struct CMUnitTest tests[] = {
      TEST(each_record_of_another_process_lets_one_wait_pass),
      TEST(sharing_keeps_earlier_records_and_waits),
      TEST(only_named_processes_can_import),
      TEST(only_the_creator_may_wait),
      TEST(any_process_may_destroy_it_first),
      TEST(invalid_arguments_are_refused),
  };
  return cmocka_run_group_tests_name("notifies between processes", tests, device_up, device_down);
}
