/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/record/record_names.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/store/hash.h"
#include "trace/record/record_private.h"
#include "trace/stack.h"

/* ---- texts ------------------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t hash;
  char *text;
} known_text;

static struct {
  known_text *known; /* texts[i] has the number i + 1 */
  uint32_t n, room;
  uint32_t *slot; /* numbers by hash, 0: empty; open addressing, at most half full */
} texts;

static uint32_t *text_slot(uint64_t hash, const char *text, size_t n) {
  const uint32_t mask = 2 * texts.room - 1;
  uint32_t i = (uint32_t)hash & mask;
  for (; texts.slot[i]; i = (i + 1) & mask) {
    const known_text *k = &texts.known[texts.slot[i] - 1];
    if (k->hash == hash && strncmp(k->text, text, n) == 0 && !k->text[n]) break;
  }
  return &texts.slot[i];
}

static bool texts_grow(void) {
  const uint32_t room = texts.room ? 2 * texts.room : 1024, mask = 2 * room - 1;
  known_text *known = realloc(texts.known, room * sizeof *known);
  if (known) texts.known = known;
  uint32_t *slot = known ? calloc(2 * (size_t)room, sizeof *slot) : NULL;
  if (!slot) return false;
  free(texts.slot);
  texts.slot = slot;
  texts.room = room;
  for (uint32_t number = 1; number <= texts.n; ++number) {
    uint32_t i = (uint32_t)known[number - 1].hash & mask;
    while (slot[i]) i = (i + 1) & mask;
    slot[i] = number;
  }
  return true;
}

uint32_t record_text(const char *text) {
  if (!text) return 0;
  const size_t n = strnlen(text, RECORD_MAX_PAYLOAD);
  const uint64_t hash = hash_bytes(HASH_START, text, n);
  if (texts.n == texts.room && !texts_grow()) return 0;
  uint32_t *slot = text_slot(hash, text, n);
  if (*slot) return *slot;
  char *copy = strndup(text, n);
  if (!copy) return 0;
  texts.known[texts.n] = (known_text){hash, copy};
  *slot = ++texts.n;
  record_put(&(record){.kind = RECORD_TEXT, .payload = (const uint8_t *)copy, .payload_bytes = (uint32_t)n});
  return texts.n;
}

/* ---- sites ------------------------------------------------------------------------------------------------------- */

enum { MOST_SITES = 1 << 18 }; /* stacks that are numbered, too (trace/stack.c) */

static _Atomic uint64_t written[MOST_SITES / 64]; /* a bit for each site; set under the recorder's lock */

static bool names_is_written(uint32_t site) {
  return atomic_load_explicit(&written[site / 64], memory_order_relaxed) >> site % 64 & 1;
}

/* Uses _dl_find_object, since dladdr takes the loader's lock: a library's constructor, which has that, may wait for a
 * lock under which hooks are called. The program itself has an empty name; its path is in the header. */
static record_frame frame_of(const void *code) {
  struct dl_find_object found;
  const bool known = !_dl_find_object((void *)(uintptr_t)code, &found) && found.dlfo_link_map;
  return (record_frame){.file = record_text(known ? found.dlfo_link_map->l_name : "?"),
                        .at = (uintptr_t)code - (known ? found.dlfo_link_map->l_addr : 0)};
}

static void write_site(uint32_t site, const python_line *line, uint32_t n_lines, void *const *frame, uint32_t n) {
  uint8_t payload[RECORD_MAX_PAYLOAD];
  record r = {.kind = RECORD_SITE, .site = site, .payload = payload};
  for (uint32_t i = 0; i < n_lines; ++i)
    record_put_frame(payload, &r.payload_bytes,
                     (record_frame){record_text(line[i].file), record_text(line[i].function ? line[i].function : "?"),
                                    (uint64_t)(line[i].line > 0 ? line[i].line : 0)});
  for (uint32_t i = 0; i < n; ++i) record_put_frame(payload, &r.payload_bytes, frame_of(frame[i]));
  record_put(&r);
}

uint32_t record_site(void) {
  const uint32_t site = stack_take();
  if (!site || site >= MOST_SITES) return 0;
  if (names_is_written(site)) return site;
  const python_line *line;
  void *const *frame;
  const uint32_t n_lines = stack_python(site, &line), n = stack_frames(site, &frame);
  record_lock();
  if (!names_is_written(site)) {
    atomic_fetch_or(&written[site / 64], UINT64_C(1) << site % 64);
    write_site(site, line, n_lines, frame, n);
  }
  record_unlock();
  return site;
}
