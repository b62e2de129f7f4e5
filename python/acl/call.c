/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct call_block {
  call_block *next;
  max_align_t data[];
};

call call_begin(const char *function, PyObject *args, Py_ssize_t least, Py_ssize_t most, const char *names) {
  call c = {.function = function, .args = args};
  const Py_ssize_t n = PyTuple_Size(args);
  if (n < 0) {
    c.failed = true;
  } else if (n < least || n > most) {
    call_fail(&c, PyExc_TypeError, "%s() takes %s%zd argument%s (%s), got %zd", function,
              least == most ? "" : "at most ", most, most == 1 ? "" : "s", names, n);
  }
  return c;
}

static void free_blocks(call *c) {
  while (c->blocks) {
    call_block *b = c->blocks;
    c->blocks = b->next;
    PyMem_Free(b);
  }
}

PyObject *call_end(call *c, int n, ...) {
  PyObject *results[8];
  bool complete = !c->failed;
  va_list list;
  va_start(list, n);
  for (int i = 0; i < n; ++i) {
    results[i] = va_arg(list, PyObject *);
    complete = complete && results[i];
  }
  va_end(list);
  free_blocks(c);
  PyObject *whole = NULL;
  if (complete && n == 0) Py_RETURN_NONE;
  if (complete && n == 1) return results[0];
  if (complete) whole = PyTuple_New(n);
  for (int i = 0; i < n; ++i) {
    if (whole)
      PyTuple_SetItem(whole, i, results[i]);
    else
      Py_XDECREF(results[i]);
  }
  return whole;
}

void call_fail(call *c, PyObject *exception, const char *format, ...) {
  va_list list;
  va_start(list, format);
  PyErr_FormatV(exception, format, list);
  va_end(list);
  c->failed = true;
}

void *call_memory(call *c, size_t count, size_t bytes) {
  if (c->failed) return NULL;
  call_block *b = NULL;
  if (!bytes || count < (PY_SSIZE_T_MAX - sizeof(call_block)) / bytes)
    b = PyMem_Calloc(1, sizeof(call_block) + count * bytes);
  if (!b) {
    PyErr_NoMemory();
    c->failed = true;
    return NULL;
  }
  b->next = c->blocks;
  c->blocks = b;
  return b->data;
}

/* The name of a value's type for messages; the caller drops *holder when the text is no longer needed. */
static const char *type_name(PyObject *value, PyObject **holder) {
  PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
  *holder = name ? PyUnicode_AsUTF8String(name) : NULL;
  Py_XDECREF(name);
  if (*holder) return PyBytes_AsString(*holder);
  PyErr_Clear();
  return "another type";
}

void value_wrong_type(call *c, PyObject *value, const char *where, const char *expected) {
  PyObject *holder;
  const char *name = type_name(value, &holder);
  call_fail(c, PyExc_TypeError, "%s(): %s is %s, expected %s", c->function, where, name, expected);
  Py_XDECREF(holder);
}

place place_item(const char *outer, Py_ssize_t k) {
  place p;
  if (snprintf(p.text, sizeof(p.text), "%s[%zd]", outer, k) < 0) p.text[0] = 0;
  return p;
}

place place_key(const char *outer, const char *key) {
  place p;
  if (snprintf(p.text, sizeof(p.text), "%s['%s']", outer, key) < 0) p.text[0] = 0;
  return p;
}

/* ---- one value --------------------------------------------------------------------------------------------------- */

/* The value as int, a new reference; NULL if it has failed. */
static PyObject *value_index(call *c, PyObject *value, const char *where) {
  if (c->failed) return NULL;
  PyObject *index = PyNumber_Index(value);
  if (index) return index;
  if (PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    value_wrong_type(c, value, where, "int");
  }
  c->failed = true;
  return NULL;
}

int64_t value_signed(call *c, PyObject *value, const char *where, int64_t least, int64_t most) {
  PyObject *index = value_index(c, value, where);
  if (!index) return 0;
  int overflow;
  const long long x = PyLong_AsLongLongAndOverflow(index, &overflow);
  if (overflow || x < least || x > most)
    call_fail(c, PyExc_OverflowError, "%s(): %s is %S, expected %lld to %lld", c->function, where, index,
              (long long)least, (long long)most);
  Py_DECREF(index);
  return c->failed ? 0 : x;
}

