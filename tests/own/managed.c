/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of managed memory that go beyond CANN's. */
#include "acl_test.h"
#include "self.h"

#include <sys/mman.h>

enum { MIB2 = 2 << 20 };

static int without(void) {
  void *p = NULL;
  device_up(NULL);
  CHECK_CODE(207000, aclrtMemAllocManaged(&p, MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  const char *message = aclGetRecentErrMsg();
  assert_non_null(message);
  assert_non_null(strstr(message, "Ascend910_9392 has no managed memory"));
  return device_down(NULL);
}

static void devices_without_managed_memory_say_so(void **state) {
  (void)state;
  static child_end end;
  run_self(&end, "without", "CANNON_DEVICE=Ascend910_9392");
  if (end.status) print_error("stderr of the child: %s\n", end.text);
  assert_int_equal(end.status, 0);
}

static size_t resident_pages(void *p, size_t bytes) {
  static unsigned char there[4 * MIB2 / 4096];
  size_t n = 0;
  assert_int_equal(mincore(p, bytes, there), 0);
  for (size_t i = 0; i < bytes / 4096; i++) n += there[i] & 1;
  return n;
}

static void prefetched_pages_are_resident(void **state) {
  (void)state;
  if (test_emulator()) skip(); /* QEMU's user mode does not pass MADV_POPULATE_WRITE on */
  const aclrtMemManagedLocation host = {ACL_MEM_LOCATIONTYPE_HOST, 0};
  char *p = NULL;
  CHECK_OK(aclrtMemAllocManaged((void **)&p, 4 * MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  CHECK_OK(aclrtMemManagedPrefetchAsync(p + MIB2, 2 * MIB2, host, 0, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_int_equal(resident_pages(p + MIB2, 2 * MIB2), 2 * MIB2 / 4096);
  CHECK_OK(aclrtFree(p));
}

/* A freed block keeps its contents until the tasks that use it are done. */
static void memory_of_pending_tasks_stays(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  void *p = NULL, *q = NULL, *d = dev_new(100);
  CHECK_OK(aclrtMemAllocManaged(&p, MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  memset(p, 0x77, 100);
  gate *g = gate_close(stream);
  /* does not wait, since managed memory is not pageable */
  CHECK_OK(aclrtMemcpyAsync(d, 100, p, 100, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtMemAllocManaged(&q, MIB2, ACL_RT_MEM_ATTACH_GLOBAL));
  memset(q, 0, MIB2);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  assert_dev_filled(d, 0x77, 100);
  CHECK_OK(aclrtFree(q));
  CHECK_OK(aclrtFree(d));
  CHECK_OK(aclrtDestroyStream(stream));
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "without")) return without();
  const struct CMUnitTest tests[] = {
      TEST(devices_without_managed_memory_say_so),
      TEST(prefetched_pages_are_resident),
      TEST(memory_of_pending_tasks_stays),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
