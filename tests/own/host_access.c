/* A host access to device memory ends the program with a message that says which block it was. Each case is a
 * victim: this program run again with the case's name, which writes down what it is about to do and does it.
 */
#include "acl_test.h"
#include "self.h"

#include <signal.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define SANITIZED 1
#  endif
#endif
#ifndef SANITIZED
#  define SANITIZED 0 /* 1: the sanitizer's own handler ends the program, by exit and not by the signal */
#endif

typedef aclError (*allocator)(void **p, size_t size, aclrtMemMallocPolicy policy);

static const struct victim {
  const char *name, *allocation;
  allocator alloc;
  size_t size, at;
  bool write;
} victims[] = {
    {"write_first", "aclrtMalloc", aclrtMalloc, 12345, 0, true},
    {"read_first", "aclrtMalloc", aclrtMalloc, 23456, 0, false},
    {"write_inside", "aclrtMalloc", aclrtMalloc, 34567, 20001, true},
    {"large", "aclrtMalloc", aclrtMalloc, 10000019, 9999999, true},
    {"align32", "aclrtMallocAlign32", aclrtMallocAlign32, 45678, 4, true},
    {"cached", "aclrtMallocCached", aclrtMallocCached, 56789, 8, true},
};
enum { N_VICTIMS = sizeof victims / sizeof *victims };

static int die_by_device_memory(const struct victim *v) {
  void *p = NULL;
  if (aclInit(NULL) || aclrtSetDevice(0) || v->alloc(&p, v->size, ACL_MEM_MALLOC_HUGE_FIRST)) return 3;
  fprintf(stderr, "%lx %lx\n", (unsigned long)p, (unsigned long)p + v->at);
  volatile char *c = (char *)p + v->at;
  if (v->write) *c = 1;
  return *c == 77 ? 4 : 5; /* not reached */
}

static void own_handler(int number) {
  (void)number;
  _exit(42);
}

/* Faults that are the program's own reach whoever handled them before. */
static int fault_of_ones_own(void) {
  signal(SIGSEGV, own_handler);
  if (aclInit(NULL) || aclrtSetDevice(0)) return 3;
  raise(SIGSEGV);
  return 5;
}

static void message_names_address_block_and_allocation(void **state) {
  (void)state;
  static child_end end;
  for (int i = 0; i < N_VICTIMS; i++) {
    const struct victim *v = &victims[i];
    char block[20], address[20], size[20];
    run_self(&end, v->name, NULL);
    print_message("%s: %s\n", v->name, end.text);
    if (SANITIZED)
      assert_true(end.status != 0);
    else
      assert_true(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGSEGV);
    assert_int_equal(sscanf(end.text, "%19s %19s", block, address), 2);
    const char *message = strchr(end.text, '\n');
    assert_non_null(message);
    snprintf(size, sizeof size, "%zu", v->size);
    assert_non_null(strstr(message, "0x"));
    assert_non_null(strstr(message, address));
    assert_non_null(strstr(message, block));
    assert_non_null(strstr(message, size));
    assert_non_null(strstr(message, v->allocation));
  }
}

static void other_faults_are_passed_on(void **state) {
  (void)state;
  static child_end end;
  run_self(&end, "own", NULL);
  assert_true(WIFEXITED(end.status));
  assert_int_equal(WEXITSTATUS(end.status), 42);
}

int main(int argc, char **argv) {
  for (int i = 0; argc == 2 && i < N_VICTIMS; i++)
    if (!strcmp(argv[1], victims[i].name)) return die_by_device_memory(&victims[i]);
  if (argc == 2 && !strcmp(argv[1], "own")) return fault_of_ones_own();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(message_names_address_block_and_allocation),
      cmocka_unit_test(other_faults_are_passed_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
