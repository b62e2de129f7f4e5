/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/om.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 256, MAGIC = 0x444f4d49 /* "IMOD" */, VERSION = 0x20000000, MODEL_STANDARD = 1 };

/* Kinds of partitions. */
enum { PART_TASK_INFO = 2, PART_KERNELS = 3 };

/* Offsets in the header. */
enum {
  AT_HEADER_BYTES = 4,
  AT_VERSION = 8,
  AT_LENGTH = 76, /* what follows the header, in 32 bits; older than AT_MODEL_LENGTH */
  AT_TYPE = 82,
  AT_NAME = 84,
  NAME_BYTES = 32,
  AT_N_MODELS = 156,
  AT_PLATFORM = 160,
  AT_MODEL_LENGTH = 184,
};

/* In the newer form, which files with AT_MODEL_LENGTH have. */
typedef struct {
  uint32_t kind, unused;
  uint64_t offset, bytes; /* offset: from the end of the table */
} partition;

typedef struct {
  uint32_t n, unused;
} partition_table;

/* The start of our TASK_INFO. Behind it: lines of text, such as "shape\tx\t1 3 224 224\n" and "gears\tbatch\t1 1 2\n"
 * (kind, numbers in a gear, numbers), and the ONNX model. */
typedef struct {
  char magic[16];
  uint64_t text_bytes, onnx_bytes;
} payload;

static const char payload_magic[16] = "cannon model 1\n";

#define OM_FAIL(...) fail(ST_CONFIG_PARSE, __VA_ARGS__)

