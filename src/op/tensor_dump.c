/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor_dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl_base.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/stream.h"
#include "trace/dump_config.h"

status tensor_dump_prepare(executor *e, const op_arg *a) {
  e->tensors = calloc(e->n_operands ? e->n_operands : 1, sizeof *e->tensors);
  if (!e->tensors) return fail(ST_NO_HOST_MEMORY, "no host memory to dump %d tensors", e->n_operands);
  e->dumped = (uint8_t)dump_wants();
  for (int i = 0; i < e->n_operands; ++i) {
    const tensor *t = executor_tensor(e, &e->operands[i], a);
    dumped_tensor *d = &e->tensors[i];
    d->dtype = t ? t->dtype : -1;
    if (!t) continue;
    d->format = t->format;
    d->rank = t->rank;
    d->n = t->n;
    d->n_stored = t->storage_rank ? 1 : 0;
    for (int k = 0; k < t->storage_rank; ++k) d->n_stored *= t->storage_dims[k];
    memcpy(d->dims, t->dims, sizeof d->dims);
    memcpy(d->strides, t->strides, sizeof d->strides);
  }
  return ST_OK;
}

/* ---- the message ------------------------------------------------------------------------------------------------- */

typedef struct {
  uint8_t *bytes;
  size_t used, room;
  bool failed;
} message;

static void dump_put(message *m, const void *bytes, size_t n) {
  if (m->used + n > m->room) {
    const size_t room = (m->used + n) * 2;
    uint8_t *grown = realloc(m->bytes, room);
    if (!grown) {
      m->failed = true;
      return;
    }
    m->bytes = grown;
    m->room = room;
  }
  memcpy(m->bytes + m->used, bytes, n);
  m->used += n;
}

static void put_varint(message *m, uint64_t value) {
  uint8_t bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = (uint8_t)(value | 0x80);
  bytes[n++] = (uint8_t)value;
  dump_put(m, bytes, n);
}

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

static void put_number(message *m, unsigned field, uint64_t value) {
  put_varint(m, field << 3 | WIRE_VARINT);
  put_varint(m, value);
}

static void put_field(message *m, unsigned field, const void *bytes, size_t n) {
  put_varint(m, field << 3 | WIRE_BYTES);
  put_varint(m, n);
  dump_put(m, bytes, n);
}

/* The value of toolkit.dump.OutputDataType for a dtype, which has other numbers than aclDataType. */
static unsigned dump_dtype(int dtype) {
  static const uint8_t numbers[] = {
      [ACL_FLOAT] = 1,   [ACL_FLOAT16] = 2,    [ACL_INT8] = 3,       [ACL_UINT8] = 4,  [ACL_INT16] = 5,
      [ACL_UINT16] = 6,  [ACL_INT32] = 7,      [ACL_INT64] = 8,      [ACL_UINT32] = 9, [ACL_UINT64] = 10,
      [ACL_BOOL] = 11,   [ACL_DOUBLE] = 12,    [ACL_COMPLEX64] = 16, [ACL_BF16] = 27,  [ACL_COMPLEX128] = 17,
      [ACL_STRING] = 13, [ACL_COMPLEX32] = 32,
  };
  return dtype >= 0 && dtype < (int)sizeof numbers ? numbers[dtype] : 0;
}

/* For inputs and for outputs: the flag of an operand, and the numbers of the field in
 * DumpData and of the size in that. */
static const struct { uint8_t flag, field, size_field; } sides[] = {{ARG_READ, 4, 5}, {ARG_WRITTEN, 3, 6}};
enum { N_SIDES = 2, VERSION = 1, DUMP_TIME = 2, OP_NAME = 6, DATA_TYPE = 1, FORMAT = 2, SHAPE = 3, DIM = 1 };

static bool is_dumped(const executor *e, int i, int side) {
  const unsigned wanted = side == 0 ? DUMP_INPUTS : DUMP_OUTPUTS;
  return e->dumped & wanted && e->operands[i].flags & sides[side].flag && e->tensors[i].dtype >= 0;
}

static uint64_t dump_bytes_of(const dumped_tensor *t) { return (uint64_t)t->n * dtype_bytes(t->dtype); }

static void put_tensor(message *m, const dumped_tensor *t, int side) {
  message inner = {0}, shape = {0};
  for (int d = 0; d < t->rank; ++d) put_number(&shape, DIM, (uint64_t)t->dims[d]);
  put_number(&inner, DATA_TYPE, dump_dtype(t->dtype));
  put_number(&inner, FORMAT, t->format < 0 ? ACL_FORMAT_ND : (uint64_t)t->format);
  put_field(&inner, SHAPE, shape.bytes, shape.used);
  put_number(&inner, sides[side].size_field, dump_bytes_of(t));
  put_field(m, sides[side].field, inner.bytes, inner.used);
  m->failed |= inner.failed | shape.failed;
  free(inner.bytes);
  free(shape.bytes);
}

static void put_launch(message *m, const executor *e, uint64_t time_us) {
  put_field(m, VERSION, "2.0", 3);
  put_number(m, DUMP_TIME, time_us);
  for (int side = 0; side < N_SIDES; ++side)
    for (int i = 0; i < e->n_operands; ++i)
      if (is_dumped(e, i, side)) put_tensor(m, &e->tensors[i], side);
  put_field(m, OP_NAME, e->op->function, strlen(e->op->function));
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Writes the elements of the view in the order of its shape, without gaps. */
static void write_elements(FILE *f, const dumped_tensor *t, const char *view) {
  const size_t bytes = dtype_bytes(t->dtype);
  int64_t at[MAX_RANK] = {0}, offset = 0;
  for (int64_t i = 0; i < t->n; ++i) {
    fwrite_unlocked(view + offset * (int64_t)bytes, bytes, 1, f);
    for (int d = t->rank - 1; d >= 0; --d) {
      offset += t->strides[d];
      if (++at[d] < t->dims[d]) break;
      offset -= at[d] * t->strides[d];
      at[d] = 0;
    }
  }
}

static bool dump_write_file(const char *path, const executor *e, void *const *view, const message *m) {
  FILE *f = fopen(path, "wxe");
  if (!f) return false;
  const uint64_t length = m->used;
  fwrite_unlocked(&length, sizeof length, 1, f);
  fwrite_unlocked(m->bytes, 1, m->used, f);
  for (int side = 0; side < N_SIDES; ++side)
    for (int i = 0; i < e->n_operands; ++i)
      if (is_dumped(e, i, side) && view[i]) write_elements(f, &e->tensors[i], view[i]);
  const bool good = !ferror(f);
  return fclose(f) == 0 && good;
}

void tensor_dump_launch(const executor *e, void *const *view, const task *t, const stream *s) {
  char folder[DUMP_MAX_PATH], path[DUMP_MAX_PATH + 320];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t time_us = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
  message m = {0};
  put_launch(&m, e, time_us);
  bool good = !m.failed && dump_folder(s->device, folder);
  if (good) {
    snprintf(path, sizeof path, "%s/%s.%s.%u.%u.%ju", folder, e->op->name, e->op->function, t->id, s->id,
             (uintmax_t)time_us);
    good = dump_write_file(path, e, view, &m);
  }
  if (!good) log_line(LOG_ERROR, "the tensors of %s can't be dumped: %s", e->op->function, file_error(errno));
  free(m.bytes);
}
