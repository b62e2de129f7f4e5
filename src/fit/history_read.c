/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the records of a recording into a history (history_build.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit/history_build.h"
#include "fit/operator_traits.h"
#include "trace/record/record_read.h"

enum { MOST_NUMBERS = 1 << 20 }; /* of sites: the writer has fewer stacks */
/* The largest block that is believed: a device has 1 TiB of addresses. So sums of blocks do not overflow, nor do signed
 * ones. */
static const uint64_t most_bytes = UINT64_C(1) << 40;

/* Makes room for element n of an array; NULL if memory is lacking, which is noted. */
static void *history_grow(history_build *b, void *array, size_t n, grown *g, size_t size) {
  if (n < g->room) return array;
  const size_t room = g->room ? 2 * g->room : 64;
  void *more = realloc(array, room * size);
  b->no_memory |= !more;
  if (more) g->room = room;
  return more;
}

/* A pointer to a new element at the end of ARRAY, whose number of elements is N; NULL without memory. */
#define APPEND(b, ARRAY, N, GROWN)                                                                                     \
  (grow_to((b), (void **)&(ARRAY), (N), (GROWN), sizeof *(ARRAY)) ? &(ARRAY)[(N)++] : NULL)

static bool grow_to(history_build *b, void **array, size_t n, grown *g, size_t size) {
  void *more = b->no_memory || n >= HISTORY_NONE - 1 ? NULL : history_grow(b, *array, n, g, size);
  b->no_memory |= !more;
  if (more) *array = more;
  return more;
}

/* ---- texts and sites --------------------------------------------------------------------------------------------- */

/* Keeps a text. A text's record is longer than the text with its final zero, so h->texts, which has as many bytes as
 * the recording and its header's program, never ends. */
static const char *keep_text(history_build *b, const void *text, size_t n) {
  char *kept = b->h->texts + b->text_used;
  memcpy(kept, text, n);
  for (size_t i = 0; i < n; ++i)
    if ((unsigned char)kept[i] < ' ') kept[i] = '?'; /* no control characters reach a terminal, and no zeros */
  kept[n] = '\0';
  b->text_used += n + 1;
  return kept;
}

static void history_read_text(history_build *b) {
  const char **t = APPEND(b, b->text, b->n_texts, &b->texts);
  if (t) *t = keep_text(b, b->at.payload, b->at.payload_bytes);
}

static const char *history_text_of(const history_build *b, uint32_t number) {
  return number && number <= b->n_texts ? b->text[number - 1] : "";
}

bool history_is_installed(const char *file) {
  static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python", "/share/cannon/"};
  static const char *const begins[] = {"<frozen", "<string", "<built", "/usr/lib", "/lib/", "/lib64/", "?"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i)
    if (strstr(file, parts[i])) return true;
  for (size_t i = 0; i < sizeof begins / sizeof *begins; ++i)
    if (strncmp(file, begins[i], strlen(begins[i])) == 0) return true;
  return !*file;
}

/* Whether an object is Python's interpreter, whose C code is not the program's. */
static bool is_interpreter(const char *object) {
  const char *slash = strrchr(object, '/'), *name = slash ? slash + 1 : object;
  return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0;
}

/* A text that only lives during a call; it is kept in memory of its own, which the history owns by its lines. */
static const char *found_text(history_build *b, const char *text) {
  const size_t n = strlen(text);
  uint32_t *known = NULL;
  uint64_t hash[2] = {0, 1};
  for (size_t i = 0; i < n; ++i) {
    hash[0] = (hash[0] ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    hash[1] = (hash[1] + (unsigned char)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
  }
  known = keyed_value(&b->found, hash[0], hash[1], n);
  if (known && *known != HISTORY_NONE) return b->h->found[*known];
  char **kept = known ? APPEND(b, b->h->found, b->h->n_found, &b->founds) : NULL;
  if (kept) *kept = strdup(text);
  if (!kept || !*kept) {
    b->no_memory = true;
    if (kept) --b->h->n_found;
    return "";
  }
  *known = (uint32_t)(b->h->n_found - 1);
  return *kept;
}

static const char *history_object_of(const history_build *b, const record_frame *f) {
  const char *file = history_text_of(b, f->file);
  return *file ? file : b->h->program;
}

/* What is told of a frame's lines. */
typedef struct {
  history_build *b;
  history_site *site;
  const char *object;
} frame_lines;

static void add_frame_line(frame_lines *to, history_line line, bool is_own) {
  history *h = to->b->h;
  history_line *added = APPEND(to->b, h->lines, h->n_lines, &to->b->lines);
  if (!added) return;
  *added = line;
  if (to->site->own == HISTORY_NONE && is_own) to->site->own = (uint32_t)(h->n_lines - 1);
  ++to->site->n;
}

static void on_c_line(const history_line *found, void *argument) {
  frame_lines *to = argument;
  const history_line line = {found->file && *found->file ? found_text(to->b, found->file) : to->object,
                             found->function ? found_text(to->b, found->function) : "", found->line};
  add_frame_line(to, line, !history_is_installed(line.file) && !is_interpreter(to->object));
}

static void add_frame(history_build *b, history_site *site, const record_frame *f) {
  if (f->function) {
    const history_line line = {history_text_of(b, f->file), history_text_of(b, f->function),
                               f->at <= UINT32_MAX ? (uint32_t)f->at : 0};
    add_frame_line(&(frame_lines){b, site, NULL}, line, !history_is_installed(line.file));
    return;
  }
  frame_lines to = {b, site, history_object_of(b, f)};
  const uint32_t n = site->n;
  if (b->find) b->find(to.object, f->at, on_c_line, &to);
  if (site->n == n) on_c_line(&(history_line){0}, &to);
}

static void read_site(history_build *b) {
  history *h = b->h;
  const record *r = &b->at;
  record_frame f;
  bool is_python = false;
  if (!r->site || r->site >= MOST_NUMBERS) return;
  while (h->n_numbers <= r->site) {
    uint32_t *number = APPEND(b, h->site_of_number, h->n_numbers, &b->numbers);
    if (!number) return;
    *number = HISTORY_NONE;
  }
  history_site *s = APPEND(b, h->sites, h->n_sites, &b->sites);
  bool *python = s ? APPEND(b, b->is_python, b->n_pythons, &b->pythons) : NULL;
  if (!python) return;
  *s = (history_site){.first = (uint32_t)h->n_lines, .own = HISTORY_NONE};
  h->site_of_number[r->site] = (uint32_t)(h->n_sites - 1);
  for (uint32_t at = 0; record_get_frame(r, &at, &f);) {
    is_python |= f.function != 0;
    if (is_python && !f.function) break; /* what C code lies below Python's lines says nothing to its user */
    add_frame(b, s, &f);
  }
  *python = is_python;
}

/* The site of the record. Threads of autograd run no Python: what they do is done for the line that called
 * backward(). */
static uint32_t site_of(const history_build *b) {
  const uint32_t site = history_numbered_site(b->h, b->at.site);
  if (b->phase != HISTORY_BACKWARD || b->phase_site == HISTORY_NONE) return site;
  return site != HISTORY_NONE && b->is_python[site] ? site : b->phase_site;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static uint32_t module_now(const history_build *b) {
  if (b->depth) return b->stack[b->depth <= HISTORY_MODULES_DEEP ? b->depth - 1 : HISTORY_MODULES_DEEP - 1];
  return b->phase == HISTORY_BACKWARD ? b->backward_module : HISTORY_NONE;
}

static history_block *new_block(history_build *b, uint64_t bytes, uint64_t requested) {
  const record *r = &b->at;
  block_notes *notes = APPEND(b, b->notes_of, b->n_notes, &b->notes);
  history_block *made = notes ? APPEND(b, b->h->blocks, b->h->n_blocks, &b->blocks) : NULL;
  if (!made) return NULL;
  if (bytes > most_bytes) bytes = most_bytes;
  *notes = (block_notes){.born_in = b->phase_no, .died_in = UINT32_MAX, .number = r->number};
  *made = (history_block){.device = (uint32_t)r->device,
                          .segment = HISTORY_NONE,
                          .stream = r->stream,
                          .address = r->address,
                          .bytes = bytes,
                          .requested = requested,
                          .born = b->moment,
                          .died = HISTORY_NEVER,
                          .born_ns = r->time_ns,
                          .died_ns = HISTORY_NEVER,
                          .site = site_of(b),
                          .free_site = HISTORY_NONE,
                          .module = module_now(b),
                          .phase = b->phase,
                          .class = HISTORY_OTHER};
  return made;
}

static uint32_t last_block(const history_build *b) { return (uint32_t)(b->h->n_blocks - 1); }

static void end_block(history_build *b, uint32_t i) {
  history_block *ended = &b->h->blocks[i];
  ended->died = b->moment;
  ended->died_ns = b->at.time_ns;
  ended->free_site = site_of(b);
  b->notes_of[i].died_in = b->phase_no;
}

static uint64_t history_range_end(uint64_t address, uint64_t bytes) {
  return bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
}

static void history_add_range(history_build *b, live_ranges *l, const history_block *block) {
  b->no_memory |=
      !live_add(l, (live_range){block->address, history_range_end(block->address, block->bytes), last_block(b)});
}

static void read_alloc(history_build *b) {
  const record *r = &b->at;
  if (r->device < 0) return;
  uint32_t *known = keyed_value(&b->blocks_by_number, (uint64_t)r->device, r->number, 0);
  const history_block *made = new_block(b, r->bytes, r->requested);
  b->no_memory |= !known;
  if (!known || !made) return;
  *known = last_block(b);
  if (made->address) history_add_range(b, &b->blocks_at, made);
}

static void end_region(history_build *b, uint64_t address) {
  const live_range *l = live_at(&b->regions_at, address);
  if (!l || l->address != address) return;
  const uint32_t region = l->block;
  end_block(b, region);
  live_remove(&b->regions_at, address, region);
}

/* Regions that their framework has not ended end with their block. */
static void end_regions(history_build *b, const history_block *block) {
  const uint64_t end = history_range_end(block->address, block->bytes);
  for (size_t i = b->regions_at.n; block->is_segment && i-- > 0;) {
    const live_range l = b->regions_at.range[i];
    if (l.address >= block->address && l.address < end) end_region(b, l.address);
  }
}

static void read_free(history_build *b) {
  const record *r = &b->at;
  if (r->device < 0) return;
  uint32_t *known = keyed_value(&b->blocks_by_number, (uint64_t)r->device, r->number, 0);
  b->no_memory |= !known;
  if (!known || *known == HISTORY_NONE) return;
  const uint32_t freed = *known;
  *known = HISTORY_NONE;
  end_regions(b, &b->h->blocks[freed]);
  end_block(b, freed);
  live_remove(&b->blocks_at, b->h->blocks[freed].address, freed);
}

static void read_region(history_build *b) {
  const record *r = &b->at;
  if (r->device < 0) return;
  end_region(b, r->address);
  const live_range *inside = live_at(&b->blocks_at, r->address);
  const uint32_t segment = inside ? inside->block : HISTORY_NONE;
  history_block *made = new_block(b, r->bytes, r->bytes);
  if (!made) return;
  made->stream = segment == HISTORY_NONE ? RECORD_NO_STREAM : b->h->blocks[segment].stream;
  made->segment = segment;
  if (segment != HISTORY_NONE) b->h->blocks[segment].is_segment = true;
  history_add_range(b, &b->regions_at, made);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void read_accesses(history_build *b) {
  history *h = b->h;
  record_access a;
  uint64_t last = 0;
  if (!h->n_tasks) return;
  history_task *t = &h->tasks[h->n_tasks - 1];
  for (uint32_t at = 0; record_get_access(&b->at, &at, &a, last); last = a.address) {
    const live_range *l = live_at(&b->regions_at, a.address);
    if (!l) l = live_at(&b->blocks_at, a.address);
    if (!l) continue; /* memory of the host */
    history_access *made = APPEND(b, h->accesses, h->n_accesses, &b->accesses);
    if (!made) return;
    const uint64_t room = l->end - a.address;
    *made = (history_access){.task = (uint32_t)(h->n_tasks - 1),
                             .block = l->block,
                             .offset = a.address - l->address,
                             .bytes = a.bytes < room ? a.bytes : room,
                             .access = a.access & (HISTORY_READS | HISTORY_WRITES | HISTORY_SCRATCH)};
    ++t->n_accesses;
    if (t->device == HISTORY_NONE) t->device = h->blocks[l->block].device;
  }
}

/* Puts the task at the end of the list of those at its position. */
static void await_time(history_build *b, uint32_t task) {
  const record *r = &b->at;
  uint32_t *first = keyed_value(&b->waiting, (uint64_t)r->device, (uint64_t)r->stream, r->position);
  uint32_t *last = keyed_value(&b->last_waiting, (uint64_t)r->device, (uint64_t)r->stream, r->position);
  b->no_memory |= !first || !last;
  if (!first || !last) return;
  if (*first == HISTORY_NONE)
    *first = task;
  else
    b->next_of[*last] = task;
  *last = task;
}

static void read_task(history_build *b) {
  const record *r = &b->at;
  history *h = b->h;
  uint32_t *next = APPEND(b, b->next_of, b->n_next, &b->next);
  history_task *t = next ? APPEND(b, h->tasks, h->n_tasks, &b->tasks) : NULL;
  if (!t) return;
  *next = HISTORY_NONE;
  const char *name = history_text_of(b, r->name);
  *t = (history_task){.name = name,
                      .traits = operator_traits(name),
                      .device = r->device >= 0 ? (uint32_t)r->device : HISTORY_NONE,
                      .stream = r->stream,
                      .moment = b->moment,
                      .host_ns = r->time_ns,
                      .site = site_of(b),
                      .module = module_now(b),
                      .step = b->step_begin == HISTORY_NEVER ? HISTORY_NONE : (uint32_t)h->n_steps,
                      .phase = b->phase,
                      .first_access = (uint32_t)h->n_accesses};
  await_time(b, (uint32_t)(h->n_tasks - 1));
  read_accesses(b);
}

static void read_task_ran(history_build *b) {
  const record *r = &b->at;
  uint32_t *first = keyed_value(&b->waiting, (uint64_t)r->device, (uint64_t)r->stream, r->position);
  b->no_memory |= !first;
  if (!first || *first == HISTORY_NONE) return;
  history_task *t = &b->h->tasks[*first];
  *first = b->next_of[*first];
  t->model_ns = r->model_ns;
  t->measured_ns = r->duration_ns;
  t->operations = r->operations;
  t->device_ns = r->model_ns ? r->model_ns : b->h->is_dry ? 0 : r->duration_ns;
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

static uint32_t history_module_of(const history_build *b, uint64_t number) {
  return number && number <= b->h->n_modules ? (uint32_t)(number - 1) : HISTORY_NONE;
}

static void read_module(history_build *b) {
  const uint32_t parent = history_module_of(b, b->at.value);
  history_module *m = APPEND(b, b->h->modules, b->h->n_modules, &b->modules);
  if (m) *m = (history_module){history_text_of(b, b->at.name), history_text_of(b, b->at.second), parent};
}

static void read_enter(history_build *b) {
  if (b->depth < HISTORY_MODULES_DEEP) b->stack[b->depth] = history_module_of(b, b->at.value);
  if (b->depth < UINT32_MAX) ++b->depth;
}

static void read_phase(history_build *b) {
  b->phase = b->at.value < HISTORY_N_PHASES ? (history_phase)b->at.value : HISTORY_OUTSIDE;
  b->phase_site = history_numbered_site(b->h, b->at.site);
  b->backward_module = HISTORY_NONE;
  ++b->phase_no;
  if (b->phase != HISTORY_FORWARD || b->step_begin != HISTORY_NEVER) return;
  b->step_begin = b->moment;
  b->step_begin_ns = b->at.time_ns;
}

static void read_step(history_build *b) {
  if (b->step_begin == HISTORY_NEVER) return;
  history_step *s = APPEND(b, b->h->steps, b->h->n_steps, &b->steps);
  if (s) *s = (history_step){b->step_begin, b->moment, b->step_begin_ns, b->at.time_ns};
  b->step_begin = b->moment;
  b->step_begin_ns = b->at.time_ns;
}

/* The first word about a block holds: a buffer of several gradients may later be told of once more. */
static void read_range(history_build *b) {
  static const history_class classes[] = {[RECORD_PARAMETER] = HISTORY_PARAMETER,
                                          [RECORD_GRADIENT] = HISTORY_GRADIENT,
                                          [RECORD_OPTIMIZER] = HISTORY_OPTIMIZER};
  const live_range *l = live_at(&b->regions_at, b->at.address);
  if (!l) l = live_at(&b->blocks_at, b->at.address);
  if (!l || b->at.event >= RECORD_N_USES || b->notes_of[l->block].is_told) return;
  b->notes_of[l->block].is_told = true;
  b->h->blocks[l->block].class = classes[b->at.event];
  b->h->blocks[l->block].module = history_module_of(b, b->at.value);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void history_read_one(history_build *b) {
  switch (b->at.kind) {
  case RECORD_RUN:
    b->h->device_bytes = b->at.requested;
    b->h->is_dry = b->at.value & 1;
    break;
  case RECORD_TEXT: history_read_text(b); break;
  case RECORD_SITE: read_site(b); break;
  case RECORD_MODULE: read_module(b); break;
  case RECORD_ALLOC: read_alloc(b); break;
  case RECORD_FREE: read_free(b); break;
  case RECORD_REGION: read_region(b); break;
  case RECORD_REGION_END: end_region(b, b->at.address); break;
  case RECORD_TASK: read_task(b); break;
  case RECORD_ACCESSES: read_accesses(b); break;
  case RECORD_TASK_RAN: read_task_ran(b); break;
  case RECORD_ENTER: read_enter(b); break;
  case RECORD_LEAVE: b->depth -= b->depth != 0; break;
  case RECORD_BACKWARD: b->backward_module = history_module_of(b, b->at.value); break;
  case RECORD_PHASE: read_phase(b); break;
  case RECORD_STEP: read_step(b); break;
  case RECORD_RANGE: read_range(b); break;
  default: break;
  }
}

/* If Python runs the program, its name becomes that of the script: the file of the outermost line that is not of an
 * installed package. */
static void find_script(history *h) {
  if (!is_interpreter(h->program)) return;
  for (const history_site *s = h->sites; s < h->sites + h->n_sites; ++s) {
    const history_line *outermost = NULL;
    for (uint32_t i = s->n; i-- > 0 && !outermost;)
      if (!history_is_installed(h->lines[s->first + i].file)) outermost = &h->lines[s->first + i];
    if (!outermost || strcmp(outermost->function, "<module>") != 0) continue;
    h->program = outermost->file;
    return;
  }
}

static void free_build(history_build *b) {
  free(b->notes_of);
  free(b->next_of);
  free(b->text);
  free(b->is_python);
  free(b->blocks_at.range);
  free(b->regions_at.range);
  free(b->blocks_by_number.slot);
  free(b->found.slot);
  free(b->waiting.slot);
  free(b->last_waiting.slot);
}

static void history_read_all(history_build *b, record_reader *reader) {
  history *h = b->h;
  snprintf(h->soc_name, sizeof h->soc_name, "%s", reader->header.soc_name);
  for (char *c = h->soc_name; *c; ++c)
    if ((unsigned char)*c < ' ') *c = '?';
  h->program = keep_text(b, reader->header.program, strlen(reader->header.program));
  h->n_devices = reader->header.n_devices;
  for (; !b->no_memory && record_next(reader, &b->at); ++b->moment) {
    h->end_ns = b->at.time_ns;
    history_read_one(b);
  }
  h->n_moments = b->moment;
  find_script(h);
  if (!b->no_memory) history_derive(b);
  if (!b->no_memory) history_skip_wrappers(b);
}

/* A writer that is killed while it writes a record leaves zeros, and a file that was copied meanwhile is cut short. */
static bool is_cut_short(const record_reader *reader) { return strstr(reader->error, "cut short"); }

history *history_read_with(const void *data, size_t n, history_finder *find, char error[256]) {
  record_reader reader;
  history_build b = {.h = calloc(1, sizeof(history)),
                     .find = find,
                     .backward_module = HISTORY_NONE,
                     .phase_site = HISTORY_NONE,
                     .step_begin = HISTORY_NEVER};
  *error = '\0';
  if (b.h) b.h->texts = malloc(n + sizeof reader.header.program);
  b.no_memory = !b.h || !b.h->texts;
  if (b.no_memory)
    snprintf(error, 256, "no memory for a recording of %zu bytes", n);
  else if (!record_open(&reader, data, n))
    snprintf(error, 256, "%s", reader.error);
  else {
    history_read_all(&b, &reader);
    if (b.no_memory)
      snprintf(error, 256, "no memory for a recording of %zu bytes", n);
    else if (*reader.error && !is_cut_short(&reader))
      snprintf(error, 256, "%s", reader.error);
  }
  free_build(&b);
  if (!*error) return b.h;
  history_free(b.h);
  return NULL;
}

history *history_read(const void *data, size_t n, char error[256]) { return history_read_with(data, n, NULL, error); }
