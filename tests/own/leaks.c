/* SPDX-License-Identifier: Apache-2.0 */
/* The memory debugger (CANNON_LEAKS), applied to programs with deliberate errors, each in a process of its own. */
#include "acl_test.h"
#include "self.h"

#include <signal.h>
#include <sys/stat.h>

static char report_path[] = "/tmp/cannon-own-leaks-XXXXXX";
static child_end end;
static char report[65536];

/* ---- programs under test ---- */

/* Not inlined, so that each function is a separate call site. */
#define PLACE __attribute__((noinline)) static

PLACE void *allocate(size_t size) {
  void *p = NULL;
  CHECK_OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
  return p;
}

static void say_message(void) {
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s\n", message ? message : "no message");
}

static void leak_three(void) {
  for (volatile int i = 0; i < 2; i++) allocate(1000); /* volatile prevents unrolling, so there is one call site */
  void *pinned;
  CHECK_OK(aclrtMallocHost(&pinned, 70000));
  CHECK_OK(aclrtFree(allocate(5)));
}

static void free_wrongly(void) {
  char *p = allocate(4000), *live = allocate(4000);
  int local;
  CHECK_OK(aclrtFree(p));
  CHECK_CODE(107000, aclrtFree(p));
  say_message();
  CHECK_CODE(107000, aclrtFree(p + 10));
  say_message();
  CHECK_CODE(107000, aclrtFree(&local));
  say_message();
  CHECK_CODE(107000, aclrtFree(live + 10));
  say_message();
  CHECK_OK(aclrtFree(live));
}

PLACE aclrtDrvMemHandle physical(aclrtMemLocationType where) {
  const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = where}};
  aclrtDrvMemHandle handle = NULL;
  CHECK_OK(aclrtMallocPhysical(&handle, 2 << 20, &prop, 0));
  return handle;
}

/* Memory without an address is live while a handle or a mapping exists; memory that only pending tasks still use is not
 * the program's. */
static void other_kinds(void) {
  void *p, *at;
  aclrtDrvMemHandle kept, mapped = physical(ACL_MEM_LOCATION_TYPE_DEVICE),
                          gone = physical(ACL_MEM_LOCATION_TYPE_DEVICE);
  CHECK_OK(aclrtMemAllocManaged(&p, 1000, ACL_RT_MEM_ATTACH_GLOBAL));
  physical(ACL_MEM_LOCATION_TYPE_HOST);
  CHECK_OK(aclrtReserveMemAddress(&at, 8 << 20, 0, NULL, 0));
  CHECK_OK(aclrtMapMem(at, 2 << 20, 0, mapped, 0));
  CHECK_OK(aclrtFreePhysical(mapped));
  CHECK_CODE(107000, aclrtFree(at));
  say_message();
  CHECK_OK(aclrtMapMem((char *)at + (2 << 20), 2 << 20, 0, gone, 0));
  CHECK_OK(aclrtMemRetainAllocationHandle((char *)at + (2 << 20), &kept));
  CHECK_OK(aclrtFreePhysical(kept));
  CHECK_OK(aclrtFreePhysical(gone));
  gate *g = gate_close(NULL);
  CHECK_OK(aclrtUnmapMem((char *)at + (2 << 20)));
  CHECK_CODE(107000, aclrtFreePhysical(gone));
  say_message();
  gate_open(g);
}

static void many_blocks(void) {
  for (int i = 0; i < 20; i++) allocate(64);
}

static volatile sig_atomic_t own_handler_ran;
static void own_handler(int number) { own_handler_ran = number; }

/* Reports once on a signal, with two live blocks, and once at exit, with one. */
static void signal_and_exit(void) {
  void *p = allocate(100);
  allocate(200);
  struct stat s = {0};
  assert_int_equal(raise(SIGUSR2), 0);
  while (stat(report_path, &s) || !s.st_size) nap_ms(1);
  CHECK_OK(aclrtFree(p));
}

static void handler_of_the_program(void) {
  allocate(100);
  signal(SIGUSR2, own_handler); /* as in a program that does not know the debugger */
  raise(SIGUSR2);
  fprintf(stderr, "own handler: %d\n", own_handler_ran == SIGUSR2);
}

