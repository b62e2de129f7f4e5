/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/onnx/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/file/wire_put.h"
#include "graph/onnx/tensor_contents.h"

enum { REWRITE_DEPTH = 128 }; /* of messages; the reader's limit of nested graphs is narrower */

typedef enum { MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE, TENSOR, OTHER } message;

/* Which fields of a message are messages that may have tensors in them. */
static const struct {
  message of;
  uint32_t field;
  message is;
} nested[] = {{MODEL, 7, GRAPH},     {MODEL, 25, FUNCTION},   {GRAPH, 1, NODE},          {GRAPH, 5, TENSOR},
              {FUNCTION, 7, NODE},   {NODE, 5, ATTRIBUTE},    {FUNCTION, 11, ATTRIBUTE}, {ATTRIBUTE, 5, TENSOR},
              {ATTRIBUTE, 6, GRAPH}, {ATTRIBUTE, 10, TENSOR}, {ATTRIBUTE, 11, GRAPH}};

/* Fields of TensorProto. */
enum { RAW_DATA = 9, EXTERNAL_DATA = 13, DATA_LOCATION = 14, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

typedef struct {
  onnx_reader reader;
  const onnx_store *store;
  wire_out out;
} rewriting;

static message nested_in(message of, uint32_t field) {
  for (size_t i = 0; i < sizeof nested / sizeof *nested; ++i)
    if (nested[i].of == of && nested[i].field == field) return nested[i].is;
  return OTHER;
}

/* Whether a field of a tensor has contents, or says where they are. */
static bool has_contents(uint32_t field) {
  return (field >= 4 && field <= 7) || (field >= RAW_DATA && field <= 11) || field == EXTERNAL_DATA ||
         field == DATA_LOCATION;
}

static void put_entry(wire_out *w, const char *key, const char *text) {
  const size_t entry = wire_begin(w, EXTERNAL_DATA);
  wire_put_text(w, ENTRY_KEY, key);
  wire_put_text(w, ENTRY_VALUE, text);
  wire_end(w, entry);
}

static void put_number_entry(wire_out *w, const char *key, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%ju", (uintmax_t)number);
  put_entry(w, key, text);
}

/* Copies the fields without contents, and puts the contents where they are to be. */
static status move_tensor(rewriting *r, wire w, const onnx_tensor *t, bool stored) {
  const uint8_t *from = w.next;
  for (wire_field f; wire_next(&w, &f); from = w.next)
    if (!has_contents(f.number)) wire_put_raw(&r->out, from, (size_t)(w.next - from));
  if (!stored) {
    wire_put_bytes(&r->out, RAW_DATA, t->contents, t->bytes);
    return ST_OK;
  }
  char file[ONNX_FILE_NAME];
  uint64_t offset;
  TRY(r->store->put(r->store->owner, t, file, &offset));
  put_entry(&r->out, "location", file);
  put_number_entry(&r->out, "offset", offset);
  put_number_entry(&r->out, "length", t->bytes);
  wire_put_number(&r->out, DATA_LOCATION, 1);
  return ST_OK;
}

static status rewrite_tensor(rewriting *r, wire w) {
  onnx_tensor t = {0};
  TRY(onnx_read_tensor(&r->reader, w, &t));
  const bool stored = r->store && t.contents && t.bytes >= ONNX_STORED_LEAST;
  if (stored || t.where) return move_tensor(r, w, &t, stored);
  wire_put_raw(&r->out, w.next, (size_t)(w.end - w.next));
  return ST_OK;
}

static status rewrite_message(rewriting *r, wire w, message of, int depth) {
  if (of == TENSOR) return rewrite_tensor(r, w);
  if (depth == REWRITE_DEPTH) return fail(ST_CONFIG_PARSE, "messages are nested deeper than %d", REWRITE_DEPTH);
  const uint8_t *from = w.next;
  for (wire_field f; wire_next(&w, &f); from = w.next) {
    const message is = f.type == WIRE_BYTES ? nested_in(of, f.number) : OTHER;
    if (is == OTHER) {
      wire_put_raw(&r->out, from, (size_t)(w.next - from));
      continue;
    }
    const size_t begin = wire_begin(&r->out, f.number);
    TRY(rewrite_message(r, f.bytes, is, depth + 1));
    wire_end(&r->out, begin);
  }
  return w.bad ? fail(ST_CONFIG_PARSE, "the file is cut off, or is no ONNX model") : ST_OK;
}

status onnx_rewrite(const void *bytes, size_t n, const char *folder, const onnx_store *store, void **out,
                    size_t *n_out) {
  onnx_model *m = calloc(1, sizeof *m);
  if (!m) return fail(ST_NO_HOST_MEMORY, "no host memory for an ONNX model");
  const onnx_data data = {.folder = folder};
  rewriting r = {.reader = {.model = m, .data = &data}, .store = store};
  status st = rewrite_message(&r, wire_of(bytes, n), MODEL, 0);
  if (st == ST_OK && r.out.full) st = fail(ST_NO_HOST_MEMORY, "no host memory for an ONNX model of %zu bytes", n);
  onnx_free(m);
  if (st == ST_OK) {
    *out = r.out.bytes;
    *n_out = r.out.n;
  } else {
    free(r.out.bytes);
  }
  return st;
}
