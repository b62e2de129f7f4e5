/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of CANN's interface as dicts, by descriptions that scripts/gen_pyacl.py writes from abi/structs.tsv.
 *
 * A dict that is an argument must have a key for every field, but for reserved ones (rsv, reserve, reserved), which are
 * 0 where they are missing, and no other keys. A dict that is a result has no reserved fields. All functions need the
 * GIL. */
#pragma once
#include "call.h"

typedef enum { FIELD_SIGNED, FIELD_UNSIGNED, FIELD_POINTER, FIELD_FLOAT, FIELD_TEXT, FIELD_RECORD } field_kind;

typedef struct record record;

typedef struct {
  const char *name;
  field_kind kind;
  size_t offset, bytes; /* of one element */
  size_t count;         /* of elements if the field is an array, a list in Python; else 0 */
  const record *inner;  /* of FIELD_RECORD */
} field;

struct record {
  const char *name;
  size_t bytes;
  int n_fields;
  const field *fields;
};

/* Reads argument i, a dict, into a struct. */
void call_record(call *c, Py_ssize_t i, const char *name, const record *r, void *into);
/* The same for a list of dicts; see call_integers. */
void *call_records(call *c, Py_ssize_t i, const char *name, size_t *count, int first, const record *r);

/* New references; NULL with an exception set if there is not enough memory. */
PyObject *record_to_dict(const record *r, const void *from);
PyObject *record_to_list(const record *r, const void *from, size_t n);
