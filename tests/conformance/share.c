/* SPDX-License-Identifier: Apache-2.0 */
/* Memory shared by two processes: physical memory through shareable handles, blocks through keys. */
#include "acl_ops.h"
#include "sharer.h"

#include "aclnnop/aclnn_add.h"

static void *at(void *p, size_t bytes) { return (char *)p + bytes; }

static uint64_t export_physical(aclrtDrvMemHandle handle, uint64_t flags) {
  uint64_t key = 0;
  CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, flags, &key));
  return key;
}

static void export_block(void *p, size_t bytes, uint64_t flags, char key[KEY_LENGTH]) {
  memset(key, 'x', KEY_LENGTH);
  CHECK_OK(aclrtIpcMemGetExportKey(p, bytes, key, KEY_LENGTH, flags));
  assert_true(strnlen(key, KEY_LENGTH) < KEY_LENGTH);
}

static int32_t pid_of(peer *p) { return tell_ok(p, (order){.deed = NOTHING}).pid; }

/* ---- physical memory ---- */

static void both_processes_see_the_same_bytes(void **state) {
  (void)state;
  peer p = sharer_start();
  aclrtDrvMemHandle handle = physical_new(2 * MIB2);
  void *mine = NULL;
  CHECK_OK(map_new(handle, 2 * MIB2, &mine));
  CHECK_OK(aclrtMemset(mine, 2 * MIB2, 0x11, 2 * MIB2));
  tell_ok(&p, IMPORTS_PHYSICAL(export_physical(handle, 1), 2 * MIB2));
  assert_int_equal(READS(&p, 0), 0x11);
  assert_int_equal(READS(&p, 2 * MIB2 - 1), 0x11);
  tell_ok(&p, (order){.deed = FILL, .byte = 0x22, .bytes = 2 * MIB2});
  assert_dev_filled(mine, 0x22, 2 * MIB2);
  CHECK_OK(aclrtMemset(mine, 1, 0x33, 1));
  assert_int_equal(READS(&p, 0), 0x33);
  tell_ok(&p, (order){.deed = DROP});
  peer_end(&p);
  assert_int_equal(dev_byte(mine, 1), 0x22);
  CHECK_OK(unmap_all(mine, handle));
}

static void only_named_processes_import(void **state) {
  (void)state;
  peer p = sharer_start(), q = sharer_start();
  int32_t wrong = pid_of(&q), right = pid_of(&p);
  assert_int_equal(right, p.pid);
  aclrtDrvMemHandle handle = physical_new(MIB2);
  const uint64_t key = export_physical(handle, 0);
  assert_true(tell(&p, IMPORTS_PHYSICAL(key, MIB2)).code != 0); /* no process is named yet */
  CHECK_OK(aclrtMemSetPidToShareableHandle(key, &wrong, 1));
  assert_true(tell(&p, IMPORTS_PHYSICAL(key, MIB2)).code != 0);
  CHECK_OK(aclrtMemSetPidToShareableHandle(key, &right, 1)); /* adds to the list */
  tell_ok(&p, IMPORTS_PHYSICAL(key, MIB2));
  tell_ok(&q, IMPORTS_PHYSICAL(key, MIB2));
  tell_ok(&p, (order){.deed = DROP});
  tell_ok(&q, (order){.deed = DROP});
  peer_end(&p);
  peer_end(&q);
  CHECK_OK(aclrtFreePhysical(handle));
}

static void a_handle_is_exported_once_and_imported_elsewhere(void **state) {
  (void)state;
  aclrtDrvMemHandle handle = physical_new(MIB2), again = NULL;
  uint64_t second;
  const uint64_t key = export_physical(handle, 1);
  CHECK_FAILS(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &second));
  CHECK_FAILS(aclrtMemImportFromShareableHandle(key, 0, &again)); /* not in the exporting process */
  CHECK_OK(aclrtFreePhysical(handle));
}

