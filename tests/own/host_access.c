/* SPDX-License-Identifier: Apache-2.0 */
/* Invalid host accesses. An access of the host to device memory ends the program with a message that names the block; a
 * copy with an invalid host pointer ends it with a message that names the call and the pointer. Each case runs in a
 * child process (this program with the case's name as argument), which prints the address and then makes the access. */
#include "acl_ops.h"
#include "self.h"

#include "aclnnop/aclnn_add.h"

#include <signal.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define SANITIZED 1
#  endif
#endif
#ifndef SANITIZED
#  define SANITIZED 0 /* 1: the sanitizer's handler ends the program by exit instead of the signal */
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

/* Faults that the program itself causes reach the handler that was installed before. */
static int fault_of_ones_own(void) {
  signal(SIGSEGV, own_handler);
  if (aclInit(NULL) || aclrtSetDevice(0)) return 3;
  raise(SIGSEGV);
  return 5;
}

static void message_names_the_address_block_and_allocation(void **state) {
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

/* ---- copies with invalid host pointers ---- */

enum { PAGE = 4096, OFFSET = 100, COUNT = 2 * PAGE };

/* Maps two pages: a readable and writable one, then one with the given protection. */
static char *pages_with(int protection) {
  char *p = mmap(NULL, COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + PAGE, PAGE, protection)) _exit(6);
  return p;
}

/* A device block of COUNT bytes and a host range whose bytes from `at` on are inaccessible. */
typedef struct {
  char *device, *host, *at;
} ranges;

static void read_back(const ranges *r) { aclrtMemcpy(r->host, COUNT, r->device, COUNT, ACL_MEMCPY_DEVICE_TO_HOST); }
static void send(const ranges *r) { aclrtMemcpy(r->device, COUNT, r->host, COUNT, ACL_MEMCPY_HOST_TO_DEVICE); }
static void fill_host(const ranges *r) { aclrtMemset(r->host, COUNT, 1, COUNT); }
static void send_rows(const ranges *r) {
  aclrtMemcpy2d(r->device, PAGE, r->host, PAGE, 64, 2, ACL_MEMCPY_HOST_TO_DEVICE);
}
static void read_back_later(const ranges *r) {
  aclrtMemcpyAsync(r->host, COUNT, r->device, COUNT, ACL_MEMCPY_DEVICE_TO_HOST, NULL);
}
static void fill_host_later(const ranges *r) { aclrtMemsetAsync(r->host, COUNT, 1, COUNT, NULL); }

/* Runs on a library thread, because the memory is registered as pinned and no thread waits. */
static void read_back_in_worker(const ranges *r) {
  if (aclrtHostRegisterV2(r->host, COUNT, ACL_HOST_REG_PINNED)) _exit(7);
  read_back_later(r);
  nap_ms(20000);
}

static const struct bad_copy {
  const char *name, *words, *pointer, *done;
  void (*copy)(const ranges *r);
  int protection;
} bad_copies[] = {
    {"read_only", "aclrtMemcpy(dst = ", "dst", "written: its page is protected", read_back, PROT_READ},
    {"no_source", "aclrtMemcpy(dst = ", "src", "read: its page is protected", send, PROT_NONE},
    {"unmapped", "aclrtMemcpy(dst = ", "src", "read: nothing is mapped there", send, -1},
    {"fill", "aclrtMemset(devPtr = ", "devPtr", "written: its page is protected", fill_host, PROT_READ},
    {"rows", "aclrtMemcpy2d(dst = ", "src", "read: its page is protected", send_rows, PROT_NONE},
    {"later", "the copy of task ", "dst", "written: its page is protected", read_back_later, PROT_READ},
    {"fill_later", "the fill of task ", "devPtr", "written: its page is protected", fill_host_later, PROT_READ},
    {"worker", "the copy of task ", "dst", "written: its page is protected", read_back_in_worker, PROT_READ},
#ifdef __x86_64__
    {"wild", "aclrtMemcpy(dst = ", "src", "read: it is no address", send, -2},
#else
    {"wild", "aclrtMemcpy(dst = ", "src", "read: nothing is mapped there", send, -2},
#endif
};
enum { N_BAD_COPIES = sizeof bad_copies / sizeof *bad_copies };

