/* Complex numbers as two views of one shape: of their real parts, and of their imaginary ones. What takes the parts one by
 * one, as sums do, runs twice over views of parts, the second time `part_bytes` further. */
#ifndef CANNON_KERNEL_ENGINE_PARTS_H
#define CANNON_KERNEL_ENGINE_PARTS_H

#include "op/view.h"

#define DTYPES_COMPLEX (DTYPE_BIT(ACL_COMPLEX64) | DTYPE_BIT(ACL_COMPLEX128))

static inline bool is_complex(int dtype) { return dtype_class_of(dtype) == CLASS_COMPLEX; }

/* The type of the parts; a real type is its own. */
static inline int part_dtype(int dtype) {
  return dtype == ACL_COMPLEX64    ? ACL_FLOAT
         : dtype == ACL_COMPLEX128 ? ACL_DOUBLE
         : dtype == ACL_COMPLEX32  ? ACL_FLOAT16
                                   : dtype;
}

/* From a real part to the imaginary one; 0: there is none. */
static inline uint8_t part_bytes(int dtype) { return is_complex(dtype) ? (uint8_t)dtype_bytes(part_dtype(dtype)) : 0; }

/* The real parts, of complex numbers or any others. */
static inline view view_of_parts(const view *v) {
  view parts = *v;
  parts.dtype = part_dtype(v->dtype);
  return parts;
}

#endif
