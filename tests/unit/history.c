/* SPDX-License-Identifier: Apache-2.0 */
/* src/fit/history: recordings that are written record by record are read as the blocks, tasks, modules and steps that
 * they tell of. */
#include "fit/history.h"

#include "trace/record/record_code.h"

#include "unit.h"

enum { MOST = 1 << 16, ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_SCRATCH = 4 };

typedef struct {
  uint8_t data[MOST];
  size_t n;
  uint64_t time_ns;
  record_history history;
} tape;

static void tape_start(tape *t) {
  record_header h = {.version = RECORD_VERSION, .header_bytes = sizeof h, .n_devices = 1};
  memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
  strcpy(h.soc_name, "Ascend910B3");
  strcpy(h.program, "/bin/train");
  *t = (tape){.n = sizeof h};
  memcpy(t->data, &h, sizeof h);
}

static void put(tape *t, record r) {
  r.time_ns = t->time_ns += 10;
  t->n += record_encode(&t->history, &r, t->data + t->n);
}

static void put_text(tape *t, const char *text) {
  put(t, (record){.kind = RECORD_TEXT, .payload = (const uint8_t *)text, .payload_bytes = (uint32_t)strlen(text)});
}

static void put_site(tape *t, uint32_t site, const record_frame *frame, int n) {
  uint8_t payload[RECORD_MAX_PAYLOAD];
  record r = {.kind = RECORD_SITE, .site = site, .payload = payload};
  for (int i = 0; i < n; ++i) assert_true(record_put_frame(payload, &r.payload_bytes, frame[i]));
  put(t, r);
}

static void put_task(tape *t, uint32_t name, uint64_t position, const record_access *access, int n) {
  uint8_t payload[RECORD_MAX_PAYLOAD];
  record r = {.kind = RECORD_TASK, .stream = 3, .position = position, .name = name, .site = 1, .payload = payload};
  uint64_t last = 0;
  for (int i = 0; i < n; ++i, last = access[i - 1].address)
    assert_true(record_put_access(payload, &r.payload_bytes, access[i], last));
  put(t, r);
}

static void put_alloc(tape *t, uint64_t number, uint64_t address, uint64_t bytes) {
  put(t, (record){.kind = RECORD_ALLOC,
                  .stream = RECORD_NO_STREAM,
                  .number = number,
                  .requested = bytes - 32,
                  .bytes = bytes,
                  .address = address,
                  .site = 1});
}

static void put_value(tape *t, record_kind kind, uint64_t value) { put(t, (record){.kind = kind, .value = value}); }

static void put_region(tape *t, uint64_t address, uint64_t bytes) {
  put(t, (record){.kind = RECORD_REGION, .address = address, .bytes = bytes, .site = 1});
}

/* A step of a model with one module, in a segment of 1 MiB: parameter, activation, gradient, workspace. */
static void put_step(tape *t) {
  tape_start(t);
  put(t, (record){.kind = RECORD_RUN, .requested = 1 << 30, .value = 1});
  for (const char *const *text = (const char *const[]){"/home/me/train.py", "step", "/x/site-packages/torch/nn.py",
                                                       "forward", "MatMul", "layer", "Linear", NULL};
       *text; ++text)
    put_text(t, *text);
  put_site(t, 1, (const record_frame[]){{3, 4, 7}, {1, 2, 12}, {0, 0, 99}}, 3);
  put_alloc(t, 1, 0x100000, 1 << 20);
  put_region(t, 0x100000, 512); /* the parameter */
  put(t, (record){.kind = RECORD_MODULE, .name = 6, .second = 7});
  put(t, (record){.kind = RECORD_RANGE, .event = RECORD_PARAMETER, .address = 0x100000, .bytes = 512, .value = 1});
  put_value(t, RECORD_PHASE, RECORD_FORWARD);
  put_value(t, RECORD_ENTER, 1);
  put_region(t, 0x100200, 1024); /* the activation */
  put_alloc(t, 2, 0x800000, 4096);
  put_task(t, 5, 40,
           (const record_access[]){
               {0x100000, 512, ACCESS_READ}, {0x100210, 256, ACCESS_WRITE}, {0x800000, 4000, ACCESS_SCRATCH}},
           3);
  put_value(t, RECORD_LEAVE, 1);
  put_value(t, RECORD_PHASE, RECORD_IN_BACKWARD);
  put_region(t, 0x100600, 512); /* the gradient */
  put_task(t, 5, 41, (const record_access[]){{0x100200, 1024, ACCESS_READ}, {0x100600, 512, ACCESS_WRITE}}, 2);
  put(t, (record){
             .kind = RECORD_TASK_RAN, .stream = 3, .position = 40, .duration_ns = 77, .model_ns = 5, .operations = 9});
  put(t, (record){.kind = RECORD_TASK_RAN, .stream = 3, .position = 41, .duration_ns = 78, .model_ns = 6});
  put(t, (record){.kind = RECORD_REGION_END, .address = 0x100200, .site = 1});
  put(t, (record){.kind = RECORD_RANGE, .event = RECORD_GRADIENT, .address = 0x100600, .bytes = 512, .value = 1});
  put_value(t, RECORD_PHASE, RECORD_UPDATE);
  put(t, (record){.kind = RECORD_STEP});
  put(t, (record){.kind = RECORD_FREE, .stream = RECORD_NO_STREAM, .number = 2, .site = 1});
  put(t, (record){.kind = RECORD_FREE, .stream = RECORD_NO_STREAM, .number = 1});
}

