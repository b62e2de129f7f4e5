/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of recordings of memory and tasks: each is read, or refused with a message, all indices of what was read
 * are within their arrays, and `cannon advise` has plans for it. LLVMFuzzerTestOneInput is libFuzzer's entry point;
 * without libFuzzer, main() mutates a recording that it writes:
 *
 *   stress_fuzz_history [INPUTS] [SEED] */
#include "fit/advise/advise.h"
#include "fuzz.h"
#include "trace/record/record_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 12, STREAM = 3 };

static bool is_index(uint32_t i, size_t n) { return i == HISTORY_NONE || i < n; }

static void check_tables(const history *h) {
  for (size_t i = 0; i < h->n_sites; ++i) {
    HOLDS(h->sites[i].first + (size_t)h->sites[i].n <= h->n_lines && is_index(h->sites[i].own, h->n_lines));
    for (uint32_t l = 0; l < h->sites[i].n; ++l)
      HOLDS(h->lines[h->sites[i].first + l].file && h->lines[h->sites[i].first + l].function);
  }
  for (size_t i = 0; i < h->n_modules; ++i) HOLDS(h->modules[i].name && is_index(h->modules[i].parent, i));
  for (size_t i = 0; i < h->n_steps; ++i) HOLDS(h->steps[i].begin <= h->steps[i].end);
}

static void check_blocks(const history *h) {
  for (size_t i = 0; i < h->n_blocks; ++i) {
    const history_block *b = &h->blocks[i];
    HOLDS(is_index(b->segment, i) && is_index(b->site, h->n_sites) && is_index(b->module, h->n_modules));
    HOLDS(is_index(b->free_site, h->n_sites) && b->class < HISTORY_N_CLASSES && b->phase < HISTORY_N_PHASES);
    HOLDS(b->born <= b->died && (!i || b[-1].born <= b->born) && b->first_use + (size_t)b->n_uses <= h->n_accesses);
    for (uint32_t u = b->first_use; u < b->first_use + b->n_uses; ++u)
      HOLDS(h->uses[u] < h->n_accesses && h->accesses[h->uses[u]].block == i);
  }
  for (size_t i = 0; i < h->n_tasks; ++i) {
    const history_task *t = &h->tasks[i];
    HOLDS(t->name && is_index(t->site, h->n_sites) && is_index(t->module, h->n_modules) &&
          is_index(t->step, h->n_steps));
    HOLDS(t->first_access + (size_t)t->n_accesses <= h->n_accesses && (!i || t[-1].moment <= t->moment));
    for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a)
      HOLDS(h->accesses[a].task == i && h->accesses[a].block < h->n_blocks &&
            h->accesses[a].bytes <= h->blocks[h->accesses[a].block].bytes);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char error[256];
  void *exact = malloc(size ? size : 1); /* so that a sanitizer sees reads behind its end */
  HOLDS(exact);
  memcpy(exact, data, size);
  history *h = history_read(exact, size, error);
  free(exact);
  HOLDS(!h == (*error != '\0'));
  if (!h) return 0;
  check_tables(h);
  check_blocks(h);
  advise_policy policy;
  advice a;
  HOLDS(advise_policy_parse("accumulate 2\nleast 1", &policy, error));
  if (advice_make(h, &policy, NULL, ADVISE_TIME_OF_RECORDING, 1 << 20, 2, &a)) advice_free(&a);
  history_free(h);
  return 0;
}

#ifndef WITH_LIBFUZZER

typedef struct {
  uint8_t data[MAX_BYTES];
  size_t n;
  uint64_t time_ns;
  record_history history;
} tape;

static void put(tape *t, record r) {
  uint8_t encoded[RECORD_MAX_PAYLOAD + 256];
  r.time_ns = t->time_ns += 10;
  const size_t n = record_encode(&t->history, &r, encoded);
  HOLDS(t->n + n <= MAX_BYTES);
  memcpy(t->data + t->n, encoded, n);
  t->n += n;
}

static void put_value(tape *t, record_kind kind, uint64_t value) { put(t, (record){.kind = kind, .value = value}); }

static void put_region(tape *t, uint64_t address, uint64_t bytes) {
  put(t, (record){.kind = RECORD_REGION, .address = address, .bytes = bytes, .site = 1});
}

