/* SPDX-License-Identifier: Apache-2.0 */
/* cannon_check_carved: dividing a block into pieces. Each violation is reported by the name of its rule. */
#include "acl_test.h"

#include "cannon/memory.h"

#define PIECE(base, offset, length, use) ((cannonPiece){(const char *)(base) + (offset), length, use})

static void expect_rule(const char *rule, const char *piece) {
  const char *message = aclGetRecentErrMsg();
  assert_non_null(message);
  if (!strstr(message, rule) || !strstr(message, piece))
    fail_msg("\"%s\" and \"%s\" are not in: %s", rule, piece, message);
}

static void pieces_of_a_device_block_are_checked(void **state) {
  (void)state;
  char *block = dev_new(1024); /* 1024 bytes occupy 1056 */
  cannonPiece good[] = {PIECE(block, 0, 200, CANNON_USE_DEVICE), PIECE(block, 256, 300, CANNON_USE_DVPP),
                        PIECE(block, 640, 384, CANNON_USE_DEVICE)};
  size_t failed = 99;
  CHECK_OK(cannon_check_carved(block, good, 3, &failed));
  assert_int_equal(failed, 99);
  good[1].address = block + 320;
  CHECK_CODE(ACL_ERROR_RT_ADDR_UNALIGNED, cannon_check_carved(block, good, 3, &failed));
  assert_int_equal(failed, 1);
  expect_rule("rule start-128", "pieces[1]");
  good[1].address = block + 256;
  good[2].length = 385;
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_check_carved(block, good, 3, NULL));
  expect_rule("rule room", "pieces[2]");
  good[0].length = 225; /* 256 + 32 */
  CHECK_CODE(ACL_ERROR_RT_PARAM_INVALID, cannon_check_carved(block, good, 3, &failed));
  assert_int_equal(failed, 0);
  expect_rule("the next piece", "pieces[0]");
  CHECK_OK(aclrtFree(block));
}

/* A block of aclrtMallocAlign32 has no room for the slack of a piece as long as the block. */
static void rules_depend_on_the_allocation_function(void **state) {
  (void)state;
  void *block = NULL;
  CHECK_OK(aclrtMallocAlign32(&block, 1024, ACL_MEM_MALLOC_HUGE_FIRST));
  cannonPiece all = PIECE(block, 0, 1024, CANNON_USE_DEVICE);
  CHECK_FAILS(cannon_check_carved(block, &all, 1, NULL));
  expect_rule("rule room", "pieces[0]");
  all.use = CANNON_USE_ASYNC_COPY;
  CHECK_OK(cannon_check_carved(block, &all, 1, NULL));
  CHECK_OK(aclrtFree(block));
}

static void pieces_of_host_blocks_are_checked(void **state) {
  (void)state;
  char *pinned = pinned_new(4096), *own = aligned_alloc(4096, 4096);
  cannonPiece halves[] = {PIECE(pinned, 0, 2048, CANNON_USE_ASYNC_COPY),
                          PIECE(pinned, 2048, 2048, CANNON_USE_ASYNC_COPY)};
  CHECK_OK(cannon_check_carved(pinned, halves, 2, NULL));
  cannonPiece piece = PIECE(own, 0, 4096, CANNON_USE_ASYNC_COPY);
  CHECK_FAILS(cannon_check_carved(own, &piece, 1, NULL)); /* not memory of the library */
  CHECK_OK(aclrtHostRegisterV2(own, 4096, ACL_HOST_REG_PINNED));
  CHECK_OK(cannon_check_carved(own, &piece, 1, NULL));
  CHECK_OK(aclrtHostUnregister(own));
  CHECK_OK(aclrtFreeHost(pinned));
  free(own);
}

static void addresses_that_are_no_block_are_refused(void **state) {
  (void)state;
  char *block = dev_new(1024);
  cannonPiece piece = PIECE(block, 0, 1, CANNON_USE_DEVICE);
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, cannon_check_carved(NULL, &piece, 1, NULL));
  CHECK_CODE(ACL_ERROR_INVALID_PARAM, cannon_check_carved(block, NULL, 1, NULL));
  CHECK_FAILS(cannon_check_carved(block, &piece, 0, NULL));
  CHECK_FAILS(cannon_check_carved(block + 64, &piece, 1, NULL));
  CHECK_OK(aclrtFree(block));
  CHECK_FAILS(cannon_check_carved(block, &piece, 1, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(pieces_of_a_device_block_are_checked), TEST(rules_depend_on_the_allocation_function),
      TEST(pieces_of_host_blocks_are_checked), TEST(addresses_that_are_no_block_are_refused)};
  return cmocka_run_group_tests(tests, device_up, device_down);
}