static void wrong_and_stale_handles_are_refused(void **state) {
  (void)state;
  peer p = sharer_start();
  aclrtDrvMemHandle handle = physical_new(MIB2);
  const uint64_t key = export_physical(handle, 1);
  int32_t pid = p.pid;
  assert_true(tell(&p, IMPORTS_PHYSICAL(0, MIB2)).code != 0);
  assert_true(tell(&p, IMPORTS_PHYSICAL(key + 1, MIB2)).code != 0);
  assert_true(tell(&p, IMPORTS_PHYSICAL(UINT64_MAX, MIB2)).code != 0);
  CHECK_FAILS(aclrtMemSetPidToShareableHandle(key + 1, &pid, 1));
  CHECK_OK(aclrtFreePhysical(handle));
  assert_true(tell(&p, IMPORTS_PHYSICAL(key, MIB2)).code != 0); /* freed before the import */
  aclrtDrvMemHandle other = physical_new(MIB2);
  export_physical(other, 1);
  assert_true(tell(&p, IMPORTS_PHYSICAL(key, MIB2)).code != 0); /* the key does not refer to later memory either */
  CHECK_OK(aclrtFreePhysical(other));
  peer_end(&p);
}

static void version_2_of_the_calls_does_the_same(void **state) {
  (void)state;
  peer p = sharer_start();
  int32_t pid = p.pid;
  uint64_t key = 0;
  aclrtMemFabricHandle fabric;
  aclrtDrvMemHandle handle = physical_new(MIB2), imported = NULL;
  CHECK_CODE(207000, aclrtMemExportToShareableHandleV2(handle, 0, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &fabric));
  CHECK_OK(aclrtMemExportToShareableHandleV2(handle, 0, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &key));
  CHECK_CODE(207000, aclrtMemSetPidToShareableHandleV2(&key, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &pid, 1));
  CHECK_OK(aclrtMemSetPidToShareableHandleV2(&key, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &pid, 1));
  tell_ok(&p, IMPORTS_PHYSICAL(key, MIB2));
  CHECK_CODE(207000, aclrtMemImportFromShareableHandleV2(&fabric, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &imported));
  CHECK_FAILS(aclrtMemImportFromShareableHandleV2(&key, (aclrtMemSharedHandleType)9, 0, &imported));
  tell_ok(&p, (order){.deed = DROP});
  CHECK_OK(aclrtFreePhysical(handle));
  key = tell_ok(&p, (order){.deed = OFFER_PHYSICAL, .byte = 0x5a, .bytes = MIB2}).handle;
  CHECK_FAILS(aclrtMemImportFromShareableHandleV2(&key, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 1, &imported));
  CHECK_OK(aclrtMemImportFromShareableHandleV2(&key, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, 0, &imported));
  void *mine = NULL;
  CHECK_OK(map_new(imported, MIB2, &mine));
  assert_dev_filled(mine, 0x5a, MIB2);
  CHECK_OK(unmap_all(mine, imported));
  peer_end(&p);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  aclrtDrvMemHandle handle = physical_new(MIB2), imported;
  uint64_t key = 0;
  int32_t pid = 1;
  CHECK_CODE(100000, aclrtMemExportToShareableHandle(NULL, ACL_MEM_HANDLE_TYPE_NONE, 0, &key));
  CHECK_CODE(100000, aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, NULL));
  CHECK_FAILS(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 2, &key));
  CHECK_FAILS(aclrtMemExportToShareableHandle((aclrtDrvMemHandle)&key, ACL_MEM_HANDLE_TYPE_NONE, 0, &key));
  key = export_physical(handle, 0);
  CHECK_CODE(100000, aclrtMemSetPidToShareableHandle(key, NULL, 1));
  CHECK_FAILS(aclrtMemSetPidToShareableHandle(key, &pid, 0));
  CHECK_CODE(100000, aclrtMemImportFromShareableHandle(key, 0, NULL));
  CHECK_FAILS(aclrtMemImportFromShareableHandle(key, 99, &imported));
  CHECK_CODE(100000, aclrtDeviceGetBareTgid(NULL));
  CHECK_OK(aclrtFreePhysical(handle));
}