uint64_t value_unsigned(call *c, PyObject *value, const char *where, uint64_t most) {
  PyObject *index = value_index(c, value, where);
  if (!index) return 0;
  const unsigned long long x = PyLong_AsUnsignedLongLong(index);
  const bool overflow = PyErr_Occurred() != NULL;
  if (overflow) PyErr_Clear();
  if (overflow || x > most)
    call_fail(c, PyExc_OverflowError, "%s(): %s is %S, expected 0 to %llu", c->function, where, index,
              (unsigned long long)most);
  Py_DECREF(index);
  return c->failed ? 0 : x;
}

void value_store(call *c, PyObject *value, const char *where, void *into, size_t bytes, bool is_signed) {
  const int bits = 8 * (int)bytes;
  if (is_signed) {
    const int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
    const int64_t x = value_signed(c, value, where, -most - 1, most);
    memcpy(into, &x, bytes); /* little-endian, as all of CANN's hosts */
  } else {
    const uint64_t x = value_unsigned(c, value, where, UINT64_MAX >> (64 - bits));
    memcpy(into, &x, bytes);
  }
}

static double value_float(call *c, PyObject *value, const char *where) {
  if (c->failed) return 0;
  const double x = PyFloat_AsDouble(value);
  if (x != -1 || !PyErr_Occurred()) return x;
  if (PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    value_wrong_type(c, value, where, "float");
  }
  c->failed = true;
  return 0;
}

