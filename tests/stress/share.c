/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share memory and are killed, both at random, compared with a model of every byte; then many processes
 * at once, and many threads of one process.
 *
 *   stress_share SEED|random STEPS */
#include "sharer.h"

enum { PEERS = 6, ITEMS = 64, THREADS = 4 };

static uint64_t seed;
static long n_steps;

static unsigned pick(unsigned n) { /* splitmix64 */
  uint64_t x = seed += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return (unsigned)((x ^ x >> 31) % n);
}

/* ---- the model ---- */

/* Memory that a process has offered. */
typedef struct {
  report key;
  bool block, offered; /* offered: its owner lives and has not dropped it */
  int byte, users;     /* users: number of processes that have imported it */
  size_t bytes;
} item;

typedef struct {
  peer p;
  item *has;
  bool owner; /* owns the memory that it holds */
} actor;

static item items[ITEMS];
static actor actors[PEERS];
static unsigned n_items;

static order import_of(const item *x) {
  order o = x->block ? imports_block(x->key.key) : IMPORTS_PHYSICAL(x->key.handle, x->bytes);
  o.bytes = x->bytes;
  return o;
}

static void offer_something(actor *a) {
  if (n_items == ITEMS) return;
  item *x = &items[n_items++];
  *x = (item){.block = pick(2), .offered = true, .byte = (int)pick(256), .bytes = (1 + pick(3)) * (size_t)MIB2};
  x->key = tell_ok(&a->p, (order){.deed = x->block ? OFFER_BLOCK : OFFER_PHYSICAL, .byte = x->byte, .bytes = x->bytes});
  a->has = x;
  a->owner = true;
}

/* Imports any item ever offered; this succeeds only for items still offered. */
static void import_something(actor *a) {
  if (!n_items) return;
  item *x = &items[pick(n_items)];
  const report r = tell(&a->p, import_of(x));
  if (!r.code != x->offered) print_error("import returned %d, message: %s\n", r.code, r.message);
  assert_int_equal(!r.code, x->offered);
  if (!x->offered) return;
  ++x->users;
  a->has = x;
  a->owner = false;
}

static void use(actor *a) {
  const size_t at = pick((unsigned)a->has->bytes);
  assert_int_equal(tell_ok(&a->p, (order){.deed = READ, .offset = at}).byte, a->has->byte);
  if (pick(2)) return;
  a->has->byte = (int)pick(256);
  tell_ok(&a->p, (order){.deed = FILL, .byte = a->has->byte, .bytes = a->has->bytes});
}

/* A block cannot be freed while others have imported it; physical memory can. */
static void let_go(actor *a) {
  const bool refused = a->owner && a->has->block && a->has->users;
  const report r = tell(&a->p, (order){.deed = DROP});
  if (!r.code == refused) print_error("drop returned %d, message: %s\n", r.code, r.message);
  assert_int_equal(!r.code, !refused);
  if (refused) return;
  if (a->owner)
    a->has->offered = false;
  else
    --a->has->users;
  a->has = NULL;
}

static void die(actor *a) {
  peer_kill(&a->p);
  if (a->has && a->owner) a->has->offered = false;
  if (a->has && !a->owner) --a->has->users;
  a->has = NULL;
  a->p = sharer_start();
}

static void forget_old_items(void) {
  if (n_items < ITEMS) return;
  for (int i = 0; i < PEERS; i++)
    if (actors[i].has && !actors[i].owner) let_go(&actors[i]);
  for (int i = 0; i < PEERS; i++)
    if (actors[i].has) let_go(&actors[i]);
  n_items = 0;
}