static void put_task(tape *t, uint32_t name, uint64_t position, uint64_t read, uint64_t written) {
  uint8_t payload[64];
  record r = {.kind = RECORD_TASK, .stream = STREAM, .position = position, .name = name, .site = 1, .payload = payload};
  record_put_access(payload, &r.payload_bytes, (record_access){read, 512, HISTORY_READS}, 0);
  record_put_access(payload, &r.payload_bytes, (record_access){written, 512, HISTORY_WRITES}, read);
  put(t, r);
  put(t, (record){.kind = RECORD_TASK_RAN,
                  .stream = STREAM,
                  .position = position,
                  .duration_ns = 70 + position,
                  .model_ns = 5 * (position % 2),
                  .operations = 9000});
}

/* Modules 2 and 3, of which each makes an activation forward and reads it backward. */
static void put_step(tape *t, uint64_t position) {
  const uint64_t activation = 0x101000, gradient = 0x102000;
  put_value(t, RECORD_PHASE, RECORD_FORWARD);
  for (uint64_t m = 2; m <= 3; ++m) {
    put_value(t, RECORD_ENTER, m);
    put_region(t, activation + 512 * m, 512);
    put_task(t, 4, position + m, 0x100000, activation + 512 * m);
    put_value(t, RECORD_LEAVE, m);
  }
  put_value(t, RECORD_PHASE, RECORD_IN_BACKWARD);
  for (uint64_t m = 3; m >= 2; --m) {
    put_value(t, RECORD_BACKWARD, m);
    put_region(t, gradient + 512 * m, 512);
    put_task(t, 5, position + 8 - m, activation + 512 * m, gradient + 512 * m);
    put(t, (record){.kind = RECORD_RANGE, .event = RECORD_GRADIENT, .address = gradient + 512 * m, .value = m});
    put(t, (record){.kind = RECORD_REGION_END, .address = activation + 512 * m, .site = 1});
  }
  put_value(t, RECORD_PHASE, RECORD_UPDATE);
  put(t, (record){.kind = RECORD_STEP});
  put_value(t, RECORD_PHASE, 0);
}

static void put_all(tape *t) {
  static const char *const texts[] = {"train.py",          "<module>", "python3.11", "MatMul",
                                      "SoftmaxMatMulMask", "layers",   "Block",      NULL};
  uint8_t payload[64];
  record site = {.kind = RECORD_SITE, .site = 1, .payload = payload};
  record_header h = {.version = RECORD_VERSION, .header_bytes = sizeof h, .n_devices = 2};
  *t = (tape){.n = sizeof h};
  memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
  strcpy(h.soc_name, "Ascend910B3");
  strcpy(h.program, "/bin/python3");
  memcpy(t->data, &h, sizeof h);
  put(t, (record){.kind = RECORD_RUN, .requested = 1 << 30, .value = fuzz_below(2)});
  for (const char *const *text = texts; *text; ++text)
    put(t, (record){.kind = RECORD_TEXT, .payload = (const uint8_t *)*text, .payload_bytes = (uint32_t)strlen(*text)});
  record_put_frame(payload, &site.payload_bytes, (record_frame){3, 0, 99});
  record_put_frame(payload, &site.payload_bytes, (record_frame){1, 2, 12});
  put(t, site);
  put(t, (record){.kind = RECORD_ALLOC, .number = 1, .requested = 1 << 20, .bytes = 1 << 20, .address = 0x100000});
  put_region(t, 0x100000, 512);
  put(t, (record){.kind = RECORD_MODULE, .name = 6, .second = 7});
  for (int m = 0; m < 2; ++m) put(t, (record){.kind = RECORD_MODULE, .name = 7, .second = 7, .value = 1});
  put(t, (record){.kind = RECORD_RANGE, .event = RECORD_PARAMETER, .address = 0x100000, .bytes = 512, .value = 2});
  put_step(t, 40);
  put_step(t, 60);
  put(t, (record){.kind = RECORD_FREE, .number = 1});
}

static const char *const words[] = {"\xff\xff\xff\xff\x0f", "\x01", "\x7f", "\x80", "\xff\xff\x7f", "\xfe", NULL};

int main(int argc, char **argv) {
  static tape t;
  static char text[MAX_BYTES];
  const long inputs = argc > 1 ? atol(argv[1]) : 10000;
  if (argc > 2) fuzz_state = strtoull(argv[2], NULL, 10);
  for (long i = 0; i < inputs; ++i) {
    put_all(&t);
    memcpy(text, t.data, t.n);
    size_t size = t.n;
    for (uint32_t n = i < 4 ? 0 : 1 + fuzz_below(6); n; --n) {
      /* mutations spare the header mostly, behind which all is refused if it is wrong */
      const size_t kept = fuzz_below(16) ? sizeof(record_header) : 0;
      if (size > kept) size = kept + fuzz_mutate(text + kept, size - kept, MAX_BYTES - kept, words);
    }
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  }
  return 0;
}
#endif
