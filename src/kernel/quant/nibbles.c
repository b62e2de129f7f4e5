/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/quant/nibbles.h"

enum { WORD = 8, PAIR = 2 }; /* int4 elements per INT32, per byte */

status nibbles_operand(executor *e, int operand_index, const tensor *t, const char *name, const int64_t *dims,
                       int rank) {
  const bool words = t->dtype == ACL_INT32 || t->dtype == ACL_INT8;
  const int64_t pack = t->dtype == ACL_INT32 ? WORD : t->dtype == ACL_INT8 ? PAIR : 1, grain = words ? pack : PAIR;
  int64_t packed[MAX_RANK];
  EXPECT(rank > 0 && dims[rank - 1] % grain == 0,
         "%s has dtype %s, expected a last dimension of a multiple of %jd, of int4", name, dtype_name(t->dtype),
         (intmax_t)grain);
  for (int d = 0; d < rank; ++d) packed[d] = d == rank - 1 ? dims[d] / pack : dims[d];
  TRY(op_expect_shape(t, name, packed, rank));
  EXPECT(!t->n || (t->contiguous && (words || t->offset % 2 == 0)),
         "%s has gaps or begins within a byte, expected int4 without gaps", name);
  if (words) return ST_OK;
  operand *o = &e->operands[operand_index];
  o->offset_bytes = (uint64_t)t->offset / 2;
  o->extent_bytes = o->moved_bytes = (uint64_t)t->n / 2;
  return ST_OK;
}

void nibbles_pack(void *to, const int8_t *from, int64_t n) {
  uint8_t *const bytes = to;
  for (int64_t i = 0; i < n / 2; ++i) {
    const int low = from[2 * i], high = from[2 * i + 1];
    const int a = low < -8 ? -8 : low > 7 ? 7 : low, b = high < -8 ? -8 : high > 7 ? 7 : high;
    bytes[i] = (uint8_t)((a & 15) | (b & 15) << 4);
  }
}

void nibbles_unpack(int8_t *to, const void *from, int64_t n) {
  const uint8_t *const bytes = from;
  for (int64_t i = 0; i < n / 2; ++i) {
    to[2 * i] = (int8_t)((bytes[i] & 15) - (bytes[i] & 8) * 2);
    to[2 * i + 1] = (int8_t)((int8_t)bytes[i] >> 4);
  }
}