bool om_is(const void *bytes, size_t n) {
  uint32_t magic;
  if (n < sizeof magic) return false;
  memcpy(&magic, bytes, sizeof magic);
  return magic == MAGIC;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Finds a partition. *found: whether there is one. */
static status find_partition(const char *bytes, size_t n, uint32_t kind, bool *found, const char **at, uint64_t *size) {
  partition_table table;
  uint64_t length;
  *found = false;
  if (n < HEADER_BYTES + sizeof table) return OM_FAIL("the file has %zu bytes, fewer than its header", n);
  memcpy(&length, bytes + AT_MODEL_LENGTH, sizeof length);
  memcpy(&table, bytes + HEADER_BYTES, sizeof table);
  const bool newer = length;
  const size_t entry = newer ? sizeof(partition) : 12, start = newer ? sizeof table : 4;
  const uint64_t rest = n - HEADER_BYTES, head = start + (uint64_t)table.n * entry;
  if (table.n > 64 || head > rest) return OM_FAIL("the file is cut off in the table of its partitions");
  for (uint32_t i = 0; i < table.n; ++i) {
    partition p = {0};
    const char *from = bytes + HEADER_BYTES + start + i * entry;
    if (newer) {
      memcpy(&p, from, sizeof p);
    } else {
      uint32_t old[3];
      memcpy(old, from, sizeof old);
      p = (partition){.kind = old[0], .offset = old[1], .bytes = old[2]};
    }
    if (p.offset > rest - head || p.bytes > rest - head - p.offset)
      return OM_FAIL("partition %u of the file is cut off", i);
    if (p.kind != kind) continue;
    *found = true;
    *at = bytes + HEADER_BYTES + head + p.offset;
    *size = p.bytes;
    return ST_OK;
  }
  return ST_OK;
}

static status not_ours(const char *bytes, size_t n) {
  bool found;
  const char *at;
  uint64_t size = 0;
  TRY(find_partition(bytes, n, PART_KERNELS, &found, &at, &size));
  return OM_FAIL("the file was made for an NPU (it has %ju bytes of its kernels); convert the ONNX model with this atc",
                 (uintmax_t)size);
}

/* Reads numbers up to the end of the text; returns how many, or -1 if there are more than `most` or other words. */
static int om_numbers(const char *text, int64_t *numbers, int most) {
  char *end;
  int n = 0;
  for (const char *p = text; *p; p = end) {
    if (n == most) return -1;
    numbers[n++] = strtoll(p, &end, 10);
    if (end == p) return -1;
  }
  return n;
}

/* "shape NAME DIMS", with tabs between. */
static status om_read_shape(char *name, const char *dims, onnx_shape *s) {
  *s = (onnx_shape){.name = name};
  s->n_dims = om_numbers(dims, s->dims, MAX_RANK);
  return s->n_dims >= 0 ? ST_OK : OM_FAIL("the shape of input %s is malformed", name);
}

/* "gears KIND NUMBERS-IN-A-GEAR ALL-NUMBERS", likewise. */
static status om_read_gears(const char *kind, const char *numbers, model_gears *g) {
  enum { MOST = 1 + GEARS_MOST * 4 * MAX_RANK };
  int64_t *all = calloc(MOST, sizeof *all);
  if (!all) return fail(ST_NO_HOST_MEMORY, "no host memory for the gears of a model");
  const int n = om_numbers(numbers, all, MOST);
  g->kind = !strcmp(kind, "batch") ? GEARS_BATCH : !strcmp(kind, "image") ? GEARS_IMAGE : GEARS_DIMS;
  free(g->numbers);
  g->numbers = all;
  if (n < 2 || all[0] < 1 || all[0] > 4 * MAX_RANK || (n - 1) % all[0]) return OM_FAIL("the gears are malformed");
  g->n_numbers = (int)all[0];
  g->n = (n - 1) / g->n_numbers;
  memmove(all, all + 1, (size_t)(n - 1) * sizeof *all);
  for (int i = 0; i < n - 1; ++i)
    if (all[i] < 0) return OM_FAIL("a gear has the negative number %jd", (intmax_t)all[i]);
  return ST_OK;
}

static status om_read_line(char *line, om_contents *out) {
  char *const name = strchr(line, '\t'), *const rest = name ? strchr(name + 1, '\t') : NULL;
  if (!rest) return OM_FAIL("a line of the file is malformed");
  *name = *rest = 0;
  if (!strcmp(line, "shape")) return om_read_shape(name + 1, rest + 1, &out->shapes[out->n_shapes++]);
  if (!strcmp(line, "gears")) return om_read_gears(name + 1, rest + 1, &out->gears);
  if (!strcmp(line, "aipp")) return out->aipp = rest + 1, ST_OK;
  return OM_FAIL("the file has a line %.32s, which this version does not know", line);
}

static status om_read_lines(const char *text, uint64_t bytes, om_contents *out) {
  int n = 0;
  char *state = NULL;
  for (uint64_t i = 0; i < bytes; ++i) n += text[i] == '\n';
  out->names = strndup(text, bytes);
  out->shapes = calloc((size_t)n + 1, sizeof *out->shapes);
  if (!out->names || !out->shapes) return fail(ST_NO_HOST_MEMORY, "no host memory for the shapes of a model");
  for (char *line = strtok_r(out->names, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
    TRY(om_read_line(line, out));
  return ST_OK;
}

status om_read(const void *bytes, size_t n, om_contents *out) {
  bool found;
  const char *at;
  uint64_t size;
  payload head;
  *out = (om_contents){0};
  TRY(find_partition(bytes, n, PART_TASK_INFO, &found, &at, &size));
  if (!found || size < sizeof head || memcmp(at, payload_magic, sizeof payload_magic) != 0) return not_ours(bytes, n);
  memcpy(&head, at, sizeof head);
  const uint64_t rest = size - sizeof head;
  if (head.text_bytes > rest || head.onnx_bytes > rest - head.text_bytes) return OM_FAIL("the file is cut off");
  const status st = om_read_lines(at + sizeof head, head.text_bytes, out);
  if (st != ST_OK) om_free(out);
  out->onnx = at + sizeof head + head.text_bytes;
  out->onnx_bytes = head.onnx_bytes;
  return st;
}

void om_free(om_contents *c) {
  free(c->shapes);
  free(c->names);
  free(c->gears.numbers);
  *c = (om_contents){0};
}

const onnx_shape *om_shape(const om_contents *c, const char *name) {
  for (int i = 0; i < c->n_shapes; ++i)
    if (!strcmp(c->shapes[i].name, name)) return &c->shapes[i];
  return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put(FILE *f, const void *data, size_t bytes) { (void)fwrite(data, 1, bytes, f); }

static void put_numbers(FILE *f, const int64_t *numbers, int n) {
  for (int i = 0; i < n; ++i) fprintf(f, "%s%jd", i ? " " : "", (intmax_t)numbers[i]);
}

static char *om_lines(const om_contents *c, size_t *bytes) {
  static const char *const kinds[] = {[GEARS_BATCH] = "batch", [GEARS_IMAGE] = "image", [GEARS_DIMS] = "dims"};
  const model_gears *g = &c->gears;
  char *text = NULL;
  FILE *f = open_memstream(&text, bytes);
  if (!f) return NULL;
  for (int i = 0; i < c->n_shapes; ++i) {
    fprintf(f, "shape\t%s\t", c->shapes[i].name);
    put_numbers(f, c->shapes[i].dims, c->shapes[i].n_dims);
    fputc('\n', f);
  }
  if (g->kind) {
    fprintf(f, "gears\t%s\t%d ", kinds[g->kind], g->n_numbers);
    put_numbers(f, g->numbers, g->n * g->n_numbers);
    fputc('\n', f);
  }
  if (c->aipp) fprintf(f, "aipp\tall\t%s\n", c->aipp);
  return fclose(f) ? (free(text), NULL) : text;
}

/* The header for a file with so many bytes behind it. */
static void fill_header(char *h, const char *name, uint64_t length) {
  const uint32_t numbers[] = {MAGIC, HEADER_BYTES, VERSION}, one = 1;
  const uint32_t short_length = length <= UINT32_MAX ? (uint32_t)length : 0;
  memset(h, 0, HEADER_BYTES);
  memcpy(h, numbers, sizeof numbers);
  memcpy(h + AT_LENGTH, &short_length, sizeof short_length);
  h[AT_TYPE] = MODEL_STANDARD;
  strncpy(h + AT_NAME, name, NAME_BYTES - 1);
  memcpy(h + AT_N_MODELS, &one, sizeof one);
  strcpy(h + AT_PLATFORM, "cannon");
  memcpy(h + AT_MODEL_LENGTH, &length, sizeof length);
}

status om_write(const char *name, const om_contents *c, void **out, size_t *n) {
  char header[HEADER_BYTES], *data = NULL;
  size_t text_bytes = 0;
  char *text = om_lines(c, &text_bytes);
  FILE *f = text ? open_memstream(&data, n) : NULL;
  bool good = f;
  if (f) {
    payload head = {.text_bytes = text_bytes, .onnx_bytes = c->onnx_bytes};
    const partition_table table = {.n = 1};
    const partition only = {.kind = PART_TASK_INFO, .bytes = sizeof head + text_bytes + c->onnx_bytes};
    memcpy(head.magic, payload_magic, sizeof head.magic);
    fill_header(header, name, sizeof table + sizeof only + only.bytes);
    put(f, header, sizeof header);
    put(f, &table, sizeof table);
    put(f, &only, sizeof only);
    put(f, &head, sizeof head);
    put(f, text, text_bytes);
    put(f, c->onnx, c->onnx_bytes);
    good = !ferror(f);
    good &= !fclose(f);
  }
  free(text);
  if (!good) {
    free(data);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a model of %zu bytes", c->onnx_bytes);
  }
  *out = data;
  return ST_OK;
}