char *value_text(call *c, PyObject *value, const char *where) {
  if (c->failed) return NULL;
  if (!PyUnicode_Check(value)) {
    value_wrong_type(c, value, where, "str");
    return NULL;
  }
  /* Keys of shared memory need not be UTF-8: result_text keeps their bytes in the same way. */
  PyObject *bytes = PyUnicode_AsEncodedString(value, "utf-8", "surrogateescape");
  char *data, *copy = NULL;
  Py_ssize_t n;
  if (!bytes || PyBytes_AsStringAndSize(bytes, &data, &n))
    c->failed = true;
  else if (memchr(data, 0, (size_t)n))
    call_fail(c, PyExc_ValueError, "%s(): %s has a null character", c->function, where);
  else if ((copy = call_memory(c, (size_t)n + 1, 1)))
    memcpy(copy, data, (size_t)n);
  Py_XDECREF(bytes);
  return copy;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Borrowed; NULL if the call has failed. A missing optional argument is None. */
static PyObject *argument(call *c, Py_ssize_t i) {
  if (c->failed) return NULL;
  return i < PyTuple_Size(c->args) ? PyTuple_GetItem(c->args, i) : Py_None;
}

PyObject *call_argument(call *c, Py_ssize_t i) {
  PyObject *value = argument(c, i);
  Py_XINCREF(value);
  return value;
}

PyObject *call_callable(call *c, Py_ssize_t i, const char *name) {
  PyObject *value = argument(c, i);
  if (value && !PyCallable_Check(value)) value_wrong_type(c, value, name, "a callable");
  return c->failed ? NULL : value;
}

PyObject *call_list(call *c, Py_ssize_t i, const char *name) {
  PyObject *value = argument(c, i);
  if (value && !PyList_Check(value) && !PyTuple_Check(value)) value_wrong_type(c, value, name, "a list");
  return c->failed ? NULL : value;
}

int64_t call_signed(call *c, Py_ssize_t i, const char *name, int64_t least, int64_t most) {
  PyObject *value = argument(c, i);
  return value ? value_signed(c, value, name, least, most) : 0;
}

uint64_t call_unsigned(call *c, Py_ssize_t i, const char *name, uint64_t most) {
  PyObject *value = argument(c, i);
  return value ? value_unsigned(c, value, name, most) : 0;
}

double call_float(call *c, Py_ssize_t i, const char *name) {
  PyObject *value = argument(c, i);
  return value ? value_float(c, value, name) : 0;
}

void *call_pointer(call *c, Py_ssize_t i, const char *name) {
  return (void *)(uintptr_t)call_unsigned(c, i, name, UINTPTR_MAX);
}

char *call_text(call *c, Py_ssize_t i, const char *name) {
  PyObject *value = argument(c, i);
  return value ? value_text(c, value, name) : NULL;
}

char *call_optional_text(call *c, Py_ssize_t i, const char *name) {
  PyObject *value = argument(c, i);
  return value && value != Py_None ? value_text(c, value, name) : NULL;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

PyObject *value_items(call *c, PyObject *value, const char *where, Py_ssize_t *n) {
  if (c->failed) return NULL;
  PyObject *items = NULL;
  if (!PyUnicode_Check(value) && PySequence_Check(value)) items = PySequence_List(value);
  if (!items) {
    PyErr_Clear();
    value_wrong_type(c, value, where, "a list");
    return NULL;
  }
  *n = PyList_Size(items);
  return items;
}

/* Calls store for each item of an argument, with memory for it. `first`: see call_integers. */
typedef void store_item(call *c, PyObject *item, const char *where, void *into, size_t bytes, bool is_signed);

static void *call_items(call *c, Py_ssize_t i, const char *name, size_t *count, int first, size_t bytes, bool is_signed,
                        store_item *store) {
  PyObject *value = argument(c, i);
  Py_ssize_t n = 0;
  PyObject *items = value ? value_items(c, value, name, &n) : NULL;
  if (!items) return NULL;
  char *memory = NULL;
  if (first) *count = (size_t)n;
  if (*count != (size_t)n)
    call_fail(c, PyExc_ValueError, "%s(): %s has %zd elements, expected %zu, as many as the list before it",
              c->function, name, n, *count);
  else if (n > INT_MAX)
    call_fail(c, PyExc_ValueError, "%s(): %s has %zd elements, expected at most %d", c->function, name, n, INT_MAX);
  else
    memory = call_memory(c, (size_t)n, bytes);
  for (Py_ssize_t k = 0; k < n && !c->failed; ++k) {
    const place where = place_item(name, k);
    store(c, PyList_GetItem(items, k), where.text, memory + (size_t)k * bytes, bytes, is_signed);
  }
  Py_DECREF(items);
  return memory;
}

void *call_integers(call *c, Py_ssize_t i, const char *name, size_t *count, int first, size_t bytes, int is_signed) {
  return call_items(c, i, name, count, first, bytes, is_signed, value_store);
}

void *call_pointers(call *c, Py_ssize_t i, const char *name, size_t *count, int first) {
  return call_items(c, i, name, count, first, sizeof(void *), false, value_store);
}

static void store_float(call *c, PyObject *item, const char *where, void *into, size_t bytes, bool is_signed) {
  (void)bytes, (void)is_signed;
  *(float *)into = (float)value_float(c, item, where);
}

float *call_floats(call *c, Py_ssize_t i, const char *name, size_t *count, int first) {
  return call_items(c, i, name, count, first, sizeof(float), false, store_float);
}

static void store_text(call *c, PyObject *item, const char *where, void *into, size_t bytes, bool is_signed) {
  (void)bytes, (void)is_signed;
  *(char **)into = value_text(c, item, where);
}

const char **call_texts(call *c, Py_ssize_t i, const char *name, size_t *count, int first) {
  return call_items(c, i, name, count, first, sizeof(char *), false, store_text);
}

static void store_pair(call *c, PyObject *item, const char *where, void *into, size_t bytes, bool is_signed) {
  (void)bytes, (void)is_signed;
  Py_ssize_t n = 0;
  PyObject *items = value_items(c, item, where, &n);
  if (items && n != 2) call_fail(c, PyExc_ValueError, "%s(): %s has %zd elements, expected 2", c->function, where, n);
  for (Py_ssize_t k = 0; k < 2 && !c->failed; ++k) {
    const place inner = place_item(where, k);
    ((int64_t *)into)[k] = value_signed(c, PyList_GetItem(items, k), inner.text, INT64_MIN, INT64_MAX);
  }
  Py_XDECREF(items);
}

int64_t (*call_pairs(call *c, Py_ssize_t i, const char *name, size_t *count, int first))[2] {
  return call_items(c, i, name, count, first, 2 * sizeof(int64_t), true, store_pair);
}

static void store_block(call *c, PyObject *item, const char *where, void *into, size_t bytes, bool is_signed) {
  (void)is_signed;
  const void *address = (const void *)(uintptr_t)value_unsigned(c, item, where, UINTPTR_MAX);
  if (c->failed) return;
  if (address)
    memcpy(into, address, bytes);
  else
    call_fail(c, PyExc_ValueError, "%s(): %s is 0, expected the address of a struct", c->function, where);
}

void *call_blocks(call *c, Py_ssize_t i, const char *name, size_t *count, int first, size_t bytes) {
  return call_items(c, i, name, count, first, bytes, false, store_block);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

PyObject *result_pointer(const void *pointer) { return PyLong_FromUnsignedLongLong((uintptr_t)pointer); }

PyObject *result_text(const char *text) {
  if (!text) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

PyObject *result_integers(const int64_t *values, size_t n) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < n; ++i) {
    PyObject *item = PyLong_FromLongLong(values[i]);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}
