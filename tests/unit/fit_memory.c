/* SPDX-License-Identifier: Apache-2.0 */
/* What src/fit says of who held memory when, on a history of three steps made by hand, whose sums are obvious. */
#include <time.h>

#include "fit/account.h"
#include "fit/growth.h"
#include "fit/idle.h"
#include "unit.h"

enum { MIB = 1 << 20 };

static history_line lines[] = {
    {"torch/nn.py", "forward", 10}, {"train.py", "step", 5}, {"train.py", "step", 5}, {"train.py", "keep", 9}};
static history_site sites[] = {{0, 2, 1}, {2, 1, 2}, {3, 1, 3}, {0, 1, HISTORY_NONE}};
static history_module modules[] = {{"net", "Net", HISTORY_NONE}, {"net.a", "Linear", 0}, {"net.b", "Linear", 0}};
static history_step steps[] = {{0, 20, 0, 200}, {20, 30, 200, 300}, {30, 40, 300, 400}};

/* address and bytes in MiB; nanoseconds are ten times the moments */
#define BLOCK(s, at, n, b, d, line_, module_, class_)                                                                  \
  {                                                                                                                    \
    .segment = (s), .stream = -1, .address = (at) * (uint64_t)MIB, .bytes = (n) * (uint64_t)MIB, .born = (b),          \
    .died = (d), .born_ns = 10 * (b), .died_ns = (d) == HISTORY_NEVER ? HISTORY_NEVER : 10 * (d), .site = (line_),     \
    .free_site = HISTORY_NONE, .module = (module_), .class = HISTORY_##class_                                          \
  }
#define NONE  HISTORY_NONE
#define NEVER HISTORY_NEVER

/* A segment of 20 MiB (0) with a parameter, two activations, and what each step leaves; beside it a workspace. */
static history_block blocks[] = {
    {.segment = NONE,
     .bytes = 20 * MIB,
     .born = 1,
     .died = NEVER,
     .born_ns = 10,
     .site = NONE,
     .module = NONE,
     .free_site = NONE,
     .class = HISTORY_OTHER,
     .is_segment = true},
    BLOCK(0, 0, 4, 2, NEVER, 0, 1, PARAMETER),     /* 1 */
    BLOCK(0, 4, 3, 3, 12, 1, 1, ACTIVATION),       /* 2 */
    BLOCK(0, 8, 5, 4, 11, 0, 2, ACTIVATION),       /* 3 */
    BLOCK(NONE, 100, 2, 6, 9, 3, NONE, WORKSPACE), /* 4 */
    BLOCK(0, 13, 1, 15, NEVER, 2, 0, OTHER),       /* 5 */
    BLOCK(0, 14, 1, 25, NEVER, 2, 0, OTHER),       /* 6 */
    BLOCK(0, 15, 1, 35, NEVER, 2, 0, OTHER),       /* 7 */
};
#define TASK(m, ns, phase_, step_, first, n)                                                                           \
  {                                                                                                                    \
    .name = "Add", .stream = 0, .moment = (m), .host_ns = 10 * (m), .device_ns = (ns), .site = 0, .module = 0,         \
    .step = (step_), .phase = HISTORY_##phase_, .first_access = (first), .n_accesses = (n)                             \
  }
static history_task tasks[] = {TASK(5, 100, FORWARD, 0, 0, 2), TASK(7, 50, FORWARD, 0, 2, 1),
                               TASK(8, 30, BACKWARD, 0, 3, 1), TASK(10, 20, BACKWARD, 0, 4, 1),
                               TASK(36, 10, FORWARD, 2, 5, 1)};
static history_access accesses[] = {
    {0, 2, 0, 3 * MIB, HISTORY_READS}, {0, 3, 0, 5 * MIB, HISTORY_READS}, {1, 3, 0, 5 * MIB, HISTORY_READS},
    {2, 3, 0, 5 * MIB, HISTORY_READS}, {3, 2, 0, 3 * MIB, HISTORY_READS}, {4, 5, 0, MIB, HISTORY_WRITES},
};
static uint32_t uses[] = {0, 4, 1, 2, 3, 5};

