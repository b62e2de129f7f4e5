/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing between processes, beyond CANN's documentation: order of closing, limits with messages, and economical use of
 * the kernel's mappings. */
#include "acl_test.h"
#include "sharer.h"

#include <fcntl.h>
#include <sys/stat.h>

static void assert_says(const char *words) {
  const char *message = aclGetRecentErrMsg();
  assert_non_null(message);
  if (!strstr(message, words)) print_error("message: %s\nlacks: %s\n", message, words);
  assert_non_null(strstr(message, words));
}

#define CHECK_SAYS(code, words, call)                                                                                  \
  do {                                                                                                                 \
    CHECK_CODE(code, call);                                                                                            \
    assert_says(words);                                                                                                \
  } while (0)

/* ---- between processes ---- */

static void a_block_cannot_be_freed_while_imported(void **state) {
  (void)state;
  peer p = sharer_start();
  char key[KEY_LENGTH], words[32];
  void *block = dev_filled(3, MIB2);
  CHECK_OK(aclrtIpcMemGetExportKey(block, MIB2, key, KEY_LENGTH, 1));
  tell_ok(&p, imports_block(key));
  snprintf(words, sizeof words, "process %d", p.pid);
  CHECK_SAYS(107000, words, aclrtIpcMemClose(key));
  CHECK_SAYS(107000, words, aclrtFree(block));
  assert_int_equal(READS(&p, 0), 3);
  CHECK_OK(aclrtMemset(block, MIB2, 4, MIB2)); /* everything works as before */
  assert_int_equal(READS(&p, MIB2 - 1), 4);
  peer_kill(&p);
  CHECK_OK(aclrtFree(block)); /* also closes the key */
  CHECK_SAYS(107000, "closed before", aclrtIpcMemClose(key));
}

static void pages_within_a_block_can_be_exported(void **state) {
  (void)state;
  peer p = sharer_start();
  char key[KEY_LENGTH], *block = dev_filled(0, 3 * MIB2);
  CHECK_OK(aclrtMemset(block + MIB2 - 4096, 3 * 4096, 9, 3 * 4096));
  CHECK_OK(aclrtIpcMemGetExportKey(block + MIB2 - 4096, 2 * 4096 + 1, key, KEY_LENGTH, 1));
  tell_ok(&p, imports_block(key));
  assert_int_equal(READS(&p, 0), 9);
  assert_int_equal(READS(&p, 2 * 4096), 9);
  /* this page was not exported */
  assert_int_equal(tell(&p, (order){.deed = READ, .offset = 2 * 4096 + 1}).code, 107000);
  tell_ok(&p, (order){.deed = DROP});
  CHECK_OK(aclrtFree(block));
  peer_end(&p);
}

