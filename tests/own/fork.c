/* SPDX-License-Identifier: Apache-2.0 */
/* Forked children: a child has no device memory, keeps pinned host memory, and ends cleanly if it never calls Cannon.
 * System calls that get a device address fail with EFAULT. */
#include "acl_test.h"
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { SIZE = 3 << 20 };

static char *device_block, *host_block;

static int blocks_up(void **state) {
  device_up(state);
  device_block = dev_filled(0x44, SIZE);
  host_block = pinned_new(SIZE);
  memset(host_block, 0x55, SIZE);
  return 0;
}

static int blocks_down(void **state) {
  CHECK_OK(aclrtFree(device_block));
  CHECK_OK(aclrtFreeHost(host_block));
  return device_down(state);
}

/* Checks after each fork that the parent still works. */
static void assert_parent_works(void) {
  assert_dev_filled(device_block, 0x44, SIZE);
  CHECK_OK(aclrtMemsetAsync(device_block, SIZE, 0x45, SIZE, NULL));
  CHECK_OK(aclrtMemsetAsync(device_block, SIZE, 0x44, SIZE, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  assert_dev_filled(device_block, 0x44, SIZE);
  assert_int_equal(host_block[SIZE - 1], 0x55);
}

/* Runs `body` in a forked child and returns its exit status. No cmocka code may run in the child. */
static int status_of(int (*body)(void)) {
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(body());
  }
  int status = -1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return status;
}

static void assert_succeeds_in_child(int (*body)(void)) {
  int status = status_of(body);
  if (WIFSIGNALED(status)) print_error("child ended by signal %d\n", WTERMSIG(status));
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static int leave(void) { return 0; }
static int run_exit_handlers(void) { exit(0); }

static void child_that_never_calls_ends_cleanly(void **state) {
  (void)state;
  assert_succeeds_in_child(leave);
  assert_succeeds_in_child(run_exit_handlers);
  assert_parent_works();
}

static void child_of_a_busy_parent_ends_cleanly(void **state) {
  (void)state;
  aclrtStream stream = stream_new();
  gate *g = gate_close(stream);
  CHECK_OK(aclrtMemsetAsync(device_block, SIZE, 0x44, SIZE, stream));
  assert_succeeds_in_child(leave);
  assert_succeeds_in_child(run_exit_handlers);
  gate_open(g);
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtDestroyStream(stream));
  assert_parent_works();
}

/* The errno of writing one byte of `p` into a pipe, or of reading one byte into it; 0 on success. Uses raw system
 * calls, since a sanitizer's wrappers would access the memory. */
static int errno_of(long call, const void *p) {
  int fds[2];
  if (pipe(fds)) return -1;
  long n = call == SYS_write ? syscall(SYS_write, fds[1], p, 1) : write(fds[1], "x", 1);
  int error = n == 1 ? 0 : errno;
  if (call == SYS_read && error == 0) error = syscall(SYS_read, fds[0], p, 1) == 1 ? 0 : errno;
  close(fds[0]);
  close(fds[1]);
  return error;
}

static void system_calls_refuse_device_addresses(void **state) {
  (void)state;
  const size_t places[] = {0, 1, 4096, SIZE - 1};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    assert_int_equal(errno_of(SYS_write, device_block + places[i]), EFAULT);
    assert_int_equal(errno_of(SYS_read, device_block + places[i]), EFAULT);
  }
  assert_int_equal(errno_of(SYS_write, host_block), 0); /* pinned memory behaves as ordinary memory */
  assert_parent_works();
}

static void *page_of(void *p) { return (void *)((uintptr_t)p & ~(uintptr_t)4095); }

static int look_for_device_memory(void) {
  unsigned char there;
  if (errno_of(SYS_write, device_block) != EFAULT) return 1;
  if (mincore(page_of(device_block), 4096, &there) == 0) return 2; /* not even the reservation exists */
  return errno == ENOMEM ? 0 : 3;
}

static void child_has_no_device_memory(void **state) {
  (void)state;
  if (test_emulator()) skip(); /* QEMU's user mode does not pass MADV_DONTFORK on */
  assert_succeeds_in_child(look_for_device_memory);
  assert_parent_works();
}

static int touch_device_memory(void) { return *(volatile char *)device_block; }

static void child_that_accesses_device_memory_dies(void **state) {
  (void)state;
  int status = status_of(touch_device_memory);
  assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0x44); /* it must not read the data */
  assert_int_not_equal(status, 0);
  assert_parent_works();
}

static int read_pinned(void) {
  for (size_t i = 0; i < SIZE; i++)
    if (host_block[i] != 0x55) return 1;
  return 0;
}

static void child_reads_pinned_memory(void **state) {
  (void)state;
  assert_succeeds_in_child(read_pinned);
  assert_parent_works();
}

static int run_a_program(void) {
  execl("/bin/true", "true", (char *)NULL);
  return 127;
}

static void child_may_start_another_program(void **state) {
  (void)state;
  assert_succeeds_in_child(run_a_program);
  assert_parent_works();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(system_calls_refuse_device_addresses),   TEST(child_that_never_calls_ends_cleanly),
      TEST(child_of_a_busy_parent_ends_cleanly),    TEST(child_has_no_device_memory),
      TEST(child_that_accesses_device_memory_dies), TEST(child_reads_pinned_memory),
      TEST(child_may_start_another_program),
  };
  return cmocka_run_group_tests(tests, blocks_up, blocks_down);
}