static history *read_tape(const tape *t) {
  char error[256];
  history *h = history_read(t->data, t->n, error);
  if (!h) print_error("%s\n", error);
  assert_non_null(h);
  return h;
}

static void blocks_have_classes_and_places(void **state) {
  (void)state;
  static tape t;
  put_step(&t);
  history *h = read_tape(&t);
  assert_string_equal(h->program, "/bin/train");
  assert_string_equal(h->soc_name, "Ascend910B3");
  assert_true(h->is_dry && h->device_bytes == 1 << 30);
  static const struct {
    uint64_t address, bytes;
    history_class class;
    uint32_t segment, module;
    history_phase phase;
  } expected[] = {
      {0x100000, 1 << 20, HISTORY_CACHE, HISTORY_NONE, HISTORY_NONE, HISTORY_OUTSIDE},
      {0x100000, 512, HISTORY_PARAMETER, 0, 0, HISTORY_OUTSIDE},
      {0x100200, 1024, HISTORY_ACTIVATION, 0, 0, HISTORY_FORWARD},
      {0x800000, 4096, HISTORY_WORKSPACE, HISTORY_NONE, 0, HISTORY_FORWARD},
      {0x100600, 512, HISTORY_GRADIENT, 0, 0, HISTORY_BACKWARD},
  };
  assert_int_equal(h->n_blocks, COUNT(expected));
  for (size_t i = 0; i < COUNT(expected); ++i) {
    assert_int_equal(h->blocks[i].address, expected[i].address);
    assert_int_equal(h->blocks[i].bytes, expected[i].bytes);
    assert_int_equal(h->blocks[i].class, expected[i].class);
    assert_int_equal(h->blocks[i].segment, expected[i].segment);
    assert_int_equal(h->blocks[i].module, expected[i].module);
    assert_int_equal(h->blocks[i].phase, expected[i].phase);
    assert_int_not_equal(h->blocks[i].died, HISTORY_NEVER); /* a segment's regions end with it */
  }
  assert_true(h->blocks[0].is_segment && !h->blocks[3].is_segment);
  history_free(h);
}

