/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on one machine share its devices' memory through the ledger file. Memory charged by one process is
 * unavailable to others until it ends, however it ends; processes with another ledger are not affected. No content of
 * the file may crash a process. */
#include "acl_test.h"
#include "peer_process.h"
#include "self.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { MIB = 1 << 20, DEVICE_MIB = 128, MOST_BLOCKS = DEVICE_MIB / 2 };

static char ledger_path[64], ledger_setting[96];
static char bad_path[64], bad_setting[96];

/* ---- the other process ---- */

typedef struct {
  enum { TAKE, TAKE_ALL, GIVE, FORK, ASK } what;
  size_t bytes; /* TAKE: bytes of the block */
} order;

typedef struct {
  aclError code;
  size_t n, free_bytes; /* number of blocks; free bytes from aclrtGetMemInfo */
  pid_t pid;            /* FORK: the child */
  char message[400];
} report;

static void *blocks[MOST_BLOCKS];
static size_t n_blocks;

static aclError take(size_t bytes) {
  void *p = NULL;
  const aclError code = n_blocks < MOST_BLOCKS ? aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST) : ACL_SUCCESS;
  if (code == ACL_SUCCESS) blocks[n_blocks++] = p;
  return code;
}

static int serve(void) {
  if (aclInit(NULL) || aclrtSetDevice(0)) return 2;
  for (order o; peer_next(&o, sizeof o);) {
    report r = {0};
    size_t total;
    if (o.what == TAKE) r.code = take(o.bytes);
    while (o.what == TAKE_ALL && r.code == ACL_SUCCESS && n_blocks < MOST_BLOCKS) r.code = take(2 * MIB - 64);
    while (o.what == GIVE && n_blocks) r.code |= aclrtFree(blocks[--n_blocks]);
    if (o.what == FORK && (r.pid = fork()) == 0) {
      pause();
      _exit(0);
    }
    const char *message = aclGetRecentErrMsg();
    if (message) snprintf(r.message, sizeof r.message, "%s", message);
    r.n = n_blocks;
    aclrtGetMemInfo(ACL_HBM_MEM, &r.free_bytes, &total);
    peer_answer(&r, sizeof r);
  }
  return 0;
}

static report tell(peer *p, order o) {
  report r;
  peer_tell(p, &o, sizeof o);
  peer_hear(p, &r, sizeof r);
  return r;
}

static size_t free_memory(void) {
  size_t free_bytes = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  return free_bytes;
}

static bool exists(const char *path) {
  struct stat s;
  return lstat(path, &s) == 0;
}

/* ---- sharing ---- */

static void memory_held_by_another_process_is_unavailable(void **state) {
  (void)state;
  const size_t before = free_memory();
  peer p = peer_start("serve", NULL), q = peer_start("serve", NULL);
  assert_int_equal(tell(&p, (order){ASK, 0}).free_bytes, before);
  assert_int_equal(tell(&q, (order){TAKE, 64 * MIB - 64}).code, ACL_SUCCESS);
  assert_int_equal(free_memory(), before - 64 * MIB);
  assert_int_equal(tell(&p, (order){TAKE, 64 * MIB - 64}).code, ACL_SUCCESS);
  assert_int_equal(free_memory(), before - 128 * MIB);
  const report r = tell(&p, (order){TAKE, 2 * MIB - 64});
  assert_int_equal(r.code, 207001);
  assert_non_null(strstr(r.message, "64.0 MiB in other processes")); /* the memory of the first process */
  assert_int_equal(r.free_bytes, 0);
  peer_end(&q);
  assert_int_equal(tell(&p, (order){TAKE, 2 * MIB - 64}).code, ACL_SUCCESS);
  assert_int_equal(tell(&p, (order){GIVE, 0}).code, ACL_SUCCESS);
  peer_end(&p);
  assert_int_equal(free_memory(), before);
}

