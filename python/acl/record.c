/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"
#include <string.h>

static bool is_reserved(const char *name) {
  return !strcmp(name, "rsv") || !strcmp(name, "reserve") || !strcmp(name, "reserved");
}

/* ---- from Python ------------------------------------------------------------------------------------------------- */

static void read_record(call *c, PyObject *dict, const char *where, const record *r, void *into);

static void read_element(call *c, PyObject *value, const char *where, const field *f, void *into) {
  switch (f->kind) {
  case FIELD_RECORD: read_record(c, value, where, f->inner, into); break;
  case FIELD_TEXT: {
    const char *text = value_text(c, value, where);
    if (text && strlen(text) >= f->bytes)
      call_fail(c, PyExc_ValueError, "%s(): %s has %zu bytes, expected at most %zu", c->function, where, strlen(text),
                f->bytes - 1);
    else if (text)
      memcpy(into, text, strlen(text) + 1);
    break;
  }
  case FIELD_FLOAT: {
    const double x = PyFloat_AsDouble(value);
    if (PyErr_Occurred())
      call_fail(c, PyExc_TypeError, "%s(): %s is %R, expected a float", c->function, where, value);
    else
      memcpy(into, &(float){(float)x}, sizeof(float));
    break;
  }
  case FIELD_SIGNED:
  case FIELD_UNSIGNED:
  case FIELD_POINTER: value_store(c, value, where, into, f->bytes, f->kind == FIELD_SIGNED); break;
  }
}

static void read_array(call *c, PyObject *value, const char *where, const field *f, char *into) {
  Py_ssize_t n = 0;
  PyObject *items = value_items(c, value, where, &n);
  if (items && (size_t)n > f->count)
    call_fail(c, PyExc_ValueError, "%s(): %s has %zd elements, expected at most %zu", c->function, where, n, f->count);
  for (Py_ssize_t k = 0; k < n && !c->failed; ++k) {
    const place inner = place_item(where, k);
    read_element(c, PyList_GetItem(items, k), inner.text, f, into + (size_t)k * f->bytes);
  }
  Py_XDECREF(items);
}

static void read_record(call *c, PyObject *dict, const char *where, const record *r, void *into) {
  if (c->failed) return;
  memset(into, 0, r->bytes);
  if (!PyDict_Check(dict)) {
    call_fail(c, PyExc_TypeError, "%s(): %s is %R, expected a dict with the fields of %s", c->function, where, dict,
              r->name);
    return;
  }
  Py_ssize_t known = 0;
  for (int k = 0; k < r->n_fields && !c->failed; ++k) {
    const field *f = &r->fields[k];
    PyObject *value = PyDict_GetItemString(dict, f->name); /* borrowed */
    const place inner = place_key(where, f->name);
    if (!value && is_reserved(f->name)) continue;
    if (!value) {
      call_fail(c, PyExc_ValueError, "%s(): %s is missing, a field of %s", c->function, inner.text, r->name);
      return;
    }
    ++known;
    if (f->count)
      read_array(c, value, inner.text, f, (char *)into + f->offset);
    else
      read_element(c, value, inner.text, f, (char *)into + f->offset);
  }
  if (!c->failed && known != PyDict_Size(dict))
    call_fail(c, PyExc_ValueError, "%s(): %s is %R, which has keys that are no fields of %s", c->function, where, dict,
              r->name);
}

void call_record(call *c, Py_ssize_t i, const char *name, const record *r, void *into) {
  PyObject *value = call_argument(c, i);
  if (value) read_record(c, value, name, r, into);
  Py_XDECREF(value);
}

void *call_records(call *c, Py_ssize_t i, const char *name, size_t *count, int first, const record *r) {
  PyObject *value = call_argument(c, i);
  Py_ssize_t n = 0;
  PyObject *items = value ? value_items(c, value, name, &n) : NULL;
  if (items && first) *count = (size_t)n;
  if (items && *count != (size_t)n)
    call_fail(c, PyExc_ValueError, "%s(): %s has %zd elements, expected %zu, as many as the list before it",
              c->function, name, n, *count);
  char *memory = call_memory(c, (size_t)n, r->bytes);
  for (Py_ssize_t k = 0; k < n && !c->failed; ++k) {
    const place where = place_item(name, k);
    read_record(c, PyList_GetItem(items, k), where.text, r, memory + (size_t)k * r->bytes);
  }
  Py_XDECREF(items);
  Py_XDECREF(value);
  return memory;
}

/* ---- to Python --------------------------------------------------------------------------------------------------- */

static PyObject *element_to_python(const field *f, const char *from) {
  uint64_t x = 0;
  if (f->kind != FIELD_RECORD && f->kind != FIELD_TEXT) memcpy(&x, from, f->bytes);
  switch (f->kind) {
  case FIELD_RECORD: return record_to_dict(f->inner, from);
  case FIELD_TEXT: return PyUnicode_DecodeUTF8(from, (Py_ssize_t)strnlen(from, f->bytes), "replace");
  case FIELD_FLOAT: {
    float number;
    memcpy(&number, from, sizeof number);
    return PyFloat_FromDouble((double)number);
  }
  case FIELD_SIGNED: {
    const int unused = 64 - 8 * (int)f->bytes;
    return PyLong_FromLongLong((int64_t)(x << unused) >> unused);
  }
  case FIELD_UNSIGNED:
  case FIELD_POINTER: break;
  }
  return PyLong_FromUnsignedLongLong(x);
}

static PyObject *array_to_python(const field *f, const char *from) {
  PyObject *list = PyList_New(0);
  for (size_t k = 0; list && k < f->count; ++k) {
    PyObject *item = element_to_python(f, from + k * f->bytes);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject *record_to_dict(const record *r, const void *from) {
  PyObject *dict = PyDict_New();
  for (int k = 0; dict && k < r->n_fields; ++k) {
    const field *f = &r->fields[k];
    if (is_reserved(f->name)) continue;
    const char *at = (const char *)from + f->offset;
    PyObject *value = f->count ? array_to_python(f, at) : element_to_python(f, at);
    if (!value || PyDict_SetItemString(dict, f->name, value)) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

PyObject *record_to_list(const record *r, const void *from, size_t n) {
  PyObject *list = PyList_New(0);
  for (size_t k = 0; list && k < n; ++k) {
    PyObject *item = record_to_dict(r, (const char *)from + k * r->bytes);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}
