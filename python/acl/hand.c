/* SPDX-License-Identifier: Apache-2.0 */
/* Bindings of C functions that no rule of scripts/gen_pyacl.py fits, and that call no Python function. */
#include "bindings.h"
#include "call.h"
#include <limits.h>

PyObject *bind_init(PyObject *self, PyObject *args) {
  (void)self;
  call c = call_begin("acl.init", args, 0, 1, "config_path");
  const char *path = call_optional_text(&c, 0, "config_path");
  if (c.failed) return call_end(&c, 0);
  aclError ret;
  WITHOUT_GIL(ret = aclInit(path && *path ? path : NULL)); /* samples pass "" where they have no file */
  return call_end(&c, 1, PyLong_FromLong(ret));
}

PyObject *bind_app_log(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.app_log", args, 2, "log_level, message");
  const int32_t level = (int32_t)call_signed(&c, 0, "log_level", INT32_MIN, INT32_MAX);
  const char *message = call_text(&c, 1, "message");
  if (c.failed) return call_end(&c, 0);
  WITHOUT_GIL(aclAppLog((aclLogLevel)level, "acl.app_log", "python", 0, "%s", message));
  return call_end(&c, 0);
}

PyObject *bind_get_cann_attribute_list(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.get_cann_attribute_list", args, 0, "");
  if (c.failed) return call_end(&c, 0);
  const aclCannAttr *attributes = NULL;
  size_t n = 0;
  const aclError ret = aclGetCannAttributeList(&attributes, &n);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && attributes && i < n; ++i) {
    PyObject *item = PyLong_FromLong((long)attributes[i]);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return call_end(&c, 3, list, PyLong_FromSize_t(n), PyLong_FromLong(ret));
}

PyObject *bind_op_set_attr_list_list_int(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.op.set_attr_list_list_int", args, 3, "attr, attr_name, values");
  aclopAttr *attr = call_pointer(&c, 0, "attr");
  const char *name = call_text(&c, 1, "attr_name");
  PyObject *values = call_argument(&c, 2);
  Py_ssize_t n = 0;
  PyObject *lists = values ? value_items(&c, values, "values", &n) : NULL;
  Py_XDECREF(values);
  if (lists && n > INT_MAX) call_fail(&c, PyExc_ValueError, "%s(): values has %zd lists", c.function, n);
  int *counts = call_memory(&c, (size_t)n, sizeof(*counts));
  const int64_t **rows = call_memory(&c, (size_t)n, sizeof(*rows));
  for (Py_ssize_t i = 0; i < n && !c.failed; ++i) {
    const place where = place_item("values", i);
    Py_ssize_t length = 0;
    PyObject *items = value_items(&c, PyList_GetItem(lists, i), where.text, &length);
    int64_t *row = call_memory(&c, (size_t)length, sizeof(*row));
    for (Py_ssize_t k = 0; k < length && !c.failed; ++k) {
      const place inner = place_item(where.text, k);
      row[k] = value_signed(&c, PyList_GetItem(items, k), inner.text, INT64_MIN, INT64_MAX);
    }
    Py_XDECREF(items);
    if (c.failed) break;
    counts[i] = (int)length;
    rows[i] = row;
  }
  Py_XDECREF(lists);
  if (c.failed) return call_end(&c, 0);
  return call_end(&c, 1, PyLong_FromLong(aclopSetAttrListListInt(attr, name, (int)n, counts, rows)));
}