static void tasks_have_operands_times_and_lines(void **state) {
  (void)state;
  static tape t;
  put_step(&t);
  history *h = read_tape(&t);
  assert_int_equal(h->n_tasks, 2);
  assert_string_equal(h->tasks[0].name, "MatMul");
  assert_int_equal(h->tasks[0].device_ns, 5);
  assert_int_equal(h->tasks[0].measured_ns, 77);
  assert_int_equal(h->tasks[0].operations, 9);
  assert_int_equal(h->tasks[1].device_ns, 6);
  assert_int_equal(h->tasks[1].phase, HISTORY_BACKWARD);
  assert_int_equal(h->tasks[1].module, 0); /* whose activation it reads */
  assert_int_equal(h->tasks[0].n_accesses, 3);
  const history_access *a = &h->accesses[h->tasks[0].first_access + 1];
  assert_int_equal(a->block, 2);
  assert_int_equal(a->offset, 0x10);
  assert_int_equal(a->access, HISTORY_WRITES);
  assert_int_equal(h->blocks[2].n_uses, 2);
  assert_int_equal(h->accesses[h->uses[h->blocks[2].first_use + 1]].task, 1);
  const history_site *s = &h->sites[h->tasks[0].site];
  assert_int_equal(s->n, 2); /* lines of Python, without C below them */
  assert_string_equal(h->lines[s->first].function, "forward");
  assert_string_equal(h->lines[s->own].file, "/home/me/train.py");
  assert_int_equal(h->lines[s->own].line, 12);
  assert_int_equal(h->n_modules, 1);
  assert_string_equal(h->modules[0].name, "layer");
  assert_string_equal(h->modules[0].type, "Linear");
  assert_int_equal(h->n_steps, 1);
  assert_int_equal(h->tasks[0].step, 0);
  assert_true(h->steps[0].begin < h->tasks[0].moment && h->steps[0].end > h->tasks[1].moment);
  history_free(h);
}

/* C code of the interpreter is not the program's, and the program is the script. */
static void a_script_is_the_program_and_its_interpreter_is_not(void **state) {
  (void)state;
  static tape t;
  tape_start(&t);
  record_header h;
  memcpy(&h, t.data, sizeof h);
  strcpy(h.program, "/opt/bin/python3.11");
  memcpy(t.data, &h, sizeof h);
  for (const char *const *text = (const char *const[]){"/home/me/train.py", "<module>", "<frozen runpy>", "_run_code",
                                                       "/opt/lib/libpython3.11.so", "/home/me/own.so", NULL};
       *text; ++text)
    put_text(&t, *text);
  put_site(&t, 1, (const record_frame[]){{0, 0, 99}, {5, 0, 98}}, 2);
  put_site(&t, 2, (const record_frame[]){{5, 0, 98}, {6, 0, 97}}, 2);
  put_site(&t, 3, (const record_frame[]){{5, 0, 98}, {1, 2, 12}, {3, 4, 1}}, 3);
  history *read = read_tape(&t);
  assert_string_equal(read->program, "/home/me/train.py");
  assert_int_equal(read->sites[0].own, HISTORY_NONE);
  assert_string_equal(read->lines[read->sites[1].own].file, "/home/me/own.so");
  assert_int_equal(read->lines[read->sites[2].own].line, 12);
  history_free(read);
}

/* Tasks and allocations from a line of their own, which is `site`. */
static void put_task_of(tape *t, uint32_t site, uint32_t name, const record_access *access, int n) {
  uint8_t payload[RECORD_MAX_PAYLOAD];
  record r = {.kind = RECORD_TASK, .stream = 3, .name = name, .site = site, .payload = payload};
  uint64_t last = 0;
  for (int i = 0; i < n; last = access[i++].address)
    assert_true(record_put_access(payload, &r.payload_bytes, access[i], last));
  put(t, r);
}

static void put_alloc_of(tape *t, uint32_t site, uint64_t number, uint64_t address) {
  put(t, (record){.kind = RECORD_ALLOC,
                  .stream = RECORD_NO_STREAM,
                  .number = number,
                  .requested = 992,
                  .bytes = 1024,
                  .address = address,
                  .site = site});
}