static void fork_a_child(void) {
  void *p = allocate(100);
  /* wait until the debugger's thread has started: ASan does not survive a fork while another thread allocates */
  nap_ms(50);
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    aclrtFree(p); /* counts as an error; the child does not have the parent's memory */
    exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  fprintf(stderr, "child: %d\n", status);
}

static void *allocate_and_free(void *unused) {
  for (int i = 0; i < 500; i++) {
    void *p = NULL;
    if (aclrtSetDevice(0) || aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtFree(p)) return &report;
  }
  return unused;
}

static void many_threads(void) {
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) thread[i] = thread_start(allocate_and_free, NULL);
  for (int i = 0; i < 20; i++) raise(SIGUSR2);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(thread[i], &failed);
    if (failed) fprintf(stderr, "a thread failed\n");
  }
}

static const struct {
  const char *name;
  void (*run)(void);
} programs[] = {{"leak_three", leak_three},           {"free_wrongly", free_wrongly},
                {"other_kinds", other_kinds},         {"many_blocks", many_blocks},
                {"signal_and_exit", signal_and_exit}, {"handler_of_the_program", handler_of_the_program},
                {"fork_a_child", fork_a_child},       {"many_threads", many_threads}};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static int run_program(const char *name) {
  setvbuf(stderr, NULL, _IOLBF, 0);
  for (int i = 0; i < N_PROGRAMS; i++) {
    if (strcmp(programs[i].name, name) != 0) continue;
    snprintf(report_path, sizeof report_path, "%s", getenv("REPORT"));
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    programs[i].run();
    return 0;
  }
  return 1;
}

/* Runs a program with the debugger and reads its report. */
static void debug(const char *program, const char *options) {
  char setting[256];
  setenv("REPORT", report_path, 1);
  unlink(report_path);
  snprintf(setting, sizeof setting, "CANNON_LEAKS=report=%s%s", report_path, options);
  run_self(&end, program, setting);
  if (end.status) print_error("%s", end.text);
  assert_int_equal(end.status, 0);
  FILE *f = fopen(report_path, "r");
  const size_t n = f ? fread(report, 1, sizeof report - 1, f) : 0;
  report[n] = 0;
  if (f) fclose(f);
}

static void assert_has(const char *text, const char *part) {
  if (!strstr(text, part)) print_error("expected '%s' in:\n%s\n", part, text);
  assert_non_null(strstr(text, part));
}

static int count_of(const char *text, const char *part) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) n++;
  return n;
}

/* ---- tests ---- */

static void live_blocks_are_listed_with_size_and_stack(void **state) {
  (void)state;
  debug("leak_three", "");
  assert_has(report, "at exit");
  assert_has(report, "Live blocks: 3, 72000 bytes; allocations: 4, frees: 1\n");
  assert_has(report, "1 block of 70000 bytes by aclrtMallocHost\n");
  assert_has(report, "2 blocks of 2000 bytes by aclrtMalloc\n"); /* one common stack */
  assert_true(strstr(report, "70000 bytes by") < strstr(report, "2000 bytes by"));
  assert_has(report, "1000 bytes, device 0, allocation 1, ");
  assert_has(report, "1000 bytes, device 0, allocation 2, ");
  assert_has(report, "70000 bytes, pinned, allocation 1, ");
  assert_true(count_of(report, "    from self(") >= 4); /* stacks through two functions of this program or more */
  assert_null(strstr(report, "from self(_start"));      /* what has called main does not belong to them */
  assert_null(strstr(report, "from libc.so"));
  assert_null(strstr(report, "Wrong frees"));
}

static void every_kind_of_memory_is_listed(void **state) {
  (void)state;
  debug("other_kinds", "");
  assert_has(report, "Live blocks: 3, 4195304 bytes; allocations: 4, frees: 1\n");
  assert_int_equal(count_of(report, "1 block of 2097152 bytes by aclrtMallocPhysical\n"), 2);
  assert_has(report, "1 block of 1000 bytes by aclrtMemAllocManaged\n");
  assert_has(report, "2097152 bytes, device 0, allocation 1, ");
  assert_has(report, "2097152 bytes, pinned, allocation 1, ");
  assert_has(report, "1000 bytes, managed, allocation 1, ");
  assert_has(report, "Wrong frees: 2\n");
  assert_int_equal(count_of(report, ": freed before\n"), 1);
  assert_int_equal(count_of(report, ": in a live block\n"), 1);
  assert_has(end.text, "mapped memory, expected what aclrtMalloc gave (aclrtUnmapMem ends this)");
  assert_has(end.text, "it was freed by self(");
  assert_has(end.text, "allocation 2, 2097152 bytes, by aclrtMallocPhysical from self(");
}