/* A block that the library has assembled from scattered free memory. */
static void a_block_of_scattered_memory_can_be_shared(void **state) {
  (void)state;
  enum { MOST = 256 };
  void *small[MOST];
  char key[KEY_LENGTH], *block = NULL;
  int n = 0;
  while (n < MOST && aclrtMalloc(&small[n], MIB2 - 64, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) ++n;
  assert_true(n > 100 && n < MOST);
  for (int i = 0; i < n; i += 2) CHECK_OK(aclrtFree(small[i]));
  const int granules = n / 2 - 1;
  CHECK_OK(aclrtMalloc((void **)&block, (size_t)granules * MIB2 - 64, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int g = 0; g < granules; g++) CHECK_OK(aclrtMemset(block + (size_t)g * MIB2, MIB2 - 64, g, MIB2 - 64));
  CHECK_OK(aclrtIpcMemGetExportKey(block, (size_t)granules * MIB2 - 64, key, KEY_LENGTH, 1));
  peer p = sharer_start();
  tell_ok(&p, imports_block(key));
  for (int g = 0; g < granules; g++) {
    assert_int_equal(READS(&p, (size_t)g * MIB2), g);
    assert_int_equal(READS(&p, (size_t)(g + 1) * MIB2 - 65), g);
  }
  tell_ok(&p, (order){.deed = FILL, .byte = 0xee, .bytes = (size_t)granules * MIB2 - 64});
  assert_dev_filled(block, 0xee, (size_t)granules * MIB2 - 64);
  tell_ok(&p, (order){.deed = DROP});
  peer_end(&p);
  CHECK_OK(aclrtFree(block));
  for (int i = 1; i < n; i += 2) CHECK_OK(aclrtFree(small[i]));
}

static void imported_addresses_are_protected(void **state) {
  (void)state;
  peer p = sharer_start();
  const report r = tell_ok(&p, (order){.deed = OFFER_BLOCK, .byte = 7, .bytes = MIB2});
  aclrtDrvMemHandle handle = physical_new(MIB2), got = NULL;
  aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_NONE};
  void *theirs = NULL, *again = NULL;
  CHECK_OK(aclrtIpcMemImportByKey(&theirs, r.key, 1));
  CHECK_SAYS(107000, "imported in this process already", aclrtIpcMemImportByKey(&again, r.key, 1));
  CHECK_SAYS(107000, "aclrtIpcMemClose ends this", aclrtFree(theirs));
  CHECK_CODE(107000, aclrtUnmapMem(theirs));
  CHECK_CODE(107000, aclrtReleaseMemAddress(theirs));
  CHECK_CODE(107000, aclrtMapMem(theirs, MIB2, 0, handle, 0));
  CHECK_CODE(107000, aclrtMemSetAccess(theirs, MIB2, &desc, 1));
  CHECK_CODE(107000, aclrtMemRetainAllocationHandle(theirs, &got));
  assert_dev_filled(theirs, 7, MIB2);
  CHECK_OK(aclrtIpcMemClose(r.key));
  CHECK_OK(aclrtFreePhysical(handle));
  peer_end(&p);
}

/* Entries of dead processes are replaced by new ones; when the table is full, exports are refused. */
static void exports_are_limited(void **state) {
  (void)state;
  enum { MOST = 2048 };
  static char keys[MOST][KEY_LENGTH];
  peer p = sharer_start();
  tell_ok(&p, (order){.deed = OFFER_BLOCK, .byte = 7, .bytes = MIB2});
  void *block = dev_filled(1, MIB2);
  for (int i = 0; i < MOST - 1; i++) CHECK_OK(aclrtIpcMemGetExportKey(block, 4096, keys[i], KEY_LENGTH, 1));
  CHECK_SAYS(207001, "2048", aclrtIpcMemGetExportKey(block, 4096, keys[MOST - 1], KEY_LENGTH, 1));
  peer_kill(&p);
  CHECK_OK(aclrtIpcMemGetExportKey(block, 4096, keys[MOST - 1], KEY_LENGTH, 1));
  CHECK_OK(aclrtFree(block)); /* closes all keys */
  CHECK_FAILS(aclrtIpcMemClose(keys[0]));
}

static void the_number_of_named_processes_is_limited(void **state) {
  (void)state;
  int32_t pids[65], none = 0;
  uint64_t key;
  aclrtDrvMemHandle handle = physical_new(MIB2);
  for (int i = 0; i < 65; i++) pids[i] = 1000 + i;
  CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &key));
  CHECK_SAYS(107000, "pid[0] is 0", aclrtMemSetPidToShareableHandle(key, &none, 1));
  CHECK_OK(aclrtMemSetPidToShareableHandle(key, pids, 64));
  CHECK_OK(aclrtMemSetPidToShareableHandle(key, pids, 64)); /* naming the same processes again adds nothing */
  CHECK_SAYS(107000, "pid[64] is 1064", aclrtMemSetPidToShareableHandle(key, pids, 65));
  CHECK_OK(aclrtFreePhysical(handle));
}

/* Memory that another process has imported is recovered, once released, before an allocation is refused. */
static void memory_released_by_an_importer_can_be_allocated(void **state) {
  (void)state;
  peer p = sharer_start();
  const size_t bytes = free_memory() / 4 * 3 / MIB2 * MIB2;
  aclrtDrvMemHandle handle = physical_new(bytes);
  void *block = NULL;
  uint64_t key;
  CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &key));
  tell_ok(&p, IMPORTS_PHYSICAL(key, bytes));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_CODE(207001, aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  tell_ok(&p, (order){.deed = DROP});
  CHECK_OK(aclrtMalloc(&block, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtFree(block));
  peer_end(&p);
}

/* Whatever the file says about an export, importing it succeeds or is refused, and no process crashes. */
static void a_broken_export_description_is_tolerated(void **state) {
  (void)state;
  enum { TAIL = 480 }; /* bytes at the end of the file, which hold the description of the only export */
  static const unsigned char values[] = {0, 1, 0x7f, 0xff};
  struct stat s;
  int n_refused = 0;
  peer p = sharer_start();
  aclrtDrvMemHandle handle = physical_new(MIB2);
  uint64_t key;
  CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &key));
  const int fd = open(getenv("CANNON_LEDGER"), O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(fstat(fd, &s), 0);
  for (off_t at = s.st_size - TAIL; at < s.st_size; at++)
    for (size_t v = 0; v < sizeof values; v++) {
      unsigned char was;
      assert_int_equal(pread(fd, &was, 1, at), 1);
      assert_int_equal(pwrite(fd, &values[v], 1, at), 1);
      const report r = tell(&p, IMPORTS_PHYSICAL(key, MIB2));
      n_refused += r.code != 0;
      if (!r.code) tell_ok(&p, (order){.deed = DROP});
      assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
  assert_true(n_refused > 0);
  tell_ok(&p, IMPORTS_PHYSICAL(key, MIB2)); /* the original contents */
  peer_end(&p);
  CHECK_OK(aclrtFreePhysical(handle));
  /* The descriptor stays open, because closing it would drop this process's locks on the file. */
}

/* ---- the kernel's mappings ---- */

/* Counts mappings of devices' memory and of reservations only, since a sanitizer creates mappings of its own. */
static int count_mappings(void) {
  FILE *f = fopen("/proc/self/maps", "r");
  char line[512];
  int n = 0;
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) n += strstr(line, "memfd:cannon") || strstr(line, " ---p ");
  fclose(f);
  return n;
}

