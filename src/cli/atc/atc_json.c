/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/atc/atc_json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "graph/onnx/wire.h"

enum { MOST_DEPTH = 32 }; /* of messages in messages: files may be hostile */

typedef enum { JSON_INT, JSON_BOOL, JSON_FLOAT, JSON_TEXT, JSON_DTYPE, JSON_MESSAGE } json_kind;

typedef struct json_field {
  uint32_t number;
  const char *name;
  json_kind kind;
  bool repeated;
  const struct json_field *fields; /* of a message; its last one has number 0 */
} json_field;

/* The messages of proto/ge_ir.proto (Ascend/metadef, Apache-2.0), without what mode 1 of CANN's atc leaves out: sizes,
 * offsets, workspaces and contents. Maps are lists of entries. */
static const json_field attr_fields[], tensor_fields[], graph_fields[];

static const json_field entry_fields[] = {
    {1, "key", JSON_TEXT, false, NULL}, {2, "value", JSON_MESSAGE, false, attr_fields}, {0}};
static const json_field named_attrs_fields[] = {
    {1, "name", JSON_TEXT, false, NULL}, {2, "attr", JSON_MESSAGE, true, entry_fields}, {0}};
static const json_field list_fields[] = {{2, "s", JSON_TEXT, true, NULL},
                                         {3, "i", JSON_INT, true, NULL},
                                         {4, "f", JSON_FLOAT, true, NULL},
                                         {5, "b", JSON_BOOL, true, NULL},
                                         {8, "td", JSON_MESSAGE, true, tensor_fields},
                                         {11, "na", JSON_MESSAGE, true, named_attrs_fields},
                                         {12, "dt", JSON_INT, true, NULL},
                                         {20, "val_type", JSON_INT, false, NULL},
                                         {0}};
static const json_field ints_fields[] = {{1, "list_i", JSON_INT, true, NULL}, {0}};
static const json_field int_lists_fields[] = {{1, "list_list_i", JSON_MESSAGE, true, ints_fields}, {0}};
static const json_field tensor_def_fields[] = {{1, "desc", JSON_MESSAGE, false, tensor_fields}, {0}};
static const json_field attr_fields[] = {{1, "list", JSON_MESSAGE, false, list_fields},
                                         {2, "s", JSON_TEXT, false, NULL},
                                         {3, "i", JSON_INT, false, NULL},
                                         {4, "f", JSON_FLOAT, false, NULL},
                                         {5, "b", JSON_BOOL, false, NULL},
                                         {10, "func", JSON_MESSAGE, false, named_attrs_fields},
                                         {11, "td", JSON_MESSAGE, false, tensor_fields},
                                         {12, "t", JSON_MESSAGE, false, tensor_def_fields},
                                         {13, "g", JSON_MESSAGE, false, graph_fields},
                                         {14, "list_list_int", JSON_MESSAGE, false, int_lists_fields},
                                         {15, "dt", JSON_INT, false, NULL},
                                         {0}};
static const json_field shape_fields[] = {{1, "dim", JSON_INT, true, NULL}, {0}};
static const json_field tensor_fields[] = {{1, "name", JSON_TEXT, false, NULL},
                                           {2, "dtype", JSON_DTYPE, false, NULL},
                                           {3, "shape", JSON_MESSAGE, false, shape_fields},
                                           {4, "layout", JSON_TEXT, false, NULL},
                                           {5, "attr", JSON_MESSAGE, true, entry_fields},
                                           {9, "has_out_attr", JSON_BOOL, false, NULL},
                                           {12, "reuse_input", JSON_BOOL, false, NULL},
                                           {13, "output_tensor", JSON_BOOL, false, NULL},
                                           {14, "device_type", JSON_TEXT, false, NULL},
                                           {15, "input_tensor", JSON_BOOL, false, NULL},
                                           {16, "real_dim_cnt", JSON_INT, false, NULL},
                                           {17, "reuse_input_index", JSON_INT, false, NULL},
                                           {0}};
static const json_field op_fields[] = {{1, "name", JSON_TEXT, false, NULL},
                                       {2, "type", JSON_TEXT, false, NULL},
                                       {5, "input", JSON_TEXT, true, NULL},
                                       {10, "attr", JSON_MESSAGE, true, entry_fields},
                                       {20, "has_out_attr", JSON_BOOL, false, NULL},
                                       {21, "id", JSON_INT, false, NULL},
                                       {22, "stream_id", JSON_INT, false, NULL},
                                       {23, "input_name", JSON_TEXT, true, NULL},
                                       {24, "src_name", JSON_TEXT, true, NULL},
                                       {25, "src_index", JSON_INT, true, NULL},
                                       {26, "dst_name", JSON_TEXT, true, NULL},
                                       {27, "dst_index", JSON_INT, true, NULL},
                                       {28, "input_i", JSON_INT, true, NULL},
                                       {29, "output_i", JSON_INT, true, NULL},
                                       {32, "is_input_const", JSON_BOOL, true, NULL},
                                       {33, "input_desc", JSON_MESSAGE, true, tensor_fields},
                                       {34, "output_desc", JSON_MESSAGE, true, tensor_fields},
                                       {35, "subgraph_name", JSON_TEXT, true, NULL},
                                       {0}};
static const json_field graph_fields[] = {{1, "name", JSON_TEXT, false, NULL},
                                          {4, "input", JSON_TEXT, true, NULL},
                                          {6, "op", JSON_MESSAGE, true, op_fields},
                                          {11, "attr", JSON_MESSAGE, true, entry_fields},
                                          {0}};