static history *the_history(void) {
  static history h = {.program = "train",
                      .n_devices = 1,
                      .n_moments = 40,
                      .end_ns = 400,
                      .n_lines = 4,
                      .n_sites = 4,
                      .n_modules = 3,
                      .n_blocks = 8,
                      .n_tasks = 5,
                      .n_accesses = 6,
                      .n_steps = 3,
                      .lines = lines,
                      .sites = sites,
                      .modules = modules,
                      .blocks = blocks,
                      .tasks = tasks,
                      .accesses = accesses,
                      .uses = uses,
                      .steps = steps};
  blocks[2].first_use = 0, blocks[2].n_uses = 2;
  blocks[3].first_use = 2, blocks[3].n_uses = 3;
  blocks[5].first_use = 5, blocks[5].n_uses = 1;
  return &h;
}

static curve the_curve(void) {
  curve c;
  curve_make(the_history(), 0, &c);
  return c;
}

static void classes_add_up_to_what_is_held(void **state) {
  (void)state;
  curve c = the_curve();
  const curve_point at = curve_at(&c, 7);
  assert_int_equal(at.level.held, 22 * MIB);
  assert_int_equal(at.level.used, 14 * MIB);
  assert_int_equal(at.level.bytes[HISTORY_PARAMETER], 4 * MIB);
  assert_int_equal(at.level.bytes[HISTORY_ACTIVATION], 8 * MIB);
  assert_int_equal(at.level.bytes[HISTORY_WORKSPACE], 2 * MIB);
  assert_int_equal(at.level.bytes[HISTORY_CACHE], 8 * MIB);
  assert_int_equal(curve_at(&c, 12).level.used, 4 * MIB);
  assert_int_equal(curve_at(&c, 0).level.held, 0);
  curve_free(&c);
}

static void the_peak_is_the_first_of_the_highest(void **state) {
  (void)state;
  curve c = the_curve();
  assert_int_equal(curve_peak(&c, 0, NEVER).moment, 6);
  assert_int_equal(curve_peak(&c, 0, NEVER).ns, 60);
  /* In later steps the segment is held throughout; the used bytes decide. */
  const curve_point later = curve_peak(&c, 20, 30);
  assert_int_equal(later.moment, 25);
  assert_int_equal(later.level.held, 20 * MIB);
  assert_int_equal(later.level.used, 6 * MIB);
  assert_int_equal(curve_peak(&c, 26, 30).moment, 26); /* nothing happens: the level at its begin */
  assert_int_equal(curve_fullest_device(the_history()), 0);
  curve_free(&c);
}

static void times_have_moments(void **state) {
  (void)state;
  const history *h = the_history();
  assert_int_equal(curve_moment_of(h, 0), 0);
  assert_int_equal(curve_moment_of(h, 59), 5);
  assert_int_equal(curve_moment_of(h, 60), 6);
  assert_int_equal(curve_moment_of(h, 1000), 36);
}

static void modules_have_their_children(void **state) {
  (void)state;
  curve c = the_curve();
  curve_module_peak peak[3];
  curve_module_peaks(&c, peak);
  assert_int_equal(peak[0].bytes, 12 * MIB);
  assert_int_equal(peak[0].moment, 4);
  assert_int_equal(peak[1].bytes, 7 * MIB);
  assert_int_equal(peak[2].bytes, 5 * MIB);
  curve_free(&c);
}

static void a_moment_has_its_modules_lines_and_blocks(void **state) {
  (void)state;
  const history *h = the_history();
  curve c = the_curve();
  account_lines known;
  account a;
  account_lines_make(h, &known);
  assert_int_equal(known.n, 3); /* train.py:5 once, train.py:9, and torch's where there is no own one */
  assert_int_equal(known.of_site[0], known.of_site[1]);
  assert_null(account_line_of(h, &known, NONE));
  assert_int_equal(account_line_of(h, &known, 3)->line, 10);
  account_make(&c, &known, 7, &a);
  assert_int_equal(a.n_live, 4);
  const uint32_t expected[] = {3, 1, 2, 4};
  assert_memory_equal(a.live, expected, sizeof expected);
  assert_int_equal(a.module[0].total, 12 * MIB);
  assert_int_equal(a.module[0].n_blocks, 3);
  assert_int_equal(a.module[0].largest, 3);
  assert_int_equal(a.module[1].bytes[HISTORY_PARAMETER], 4 * MIB);
  assert_int_equal(a.module[3].total, 2 * MIB); /* without a module */
  assert_int_equal(a.line[known.of_site[0]].total, 12 * MIB);
  assert_int_equal(a.line[known.n].total, 0);
  assert_int_equal(a.cache.bytes, 8 * MIB); /* between 7 and 8, and from 13 on */
  assert_int_equal(a.cache.largest_gap, 7 * MIB);
  assert_int_equal(a.cache.n_gaps, 2);
  assert_int_equal(a.cache.n_segments, 1);
  account_free(&a);
  account_lines_free(&known);
  curve_free(&c);
}

