/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/onnx/tensor_contents.h"
#include "base/settings/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARSE_FAIL(...) fail(ST_CONFIG_PARSE, __VA_ARGS__)

/* The types of ONNX: how the documentation calls them, the bytes of an element, and the field of TensorProto in which
 * elements are stored that are not raw bytes. */
static const struct {
  const char *name;
  uint8_t bytes, field;
} onnx_types[ONNX_DTYPES] = {
    [ONNX_FLOAT] = {"float", 4, 4},
    [ONNX_UINT8] = {"uint8", 1, 5},
    [ONNX_INT8] = {"int8", 1, 5},
    [ONNX_UINT16] = {"uint16", 2, 5},
    [ONNX_INT16] = {"int16", 2, 5},
    [ONNX_INT32] = {"int32", 4, 5},
    [ONNX_INT64] = {"int64", 8, 7},
    [ONNX_STRING] = {"string", 0, 6},
    [ONNX_BOOL] = {"bool", 1, 5},
    [ONNX_FLOAT16] = {"float16", 2, 5},
    [ONNX_DOUBLE] = {"double", 8, 10},
    [ONNX_UINT32] = {"uint32", 4, 11},
    [ONNX_UINT64] = {"uint64", 8, 11},
    [ONNX_COMPLEX64] = {"complex64", 8, 4},
    [ONNX_COMPLEX128] = {"complex128", 16, 10},
    [ONNX_BFLOAT16] = {"bfloat16", 2, 5},
    [ONNX_FLOAT8E4M3FN] = {"float8e4m3fn", 1, 5},
    [ONNX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 1, 5},
    [ONNX_FLOAT8E5M2] = {"float8e5m2", 1, 5},
    [ONNX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 1, 5},
    [ONNX_UINT4] = {"uint4", 1, 5},
    [ONNX_INT4] = {"int4", 1, 5},
    [ONNX_FLOAT4E2M1] = {"float4e2m1", 1, 5},
    [ONNX_FLOAT8E8M0] = {"float8e8m0", 1, 5},
};

static bool onnx_dtype_is_known(int dtype) { return dtype > ONNX_UNDEFINED && dtype < ONNX_DTYPES; }

unsigned onnx_dtype_bytes(int dtype) { return onnx_dtype_is_known(dtype) ? onnx_types[dtype].bytes : 0; }

const char *onnx_dtype_name(int dtype) {
  static _Thread_local char other[24];
  if (onnx_dtype_is_known(dtype)) return onnx_types[dtype].name;
  snprintf(other, sizeof other, "type %d", dtype);
  return other;
}

/* The bytes that dims and dtype ask for. */
static status contents_bytes(const onnx_tensor *t, uint64_t *bytes) {
  *bytes = onnx_dtype_bytes(t->dtype);
  if (!*bytes)
    return PARSE_FAIL("tensor %s has elements of %s, which are not supported", t->name, onnx_dtype_name(t->dtype));
  for (int d = 0; d < t->n_dims; ++d)
    if (t->dims[d] < 0 || __builtin_mul_overflow(*bytes, (uint64_t)t->dims[d], bytes) || *bytes > INT64_MAX)
      return PARSE_FAIL("dimension %d of tensor %s is %jd, expected 0 or more, and less than 2^63 bytes in all", d,
                        t->name, (intmax_t)t->dims[d]);
  if (onnx_dtype_is_packed(t->dtype)) *bytes = *bytes / 2 + *bytes % 2;
  return ST_OK;
}

static status wrong_bytes(const onnx_tensor *t, uint64_t has) {
  return PARSE_FAIL("tensor %s has %ju bytes of contents, expected %ju from its shape", t->name, (uintmax_t)has,
                    (uintmax_t)t->bytes);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Converts the numbers of the field that the dtype is stored in. Complex numbers are pairs of their parts. */
static status contents_from_numbers(onnx_reader *r, const tensor_contents *c, onnx_tensor *t) {
  const unsigned field = onnx_types[t->dtype].field;
  const bool is_complex = t->dtype == ONNX_COMPLEX64 || t->dtype == ONNX_COMPLEX128;
  const unsigned width = onnx_dtype_bytes(t->dtype) / (is_complex ? 2 : 1);
  const wire_type type = field == 4 ? WIRE_FIXED32 : field == 10 ? WIRE_FIXED64 : WIRE_VARINT;
  const uint64_t most = (uint64_t)(c->message.end - c->message.next); /* each number takes a byte at least */
  if (t->bytes / width > most) return wrong_bytes(t, 0);
  char *to = region_take(&r->model->memory, t->bytes);
  if (!to) return fail(ST_NO_HOST_MEMORY, "no host memory for the contents of tensor %s", t->name);
  uint64_t n = 0;
  wire message = c->message;
  for (wire_field f; wire_next(&message, &f);) {
    if (f.number != field) continue;
    wire list = f.type == WIRE_BYTES ? f.bytes : wire_of(NULL, 0);
    uint64_t value = f.value;
    for (bool more = f.type != WIRE_BYTES || wire_element(&list, type, &value); more;
         more = wire_element(&list, type, &value)) {
      if ((n + 1) * width > t->bytes) return wrong_bytes(t, (n + 1) * width);
      memcpy(to + n++ * width, &value, width);
    }
    if (list.bad) return PARSE_FAIL("the numbers of tensor %s are cut off", t->name);
  }
  t->contents = to;
  return n * width == t->bytes ? ST_OK : wrong_bytes(t, n * width);
}

/* ---- other files ------------------------------------------------------------------------------------------------- */

/* Whether the path stays in the model's folder. */
static bool stays_below(const char *path) {
  if (path[0] == '/' || !path[0]) return false;
  for (const char *p = path; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
    if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2])) return false;
  return true;
}