static void a_killed_process_holds_nothing(void **state) {
  (void)state;
  const size_t before = free_memory();
  peer p = peer_start("serve", NULL), q = peer_start("serve", NULL);
  assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, 207001);
  peer_kill(&p);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  peer_end(&q);
  assert_int_equal(free_memory(), before);
}

static void a_forked_child_does_not_keep_its_parents_memory(void **state) {
  (void)state;
  const size_t before = free_memory();
  peer p = peer_start("serve", NULL);
  assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  const report r = tell(&p, (order){FORK, 0});
  assert_true(r.pid > 0);
  peer_kill(&p);
  assert_int_equal(free_memory(), before);
  assert_int_equal(kill(r.pid, SIGKILL), 0);
}

/* Memory that a process only keeps for reuse goes to another one that needs it, even while the first is idle. */
static void cached_memory_goes_to_a_process_that_needs_it(void **state) {
  (void)state;
  peer p = peer_start("serve", NULL), q = peer_start("serve", NULL);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
    assert_int_equal(tell(&p, (order){GIVE, 0}).code, ACL_SUCCESS);
    assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
    assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, 207001); /* memory in use does not go to others */
    assert_int_equal(tell(&q, (order){GIVE, 0}).code, ACL_SUCCESS);
  }
  peer_end(&p);
  peer_end(&q);
}

/* No process waits indefinitely for one that does not answer. */
static void a_stopped_process_is_not_waited_for(void **state) {
  (void)state;
  peer p = peer_start("serve", NULL), q = peer_start("serve", NULL);
  assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  assert_int_equal(tell(&p, (order){GIVE, 0}).code, ACL_SUCCESS);
  kill(p.pid, SIGSTOP);
  assert_int_equal(waitpid(p.pid, NULL, WUNTRACED), p.pid);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, 207001);
  kill(p.pid, SIGCONT);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  peer_end(&p);
  peer_end(&q);
}

/* Racing processes together get exactly the memory of the device. */
static void racing_processes_get_exactly_the_devices_memory(void **state) {
  (void)state;
  enum { N = 4 };
  const order all = {TAKE_ALL, 0};
  peer p[N];
  size_t n = 0;
  for (int i = 0; i < N; i++) p[i] = peer_start("serve", NULL);
  for (int i = 0; i < N; i++) tell(&p[i], (order){ASK, 0});
  for (int i = 0; i < N; i++) peer_tell(&p[i], &all, sizeof all);
  for (int i = 0; i < N; i++) {
    report r;
    peer_hear(&p[i], &r, sizeof r);
    assert_true(r.code == 207001 || r.n == MOST_BLOCKS);
    n += r.n;
  }
  assert_int_equal(n, DEVICE_MIB / 2);
  for (int i = 0; i < N; i++) peer_kill(&p[i]);
}

static void other_ledgers_are_independent(void **state) {
  (void)state;
  static char other[sizeof ledger_setting + 8];
  snprintf(other, sizeof other, "%s.other", ledger_setting);
  peer p = peer_start("serve", other), q = peer_start("serve", NULL);
  assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  peer_end(&p);
  peer_end(&q);
}