static void waits_are_from_forward_to_backward(void **state) {
  (void)state;
  const history *h = the_history();
  idle_clock clock;
  idle_wait *waits;
  idle_clock_make(h, &clock);
  assert_true(clock.is_of_device);
  assert_int_equal(idle_waits(h, &clock, 0, HISTORY_NONE, &waits), 2);
  assert_int_equal(waits[0].block, 2);
  assert_int_equal(waits[0].from, 0);
  assert_int_equal(waits[0].to, 3);
  assert_int_equal(waits[0].ns, 80); /* the tasks between take 50 and 30 */
  assert_int_equal(waits[1].block, 3);
  assert_int_equal(waits[1].ns, 0);
  free(waits);
  assert_int_equal(idle_waits(h, &clock, 1, HISTORY_NONE, &waits), 0);
  free(waits);
  assert_int_equal(idle_waits(h, &clock, 0, 1, &waits), 0); /* both are of the first step */
  free(waits);
  idle_clock_free(&clock);
}

static void what_nobody_reads_is_found(void **state) {
  (void)state;
  const history *h = the_history();
  idle_clock clock;
  idle_block *idle;
  idle_clock_make(h, &clock);
  assert_int_equal(idle_blocks(h, &clock, 0, 10, &idle), 4);
  assert_int_equal(idle[0].block, 3);
  assert_int_equal(idle[0].kind, IDLE_KEPT);
  assert_int_equal(idle[0].last, 2);
  assert_int_equal(idle[1].block, 5);
  assert_int_equal(idle[1].kind, IDLE_NEVER_READ);
  assert_int_equal(idle[2].block, 6);
  assert_int_equal(idle[2].kind, IDLE_NEVER_USED);
  free(idle);
  idle_clock_free(&clock);
}

static void growth_has_its_line(void **state) {
  (void)state;
  curve c = the_curve();
  account_lines known;
  growth g;
  account_lines_make(the_history(), &known);
  growth_make(&c, &known, &g);
  assert_true(g.is_known && g.grows);
  assert_int_equal(g.first, 0);
  assert_int_equal(g.bytes, 2 * MIB);
  assert_int_equal(g.n_lines, 1);
  assert_int_equal(g.lines[0].line, known.of_site[2]);
  assert_int_equal(g.lines[0].before, MIB);
  assert_int_equal(g.lines[0].after, 3 * MIB);
  assert_int_equal(g.lines[0].blocks_after, 3);
  assert_int_equal(g.steps[0].peak.moment, 6);
  assert_int_equal(g.steps[1].peak.level.used, 6 * MIB);
  assert_int_equal(g.steps[2].used, 7 * MIB);
  growth_free(&g);
  account_lines_free(&known);
  curve_free(&c);
}

/* A long recording: 100,000 blocks and 1,000,000 accesses, in less than 2 s. Sums are checked against a scan. */
enum { N_BLOCKS = 100000, USES = 10, N_LONG_TASKS = N_BLOCKS * USES, N_LONG_MODULES = 200, N_LONG_SITES = 3000 };

static void make_modules_and_sites(history *h) {
  for (uint32_t i = 0; i < N_LONG_MODULES; ++i) h->modules[i] = (history_module){"m", "M", i ? (i - 1) / 3 : NONE};
  for (uint32_t i = 0; i < N_LONG_SITES; ++i) {
    h->lines[i] = (history_line){"a.py", "f", i + 1};
    h->sites[i] = (history_site){i, 1, i};
  }
}