static void depth_of_stacks_can_be_set(void **state) {
  (void)state;
  debug("leak_three", ",frames=1");
  assert_int_equal(count_of(report, "    from "), 2);
}

static void wrong_frees_name_the_first_free(void **state) {
  (void)state;
  debug("free_wrongly", "");
  assert_has(end.text, "it was freed by self(");
  assert_has(end.text, "allocation 1, 4000 bytes, by aclrtMalloc from self(");
  assert_has(end.text, "it lies in what was freed by self(");
  assert_has(end.text, "nothing there was freed before");
  assert_has(end.text, "inside the block of 4000 bytes");
  assert_has(report, "Wrong frees: 4\n");
  assert_int_equal(count_of(report, ": freed before\n"), 2);
  assert_int_equal(count_of(report, "    freed from self("), 2);
  assert_int_equal(count_of(report, ": in a live block\n"), 1);
  assert_int_equal(count_of(report, ": nothing there was allocated or freed before\n"), 1);
  assert_has(report, "Live blocks: 0, 0 bytes");
}

static void messages_without_the_debugger_have_no_history(void **state) {
  (void)state;
  setenv("REPORT", report_path, 1);
  unsetenv("CANNON_LEAKS");
  unlink(report_path);
  run_self(&end, "free_wrongly", NULL);
  assert_int_equal(end.status, 0);
  assert_has(end.text, "no live block");
  assert_null(strstr(end.text, "it was freed by"));
  assert_int_equal(access(report_path, F_OK), -1);
}

static void many_live_blocks_cause_one_warning(void **state) {
  (void)state;
  debug("many_blocks", ",max=20");
  assert_int_equal(count_of(end.text, "warning: 20 blocks were live at once"), 1);
  debug("many_blocks", ",max=21");
  assert_null(strstr(end.text, "warning"));
}

static void reports_on_a_signal_and_at_exit(void **state) {
  (void)state;
  debug("signal_and_exit", "");
  const char *second = strstr(report, "at exit");
  assert_has(report, "on a signal\nLive blocks: 2, 300 bytes");
  assert_non_null(second);
  assert_has(second, "Live blocks: 1, 200 bytes");
}

static void a_signal_handler_of_the_program_is_kept(void **state) {
  (void)state;
  debug("handler_of_the_program", "");
  assert_has(end.text, "own handler: 1");
  assert_null(strstr(report, "on a signal"));
}

static void a_forked_child_reports_nothing(void **state) {
  (void)state;
  debug("fork_a_child", "");
  assert_has(end.text, "child: 0\n");
  assert_int_equal(count_of(report, "Cannon: memory of process"), 1);
  assert_has(report, "Live blocks: 1, 100 bytes");
}

static void threads_and_reports_at_the_same_time(void **state) {
  (void)state;
  debug("many_threads", "");
  assert_null(strstr(end.text, "failed"));
  assert_has(report, "Live blocks: 0, 0 bytes; allocations: 2000, frees: 2000\n");
}

static void invalid_options_are_reported(void **state) {
  (void)state;
  debug("many_blocks", ",max=x,frames=1");
  assert_has(end.text, "CANNON_LEAKS has 'max=x', expected");
  assert_has(report, "Live blocks: 20");
}

int main(int argc, char **argv) {
  if (argc > 1) return run_program(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(live_blocks_are_listed_with_size_and_stack),
      cmocka_unit_test(every_kind_of_memory_is_listed),
      cmocka_unit_test(depth_of_stacks_can_be_set),
      cmocka_unit_test(wrong_frees_name_the_first_free),
      cmocka_unit_test(messages_without_the_debugger_have_no_history),
      cmocka_unit_test(many_live_blocks_cause_one_warning),
      cmocka_unit_test(reports_on_a_signal_and_at_exit),
      cmocka_unit_test(a_signal_handler_of_the_program_is_kept),
      cmocka_unit_test(a_forked_child_reports_nothing),
      cmocka_unit_test(threads_and_reports_at_the_same_time),
      cmocka_unit_test(invalid_options_are_reported),
  };
  close(mkstemp(report_path));
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(report_path);
  return failed;
}
