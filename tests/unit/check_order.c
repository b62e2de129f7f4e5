/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's order (check/order.h): random programs of streams, events that are also waited for ahead of their
 * record, host functions, waits of the host and frees, told to the hooks as the runtime tells them, and compared with a
 * model that has every access to every byte and the whole graph of what comes before what. */
#include "check/order.h"

#include <pthread.h>

#include "unit.h"

enum { STREAMS = 4, EVENTS = 4, BLOCKS = 3, BLOCK_BYTES = 24, OPS = 90, ROOM = 2 * OPS, HOST = STREAMS };

typedef struct {
  enum { ACCESS, FREE, RECORD, WAIT, FUNCTION, HOST_STEP } kind;
  int where; /* the stream, or HOST */
  int block, life;
  bool writes, bytes[BLOCK_BYTES];
  int event, generation;
  uint64_t position;
  bool has_passed; /* a function */
  int before[3];   /* what it comes after at once; -1 */
  bool reported;   /* a free */
} op;

static op ops[ROOM];
static char names[ROOM][12];
static int n_ops, last_of[STREAMS + 1], life_of[BLOCKS], generation_of[EVENTS];
static int record_of[EVENTS][ROOM];
static uint64_t position_of[STREAMS];
static bool after[ROOM][ROOM]; /* after[i][k]: i comes after k */
static int n_reports;
static uint32_t program; /* streams of each have numbers of their own */
static random_source r;

static int op_of(const order_what *w) { return atoi(w->place.what); }
static uintptr_t address_of(int block) { return 0x10000 + (uintptr_t)block * 0x1000; }

/* ---- the model --------------------------------------------------------------------------------------------------- */

static op *add_op(int kind, int where) {
  op *o = &ops[n_ops];
  *o = (op){.kind = kind, .where = where, .before = {last_of[where], -1, -1}};
  if (where != HOST) o->before[1] = last_of[HOST];
  if (where != HOST) o->position = position_of[where]++;
  last_of[where] = n_ops++;
  return o;
}

static bool look_whether_it_can_run(int i, signed char known[ROOM]) {
  if (i < 0) return true;
  const op *o = &ops[i];
  if (known[i]) return known[i] > 0;
  bool can = o->kind != FUNCTION || o->has_passed;
  if (can && o->kind == WAIT && o->generation) {
    const int record = record_of[o->event][o->generation];
    can = record >= 0 && look_whether_it_can_run(record, known);
  }
  for (int k = 0; can && k < 3; ++k) can = look_whether_it_can_run(o->before[k], known);
  known[i] = can ? 1 : -1;
  return can;
}

/* Whether the operation can have run, as far as the program has got. */
static bool can_run(int i) {
  signed char known[ROOM] = {0};
  return look_whether_it_can_run(i, known);
}

static int n_stalled(void) {
  int n = 0;
  for (int s = 0; s < STREAMS; ++s) n += !can_run(last_of[s]);
  return n;
}

static void reach(int from, int i) {
  if (i < 0 || after[from][i]) return;
  after[from][i] = true;
  for (int k = 0; k < 3; ++k) reach(from, ops[i].before[k]);
  if (ops[i].kind == WAIT && ops[i].generation) reach(from, record_of[ops[i].event][ops[i].generation]);
}

