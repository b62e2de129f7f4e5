/* SPDX-License-Identifier: Apache-2.0 */
/* The tables from which module.c makes the module, and the headers of the library that the bindings call.
 *
 * Every function of the library is a weak symbol: the module loads with any version of CANN that has its libraries, and
 * has only those bindings whose function that version has. */
#pragma once
#include "acl/acl.h"
#include "acl/acl_op.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_memory_soma.h"
#include "acl/acl_tdt.h"
#include "acl/ops/acl_cblas.h"
#include "acl/ops/acl_dvpp.h"
#include "python.h"
#include "weak.h" /* generated: before the prototypes */
#include <stdbool.h>
#include <stdint.h>

typedef void (*binding_address)(void);

typedef struct {
  const char *name;        /* as "acl.rt.malloc" */
  binding_address address; /* of the C function, NULL where the library lacks it */
  PyMethodDef method;
} binding;

typedef struct {
  const char *name;
  uint64_t value;
  bool negative;    /* value is an int64_t */
  const char *text; /* for constants that are str, else NULL */
} constant;

/* Both end with an entry without a name. */
extern const binding generated_bindings[];
extern const constant generated_constants[];

/* The functions behind the lines of hand.def. */
#define BINDING(id, name, function, call) PyObject *bind_##id(PyObject *self, PyObject *args);
#define BINDING_OURS(id, name, call)      PyObject *bind_##id(PyObject *self, PyObject *args);
#include "hand.def"
#undef BINDING
#undef BINDING_OURS
