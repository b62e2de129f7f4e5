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

/* The start of our TASK_INFO. Behind it: a line of text for each shape ("NAME\t1 3 224 224\n"), and the ONNX model. */
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

/* Reads one line of the shapes' text, which becomes two strings. */
static status read_shape(char *line, onnx_shape *s) {
  char *tab = strchr(line, '\t'), *end;
  if (!tab) return OM_FAIL("a shape in the file is malformed");
  *tab = 0;
  *s = (onnx_shape){.name = line};
  for (char *p = tab + 1; *p; p = end) {
    if (s->n_dims == MAX_RANK) return OM_FAIL("the shape of input %s has more than %d dimensions", line, MAX_RANK);
    s->dims[s->n_dims++] = strtoll(p, &end, 10);
    if (end == p) return OM_FAIL("the shape of input %s is malformed", line);
  }
  return ST_OK;
}

static status om_read_shapes(const char *text, uint64_t bytes, om_contents *out) {
  int n = 0;
  char *state = NULL;
  for (uint64_t i = 0; i < bytes; ++i) n += text[i] == '\n';
  out->names = strndup(text, bytes);
  out->shapes = calloc((size_t)n + 1, sizeof *out->shapes);
  if (!out->names || !out->shapes) return fail(ST_NO_HOST_MEMORY, "no host memory for the shapes of a model");
  for (char *line = strtok_r(out->names, "\n", &state); line && out->n_shapes < n; line = strtok_r(NULL, "\n", &state))
    TRY(read_shape(line, &out->shapes[out->n_shapes++]));
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
  const status st = om_read_shapes(at + sizeof head, head.text_bytes, out);
  if (st != ST_OK) om_free(out);
  out->onnx = at + sizeof head + head.text_bytes;
  out->onnx_bytes = head.onnx_bytes;
  return st;
}

void om_free(om_contents *c) {
  free(c->shapes);
  free(c->names);
  c->shapes = NULL;
  c->names = NULL;
}

const onnx_shape *om_shape(const om_contents *c, const char *name) {
  for (int i = 0; i < c->n_shapes; ++i)
    if (!strcmp(c->shapes[i].name, name)) return &c->shapes[i];
  return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put(FILE *f, const void *data, size_t bytes) { (void)fwrite(data, 1, bytes, f); }

static char *shapes_text(const onnx_shape *shapes, int n, size_t *bytes) {
  char *text = NULL;
  FILE *f = open_memstream(&text, bytes);
  if (!f) return NULL;
  for (int i = 0; i < n; ++i) {
    fprintf(f, "%s\t", shapes[i].name);
    for (int d = 0; d < shapes[i].n_dims; ++d) fprintf(f, "%s%jd", d ? " " : "", (intmax_t)shapes[i].dims[d]);
    fputc('\n', f);
  }
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

status om_write(const char *name, const void *onnx, size_t onnx_bytes, const onnx_shape *shapes, int n_shapes,
                void **out, size_t *n) {
  char header[HEADER_BYTES], *data = NULL;
  size_t text_bytes = 0;
  char *text = shapes_text(shapes, n_shapes, &text_bytes);
  FILE *f = text ? open_memstream(&data, n) : NULL;
  bool good = f;
  if (f) {
    payload head = {.text_bytes = text_bytes, .onnx_bytes = onnx_bytes};
    const partition_table table = {.n = 1};
    const partition only = {.kind = PART_TASK_INFO, .bytes = sizeof head + text_bytes + onnx_bytes};
    memcpy(head.magic, payload_magic, sizeof head.magic);
    fill_header(header, name, sizeof table + sizeof only + only.bytes);
    put(f, header, sizeof header);
    put(f, &table, sizeof table);
    put(f, &only, sizeof only);
    put(f, &head, sizeof head);
    put(f, text, text_bytes);
    put(f, onnx, onnx_bytes);
    good = !ferror(f);
    good &= !fclose(f);
  }
  free(text);
  if (!good) {
    free(data);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a model of %zu bytes", onnx_bytes);
  }
  *out = data;
  return ST_OK;
}
