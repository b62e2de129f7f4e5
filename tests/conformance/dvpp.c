/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for media processing, through both interfaces (hi_mpi and acldvpp). */
#include "acl_test.h"

#include "acl/dvpp/hi_media_common.h"
#include "acl/ops/acl_dvpp.h"

static void blocks_are_aligned_and_usable(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 100, 4096, 1048577, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    void *p[3] = {NULL};
    CHECK_OK(acldvppMalloc(&p[0], sizes[i]));
    CHECK_OK(acldvppMallocWithCfg(&p[1], sizes[i], ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    assert_int_equal(hi_mpi_dvpp_malloc(0, &p[2], sizes[i]), 0);
    for (int k = 0; k < 3; ++k) {
      assert_int_equal((uintptr_t)p[k] % 128, 0);
      CHECK_OK(aclrtMemset(p[k], sizes[i], k + 1, sizes[i]));
    }
    for (int k = 0; k < 3; ++k) assert_dev_filled(p[k], k + 1, sizes[i]);
    CHECK_OK(acldvppFree(p[0]));
    CHECK_OK(acldvppFree(p[1]));
    assert_int_equal(hi_mpi_dvpp_free(p[2]), 0);
  }
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  char *p = NULL, on_stack[8];
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, acldvppMalloc(NULL, 100));
  CHECK_FAILS(acldvppMalloc((void **)&p, 0));
  CHECK_FAILS(acldvppFree(NULL));
  CHECK_FAILS(acldvppFree(on_stack));
  assert_int_not_equal(hi_mpi_dvpp_malloc(0, NULL, 100), 0);
  assert_int_not_equal(hi_mpi_dvpp_malloc(0, (void **)&p, 0), 0);
  assert_int_not_equal(hi_mpi_dvpp_malloc(0, (void **)&p, UINT64_MAX), 0);
  assert_int_not_equal(hi_mpi_dvpp_free(NULL), 0);
  assert_null(p);
  CHECK_OK(acldvppMalloc((void **)&p, 1000));
  CHECK_FAILS(acldvppFree(p + 64));
  CHECK_OK(acldvppFree(p));
  CHECK_FAILS(acldvppFree(p));
}

static void *malloc_bare(void *out) {
  void *p = NULL;
  *(int *)out = hi_mpi_dvpp_malloc(0, &p, 100);
  return NULL;
}

static void a_context_is_needed(void **state) {
  (void)state;
  int code = 0;
  on_thread(malloc_bare, &code);
  assert_int_equal(code, (int)0xA0028009);
}

/* A block of media memory can become ordinary device memory after its free, and the reverse; its kind is that of its
 * last allocation. */
static void freed_media_memory_serves_other_allocations(void **state) {
  (void)state;
  enum { N = 8, ROUNDS = 50 };
  for (int r = 0; r < ROUNDS; ++r) {
    void *p[N];
    const size_t size = r % 2 ? 100 : 3000000;
    for (int i = 0; i < N; ++i) {
      if ((r + i) % 3)
        CHECK_OK(acldvppMalloc(&p[i], size));
      else
        p[i] = dev_new(size);
      uint32_t media = 9;
      CHECK_OK(aclrtCheckMemType(&p[i], 1, ACL_RT_MEM_TYPE_DVPP, &media, 0));
      assert_int_equal(media, (r + i) % 3 != 0);
    }
    for (int i = 0; i < N; ++i) CHECK_OK((r + i) % 3 ? acldvppFree(p[i]) : aclrtFree(p[i]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(blocks_are_aligned_and_usable), TEST(bad_arguments_are_refused),
                                     TEST(a_context_is_needed), TEST(freed_media_memory_serves_other_allocations)};
  return cmocka_run_group_tests(tests, device_up, device_down);
}
