/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/plan_csv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "replay/replay_allocator.h"

typedef enum { ID, LOWER, UPPER, SIZE, ALIGNMENT, OFFSET, GAPS, ALIAS, IN_PLACE_OF, HINT, N_COLUMNS } column;
enum { N_REQUIRED = SIZE + 1, MAX_FIELDS = 64 };

static const struct {
  const char *name;
  column column;
} names[] = {
    {"id", ID},         {"buffer", ID},
    {"buffer_id", ID},  {"lower", LOWER},
    {"start", LOWER},   {"begin", LOWER},
    {"upper", UPPER},   {"end", UPPER},
    {"size", SIZE},     {"alignment", ALIGNMENT},
    {"offset", OFFSET}, {"gaps", GAPS},
    {"alias", ALIAS},   {"in_place_of", IN_PLACE_OF},
    {"hint", HINT},
};
static const char *const known =
    "id, lower, upper, size, and perhaps alignment, offset, gaps, alias, in_place_of, hint";
static const uint64_t MOST = (uint64_t)1 << 62;

typedef struct {
  const char *text;
  size_t length;
} field;

#define SHOWN(f) (int)((f).length < 40 ? (f).length : 40), (f).text /* arguments for %.*s */

typedef struct {
  plan_file *file;
  const char *next, *end; /* of the text */
  uint32_t line;
  int at[N_COLUMNS]; /* index of each column in a line, or -1 */
  int n_fields;
  bool end_is_last; /* the column is named "end" instead of "upper" */
  size_t capacity, gap_capacity, alias_capacity;
  cannon_plan_buffer *buffers;
  cannon_plan_gap *gaps;
  cannon_plan_alias *aliases;
  char *error;
} reader;