static void local_and_imported_memory_do_not_mix(void **state) {
  (void)state;
  peer p = sharer_start();
  const uint64_t key = tell_ok(&p, (order){.deed = OFFER_PHYSICAL, .byte = 1, .bytes = MIB2}).handle;
  aclrtDrvMemHandle local = physical_new(MIB2), imported = NULL;
  void *mine = NULL;
  CHECK_OK(aclrtMemImportFromShareableHandle(key, 0, &imported));
  CHECK_OK(aclrtReserveMemAddress(&mine, 2 * MIB2, 0, NULL, 0));
  CHECK_OK(aclrtMapMem(mine, MIB2, 0, local, 0));
  CHECK_FAILS(aclrtMapMem(at(mine, MIB2), MIB2, 0, imported, 0));
  CHECK_OK(aclrtUnmapMem(mine));
  CHECK_OK(aclrtMapMem(mine, MIB2, 0, imported, 0));
  CHECK_FAILS(aclrtMapMem(at(mine, MIB2), MIB2, 0, local, 0));
  assert_int_equal(dev_byte(mine, 0), 1);
  CHECK_OK(unmap_all(mine, imported));
  CHECK_OK(aclrtFreePhysical(local));
  peer_end(&p);
}

/* The memory exists until all processes that hold it have freed it. */
static void imported_memory_outlives_the_exporters_free(void **state) {
  (void)state;
  peer p = sharer_start();
  const size_t before = free_memory();
  aclrtDrvMemHandle handle = physical_new(MIB2);
  void *mine = NULL;
  CHECK_OK(map_new(handle, MIB2, &mine));
  CHECK_OK(aclrtMemset(mine, MIB2, 0x44, MIB2));
  tell_ok(&p, IMPORTS_PHYSICAL(export_physical(handle, 1), MIB2));
  CHECK_OK(unmap_all(mine, handle));
  aclrtDrvMemHandle other[4];
  for (int i = 0; i < 4; i++) { /* later allocations get other memory */
    other[i] = physical_new(MIB2);
    CHECK_OK(map_new(other[i], MIB2, &mine));
    CHECK_OK(aclrtMemset(mine, MIB2, 0x55, MIB2));
    CHECK_OK(unmap_all(mine, other[i]));
  }
  assert_int_equal(READS(&p, 0), 0x44);
  assert_int_equal(READS(&p, MIB2 - 1), 0x44);
  assert_true(free_memory() <= before - MIB2);
  tell_ok(&p, (order){.deed = DROP});
  CHECK_OK(aclrtFreePhysical(physical_new(MIB2)));
  assert_int_equal(free_memory(), before);
  peer_end(&p);
}

static void imported_memory_outlives_a_killed_exporter(void **state) {
  (void)state;
  peer p = sharer_start(), q = sharer_start();
  const uint64_t taken = tell_ok(&p, (order){.deed = OFFER_PHYSICAL, .byte = 0x66, .bytes = MIB2}).handle;
  const uint64_t missed = tell_ok(&q, (order){.deed = OFFER_PHYSICAL, .byte = 0x77, .bytes = MIB2}).handle;
  aclrtDrvMemHandle imported = NULL;
  void *mine = NULL;
  CHECK_OK(aclrtMemImportFromShareableHandle(taken, 0, &imported));
  peer_kill(&p);
  peer_kill(&q);
  CHECK_OK(map_new(imported, MIB2, &mine));
  assert_dev_filled(mine, 0x66, MIB2);
  CHECK_OK(unmap_all(mine, imported));
  CHECK_FAILS(aclrtMemImportFromShareableHandle(missed, 0, &imported));
}

/* The free memory of the device once it no longer changes. What a process held that a test before has killed may become
 * free a little later. */
static size_t settled_free_memory(void) {
  size_t last = free_memory();
  for (int same = 0; same < 5;) {
    usleep(10000);
    const size_t now = free_memory();
    same = now == last ? same + 1 : 0;
    last = now;
  }
  return last;
}

