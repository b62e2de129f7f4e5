/* SPDX-License-Identifier: Apache-2.0 */
/* One call from Python: reads its arguments, and makes its result.
 *
 * Used by every binding, generated or not. A binding makes a call by CALL, reads all arguments, and tests `failed`
 * once: after the first argument of a wrong type or range the readers do nothing and give 0 or NULL, and the exception
 * names the function and the argument. call_end is the last thing that a binding does, on every path.
 *
 * Threads: a call belongs to one thread. All functions here need the GIL. */
#pragma once
#include "python.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct call_block call_block;

typedef struct {
  const char *function; /* its name in Python, as "acl.rt.malloc" */
  PyObject *args;       /* the tuple of arguments, borrowed */
  bool failed;          /* an exception is set */
  call_block *blocks;   /* memory that lasts as long as the call; owned */
} call;

/* A call with exactly N arguments, whose NAMES are for the message of a TypeError. */
#define CALL(function, args, n, names) call_begin(function, args, n, n, names)
call call_begin(const char *function, PyObject *args, Py_ssize_t least, Py_ssize_t most, const char *names);

/* Frees the memory of the call. Gives None if n is 0, the one result, or a tuple of n results (PyObject *, which it
 * takes over). Gives NULL if the call has failed or a result is NULL. */
PyObject *call_end(call *c, int n, ...);

/* Sets the exception. The format is that of PyErr_Format. */
void call_fail(call *c, PyObject *exception, const char *format, ...);

/* Integers: anything with __index__. OverflowError outside the bounds. */
int64_t call_signed(call *c, Py_ssize_t i, const char *name, int64_t least, int64_t most);
uint64_t call_unsigned(call *c, Py_ssize_t i, const char *name, uint64_t most);
double call_float(call *c, Py_ssize_t i, const char *name);
/* A pointer or an object of the library: int. */
void *call_pointer(call *c, Py_ssize_t i, const char *name);
/* A str as UTF-8, in memory of the call. ValueError if it has a NUL. */
char *call_text(call *c, Py_ssize_t i, const char *name);
/* The same, or None, which is NULL. */
char *call_optional_text(call *c, Py_ssize_t i, const char *name);
/* The argument itself, as a new reference; None for an optional one that is missing. */
PyObject *call_argument(call *c, Py_ssize_t i);
/* The same for a callable, and for a list or tuple, borrowed. */
PyObject *call_callable(call *c, Py_ssize_t i, const char *name);
PyObject *call_list(call *c, Py_ssize_t i, const char *name);

/* Sequences: a list, a tuple, a NumPy array, ... but no str. Arrays that share a count must have the same length:
 * `first` says whether this one sets *count. Elements are checked as above, and the exceptions name their index. */
void *call_integers(call *c, Py_ssize_t i, const char *name, size_t *count, int first, size_t bytes, int is_signed);
float *call_floats(call *c, Py_ssize_t i, const char *name, size_t *count, int first);
void *call_pointers(call *c, Py_ssize_t i, const char *name, size_t *count, int first);
const char **call_texts(call *c, Py_ssize_t i, const char *name, size_t *count, int first);
int64_t (*call_pairs(call *c, Py_ssize_t i, const char *name, size_t *count, int first))[2];
/* Structs that have no form as a dict: a list of their addresses, from which they are copied. */
void *call_blocks(call *c, Py_ssize_t i, const char *name, size_t *count, int first, size_t bytes);

/* Zeroed memory that lasts as long as the call. MemoryError if there is not enough. */
void *call_memory(call *c, size_t count, size_t bytes);

/* Sets a TypeError: "where is str, expected EXPECTED". */
void value_wrong_type(call *c, PyObject *value, const char *where, const char *expected);

/* The same for values that are not arguments themselves. `where` names the value in messages, as "dims[2]". */
int64_t value_signed(call *c, PyObject *value, const char *where, int64_t least, int64_t most);
uint64_t value_unsigned(call *c, PyObject *value, const char *where, uint64_t most);
char *value_text(call *c, PyObject *value, const char *where);
/* Stores an integer of 1, 2, 4 or 8 bytes. */
void value_store(call *c, PyObject *value, const char *where, void *into, size_t bytes, bool is_signed);
/* The items of a sequence, as a new tuple or list, for PySequence_GetItem; NULL if it has failed. */
PyObject *value_items(call *c, PyObject *value, const char *where, Py_ssize_t *n);

/* What names a value in messages: "outer[k]" and "outer['key']", cut off where there is no room. */
enum { WHERE_BYTES = 160 };
typedef struct {
  char text[WHERE_BYTES];
} place;
place place_item(const char *outer, Py_ssize_t k);
place place_key(const char *outer, const char *key);

/* Results, as new references. */
PyObject *result_pointer(const void *pointer);
PyObject *result_text(const char *text); /* None for NULL */
/* A list of n int64_t. */
PyObject *result_integers(const int64_t *values, size_t n);
