/* Complex numbers as two views of one shape: of their real parts, and of their imaginary ones. What takes the parts one by
 * one, as sums do, runs twice over views of parts, the second time `part_bytes` further. */
#ifndef CANNON_KERNEL_ENGINE_PARTS_H
#define CANNON_KERNEL_ENGINE_PARTS_H

#include "op/op.h"
#include "op/view.h"

/* Those that CANN computes with. */
#define DTYPES_COMPLEX_64_128 (DTYPE_BIT(ACL_COMPLEX64) | DTYPE_BIT(ACL_COMPLEX128))

static inline bool dtype_is_complex(int dtype) { return dtype_class_of(dtype) == CLASS_COMPLEX; }

/* From a real part to the imaginary one; 0: there is none. */
static inline uint8_t part_bytes(int dtype) {
  return dtype_is_complex(dtype) ? (uint8_t)dtype_bytes(dtype_part(dtype)) : 0;
}

/* The view of the real parts, of complex numbers or any others. */
static inline view parts_view(const view *v) {
  view parts = *v;
  parts.dtype = dtype_part(v->dtype);
  return parts;
}

#endif