/* The attributes come first, by which files that were written before are recognised (ATC_JSON_BEGINS). */
static const json_field model_fields[] = {
    {11, "attr", JSON_MESSAGE, true, entry_fields}, {1, "name", JSON_TEXT, false, NULL},
    {2, "version", JSON_INT, false, NULL},          {3, "custom_version", JSON_TEXT, false, NULL},
    {7, "graph", JSON_MESSAGE, true, graph_fields}, {0}};

/* ge.proto.DataType. */
static const char *const dtype_names[] = {
    "DT_UNDEFINED",     "DT_FLOAT",          "DT_FLOAT16",   "DT_INT8",       "DT_UINT8", "DT_INT16",   "DT_UINT16",
    "DT_INT32",         "DT_INT64",          "DT_UINT32",    "DT_UINT64",     "DT_BOOL",  "DT_DOUBLE",  "DT_STRING",
    "DT_DUAL_SUB_INT8", "DT_DUAL_SUB_UINT8", "DT_COMPLEX64", "DT_COMPLEX128", "DT_QINT8", "DT_QINT16",  "DT_QINT32",
    "DT_QUINT8",        "DT_QUINT16",        "DT_RESOURCE",  "DT_STRING_REF", "DT_DUAL",  "DT_VARIANT", "DT_BF16",
    "DT_INT4",          "DT_UINT1",          "DT_INT2",      "DT_UINT2"};

/* Control characters and bytes that are no UTF-8 become "\\x1b" and the like (base/text.h), which JSON can hold. */
static bool write_text(FILE *f, const wire *w) {
  const size_t n = (size_t)(w->end - w->next), room = 4 * n + 1;
  char *safe = malloc(room);
  if (!safe) return false;
  text_safe(safe, room, (const char *)w->next, n);
  fputc('"', f);
  for (const char *p = safe; *p; ++p) {
    if (*p == '"' || *p == '\\') fputc('\\', f);
    fputc(*p, f);
  }
  fputc('"', f);
  free(safe);
  return true;
}

static void write_number(FILE *f, json_kind kind, uint64_t value) {
  switch (kind) {
  case JSON_BOOL: fputs(value ? "true" : "false", f); return;
  case JSON_FLOAT: {
    const float real = wire_float(value);
    if (real - real == 0) /* not an infinity or a NaN, which JSON does not have */
      fprintf(f, "%.9g", (double)real);
    else
      fputs("null", f);
    return;
  }
  case JSON_DTYPE:
    if (value < sizeof dtype_names / sizeof *dtype_names) {
      fprintf(f, "\"%s\"", dtype_names[value]);
      return;
    }
    break;
  default: break;
  }
  fprintf(f, "%" PRId64, (int64_t)value);
}

static void indent(FILE *f, int depth) { fprintf(f, "\n%*s", 2 * depth, ""); }

static bool write_message(FILE *f, wire message, const json_field *fields, int depth);

static bool write_value(FILE *f, const json_field *to, const wire_field *from, int depth) {
  if (to->kind == JSON_MESSAGE) return write_message(f, from->bytes, to->fields, depth);
  if (to->kind == JSON_TEXT) return write_text(f, &from->bytes);
  write_number(f, to->kind, from->value);
  return true;
}

/* Begins an element of a list: at its first, the list. */
static void begin_element(FILE *f, int *n, int depth) {
  fputs((*n)++ ? "," : "[", f);
  indent(f, depth);
}

/* The elements of a packed field: the wire's type follows from the kind. */
static bool write_packed(FILE *f, const json_field *to, wire packed, int *n, int depth) {
  uint64_t value;
  while (wire_element(&packed, to->kind == JSON_FLOAT ? WIRE_FIXED32 : WIRE_VARINT, &value)) {
    begin_element(f, n, depth);
    write_number(f, to->kind, value);
  }
  return !packed.bad;
}

/* All values of a field, wherever in the message they are. *written: whether there was one. */
static bool write_field(FILE *f, wire message, const json_field *to, int depth, bool *written) {
  const bool is_bytes = to->kind == JSON_TEXT || to->kind == JSON_MESSAGE;
  wire_field from;
  int n = 0;
  while (wire_next(&message, &from)) {
    if (from.number != to->number || (is_bytes && from.type != WIRE_BYTES)) continue;
    const bool packed = !is_bytes && from.type == WIRE_BYTES;
    if (!to->repeated && (n || packed)) continue;
    if (!n) {
      if (*written) fputc(',', f);
      *written = true;
      indent(f, depth + 1);
      fprintf(f, "\"%s\": ", to->name);
    }
    if (packed) {
      if (!write_packed(f, to, from.bytes, &n, depth + 2)) return false;
      if (!n) fputs("[", f), ++n;
      continue;
    }
    if (to->repeated) begin_element(f, &n, depth + 2);
    if (!write_value(f, to, &from, to->repeated ? depth + 2 : depth + 1)) return false;
    n += !to->repeated;
  }
  if (to->repeated && n) {
    indent(f, depth + 1);
    fputc(']', f);
  }
  return !message.bad;
}

static bool write_message(FILE *f, wire message, const json_field *fields, int depth) {
  bool written = false;
  if (depth > 2 * MOST_DEPTH) return false;
  fputc('{', f);
  for (; fields->number; ++fields)
    if (!write_field(f, message, fields, depth, &written)) return false;
  if (written) indent(f, depth);
  fputc('}', f);
  return true;
}

bool atc_json_write(FILE *f, const void *model_def, size_t bytes) {
  const bool whole = write_message(f, wire_of(model_def, bytes), model_fields, 0);
  fputc('\n', f);
  return whole && !ferror(f);
}