static int die_by_copy(const struct bad_copy *b, bool own) {
  ranges r = {.host = (char *)(uintptr_t)0x5500000000000000}; /* not a canonical address */
  if (own) signal(SIGSEGV, own_handler);
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc((void **)&r.device, COUNT, ACL_MEM_MALLOC_HUGE_FIRST)) return 3;
  if (b->protection != -2) r.host = pages_with(b->protection < 0 ? PROT_READ : b->protection);
  if (b->protection == -1 && munmap(r.host + PAGE, PAGE)) return 4;
  r.at = b->protection == -2 ? r.host : r.host + PAGE;
  fprintf(stderr, "%lx %lx\n", (unsigned long)r.host, (unsigned long)r.at);
  b->copy(&r);
  return 5; /* not reached */
}

static void faults_of_copies_name_the_call_and_the_pointer(void **state) {
  (void)state;
  static child_end end;
  for (int i = 0; i < N_BAD_COPIES; i++) {
    const struct bad_copy *b = &bad_copies[i];
    char host[24], at[24], words[96];
    run_self(&end, b->name, NULL);
    print_message("%s: %s\n", b->name, end.text);
    assert_true(end.status != 0);
    if (SANITIZED) continue; /* the sanitizer's copy functions check its own shadow memory first */
    assert_true(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGSEGV);
    assert_int_equal(sscanf(end.text, "%23s %23s", host, at), 2);
    const char *message = strstr(end.text, "cannon: ");
    assert_non_null(message);
    assert_non_null(strstr(message, b->words));
    assert_non_null(strstr(message, host));
    /* The copy decides which byte of the page faults first. */
    if (b->protection != -2) at[strlen(at) - 3] = 0;
    snprintf(words, sizeof words, "the host memory at 0x%s", at);
    assert_non_null(strstr(message, words));
    snprintf(words, sizeof words, " of %s, can't be %s.", b->pointer, b->done);
    assert_non_null(strstr(message, words));
    assert_null(strstr(message + 1, "cannon: "));
  }
}

/* An operator accesses memory that was unmapped while registered. */
static int die_by_operator(void) {
  char *p = pages_with(PROT_READ);
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtHostRegisterV2(p, COUNT, ACL_HOST_REG_MAPPED)) return 3;
  fprintf(stderr, "%lx\n", (unsigned long)p);
  aclTensor *x = TENSOR(p, ACL_FLOAT, COUNT / sizeof(float));
  aclScalar *one = float_scalar(1);
  LAUNCH(NULL, aclnnAdds, x, one, one, x);
  if (munmap(p, COUNT)) return 4;
  aclrtSynchronizeStream(NULL);
  return 5; /* not reached */
}

static void faults_of_operators_name_registered_memory(void **state) {
  (void)state;
  static child_end end;
  char host[24], words[128];
  run_self(&end, "operator", NULL);
  print_message("%s\n", end.text);
  assert_true(end.status != 0);
  assert_int_equal(sscanf(end.text, "%23s", host), 1);
  snprintf(words, sizeof words, " of the 8192 bytes at 0x%s, can't be reached", host);
  if (!SANITIZED) assert_non_null(strstr(end.text, words));
}

static void the_programs_handler_receives_faults_of_copies(void **state) {
  (void)state;
  static child_end end;
  run_self(&end, "own_copy", NULL);
  assert_true(WIFEXITED(end.status));
  assert_int_equal(WEXITSTATUS(end.status), 42);
  if (!SANITIZED) assert_non_null(strstr(end.text, "can't be written"));
}

int main(int argc, char **argv) {
  for (int i = 0; argc == 2 && i < N_BAD_COPIES; i++)
    if (!strcmp(argv[1], bad_copies[i].name)) return die_by_copy(&bad_copies[i], false);
  if (argc == 2 && !strcmp(argv[1], "operator")) return die_by_operator();
  if (argc == 2 && !strcmp(argv[1], "own_copy")) return die_by_copy(&bad_copies[0], true);
  for (int i = 0; argc == 2 && i < N_VICTIMS; i++)
    if (!strcmp(argv[1], victims[i].name)) return die_by_device_memory(&victims[i]);
  if (argc == 2 && !strcmp(argv[1], "own")) return fault_of_ones_own();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(message_names_the_address_block_and_allocation),
      cmocka_unit_test(other_faults_are_passed_on),
      cmocka_unit_test(faults_of_copies_name_the_call_and_the_pointer),
      cmocka_unit_test(faults_of_operators_name_registered_memory),
      cmocka_unit_test(the_programs_handler_receives_faults_of_copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