static void random_sharing_agrees_with_a_model(void **state) {
  (void)state;
  const size_t before = free_memory();
  print_message("seed %ju\n", (uintmax_t)seed);
  for (int i = 0; i < PEERS; i++) actors[i].p = sharer_start();
  for (long step = 0; step < n_steps; step++) {
    actor *a = &actors[pick(PEERS)];
    forget_old_items();
    if (pick(50) == 0)
      die(a);
    else if (!a->has && pick(2))
      offer_something(a);
    else if (!a->has)
      import_something(a);
    else if (pick(4))
      use(a);
    else
      let_go(a);
  }
  for (int i = 0; i < PEERS; i++) peer_kill(&actors[i].p);
  assert_int_equal(free_memory(), before);
}

/* ---- many processes at once ---- */

static void processes_share_concurrently(void **state) {
  (void)state;
  const size_t n = (size_t)n_steps / 10;
  peer p[PEERS];
  void *block = dev_filled(0x3c, MIB2);
  order import = {.deed = IMPORT_OFTEN, .byte = 0x3c, .bytes = n};
  const order offer = {.deed = OFFER_OFTEN, .bytes = n};
  report r;
  CHECK_OK(aclrtIpcMemGetExportKey(block, MIB2, import.key, KEY_LENGTH, 1));
  for (int i = 0; i < PEERS; i++) {
    p[i] = sharer_start();
    peer_tell(&p[i], i % 2 ? &import : &offer, sizeof import);
  }
  for (int i = 0; i < PEERS; i++) {
    peer_hear(&p[i], &r, sizeof r);
    if (r.code) print_error("%s\n", r.message);
    assert_int_equal(r.code, 0);
    peer_end(&p[i]);
  }
  CHECK_OK(aclrtIpcMemClose(import.key));
  CHECK_OK(aclrtFree(block));
}

/* ---- threads ---- */

static atomic_int n_failed;

static bool share_once(unsigned round) {
  char key[KEY_LENGTH];
  int32_t pid = (int32_t)(1 + round);
  uint64_t handle_key;
  unsigned char byte = 0;
  void *block = NULL, *at = NULL;
  aclrtDrvMemHandle handle = physical_new(MIB2);
  return handle && !aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &handle_key) &&
         !aclrtMemSetPidToShareableHandle(handle_key, &pid, 1) && !map_new(handle, MIB2, &at) &&
         !aclrtMemset(at, MIB2, (int)round, MIB2) && !aclrtMalloc(&block, MIB2, ACL_MEM_MALLOC_HUGE_FIRST) &&
         !aclrtIpcMemGetExportKey(block, MIB2, key, KEY_LENGTH, 0) && !aclrtIpcMemSetImportPid(key, &pid, 1) &&
         aclrtIpcMemImportByKey(&block, key, 0) /* must fail: the process's own block */ &&
         !aclrtMemcpy(&byte, 1, at, 1, ACL_MEMCPY_DEVICE_TO_HOST) && byte == (unsigned char)round &&
         !unmap_all(at, handle) && (round % 2 || !aclrtIpcMemClose(key)) && !aclrtFree(block);
}

static void *share_often(void *arg) {
  (void)arg;
  bool good = aclrtSetDevice(0) == ACL_SUCCESS;
  for (long i = 0; good && i < n_steps / 10; i++) good = share_once((unsigned)i);
  if (!good) {
    const char *message = aclGetRecentErrMsg();
    fprintf(stderr, "%s\n", message ? message : "no message");
    atomic_fetch_add(&n_failed, 1);
  }
  aclrtResetDevice(0);
  return NULL;
}

static void threads_of_one_process_share_concurrently(void **state) {
  (void)state;
  const size_t before = free_memory();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) threads[i] = thread_start(share_often, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&n_failed), 0);
  assert_int_equal(free_memory(), before);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "sharer")) return sharer_main();
  if (argc != 3) return 2;
  seed = strcmp(argv[1], "random") ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
  n_steps = strtol(argv[2], NULL, 10);
  const struct CMUnitTest tests[] = {
      TEST(random_sharing_agrees_with_a_model),
      TEST(processes_share_concurrently),
      TEST(threads_of_one_process_share_concurrently),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