/* Memory that is allocated and mapped piece by piece, as frameworks grow a pool, is one mapping; unmapping in any order
 * leaves none. */
static void adjacent_pieces_form_one_mapping(void **state) {
  (void)state;
  enum { N = 64 };
  aclrtDrvMemHandle handles[N];
  char *p = NULL;
  CHECK_OK(aclrtReserveMemAddress((void **)&p, N * MIB2, 0, NULL, 0));
  const int before = count_mappings();
  for (int i = 0; i < N; i++) handles[i] = physical_new(MIB2);
  /* every second piece, so they cannot merge */
  for (int i = 0; i < N; i += 2) CHECK_OK(aclrtMapMem(p + (size_t)i * MIB2, MIB2, 0, handles[i], 0));
  assert_true(count_mappings() >= before + N - 2);
  for (int i = 0; i < N; i += 2) CHECK_OK(aclrtUnmapMem(p + (size_t)i * MIB2));
  assert_true(count_mappings() <= before + 2);
  for (int i = 0; i < N; i++) CHECK_OK(aclrtMapMem(p + (size_t)i * MIB2, MIB2, 0, handles[i], 0));
  assert_true(count_mappings() <= before + 4);
  for (int i = 0; i < N; i += 2) CHECK_OK(aclrtUnmapMem(p + (size_t)i * MIB2));
  assert_true(count_mappings() >= before + N - 2);
  for (int i = 1; i < N; i += 2) CHECK_OK(aclrtUnmapMem(p + (size_t)i * MIB2));
  assert_true(count_mappings() <= before + 2);
  for (int i = 0; i < N; i++) CHECK_OK(aclrtFreePhysical(handles[i]));
  CHECK_OK(aclrtReleaseMemAddress(p));
}

/* With few mappings allowed, mapping is refused with a message and everything else continues. A single piece takes two
 * mappings: itself and the rest of the reservation after it. */
static int run_short_of_mappings(void) {
  enum { N = 40, LIMIT = 50 };
  char *p = NULL;
  device_up(NULL);
  aclrtDrvMemHandle handle = physical_new(MIB2);
  CHECK_OK(aclrtReserveMemAddress((void **)&p, 2 * N * MIB2, 0, NULL, 0));
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < LIMIT / 2; i++) CHECK_OK(aclrtMapMem(p + (size_t)2 * i * MIB2, MIB2, 0, handle, 0));
    CHECK_SAYS(207001, "of 50 are in use", aclrtMapMem(p + (size_t)LIMIT * MIB2, MIB2, 0, handle, 0));
    CHECK_OK(aclrtMemset(p, MIB2, 5, MIB2)); /* mapped memory still works */
    assert_int_equal(dev_byte(p + (size_t)(LIMIT - 2) * MIB2, 0), 5);
    CHECK_FAILS(aclrtMemset(p + (size_t)LIMIT * MIB2, 1, 0, 1)); /* the refused mapping left nothing */
    for (int i = 0; i < LIMIT / 2; i++) CHECK_OK(aclrtUnmapMem(p + (size_t)2 * i * MIB2));
  }
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(p));
  return device_down(NULL);
}

static void too_many_mappings_are_refused_with_a_message(void **state) {
  (void)state;
  peer p = peer_start("short", "CANNON_MAX_MAPPINGS=50");
  peer_end(&p);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "sharer")) return sharer_main();
  if (argc == 2 && !strcmp(argv[1], "short")) return run_short_of_mappings();
  static char ledger[64];
  snprintf(ledger, sizeof ledger, "/tmp/cannon-test-%d.ledger", getpid());
  setenv("CANNON_LEDGER", ledger, 1);
  setenv("CANNON_MEM", "268435456", 1);
  const struct CMUnitTest tests[] = {
      TEST(a_broken_export_description_is_tolerated), /* first, so that its export is the last in the file */
      TEST(a_block_cannot_be_freed_while_imported),    TEST(pages_within_a_block_can_be_exported),
      TEST(imported_addresses_are_protected),          TEST(exports_are_limited),
      TEST(the_number_of_named_processes_is_limited),  TEST(memory_released_by_an_importer_can_be_allocated),
      TEST(adjacent_pieces_form_one_mapping),          TEST(too_many_mappings_are_refused_with_a_message),
      TEST(a_block_of_scattered_memory_can_be_shared), /* last, because this process keeps the memory that it frees */
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
