/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages for device memory: where the host supports them, they are allocated by the first task that writes a whole
 * granule. */
#include "acl_test.h"
#include "cannon/memory.h"
#include "self_exec.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#  define MADV_COLLAPSE 25
#endif

enum { MIB = 1 << 20, GRANULE = 2 * MIB };

/* Whether this kernel turns pages of a shared file into huge pages on request (Linux 6.1 or later). */
static bool host_has_them(void) {
  const int file = memfd_create("try", MFD_CLOEXEC);
  char *p = MAP_FAILED, *at = NULL;
  if (file >= 0 && !ftruncate(file, GRANULE))
    p = mmap(NULL, 2 * GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) {
    at = p + (GRANULE - (uintptr_t)p % GRANULE) % GRANULE;
    if (mmap(at, GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != at) at = NULL;
  }
  if (at) *at = 1;
  const bool has = at && !madvise(at, GRANULE, MADV_COLLAPSE);
  if (p != MAP_FAILED) munmap(p, 2 * GRANULE);
  if (file >= 0) close(file);
  return has;
}

/* The sum, in bytes, of those lines of a file of /proc/self that begin with `what`. */
static size_t sum_of(const char *path, const char *what) {
  char line[256];
  size_t sum = 0, kib;
  const size_t length = strlen(what);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, what, length) && sscanf(line + length, "%zu kB", &kib) == 1) sum += kib * 1024;
  fclose(f);
  return sum;
}

static size_t huge_bytes(void) { return sum_of("/proc/self/smaps", "ShmemPmdMapped:"); }
static size_t shared_bytes(void) { return sum_of("/proc/self/status", "RssShmem:"); }

static void whole_granules_become_huge_pages_when_written(void **state) {
  (void)state;
  enum { BYTES = 16 * MIB };
  if (test_emulator() || !host_has_them()) skip(); /* QEMU does not pass MADV_COLLAPSE on */
  const size_t before = huge_bytes();
  char *p = dev_new(BYTES), *q = dev_new(BYTES);
  assert_int_equal(huge_bytes(), before);
  CHECK_OK(aclrtMemsetAsync(p, BYTES, 0x5a, BYTES, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_true(huge_bytes() >= before + BYTES - GRANULE); /* the block may begin and end within a granule */
  assert_int_equal(dev_byte(p, 0), 0x5a);
  assert_int_equal(dev_byte(p, BYTES - 1), 0x5a);
  CHECK_OK(aclrtMemcpy(q, BYTES, p, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE));
  assert_true(huge_bytes() >= before + 2 * (BYTES - GRANULE));
  assert_int_equal(dev_byte(q, BYTES / 2), 0x5a);
  CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtFree(q));
  CHECK_OK(cannon_trim(0, 0, NULL));
  assert_true(huge_bytes() <= before);
}

/* Existing contents are kept, and memory that is not written is not committed. */
static void memory_that_is_not_written_is_not_committed(void **state) {
  (void)state;
  enum { BYTES = 64 * MIB, WRITTEN = MIB };
  const size_t huge = huge_bytes(), there = shared_bytes();
  char *p = dev_new(BYTES);
  CHECK_OK(aclrtMemset(p, BYTES, 1, WRITTEN));
  assert_int_equal(huge_bytes(), huge);
  assert_true(shared_bytes() < there + 8 * MIB);
  CHECK_OK(aclrtMemset(p + WRITTEN, BYTES - WRITTEN, 2, 4 * GRANULE));
  assert_int_equal(dev_byte(p, WRITTEN - 1), 1);
  assert_int_equal(dev_byte(p, WRITTEN), 2);
  assert_true(shared_bytes() < there + 32 * MIB);
  CHECK_OK(aclrtFree(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(whole_granules_become_huge_pages_when_written),
      TEST(memory_that_is_not_written_is_not_committed),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