static status map_external(const onnx_reader *r, const char *location, const char *name, onnx_mapping *out) {
  char *path;
  if (!r->data->folder)
    return PARSE_FAIL("tensor %s is in file %s, but the model was given as bytes, without a folder", name, location);
  if (!stays_below(location))
    return PARSE_FAIL("tensor %s is in file %s, expected a path below the model's folder", name, location);
  if (asprintf(&path, "%s/%s", r->data->folder, location) < 0)
    return fail(ST_NO_HOST_MEMORY, "no host memory for a path");
  const char *const injected = fault_due(FAULT_FILE, NULL);
  const int fd = injected ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  const bool is_file = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode);
  void *memory = !is_file       ? MAP_FAILED
                 : info.st_size ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                                : "";
  const int error = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) {
    const char *why = fd >= 0 && !is_file ? "not a file" : strerror(error);
    const status st = injected ? fault_fail(injected, ST_CONFIG_PARSE, "tensor %s: file %s cannot be read", name, path)
                               : PARSE_FAIL("tensor %s: file %s cannot be read (%s)", name, path, why);
    free(path);
    return st;
  }
  free(path);
  *out = (onnx_mapping){.path = location, .memory = memory, .bytes = (size_t)info.st_size};
  return ST_OK;
}

/* The contents of a file, which are found once. */
static status find_external(onnx_reader *r, const char *location, const char *name, const onnx_mapping **out) {
  onnx_model *m = r->model;
  onnx_mapping found = {0};
  for (int i = 0; i < m->n_mappings; ++i)
    if (!strcmp(m->mappings[i].path, location)) return *out = &m->mappings[i], ST_OK;
  for (int i = 0; i < r->data->n_given; ++i)
    if (!strcmp(r->data->given[i].path, location)) found = r->data->given[i];
  found.given = found.path;
  found.path = location;
  if (!found.given) TRY(map_external(r, location, name, &found));
  m->mappings = region_grow(&m->memory, m->mappings, (size_t)m->n_mappings, sizeof *m->mappings);
  if (!m->mappings) {
    m->n_mappings = 0;
    if (!found.given && found.bytes) munmap(found.memory, found.bytes);
    return fail(ST_NO_HOST_MEMORY, "no host memory for the list of files");
  }
  *out = &m->mappings[m->n_mappings++];
  m->mappings[m->n_mappings - 1] = found;
  return ST_OK;
}

static status contents_from_file(onnx_reader *r, const tensor_contents *c, onnx_tensor *t) {
  const onnx_mapping *file;
  if (!c->location) return PARSE_FAIL("tensor %s is in another file, whose name is missing", t->name);
  TRY(find_external(r, c->location, t->name, &file));
  if (c->offset > file->bytes || t->bytes > file->bytes - c->offset)
    return PARSE_FAIL("tensor %s has %ju bytes at offset %ju of file %s, which has only %zu bytes", t->name,
                      (uintmax_t)t->bytes, (uintmax_t)c->offset, c->location, file->bytes);
  if (c->has_length && c->length != t->bytes) return wrong_bytes(t, c->length);
  t->where = c->location;
  t->contents = (const char *)file->memory + c->offset;
  return ST_OK;
}

/* The kernel maps pages around one that is read. 50 MiB of a ResNet's 98 stayed mapped without this margin. */
enum { FORGET_AROUND = 2 << 20 };

/* Gives back pages of the mapping. Returns whether the contents lie in it. */
static bool forget_in(const onnx_mapping *file, uintptr_t from, uint64_t bytes) {
  const uintptr_t start = (uintptr_t)file->memory, file_end = start + file->bytes;
  if (file->given || from < start || from + bytes > file_end) return false;
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = from - start > FORGET_AROUND ? (from - FORGET_AROUND) & -page : start;
  const uintptr_t end = file_end - from - bytes > FORGET_AROUND ? from + bytes + FORGET_AROUND : file_end;
  (void)madvise((void *)first, end - first, MADV_DONTNEED);
  return true;
}

void onnx_forget(const onnx_model *m, const void *contents, uint64_t bytes) {
  bool found = forget_in(&m->file, (uintptr_t)contents, bytes);
  for (int i = 0; i < m->n_mappings && !found; ++i) found = forget_in(&m->mappings[i], (uintptr_t)contents, bytes);
}

void onnx_forget_all(const onnx_model *m) {
  onnx_forget(m, m->file.memory, m->file.bytes);
  for (int i = 0; i < m->n_mappings; ++i) onnx_forget(m, m->mappings[i].memory, m->mappings[i].bytes);
}

void tensor_contents_unmap(onnx_model *m) {
  for (int i = 0; i < m->n_mappings; ++i)
    if (m->mappings[i].bytes && !m->mappings[i].given) munmap(m->mappings[i].memory, m->mappings[i].bytes);
}

status tensor_contents_find(onnx_reader *r, const tensor_contents *c, onnx_tensor *t) {
  if (t->dtype == ONNX_STRING) return ST_OK; /* refused by the operator that wants it */
  TRY(contents_bytes(t, &t->bytes));
  if (c->is_external) return contents_from_file(r, c, t);
  if (!c->raw) return contents_from_numbers(r, c, t);
  t->contents = c->raw;
  return c->raw_bytes == t->bytes ? ST_OK : wrong_bytes(t, c->raw_bytes);
}
