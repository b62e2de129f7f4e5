/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/dtype.h"

#include <float.h>

const dtype_info dtype_table[DTYPE_END] = {
    [ACL_FLOAT] = {"FLOAT", 4, CLASS_FLOAT},
    [ACL_FLOAT16] = {"FLOAT16", 2, CLASS_FLOAT},
    [ACL_INT8] = {"INT8", 1, CLASS_INTEGER},
    [ACL_INT32] = {"INT32", 4, CLASS_INTEGER},
    [ACL_UINT8] = {"UINT8", 1, CLASS_INTEGER},
    [ACL_INT16] = {"INT16", 2, CLASS_INTEGER},
    [ACL_UINT16] = {"UINT16", 2, CLASS_INTEGER},
    [ACL_UINT32] = {"UINT32", 4, CLASS_INTEGER},
    [ACL_INT64] = {"INT64", 8, CLASS_INTEGER},
    [ACL_UINT64] = {"UINT64", 8, CLASS_INTEGER},
    [ACL_DOUBLE] = {"DOUBLE", 8, CLASS_FLOAT},
    [ACL_BOOL] = {"BOOL", 1, CLASS_BOOL},
    [ACL_STRING] = {"STRING", 0, CLASS_NONE},
    [ACL_COMPLEX64] = {"COMPLEX64", 8, CLASS_COMPLEX},
    [ACL_COMPLEX128] = {"COMPLEX128", 16, CLASS_COMPLEX},
    [ACL_BF16] = {"BF16", 2, CLASS_FLOAT},
    [ACL_INT4] = {"INT4", 1, CLASS_NONE},
    [ACL_UINT1] = {"UINT1", 1, CLASS_NONE},
    [ACL_COMPLEX32] = {"COMPLEX32", 4, CLASS_COMPLEX},
    [ACL_HIFLOAT8] = {"HIFLOAT8", 1, CLASS_NONE},
    [ACL_FLOAT8_E5M2] = {"FLOAT8_E5M2", 1, CLASS_NONE},
    [ACL_FLOAT8_E4M3FN] = {"FLOAT8_E4M3FN", 1, CLASS_NONE},
    [ACL_FLOAT8_E8M0] = {"FLOAT8_E8M0", 1, CLASS_NONE},
    [ACL_FLOAT6_E3M2] = {"FLOAT6_E3M2", 1, CLASS_NONE},
    [ACL_FLOAT6_E2M3] = {"FLOAT6_E2M3", 1, CLASS_NONE},
    [ACL_FLOAT4_E2M1] = {"FLOAT4_E2M1", 1, CLASS_NONE},
    [ACL_FLOAT4_E1M2] = {"FLOAT4_E1M2", 1, CLASS_NONE},
};

static bool is_unsigned(int dtype) {
  return dtype == ACL_UINT8 || dtype == ACL_UINT16 || dtype == ACL_UINT32 || dtype == ACL_UINT64;
}

/* For two integer types: the wider one. If only one is signed: a signed type that is wider than the unsigned one. */
static int promote_integers(int a, int b) {
  static const int signed_of[] = {[1] = ACL_INT8, [2] = ACL_INT16, [4] = ACL_INT32, [8] = ACL_INT64};
  const size_t na = dtype_bytes(a), nb = dtype_bytes(b);
  if (is_unsigned(a) == is_unsigned(b)) return na >= nb ? a : b;
  const size_t n_signed = is_unsigned(a) ? nb : na, n_unsigned = is_unsigned(a) ? na : nb;
  if (n_signed > n_unsigned) return signed_of[n_signed];
  return n_unsigned < 8 ? signed_of[n_unsigned * 2] : ACL_DT_UNDEFINED;
}

int dtype_promote(int a, int b) {
  if (a == b) return a;
  const dtype_class ca = dtype_class_of(a), cb = dtype_class_of(b);
  if (ca == CLASS_NONE || cb == CLASS_NONE) return ACL_DT_UNDEFINED;
  if (ca != cb && ca != CLASS_COMPLEX && cb != CLASS_COMPLEX) return ca > cb ? a : b;
  if (ca == CLASS_COMPLEX || cb == CLASS_COMPLEX)
    return a == ACL_COMPLEX128 || b == ACL_COMPLEX128 || a == ACL_DOUBLE || b == ACL_DOUBLE ? ACL_COMPLEX128
                                                                                            : ACL_COMPLEX64;
  if (ca == CLASS_INTEGER) return promote_integers(a, b);
  /* Of two different types, float16 with bfloat16 among them. */
  return a == ACL_DOUBLE || b == ACL_DOUBLE ? ACL_DOUBLE : ACL_FLOAT;
}

bool dtype_can_cast(int from, int to) {
  const dtype_class f = dtype_class_of(from), t = dtype_class_of(to);
  if (f == CLASS_NONE || t == CLASS_NONE) return false;
  return f <= t;
}

double dtype_largest(int dtype) {
  static const double largest[] = {
      [ACL_FLOAT] = FLT_MAX, [ACL_FLOAT16] = 65504, [ACL_DOUBLE] = DBL_MAX, [ACL_BF16] = 0x1.FEp127};
  return largest[dtype];
}