static bool is_race(int i, int k) {
  if (ops[i].block != ops[k].block || ops[i].life != ops[k].life || after[i][k] || after[k][i]) return false;
  if (!ops[i].writes && !ops[k].writes) return false;
  for (int b = 0; b < BLOCK_BYTES; ++b)
    if (ops[i].bytes[b] && ops[k].bytes[b]) return true;
  return false;
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static struct { int here, other; } pairs[1 << 14];

static void see_report(const order_conflict *c) {
  if (n_reports < 1 << 14) {
    pairs[n_reports].here = op_of(c->here);
    pairs[n_reports++].other = op_of(c->other);
  }
}

static void see_free(const order_conflict *c) {
  /* Which is the last operation. */
  (void)c;
  ops[n_ops - 1].reported = true;
}

static hook_order told(hook_order_kind kind, hook_object object, const op *o) {
  return (hook_order){.kind = kind,
                      .object = object,
                      .stream = program * STREAMS + (uint32_t)o->where,
                      .position = o->position,
                      .number = program * EVENTS + (uint64_t)o->event,
                      .generation = (uint64_t)o->generation};
}

static void add_block(int block) {
  hooks_alloc((hook_block){.address = address_of(block), .bytes = BLOCK_BYTES, .call = "aclrtMalloc", .stream = -1});
}

static void do_access(int where) {
  const int i = n_ops;
  op *o = add_op(ACCESS, where);
  o->block = (int)random_below(&r, BLOCKS);
  o->life = life_of[o->block];
  o->writes = random_below(&r, 2);
  const int64_t step = 1 + random_below(&r, 3), first = random_below(&r, 6), room = (BLOCK_BYTES - first) / step,
                dim = 1 + random_below(&r, (uint32_t)room);
  for (int64_t b = 0; b < dim; ++b) o->bytes[first + b * step] = true;
  const hook_shape shape = {1, 1, &dim, &step};
  const hook_access access = {.address = address_of(o->block) + (uintptr_t)first,
                              .bytes = (uint64_t)((dim - 1) * step + 1),
                              .access = o->writes ? HOOK_WRITES : HOOK_READS,
                              .shape = &shape};
  hooks_task(&(hook_task){.device = where == HOST ? -1 : 0,
                          .stream = where == HOST ? HOOK_NO_STREAM : (int64_t)program * STREAMS + where,
                          .position = o->position,
                          .name = names[i],
                          .n_accesses = 1,
                          .accesses = &access});
}

/* A record that a stream waits for already must not stand behind that wait. */
static void do_record(int s, int event) {
  const int i = n_ops;
  for (int k = 0; k < n_ops; ++k)
    if (ops[k].kind == WAIT && ops[k].event == event && ops[k].generation > generation_of[event] &&
        !can_run(last_of[s]))
      return;
  op *o = add_op(RECORD, s);
  o->event = event;
  o->generation = ++generation_of[event];
  record_of[event][o->generation] = i;
  hooks_order(told(HOOK_SIGNALS, HOOK_BY_EVENT, o));
}

static void do_wait(int s, bool ahead) {
  op *o = add_op(WAIT, s);
  o->event = (int)random_below(&r, EVENTS);
  o->generation = generation_of[o->event] + ahead;
  hooks_order(told(HOOK_AWAITS, HOOK_BY_EVENT, o));
}

static void do_function(int s) { hooks_order(told(HOOK_AWAITS, HOOK_BY_HOST, add_op(FUNCTION, s))); }

/* The first function that can run does. */
static void run_function(void) {
  for (int i = 0; i < n_ops; ++i) {
    op *f = &ops[i];
    if (f->kind != FUNCTION || f->has_passed || !can_run(f->before[0])) continue;
    add_op(HOST_STEP, HOST)->before[1] = f->before[0];
    hooks_order(told(HOOK_ENTERS, HOOK_BY_HOST, f));
    if (random_below(&r, 2)) do_access(HOST);
    f->before[2] = last_of[HOST];
    f->has_passed = true;
    hooks_order(told(HOOK_RESUMES, HOOK_BY_HOST, f));
    return;
  }
}

static void do_host_wait(void) {
  const int s = (int)random_below(&r, STREAMS), e = (int)random_below(&r, EVENTS);
  if (random_below(&r, 2)) {
    if (!can_run(last_of[s])) return;
    op *o = add_op(HOST_STEP, HOST);
    o->before[1] = last_of[s];
    hook_order order = told(HOOK_STREAM_AWAITED, 0, o);
    order.stream = program * STREAMS + (uint32_t)s;
    hooks_order(order);
  } else if (generation_of[e] && can_run(record_of[e][generation_of[e]])) {
    op *o = add_op(HOST_STEP, HOST);
    o->before[1] = record_of[e][generation_of[e]];
    o->event = e;
    o->generation = generation_of[e];
    hooks_order(told(HOOK_MARK_AWAITED, HOOK_BY_EVENT, o));
  }
}

static void do_free(void) {
  static int site;
  op *o = add_op(FREE, HOST);
  o->block = (int)random_below(&r, BLOCKS);
  o->life = life_of[o->block]++;
  hooks_free((hook_block){.address = address_of(o->block), .bytes = BLOCK_BYTES, .stream = -1}, &site);
  add_block(o->block);
}

static void do_something(void) {
  const int s = (int)random_below(&r, STREAMS);
  const uint32_t what = random_below(&r, 100);
  if (what < 45)
    do_access(s);
  else if (what < 52)
    do_access(HOST);
  else if (what < 68)
    do_record(s, (int)random_below(&r, EVENTS));
  else if (what < 84)
    do_wait(s, can_run(last_of[s]) && n_stalled() < STREAMS - 1 && random_below(&r, 4) == 0);
  else if (what < 87 && can_run(last_of[s]) && n_stalled() < STREAMS - 1)
    do_function(s);
  else if (what < 92)
    run_function();
  else if (what < 98)
    do_host_wait();
  else
    do_free();
}

/* Records what is waited for, in streams that can run, until all can. */
static void end_program(void) {
  for (int turn = 0; n_stalled() && turn < OPS / 2; ++turn) {
    run_function();
    int s = 0;
    while (!can_run(last_of[s])) ++s;
    do_record(s, turn % EVENTS);
  }
  assert_int_equal(n_stalled(), 0);
}

static void compare(void) {
  bool expected[BLOCKS][ROOM] = {0}, got[BLOCKS][ROOM] = {0}, cut[BLOCKS][ROOM] = {0};
  memset(after, 0, sizeof after);
  for (int i = 0; i < n_ops; ++i) {
    reach(i, i);
    after[i][i] = false;
  }
  for (int i = 0; i < n_ops; ++i)
    for (int k = 0; k < i; ++k)
      if (ops[i].kind == ACCESS && ops[k].kind == ACCESS && is_race(i, k)) expected[ops[i].block][ops[i].life] = true;
  for (int i = 0; i < n_ops; ++i) {
    const op *f = &ops[i];
    if (f->kind != FREE) continue;
    bool in_use = false;
    for (int k = 0; k < i; ++k)
      in_use |= ops[k].kind == ACCESS && ops[k].block == f->block && ops[k].life == f->life && !after[i][k];
    assert_true(in_use || !f->reported);
    /* After a race, the history has only one of both sides, and the other one may be what is pending. */
    assert_true(f->reported || !in_use || expected[f->block][f->life]);
    cut[f->block][f->life] = in_use; /* accesses that were pending are not looked at any more */
  }
  for (int p = 0; p < n_reports; ++p) {
    assert_true(is_race(pairs[p].here, pairs[p].other));
    got[ops[pairs[p].here].block][ops[pairs[p].here].life] = true;
  }
  for (int b = 0; b < BLOCKS; ++b)
    for (int l = 0; l <= life_of[b]; ++l)
      if (!cut[b][l]) assert_int_equal(got[b][l], expected[b][l]);
}

static void random_programs_agree_with_the_model(void **state) {
  (void)state;
  const char *seed = getenv("CANNON_SEED");
  r.state = seed ? strtoull(seed, NULL, 0) : 1;
  order_start(see_report, see_free);
  for (int i = 0; i < ROOM; ++i) snprintf(names[i], sizeof names[i], "%d", i);
  int n_racy = 0;
  for (program = 0; program < (uint32_t)ROUNDS(3000); ++program) {
    n_ops = n_reports = 0;
    memset(life_of, 0, sizeof life_of);
    memset(position_of, 0, sizeof position_of);
    memset(generation_of, 0, sizeof generation_of);
    memset(record_of, -1, sizeof record_of);
    memset(last_of, -1, sizeof last_of);
    for (int b = 0; b < BLOCKS; ++b) add_block(b);
    const int length = 5 + (int)random_below(&r, OPS - 10);
    while (n_ops < length) do_something();
    end_program();
    compare();
    n_racy += n_reports > 0;
    for (uint32_t s = 0; s < STREAMS; ++s)
      hooks_order((hook_order){.kind = HOOK_STREAM_GONE, .stream = program * STREAMS + s});
    for (uint32_t e = 0; e < EVENTS; ++e)
      hooks_order((hook_order){.kind = HOOK_OBJECT_GONE, .object = HOOK_BY_EVENT, .number = program * EVENTS + e});
  }
  assert_true(n_racy > (int)program / 4 && n_racy < (int)program);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *submit_many(void *number) {
  const uint32_t me = (uint32_t)(uintptr_t)number;
  const uintptr_t mine = 0x900000 + me * 0x1000;
  for (uint32_t i = 0; i < 2000; ++i) {
    const hook_access access = {.address = mine, .bytes = 64, .access = HOOK_WRITES};
    if (i % 100 == 0) hooks_alloc((hook_block){.address = mine, .bytes = 64, .call = "aclrtMalloc", .stream = -1});
    hooks_task(&(hook_task){.stream = 1000000 + me, .name = "0", .n_accesses = 1, .accesses = &access});
    hook_order order = {.kind = HOOK_SIGNALS, .stream = 1000000 + me, .number = 1000000 + me, .generation = i + 1};
    hooks_order(order);
    order.kind = HOOK_MARK_AWAITED;
    hooks_order(order);
    if (i % 100 == 99) hooks_free((hook_block){.address = mine, .bytes = 64, .stream = -1}, &order);
  }
  return NULL;
}

static void threads_submit_at_once(void **state) {
  (void)state;
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  n_reports = 0;
  n_ops = 1;
  ops[0].reported = 0;
  for (uintptr_t i = 0; i < THREADS; ++i) assert_int_equal(pthread_create(&thread[i], NULL, submit_many, (void *)i), 0);
  for (int i = 0; i < THREADS; ++i) pthread_join(thread[i], NULL);
  assert_int_equal(n_reports, 0);
  assert_int_equal(ops[0].reported, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs_agree_with_the_model),
      cmocka_unit_test(threads_submit_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