static history *long_history(random_source *r) {
  history *h = calloc(1, sizeof *h);
  *h = (history){.program = "long",
                 .n_devices = 1,
                 .n_moments = 4 * N_LONG_TASKS,
                 .n_blocks = N_BLOCKS,
                 .n_tasks = N_LONG_TASKS,
                 .n_accesses = N_LONG_TASKS,
                 .n_modules = N_LONG_MODULES,
                 .n_lines = N_LONG_SITES,
                 .n_sites = N_LONG_SITES,
                 .n_steps = 1000};
  h->blocks = calloc(h->n_blocks, sizeof *h->blocks);
  h->tasks = calloc(h->n_tasks, sizeof *h->tasks);
  h->accesses = calloc(h->n_accesses, sizeof *h->accesses);
  h->uses = calloc(h->n_accesses, sizeof *h->uses);
  h->modules = calloc(h->n_modules, sizeof *h->modules);
  h->lines = calloc(h->n_lines, sizeof *h->lines);
  h->sites = calloc(h->n_sites, sizeof *h->sites);
  h->steps = calloc(h->n_steps, sizeof *h->steps);
  make_modules_and_sites(h);
  for (uint32_t i = 0; i < N_BLOCKS; ++i)
    h->blocks[i] = (history_block){.segment = NONE,
                                   .bytes = 512 * (1 + random_below(r, 4096)),
                                   .born = 40 * (uint64_t)i,
                                   .died = 40 * (uint64_t)i + 1 + random_below(r, 1 << 19),
                                   .born_ns = 40 * (uint64_t)i,
                                   .site = random_below(r, N_LONG_SITES),
                                   .module = random_below(r, N_LONG_MODULES),
                                   .class = HISTORY_ACTIVATION,
                                   .first_use = i * USES,
                                   .n_uses = USES};
  for (uint32_t i = 0; i < N_LONG_TASKS; ++i) {
    h->tasks[i] = (history_task){.name = "Add",
                                 .moment = 4 * (uint64_t)i + 1,
                                 .host_ns = i,
                                 .device_ns = 5,
                                 .phase = i % USES < USES / 2 ? HISTORY_FORWARD : HISTORY_BACKWARD,
                                 .step = i / 1000,
                                 .first_access = i,
                                 .n_accesses = 1};
    h->accesses[i] = (history_access){i, i / USES, 0, 512, HISTORY_READS};
    h->uses[i] = i;
  }
  for (uint32_t i = 0; i < 1000; ++i) h->steps[i] = (history_step){4000 * i, 4000 * (i + 1), 0, 0};
  return h;
}

static void long_recordings_are_fast(void **state) {
  (void)state;
  random_source r = {7};
  history *h = long_history(&r);
  curve c;
  account_lines known;
  account a;
  growth g;
  idle_clock clock;
  idle_wait *waits;
  idle_block *idle;
  struct timespec t0, t1;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
  curve_make(h, 0, &c);
  account_lines_make(h, &known);
  const curve_point peak = curve_peak(&c, 0, NEVER);
  account_make(&c, &known, peak.moment, &a);
  growth_make(&c, &known, &g);
  idle_clock_make(h, &clock);
  assert_int_equal(idle_waits(h, &clock, 0, HISTORY_NONE, &waits), N_BLOCKS);
  const size_t n_idle = idle_blocks(h, &clock, 0, peak.moment, &idle);
  curve_module_peak *modules_peak = calloc(N_LONG_MODULES, sizeof *modules_peak);
  curve_module_peaks(&c, modules_peak);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
  const double seconds = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
  print_message("%d blocks, %d accesses: %.3f s, %zu kept\n", N_BLOCKS, N_LONG_TASKS, seconds, n_idle);
  if (!WITH_ASAN && !WITH_TSAN) assert_true(seconds < 2);

  uint64_t sum = 0;
  for (size_t i = 0; i < h->n_blocks; ++i)
    if (h->blocks[i].born <= peak.moment && peak.moment < h->blocks[i].died) sum += h->blocks[i].bytes;
  assert_int_equal(sum, peak.level.held);
  assert_int_equal(a.module[0].total, sum);
  uint64_t most = 0;
  for (size_t i = 0; i < g.n_steps; ++i)
    if (g.steps[i].peak.level.held > most) most = g.steps[i].peak.level.held;
  assert_int_equal(most, peak.level.held);
  assert_int_equal(modules_peak[0].bytes, peak.level.held);
  free(waits);
  free(idle);
  free(modules_peak);
  idle_clock_free(&clock);
  growth_free(&g);
  account_free(&a);
  account_lines_free(&known);
  curve_free(&c);
  history_free(h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes_add_up_to_what_is_held),
      cmocka_unit_test(the_peak_is_the_first_of_the_highest),
      cmocka_unit_test(times_have_moments),
      cmocka_unit_test(modules_have_their_children),
      cmocka_unit_test(a_moment_has_its_modules_lines_and_blocks),
      cmocka_unit_test(waits_are_from_forward_to_backward),
      cmocka_unit_test(what_nobody_reads_is_found),
      cmocka_unit_test(growth_has_its_line),
      cmocka_unit_test(long_recordings_are_fast),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