/* Without an explicit ledger file, processes share a ledger if they have the same device with the same memory size. */
static void default_ledgers_differ_by_device_and_memory(void **state) {
  (void)state;
  char path[64];
  if (access("/dev/shm", W_OK)) skip();
  peer p = peer_start("serve_by_default", "CANNON_MEM=138412032"), /* 132 MiB */
      q = peer_start("serve_by_default", "CANNON_MEM=138412032"),
       r = peer_start("serve_by_default", "CANNON_MEM=142606336"); /* 136 MiB */
  assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, 207001);
  assert_int_equal(tell(&r, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  snprintf(path, sizeof path, "/dev/shm/cannon-%u-%s-132M", geteuid(), aclrtGetSocName());
  assert_true(exists(path));
  peer_end(&p);
  peer_end(&q);
  peer_end(&r);
  assert_false(exists(path));
}

/* The files of killed processes are removed when the next process starts, even for another device; files in use are
 * kept. */
static void files_of_killed_processes_are_removed(void **state) {
  (void)state;
  char dead[64], alive[64];
  if (access("/dev/shm", W_OK)) skip();
  peer p = peer_start("serve_by_default", "CANNON_MEM=146800640"), /* 140 MiB */
      q = peer_start("serve_by_default", "CANNON_MEM=150994944");  /* 144 MiB */
  snprintf(dead, sizeof dead, "/dev/shm/cannon-%u-%s-140M", geteuid(), aclrtGetSocName());
  snprintf(alive, sizeof alive, "/dev/shm/cannon-%u-%s-144M", geteuid(), aclrtGetSocName());
  tell(&p, (order){ASK, 0});
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  peer_kill(&p);
  assert_true(exists(dead) && exists(alive));
  peer r = peer_start("serve_by_default", "CANNON_MEM=155189248"); /* 148 MiB */
  tell(&r, (order){ASK, 0});
  assert_false(exists(dead));
  assert_true(exists(alive));
  peer s = peer_start("serve_by_default", "CANNON_MEM=150994944");
  assert_int_equal(tell(&s, (order){TAKE, 100 * MIB}).code, 207001); /* both processes still share one ledger */
  peer_end(&r);
  peer_end(&s);
  peer_end(&q);
  assert_false(exists(alive));
}

/* A process that was stopped while holding the file's lock is waited for and named on stderr. */
static int allocate_beside_a_stopped_holder(void) {
  enum { STOPPED_MS = 2300 };
  const int fd = open(getenv("CANNON_LEDGER"), O_RDWR);
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  device_up(NULL);
  const pid_t holder = fork();
  if (holder == 0) {
    if (fcntl(fd, F_SETLKW, &whole)) _exit(1);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(holder, &status, WUNTRACED);
  if (!WIFSTOPPED(status)) return 2;
  if (fork() == 0) {
    nap_ms(STOPPED_MS);
    kill(holder, SIGCONT);
    _exit(0);
  }
  fprintf(stderr, "holder %d\n", (int)holder);
  dev_new(16 * MIB);
  return 0;
}

static void a_stopped_holder_of_the_lock_is_named(void **state) {
  (void)state;
  static child_end end;
  int holder = 0;
  char words[64];
  run_self(&end, "beside", NULL);
  if (end.status) print_error("stderr of the child: %s\n", end.text);
  assert_int_equal(end.status, 0);
  assert_int_equal(sscanf(end.text, "holder %d", &holder), 1);
  snprintf(words, sizeof words, "cannon: process %d (%s), which is stopped, keeps /", holder,
           test_emulator() ? "qemu-aarch64" : "exe");
  assert_non_null(strstr(end.text, words));
}

/* Charges are per physical device, whatever id a process has for it. */
static void devices_are_charged_separately(void **state) {
  (void)state;
  peer p = peer_start("serve", "ASCEND_RT_VISIBLE_DEVICES=1"), q = peer_start("serve", "ASCEND_RT_VISIBLE_DEVICES=0"),
       r = peer_start("serve", "ASCEND_RT_VISIBLE_DEVICES=1");
  assert_int_equal(tell(&p, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  assert_int_equal(tell(&q, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  assert_int_equal(tell(&r, (order){TAKE, 100 * MIB}).code, 207001);
  peer_end(&p);
  peer_end(&q);
  assert_int_equal(tell(&r, (order){TAKE, 100 * MIB}).code, ACL_SUCCESS);
  peer_end(&r);
}

/* A program that closes all its descriptors, as daemons do, continues without sharing. Files that it opens later are
 * not touched. */
static int close_everything(void) {
  void *p = NULL;
  char path[] = "/tmp/cannon-test-XXXXXX";
  struct stat s;
  device_up(NULL);
  for (int fd = 3; fd < 256; fd++) close(fd);
  int last = -1;
  /* reuses every number that the library's descriptors had */
  for (int i = 0; i < 32; i++) last = i ? dup(last) : mkstemp(path);
  unlink(path);
  for (int i = 0; i < 3; i++) CHECK_OK(aclrtMalloc(&p, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
  assert_int_equal(fstat(last, &s), 0);
  assert_int_equal(s.st_size, 0);
  _exit(0); /* device memory has lost its file, too, so skip the exit handlers */
}

static void closing_all_descriptors_is_tolerated(void **state) {
  (void)state;
  static child_end end;
  run_self(&end, "close", NULL);
  if (end.status) print_error("stderr of the child: %s\n", end.text);
  assert_int_equal(end.status, 0);
  assert_non_null(strstr(end.text, "its descriptor was closed by the program"));
}

/* ---- memory of the host ---- */

/* Memory is only promised, never touched. A sanitizer's address layout makes devices small, so the test uses
 * several. */
static int promise_the_host_once(void) {
  enum { DEVICES = 16 };
  void *first = NULL, *other = NULL;
  size_t left, bytes;
  int device = 1;
  unsetenv("CANNON_MEM");
  setenv("CANNON_DEVICES", "16", 1);
  device_up(NULL);
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &bytes));
  while (aclrtMalloc(&first, bytes, ACL_MEM_MALLOC_HUGE_FIRST)) bytes -= bytes / 8;
  aclGetRecentErrMsg();
  CHECK_OK(aclrtSetDevice(device));
  while (device < DEVICES && !aclrtMalloc(&other, bytes, ACL_MEM_MALLOC_HUGE_FIRST)) aclrtSetDevice(++device);
  if (device == DEVICES) return 0; /* the host has memory for all of them */
  assert_non_null(strstr(aclGetRecentErrMsg(), "has left: 0 B of"));
  CHECK_CODE(207001, aclrtMallocHost(&other, bytes));
  CHECK_CODE(207001, aclrtMemAllocManaged(&other, bytes, ACL_RT_MEM_ATTACH_GLOBAL));
  CHECK_OK(aclrtFree(first)); /* now cached by the first device's heap */
  CHECK_OK(aclrtMalloc(&other, bytes / 2, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtFree(other));
  CHECK_OK(aclrtMallocHost(&other, bytes / 2));
  CHECK_OK(aclrtFreeHost(other));
  return 0;
}

static void host_memory_is_promised_only_once(void **state) {
  (void)state;
  static child_end end;
  run_self(&end, "promise", NULL);
  if (end.status) print_error("stderr of the child: %s\n", end.text);
  assert_int_equal(end.status, 0);
}

/* ---- contents of the file ---- */

/* Runs in a child: takes all memory of the machine whose ledger is at bad_path. */
static aclError take_all_of(void) {
  return aclInit(NULL) || aclrtSetDevice(0) ? 1 : take((DEVICE_MIB - 1) * MIB) == ACL_SUCCESS ? 0 : 2;
}

static void put_file(const void *content, size_t n, mode_t mode) {
  unlink(bad_path);
  const int fd = open(bad_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, content, n), n);
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

static void assert_runs(bool leaves_file) {
  static child_end end;
  run_self(&end, "all", bad_setting);
  if (end.status) print_error("stderr of the child: %s\n", end.text);
  assert_int_equal(end.status, 0);
  assert_int_equal(exists(bad_path), leaves_file);
  assert_int_equal(!!strstr(end.text, "shares no device memory with others"), leaves_file);
}

static void the_last_process_removes_the_file(void **state) {
  (void)state;
  assert_true(exists(ledger_path));
  unlink(bad_path);
  assert_runs(false);
}

static void a_broken_file_is_replaced(void **state) {
  (void)state;
  static unsigned char rubbish[300000];
  put_file("", 0, 0600);
  assert_runs(false);
  put_file("short", 5, 0600);
  assert_runs(false);
  memset(rubbish, 0xff, sizeof rubbish);
  put_file(rubbish, sizeof rubbish, 0600);
  assert_runs(false);
  memset(rubbish, 0, sizeof rubbish);
  put_file(rubbish, sizeof rubbish, 0600);
  assert_runs(false);
}

/* A valid header followed by garbage: charges and exports of processes that do not exist. */
static void garbage_entries_of_dead_processes_are_ignored(void **state) {
  (void)state;
  static unsigned char image[300000];
  const int fd = open(ledger_path, O_RDONLY);
  assert_true(fd >= 0);
  memset(image, 0xee, sizeof image);
  assert_int_equal(read(fd, image, 16), 16);
  close(fd);
  put_file(image, sizeof image, 0600);
  assert_runs(false);
}

/* A file that this user must not use is left alone; the process reports it and continues without sharing. */
static void a_foreign_file_is_refused(void **state) {
  (void)state;
  put_file("", 0, 0666);
  assert_runs(true);
  unlink(bad_path);
  assert_int_equal(symlink("/dev/null", bad_path), 0);
  assert_runs(true);
  unlink(bad_path);
  assert_int_equal(mkfifo(bad_path, 0600), 0);
  assert_runs(true);
  unlink(bad_path);
  assert_int_equal(mkdir(bad_path, 0700), 0);
  assert_runs(true);
  rmdir(bad_path);
}

int main(int argc, char **argv) {
  static char memory[32];
  snprintf(memory, sizeof memory, "%d", DEVICE_MIB * MIB);
  setenv("CANNON_MEM", memory, 0);
  setenv("CANNON_DEVICES", "2", 1);
  if (argc == 2 && !strcmp(argv[1], "serve")) return serve();
  if (argc == 2 && !strcmp(argv[1], "serve_by_default")) return unsetenv("CANNON_LEDGER") || serve();
  if (argc == 2 && !strcmp(argv[1], "close")) return close_everything();
  if (argc == 2 && !strcmp(argv[1], "beside")) return allocate_beside_a_stopped_holder();
  if (argc == 2 && !strcmp(argv[1], "promise")) return promise_the_host_once();
  if (argc == 2 && !strcmp(argv[1], "all")) return take_all_of();
  snprintf(ledger_path, sizeof ledger_path, "/tmp/cannon-test-%d.ledger", getpid());
  snprintf(bad_path, sizeof bad_path, "/tmp/cannon-test-%d.bad", getpid());
  snprintf(ledger_setting, sizeof ledger_setting, "CANNON_LEDGER=%s", ledger_path);
  snprintf(bad_setting, sizeof bad_setting, "CANNON_LEDGER=%s", bad_path);
  putenv(ledger_setting);
  const struct CMUnitTest tests[] = {
      TEST(memory_held_by_another_process_is_unavailable),
      TEST(a_killed_process_holds_nothing),
      TEST(a_forked_child_does_not_keep_its_parents_memory),
      TEST(cached_memory_goes_to_a_process_that_needs_it),
      TEST(a_stopped_process_is_not_waited_for),
      TEST(a_stopped_holder_of_the_lock_is_named),
      TEST(racing_processes_get_exactly_the_devices_memory),
      TEST(other_ledgers_are_independent),
      TEST(default_ledgers_differ_by_device_and_memory),
      TEST(files_of_killed_processes_are_removed),
      TEST(devices_are_charged_separately),
      TEST(closing_all_descriptors_is_tolerated),
      TEST(host_memory_is_promised_only_once),
      TEST(the_last_process_removes_the_file),
      TEST(a_broken_file_is_replaced),
      TEST(garbage_entries_of_dead_processes_are_ignored),
      TEST(a_foreign_file_is_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