/* A program without phases: classes follow from who writes and reads each block. */
static void classes_follow_the_flow_of_data(void **state) {
  (void)state;
  enum { MEMCPY = 1, MEMSET, MATMUL, RELU, ADAM, SCATTER, R = ACCESS_READ, W = ACCESS_WRITE, ROUNDS_OF_ALL = 5 };
  enum {
    WEIGHT = 0x1000,
    INPUT = 0x2000,
    ACTIVATION = 0x3000,
    STATE = 0x4000,
    CACHE = 0x5000,
    TRAINED = 0x6000,
    SHORT = 0x7000,
    CONSTANT = 0x8000,
    NOTHING = 0x9000,
    UNREAD = 0xa000,
    SCRATCH = 0xb000
  };
  static tape t;
  tape_start(&t);
  for (const char *const *text =
           (const char *const[]){"memcpy", "memset", "MatMul", "Relu", "ApplyAdamW", "Scatter", NULL};
       *text; ++text)
    put_text(&t, *text);
  for (uint32_t site = 1; site < 32; ++site) put_site(&t, site, (const record_frame[]){{0, 0, site}}, 1);
  for (uint32_t i = WEIGHT >> 12; i <= SCRATCH >> 12; ++i)
    if (i << 12 != SHORT) put_alloc_of(&t, i, i, i << 12);
  put_task_of(&t, 12, MEMCPY, (const record_access[]){{WEIGHT, 992, W}}, 1);
  put_task_of(&t, 13, MEMSET, (const record_access[]){{STATE, 992, W}}, 1);
  put_task_of(&t, 14, MATMUL, (const record_access[]){{CONSTANT, 992, W}}, 1);
  put_task_of(&t, 15, SCATTER, (const record_access[]){{TRAINED, 992, W}}, 1);
  put_task_of(&t, 16, MEMCPY, (const record_access[]){{UNREAD, 992, W}}, 1);
  for (uint64_t i = 0; i < ROUNDS_OF_ALL; ++i) {
    put_alloc_of(&t, SHORT >> 12, 100 + i, SHORT);
    put_task_of(&t, 20, MEMCPY, (const record_access[]){{INPUT, 992, W}}, 1);
    put_task_of(&t, 21, MATMUL,
                (const record_access[]){{INPUT, 992, R},
                                        {WEIGHT, 992, R},
                                        {TRAINED, 992, R},
                                        {CONSTANT, 992, R},
                                        {SCRATCH, 992, ACCESS_SCRATCH},
                                        {ACTIVATION, 992, W}},
                6);
    put_task_of(&t, 22, RELU, (const record_access[]){{ACTIVATION, 992, R | W}}, 1); /* in place */
    put_task_of(&t, 23, MATMUL, (const record_access[]){{ACTIVATION, 992, R}, {SHORT, 992, W}}, 2);
    put_task_of(&t, 24, SCATTER, (const record_access[]){{SHORT, 992, R}, {CACHE + i * 64, 64, W}}, 2);
    put_task_of(&t, 25, MATMUL, (const record_access[]){{CACHE, 992, R}, {SHORT, 992, W}}, 2);
    put_task_of(&t, 26, ADAM, (const record_access[]){{SHORT, 992, R}, {STATE, 992, R | W}, {TRAINED, 992, R | W}}, 3);
    put(&t, (record){.kind = RECORD_FREE, .number = 100 + i, .site = 1});
  }
  static const struct {
    uint64_t address;
    history_class class;
  } expected[] = {{WEIGHT, HISTORY_WEIGHT},   {INPUT, HISTORY_INPUT},      {ACTIVATION, HISTORY_ACTIVATION},
                  {STATE, HISTORY_STATE},     {CACHE, HISTORY_STATE},      {TRAINED, HISTORY_STATE},
                  {SHORT, HISTORY_TEMPORARY}, {CONSTANT, HISTORY_WEIGHT},  {NOTHING, HISTORY_OTHER},
                  {UNREAD, HISTORY_OTHER},    {SCRATCH, HISTORY_WORKSPACE}};
  history *h = read_tape(&t);
  size_t n_bad = 0;
  for (size_t i = 0; i < h->n_blocks; ++i)
    for (size_t k = 0; k < COUNT(expected); ++k) {
      if (h->blocks[i].address != expected[k].address || h->blocks[i].class == expected[k].class) continue;
      print_error("%#jx is %s, expected %s\n", (uintmax_t)expected[k].address, history_class_words(h->blocks[i].class),
                  history_class_words(expected[k].class));
      ++n_bad;
    }
  assert_int_equal(n_bad, 0);
  history_free(h);
}

/* Lines of a program in C: allocations by new_tensor, which vector and matrix call, which others call. An address is
 * the number of the line; 70 is inlined: matrix in use_inlined. */