static void a_killed_importer_releases_its_memory(void **state) {
  (void)state;
  peer p = sharer_start();
  const size_t before = settled_free_memory();
  aclrtDrvMemHandle handle = physical_new(MIB2);
  tell_ok(&p, IMPORTS_PHYSICAL(export_physical(handle, 1), MIB2));
  CHECK_OK(aclrtFreePhysical(handle));
  peer_kill(&p);
  CHECK_OK(aclrtFreePhysical(physical_new(MIB2)));
  assert_int_equal(free_memory(), before);
}

/* ---- blocks ---- */

static void a_block_is_imported_by_its_key(void **state) {
  (void)state;
  peer p = sharer_start();
  char key[KEY_LENGTH];
  void *block = dev_filled(0x12, 5 * MIB2 + 100);
  export_block(block, 5 * MIB2 + 100, 1, key);
  tell_ok(&p, imports_block(key));
  assert_int_equal(READS(&p, 0), 0x12);
  assert_int_equal(READS(&p, 5 * MIB2 + 99), 0x12);
  tell_ok(&p, (order){.deed = FILL, .byte = 0x34, .bytes = 5 * MIB2 + 100});
  assert_dev_filled(block, 0x34, 5 * MIB2 + 100);
  assert_true(tell(&p, (order){.deed = FILL, .byte = 1, .bytes = 6 * MIB2}).code != 0); /* past its end */
  tell_ok(&p, (order){.deed = DROP});
  peer_end(&p);
  CHECK_OK(aclrtIpcMemClose(key));
  CHECK_OK(aclrtFree(block));
}