__attribute__((format(printf, 2, 3))) static bool csv_error(reader *r, const char *format, ...) {
  int n = snprintf(r->error, 256, "line %u: ", r->line);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(r->error + n, 256 - (size_t)n, format, arguments);
  va_end(arguments);
  text_make_safe(r->error, 256); /* it contains fields of the file */
  return false;
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static field csv_trim(field f) {
  while (f.length && is_blank(f.text[0])) ++f.text, --f.length;
  while (f.length && is_blank(f.text[f.length - 1])) --f.length;
  return f;
}

/* Returns the text before the separator; f keeps the rest. */
static field csv_cut(field *f, char separator) {
  const char *at = f->length ? memchr(f->text, separator, f->length) : NULL;
  field head = {f->text, at ? (size_t)(at - f->text) : f->length};
  const size_t gone = head.length + (at != NULL);
  f->text += gone;
  f->length -= gone;
  return head;
}

static bool csv_field_is(field f, const char *text) {
  return f.length == strlen(text) && memcmp(f.text, text, f.length) == 0;
}

static bool csv_parse_number(field f, uint64_t *n) {
  *n = 0;
  if (!f.length || f.length > 19) return false;
  for (size_t i = 0; i < f.length; ++i) {
    if (f.text[i] < '0' || f.text[i] > '9') return false;
    *n = *n * 10 + (uint64_t)(f.text[i] - '0');
  }
  return *n <= MOST;
}

/* Parses a number in a line. */
static bool csv_number(reader *r, const char *name, field f, uint64_t *n) {
  if (csv_parse_number(f, n)) return true;
  return csv_error(r, "%s is '%.*s', expected a whole number from 0 to 2^62", name, SHOWN(f));
}

static void *csv_grow(void *array, size_t n, size_t *capacity, size_t size) {
  if (n < *capacity) return array;
  *capacity = *capacity ? 2 * *capacity : 64;
  void *grown = replay_must_alloc(*capacity * size);
  if (n) memcpy(grown, array, n * size);
  free(array);
  return grown;
}

/* Returns the next line that is not empty. */
static bool next_line(reader *r, field *line) {
  while (r->next < r->end) {
    field rest = {r->next, (size_t)(r->end - r->next)};
    *line = csv_trim(csv_cut(&rest, '\n'));
    r->next = rest.text;
    ++r->line;
    if (line->length) return true;
  }
  return false;
}

/* ---- ids: a hash table with open addressing --------------------------------------------------------------------- */

static size_t csv_hash(const char *id, uint32_t length) {
  uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
  for (uint32_t i = 0; i < length; ++i) h = (h ^ (uint8_t)id[i]) * 0x100000001b3u;
  return (size_t)(h ^ h >> 32);
}

/* Returns the slot that an id has, or would have, in the table. */
static uint32_t *csv_id_slot(const plan_file *f, const char *id, uint32_t length) {
  size_t i = csv_hash(id, length) & f->index_mask;
  for (;; i = (i + 1) & f->index_mask) {
    const uint32_t b = f->index[i];
    if (b == CANNON_PLAN_NO_BUFFER) break;
    if (f->rows[b].id_length == length && memcmp(f->rows[b].id, id, length) == 0) break;
  }
  return &f->index[i];
}

plan_shown_id plan_csv_shown_id(const plan_row *row) {
  plan_shown_id id;
  text_safe(id.text, sizeof id.text, row->id, row->id_length);
  return id;
}

uint32_t plan_csv_find(const plan_file *f, const char *id, uint32_t length) { return *csv_id_slot(f, id, length); }

static bool index_ids(reader *r) {
  plan_file *f = r->file;
  const size_t n = f->problem.n_buffers;
  for (f->index_mask = 15; f->index_mask < 2 * n; f->index_mask = 2 * f->index_mask + 1) continue;
  f->index = replay_must_alloc((f->index_mask + 1) * sizeof *f->index);
  memset(f->index, 0xff, (f->index_mask + 1) * sizeof *f->index);
  for (uint32_t b = 0; b < n; ++b) {
    uint32_t *place = csv_id_slot(f, f->rows[b].id, f->rows[b].id_length);
    if (*place != CANNON_PLAN_NO_BUFFER) {
      r->line = f->rows[b].line;
      return csv_error(r, "id is '%.*s', which line %u has already", (int)f->rows[b].id_length, f->rows[b].id,
                       f->rows[*place].line);
    }
    *place = b;
  }
  return true;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static bool read_header(reader *r) {
  field line;
  if (!next_line(r, &line))
    return csv_error(r, "the file is empty, expected a line with the columns' names: %s", known);
  r->file->header = (plan_row){.text = line.text, .length = (uint32_t)line.length, .line = r->line};
  for (int c = 0; c < N_COLUMNS; ++c) r->at[c] = -1;
  for (bool more = true; more; ++r->n_fields) {
    more = memchr(line.text, ',', line.length) != NULL;
    const field name = csv_trim(csv_cut(&line, ','));
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !csv_field_is(name, names[i].name)) ++i;
    if (i == sizeof names / sizeof *names)
      return csv_error(r, "the column '%.*s' is not known, expected %s", SHOWN(name), known);
    if (r->at[names[i].column] >= 0) return csv_error(r, "the column %s appears twice", names[i].name);
    r->at[names[i].column] = r->n_fields;
    if (csv_field_is(name, "end")) r->end_is_last = true;
  }
  for (int c = 0; c < N_REQUIRED; ++c)
    if (r->at[c] < 0)
      return csv_error(r, "there is no column %s, expected %s", (const char *[]){"id", "lower", "upper", "size"}[c],
                       known);
  return true;
}

static bool add_gap(reader *r, cannon_plan_buffer *b, field text) {
  plan_file *f = r->file;
  field rest = text;
  field times = csv_cut(&rest, '@'), low = csv_cut(&times, '-'), window = csv_cut(&rest, ':');
  cannon_plan_gap gap = {0};
  const bool has_window = times.text + times.length < text.text + text.length;
  if (!csv_parse_number(low, &gap.lower) || !csv_parse_number(times, &gap.upper) ||
      (has_window && (!csv_parse_number(window, &gap.window_lower) || !csv_parse_number(rest, &gap.window_upper))))
    return csv_error(r, "a gap is '%.*s', expected LOWER-UPPER or LOWER-UPPER@LOW:HIGH", SHOWN(text));
  gap.upper += r->end_is_last;
  const uint64_t from = b->n_gaps ? r->gaps[f->problem.n_gaps - 1].upper : b->lower;
  if (gap.lower < from || gap.lower >= gap.upper || gap.upper > b->upper || gap.window_lower > gap.window_upper ||
      gap.window_upper > b->size)
    return csv_error(
        r, "a gap is '%.*s', expected it within the life, after the previous gap, and its bytes within the size",
        SHOWN(text));
  r->gaps = csv_grow(r->gaps, f->problem.n_gaps, &r->gap_capacity, sizeof *r->gaps);
  r->gaps[f->problem.n_gaps++] = gap;
  ++b->n_gaps;
  return true;
}

static bool read_gaps(reader *r, cannon_plan_buffer *b, field text) {
  b->first_gap = r->file->problem.n_gaps;
  while (text.length) {
    const field one = csv_cut(&text, ' ');
    if (one.length && !add_gap(r, b, one)) return false;
  }
  return true;
}

/* Divides a line into fields, by column; fields of missing columns are empty. */
static bool cut_fields(reader *r, field line, field fields[N_COLUMNS]) {
  field all[MAX_FIELDS];
  int n = 0;
  for (bool more = true; more; ++n) {
    more = memchr(line.text, ',', line.length) != NULL;
    const field f = csv_trim(csv_cut(&line, ','));
    if (n < r->n_fields) all[n] = f;
  }
  if (n != r->n_fields) return csv_error(r, "there are %d fields, expected %d as in the first line", n, r->n_fields);
  for (int c = 0; c < N_COLUMNS; ++c) fields[c] = r->at[c] < 0 ? (field){"", 0} : all[r->at[c]];
  return true;
}

static bool read_buffer(reader *r, field line) {
  plan_file *f = r->file;
  field fields[N_COLUMNS];
  cannon_plan_buffer b = {.alignment = 1, .offset = CANNON_PLAN_ANYWHERE, .in_place_of = CANNON_PLAN_NO_BUFFER};
  if (!cut_fields(r, line, fields)) return false;
  if (!fields[ID].length || memchr(fields[ID].text, ' ', fields[ID].length))
    return csv_error(r, "id is '%.*s', expected a text without spaces", SHOWN(fields[ID]));
  if (!csv_number(r, "lower", fields[LOWER], &b.lower) ||
      !csv_number(r, r->end_is_last ? "end" : "upper", fields[UPPER], &b.upper) ||
      !csv_number(r, "size", fields[SIZE], &b.size) ||
      (fields[ALIGNMENT].length && !csv_number(r, "alignment", fields[ALIGNMENT], &b.alignment)) ||
      (fields[OFFSET].length && !csv_number(r, "offset", fields[OFFSET], &b.offset)))
    return false;
  b.upper += r->end_is_last;
  if (b.lower >= b.upper)
    return csv_error(r, "the life is from %" PRIu64 " to %" PRIu64 ", expected lower < upper", b.lower, b.upper);
  if (!read_gaps(r, &b, fields[GAPS])) return false;
  const size_t n = f->problem.n_buffers;
  if (n == r->capacity) {
    size_t capacity = r->capacity, same = r->capacity;
    r->buffers = csv_grow(r->buffers, n, &capacity, sizeof *r->buffers);
    f->rows = csv_grow(f->rows, n, &r->capacity, sizeof *f->rows);
    f->offsets = csv_grow(f->offsets, n, &same, sizeof *f->offsets);
  }
  f->rows[n] = (plan_row){line.text, (uint32_t)line.length, r->line, fields[ID].text, (uint32_t)fields[ID].length};
  f->offsets[n] = b.offset;
  r->buffers[n] = b;
  ++f->problem.n_buffers;
  return true;
}

/* Finds the buffer of an id that another column of the line contains. */
static bool find_other(reader *r, const char *name, field id, uint32_t self, uint32_t *other) {
  *other = id.length ? plan_csv_find(r->file, id.text, (uint32_t)id.length) : CANNON_PLAN_NO_BUFFER;
  if (*other != CANNON_PLAN_NO_BUFFER && *other != self) return true;
  return csv_error(r, "%s is '%.*s', expected the id of another line", name, SHOWN(id));
}

/* Reads in_place_of and alias, once all ids are known. */
static bool read_pairs(reader *r) {
  plan_file *f = r->file;
  if (r->at[ALIAS] < 0 && r->at[IN_PLACE_OF] < 0) return true;
  for (uint32_t b = 0; b < f->problem.n_buffers; ++b) {
    field fields[N_COLUMNS];
    uint32_t other;
    r->line = f->rows[b].line;
    if (!cut_fields(r, (field){f->rows[b].text, f->rows[b].length}, fields)) return false;
    if (fields[IN_PLACE_OF].length) {
      if (!find_other(r, "in_place_of", fields[IN_PLACE_OF], b, &other)) return false;
      r->buffers[b].in_place_of = other;
    }
    while (fields[ALIAS].length) {
      const field one = csv_cut(&fields[ALIAS], ' ');
      if (!one.length) continue;
      if (!find_other(r, "alias", one, b, &other)) return false;
      r->aliases = csv_grow(r->aliases, f->problem.n_aliases, &r->alias_capacity, sizeof *r->aliases);
      r->aliases[f->problem.n_aliases++] = (cannon_plan_alias){b, other};
    }
  }
  return true;
}

static bool read_all(reader *r) {
  field line;
  if (!read_header(r)) return false;
  while (next_line(r, &line))
    if (!read_buffer(r, line)) return false;
  return index_ids(r) && read_pairs(r);
}

/* Initialises a reader of the text after its byte order mark. */
static reader csv_reader_start(const char *text, size_t n, plan_file *out, char error[256]) {
  static const char mark[] = "\xef\xbb\xbf";
  const size_t skipped = n >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
  *out = (plan_file){0};
  return (reader){.file = out, .next = text + skipped, .end = text + n, .error = error};
}

bool plan_csv_is_plan(const char *text, size_t n) {
  plan_file file;
  char error[256];
  reader r = csv_reader_start(text, n, &file, error);
  return read_header(&r) && r.at[OFFSET] >= 0;
}

bool plan_csv_read(const char *text, size_t n, plan_file *out, char error[256]) {
  reader r = csv_reader_start(text, n, out, error);
  const bool good = read_all(&r);
  out->problem.buffers = r.buffers;
  out->problem.gaps = r.gaps;
  out->problem.aliases = r.aliases;
  out->has_offsets = r.at[OFFSET] >= 0;
  out->offset_field = r.at[OFFSET];
  out->alignment_field = r.at[ALIGNMENT];
  out->n_fields = r.n_fields;
  if (!good) plan_csv_free(out);
  return good;
}

void plan_csv_free(plan_file *f) {
  free((void *)f->problem.buffers);
  free((void *)f->problem.gaps);
  free((void *)f->problem.aliases);
  free(f->rows);
  free(f->offsets);
  free(f->index);
  *f = (plan_file){0};
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* The new text of a column. If the lines have no such column, it is appended. */
typedef struct {
  int field; /* index; -1: there is no such column */
  const char *text;
} change;

static void write_line(FILE *f, const plan_file *file, const plan_row *row, const change *changes, int n) {
  field rest = {row->text, row->length};
  for (int i = 0; i < file->n_fields; ++i) {
    field one = csv_cut(&rest, ',');
    for (int c = 0; c < n; ++c)
      if (changes[c].field == i) one = (field){changes[c].text, strlen(changes[c].text)};
    if (i) fputc(',', f);
    fwrite(one.text, 1, one.length, f);
  }
  for (int c = 0; c < n; ++c)
    if (changes[c].field < 0) fprintf(f, ",%s", changes[c].text);
  fputc('\n', f);
}

bool plan_csv_write(FILE *f, const plan_file *file, const uint64_t *offsets, uint64_t alignment) {
  char offset[24] = "offset", every[24] = "alignment";
  const change changes[] = {{file->offset_field, offset}, {file->alignment_field, every}};
  const int n = alignment ? 2 : 1;
  write_line(f, file, &file->header, changes, n);
  snprintf(every, sizeof every, "%" PRIu64, alignment);
  for (size_t b = 0; b < file->problem.n_buffers; ++b) {
    snprintf(offset, sizeof offset, "%" PRIu64, offsets[b]);
    write_line(f, file, &file->rows[b], changes, n);
  }
  return !ferror(f);
}