static void find_lines(const char *object, uint64_t offset, history_tell *tell, void *argument) {
  static const struct {
    uint64_t most;
    const char *function;
  } functions[] = {{10, "new_tensor"}, {20, "vector"}, {30, "matrix"}, {60, "new_layer"}, {99, "main"}};
  assert_string_equal(object, "/bin/train");
  for (size_t i = 0; i < COUNT(functions); ++i) {
    if (offset > functions[i].most) continue;
    const char *file = offset <= 30 ? "/home/me/tensor.c" : "/home/me/model.c";
    if (offset == 60) tell(&(history_line){"/home/me/tensor.c", "matrix", 30}, argument);
    tell(&(history_line){file, functions[i].function, (uint32_t)offset}, argument);
    return;
  }
}

static void wrappers_of_allocations_are_skipped(void **state) {
  (void)state;
  static tape t;
  char error[256];
  tape_start(&t);
  const uint32_t stack[][3] = {{20, 40, 80}, {20, 41, 81}, {30, 42, 80}, {30, 43, 81}, {20, 44, 80}, {30, 45, 81}};
  uint32_t site = 0;
  for (size_t i = 0; i < COUNT(stack); ++i) {
    put_site(&t, ++site,
             (const record_frame[]){{0, 0, 10}, {0, 0, stack[i][0]}, {0, 0, stack[i][1]}, {0, 0, stack[i][2]}}, 4);
    put_alloc_of(&t, site, site, 0x1000 * site);
  }
  put_site(&t, ++site, (const record_frame[]){{0, 0, 10}, {0, 0, 60}, {0, 0, 82}}, 3);
  put_alloc_of(&t, site, site, 0x1000 * site);
  put_site(&t, ++site, (const record_frame[]){{0, 0, 90}}, 1); /* main allocates, too */
  put_alloc_of(&t, site, site, 0x1000 * site);
  history *h = history_read_with(t.data, t.n, find_lines, error);
  assert_non_null(h);
  static const uint32_t lines[] = {40, 41, 42, 43, 44, 45, 60, 90};
  assert_int_equal(h->n_blocks, COUNT(lines));
  for (size_t i = 0; i < COUNT(lines); ++i) assert_int_equal(h->lines[h->sites[h->blocks[i].site].own].line, lines[i]);
  history_free(h);

  /* A function that makes all of a program's blocks, once, is no wrapper. */
  tape_start(&t);
  for (site = 1; site < 8; ++site) {
    put_site(&t, site, (const record_frame[]){{0, 0, 40 + site}, {0, 0, 80}}, 2);
    put_alloc_of(&t, site, site, 0x1000 * site);
  }
  h = history_read_with(t.data, t.n, find_lines, error);
  assert_non_null(h);
  for (size_t i = 0; i < h->n_blocks; ++i) assert_int_equal(h->lines[h->sites[h->blocks[i].site].own].line, 41 + i);
  history_free(h);
}

/* A recording that ends anywhere is read to there, and one with wrong bytes is read or refused. */
static void any_bytes_are_read_or_refused(void **state) {
  (void)state;
  static tape t, wrong;
  char error[256];
  put_step(&t);
  for (size_t n = 0; n < t.n; ++n) {
    history *h = history_read(t.data, n, error);
    assert_true(!h == (n < sizeof(record_header)));
    assert_true(!h == (*error != '\0'));
    history_free(h);
  }
  random_source source = {1};
  for (int i = 0; i < ROUNDS(3000); ++i) {
    wrong = t;
    for (int k = 0; k < 4; ++k)
      wrong.data[sizeof(record_header) + random_below(&source, (uint32_t)(t.n - sizeof(record_header)))] =
          (uint8_t)random_next(&source);
    history *h = history_read(wrong.data, wrong.n, error);
    assert_true(!h == (*error != '\0'));
    for (size_t k = 0; h && k < h->n_accesses; ++k) assert_true(h->accesses[k].block < h->n_blocks);
    history_free(h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_have_classes_and_places),
      cmocka_unit_test(tasks_have_operands_times_and_lines),
      cmocka_unit_test(a_script_is_the_program_and_its_interpreter_is_not),
      cmocka_unit_test(classes_follow_the_flow_of_data),
      cmocka_unit_test(wrappers_of_allocations_are_skipped),
      cmocka_unit_test(any_bytes_are_read_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