/* Kernels read and write the other process's memory as if it were their own. */
static void kernels_work_on_imported_blocks(void **state) {
  (void)state;
  enum { N = 1024, SIZE = N * sizeof(float) };
  peer p = sharer_start();
  const report r = tell_ok(&p, (order){.deed = OFFER_BLOCK, .byte = 0, .bytes = MIB2});
  float host[N];
  void *theirs = NULL;
  CHECK_OK(aclrtIpcMemImportByKey(&theirs, r.key, 0));
  for (int i = 0; i < N; i++) host[i] = (float)i;
  CHECK_OK(aclrtMemcpy(theirs, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
  aclTensor *x = TENSOR(theirs, ACL_FLOAT, N), *y = TENSOR(at(theirs, SIZE), ACL_FLOAT, N);
  aclScalar *one = float_scalar(1);
  uint64_t bytes;
  aclOpExecutor *executor = NULL;
  CHECK_OK(aclnnAddGetWorkspaceSize(x, x, one, y, &bytes, &executor));
  CHECK_OK(aclnnAdd(NULL, 0, executor, NULL));
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_OK(aclrtMemcpy(host, SIZE, at(theirs, SIZE), SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < N; i++) assert_true(host[i] == (float)(2 * i));
  assert_int_equal(READS(&p, SIZE + 7), 0x40); /* the highest byte of 2.0f */
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclDestroyScalar(one));
  CHECK_OK(aclrtIpcMemClose(r.key));
  CHECK_FAILS(aclrtMemset(theirs, 1, 1, 1)); /* unmapped */
  tell_ok(&p, (order){.deed = DROP});
  peer_end(&p);
}

static void imported_blocks_are_device_memory(void **state) {
  (void)state;
  peer p = sharer_start();
  const report r = tell_ok(&p, (order){.deed = OFFER_BLOCK, .byte = 7, .bytes = MIB2});
  aclrtPtrAttributes attributes;
  void *theirs = NULL;
  CHECK_OK(aclrtIpcMemImportByKey(&theirs, r.key, 1));
  CHECK_OK(aclrtPointerGetAttributes(theirs, &attributes));
  assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  CHECK_FAILS(aclrtFree(theirs)); /* this process may not free it */
  CHECK_OK(aclrtIpcMemClose(r.key));
  CHECK_FAILS(aclrtIpcMemClose(r.key));
  peer_end(&p);
}

static void only_named_processes_import_a_block(void **state) {
  (void)state;
  peer p = sharer_start();
  char key[KEY_LENGTH];
  int32_t wrong = getpid(), right = pid_of(&p);
  void *block = dev_filled(0x21, MIB2);
  export_block(block, MIB2, 0, key);
  assert_true(tell(&p, imports_block(key)).code != 0);
  CHECK_OK(aclrtIpcMemSetImportPid(key, &wrong, 1));
  assert_true(tell(&p, imports_block(key)).code != 0);
  CHECK_OK(aclrtIpcMemSetImportPid(key, &right, 1));
  tell_ok(&p, imports_block(key));
  assert_int_equal(READS(&p, 5), 0x21);
  tell_ok(&p, (order){.deed = DROP});
  peer_end(&p);
  CHECK_OK(aclrtIpcMemClose(key));
  CHECK_OK(aclrtFree(block));
}

static void bad_keys_are_refused(void **state) {
  (void)state;
  peer p = sharer_start();
  char key[KEY_LENGTH];
  void *block = dev_filled(1, MIB2), *other = NULL;
  int32_t pid = p.pid;
  CHECK_CODE(100000, aclrtIpcMemGetExportKey(NULL, MIB2, key, KEY_LENGTH, 0));
  CHECK_CODE(100000, aclrtIpcMemGetExportKey(block, MIB2, NULL, KEY_LENGTH, 0));
  CHECK_FAILS(aclrtIpcMemGetExportKey(block, MIB2, key, 64, 0));
  CHECK_FAILS(aclrtIpcMemGetExportKey(at(block, 64), 4096, key, KEY_LENGTH, 0)); /* not the start of a page */
  CHECK_FAILS(aclrtIpcMemGetExportKey(block, 2 * MIB2, key, KEY_LENGTH, 0));     /* larger than the block */
  CHECK_FAILS(aclrtIpcMemGetExportKey(block, 0, key, KEY_LENGTH, 0));
  CHECK_FAILS(aclrtIpcMemGetExportKey(block, MIB2, key, KEY_LENGTH, 2));
  export_block(block, MIB2, 1, key);
  CHECK_CODE(100000, aclrtIpcMemSetImportPid(key, NULL, 1));
  CHECK_FAILS(aclrtIpcMemSetImportPid("no key", &pid, 1));
  CHECK_CODE(100000, aclrtIpcMemImportByKey(&other, NULL, 0));
  CHECK_CODE(100000, aclrtIpcMemImportByKey(NULL, key, 0));
  CHECK_FAILS(aclrtIpcMemImportByKey(&other, "", 0));
  CHECK_FAILS(aclrtIpcMemClose("no key"));
  CHECK_CODE(100000, aclrtIpcMemClose(NULL));
  assert_true(tell(&p, imports_block("cannon-0000000000000000 and then something else, 65 characters..")).code != 0);
  CHECK_OK(aclrtIpcMemClose(key));
  assert_true(tell(&p, imports_block(key)).code != 0); /* closed */
  CHECK_FAILS(aclrtIpcMemClose(key));
  CHECK_OK(aclrtFree(block));
  const report r = tell_ok(&p, (order){.deed = OFFER_BLOCK, .byte = 1, .bytes = MIB2});
  peer_kill(&p);
  CHECK_FAILS(aclrtIpcMemImportByKey(&other, r.key, 0)); /* its process was killed */
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "sharer")) return sharer_main();
  const struct CMUnitTest tests[] = {
      TEST(both_processes_see_the_same_bytes),
      TEST(only_named_processes_import),
      TEST(a_handle_is_exported_once_and_imported_elsewhere),
      TEST(wrong_and_stale_handles_are_refused),
      TEST(version_2_of_the_calls_does_the_same),
      TEST(bad_arguments_are_refused),
      TEST(local_and_imported_memory_do_not_mix),
      TEST(imported_memory_outlives_the_exporters_free),
      TEST(imported_memory_outlives_a_killed_exporter),
      TEST(a_killed_importer_releases_its_memory),
      TEST(a_block_is_imported_by_its_key),
      TEST(kernels_work_on_imported_blocks),
      TEST(imported_blocks_are_device_memory),
      TEST(only_named_processes_import_a_block),
      TEST(bad_keys_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
