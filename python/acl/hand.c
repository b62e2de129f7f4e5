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

/* ---- dims of models: lists as long as there are dimensions, not the 128 of the struct ---------------------------- */

/* A list of n pairs. */
static PyObject *pairs(const int64_t (*from)[2], size_t n) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < n; ++i) {
    PyObject *item = result_integers(from[i], 2);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

/* Dims as a dict. */
static PyObject *dims_dict(const aclmdlIODims *dims) {
  PyObject *list = result_integers(dims->dims, dims->dimCount);
  return list ? Py_BuildValue("{s:s,s:n,s:N}", "name", dims->name, "dimCount", (Py_ssize_t)dims->dimCount, "dims", list)
              : NULL;
}

typedef aclError dims_function(const aclmdlDesc *, size_t, aclmdlIODims *);

static PyObject *model_dims(PyObject *args, const char *name, dims_function *function) {
  call c = CALL(name, args, 2, "model_desc, index");
  const aclmdlDesc *desc = call_pointer(&c, 0, "model_desc");
  const size_t index = (size_t)call_signed(&c, 1, "index", 0, INT64_MAX);
  if (c.failed) return call_end(&c, 0);
  static _Thread_local aclmdlIODims dims;
  memset(&dims, 0, sizeof dims);
  const aclError ret = function(desc, index, &dims);
  return call_end(&c, 2, dims_dict(&dims), PyLong_FromLong(ret));
}

PyObject *bind_mdl_get_input_dims(PyObject *self, PyObject *args) {
  (void)self;
  return model_dims(args, "acl.mdl.get_input_dims", aclmdlGetInputDims);
}

PyObject *bind_mdl_get_input_dims_v2(PyObject *self, PyObject *args) {
  (void)self;
  return model_dims(args, "acl.mdl.get_input_dims_v2", aclmdlGetInputDimsV2);
}

PyObject *bind_mdl_get_output_dims(PyObject *self, PyObject *args) {
  (void)self;
  return model_dims(args, "acl.mdl.get_output_dims", aclmdlGetOutputDims);
}

PyObject *bind_mdl_get_cur_output_dims(PyObject *self, PyObject *args) {
  (void)self;
  return model_dims(args, "acl.mdl.get_cur_output_dims", aclmdlGetCurOutputDims);
}

PyObject *bind_mdl_get_input_dims_range(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.get_input_dims_range", args, 2, "model_desc, index");
  const aclmdlDesc *desc = call_pointer(&c, 0, "model_desc");
  const size_t index = (size_t)call_signed(&c, 1, "index", 0, INT64_MAX);
  if (c.failed) return call_end(&c, 0);
  aclmdlIODimsRange range = {0};
  const aclError ret = aclmdlGetInputDimsRange(desc, index, &range);
  PyObject *list = pairs((const int64_t(*)[2])range.range, range.rangeCount);
  PyObject *dict = list ? Py_BuildValue("{s:n,s:N}", "rangeCount", (Py_ssize_t)range.rangeCount, "range", list) : NULL;
  return call_end(&c, 2, dict, PyLong_FromLong(ret));
}

PyObject *bind_mdl_get_dynamic_batch(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.get_dynamic_batch", args, 1, "model_desc");
  const aclmdlDesc *desc = call_pointer(&c, 0, "model_desc");
  if (c.failed) return call_end(&c, 0);
  aclmdlBatch batch = {0};
  const aclError ret = aclmdlGetDynamicBatch(desc, &batch);
  PyObject *list = result_integers((const int64_t *)batch.batch, batch.batchCount);
  PyObject *dict = list ? Py_BuildValue("{s:n,s:N}", "batchCount", (Py_ssize_t)batch.batchCount, "batch", list) : NULL;
  return call_end(&c, 2, dict, PyLong_FromLong(ret));
}

PyObject *bind_mdl_get_dynamic_hw(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.get_dynamic_hw", args, 2, "model_desc, index");
  const aclmdlDesc *desc = call_pointer(&c, 0, "model_desc");
  const size_t index = (size_t)call_signed(&c, 1, "index", -1, INT64_MAX);
  if (c.failed) return call_end(&c, 0);
  aclmdlHW hw = {0};
  const aclError ret = aclmdlGetDynamicHW(desc, index, &hw);
  PyObject *list = pairs((const int64_t(*)[2])hw.hw, hw.hwCount);
  PyObject *dict = list ? Py_BuildValue("{s:n,s:N}", "hwCount", (Py_ssize_t)hw.hwCount, "hw", list) : NULL;
  return call_end(&c, 2, dict, PyLong_FromLong(ret));
}

PyObject *bind_mdl_get_input_dynamic_gear_count(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.get_input_dynamic_gear_count", args, 2, "model_desc, index");
  const aclmdlDesc *desc = call_pointer(&c, 0, "model_desc");
  const size_t index = (size_t)call_signed(&c, 1, "index", -1, INT64_MAX);
  if (c.failed) return call_end(&c, 0);
  size_t n = 0;
  const aclError ret = aclmdlGetInputDynamicGearCount(desc, index, &n);
  return call_end(&c, 2, PyLong_FromSize_t(n), PyLong_FromLong(ret));
}

PyObject *bind_mdl_get_input_dynamic_dims(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.get_input_dynamic_dims", args, 3, "model_desc, index, gear_count");
  const aclmdlDesc *desc = call_pointer(&c, 0, "model_desc");
  const size_t index = (size_t)call_signed(&c, 1, "index", -1, INT64_MAX);
  const size_t n = (size_t)call_signed(&c, 2, "gear_count", 0, ACL_MAX_SHAPE_COUNT);
  aclmdlIODims *dims = call_memory(&c, n, sizeof *dims);
  if (c.failed) return call_end(&c, 0);
  const aclError ret = aclmdlGetInputDynamicDims(desc, index, dims, n);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && ret == ACL_SUCCESS && i < n; ++i) {
    PyObject *item = dims_dict(&dims[i]);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return call_end(&c, 2, list, PyLong_FromLong(ret));
}

PyObject *bind_mdl_set_input_dynamic_dims(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.set_input_dynamic_dims", args, 4, "model_id, dataset_in, index, dims");
  const uint32_t id = (uint32_t)call_unsigned(&c, 0, "model_id", UINT32_MAX);
  aclmdlDataset *dataset = call_pointer(&c, 1, "dataset_in");
  const size_t index = (size_t)call_unsigned(&c, 2, "index", SIZE_MAX);
  PyObject *dict = call_argument(&c, 3);
  PyObject *list = dict && PyDict_Check(dict) ? PyDict_GetItemString(dict, "dims") : NULL; /* borrowed */
  aclmdlIODims dims = {0};
  Py_ssize_t n = 0;
  if (dict && !list) call_fail(&c, PyExc_TypeError, "%s(): dims must be a dict with a list 'dims'", c.function);
  PyObject *items = list ? value_items(&c, list, "dims['dims']", &n) : NULL;
  if (items && n > ACL_MAX_DIM_CNT) call_fail(&c, PyExc_ValueError, "%s(): dims has %zd elements", c.function, n);
  for (Py_ssize_t i = 0; items && !c.failed && i < n; ++i)
    dims.dims[i] = value_signed(&c, PyList_GetItem(items, i), place_item("dims['dims']", i).text, INT64_MIN, INT64_MAX);
  dims.dimCount = (size_t)n;
  Py_XDECREF(items);
  Py_XDECREF(dict);
  if (c.failed) return call_end(&c, 0);
  return call_end(&c, 1, PyLong_FromLong(aclmdlSetInputDynamicDims(id, dataset, index, &dims)));
}

/* ---- attributes of models: Python's value has the type that the attribute has ----------------------------------- */

/* Reads argument i as an attribute: a text, an int32, or 8 bytes (a size or a pointer). Returns its bytes; *from: where
 * the value is, in one of the other arguments. */
static size_t attribute_value(call *c, Py_ssize_t i, int is_text, int is_int32, const char **text, int32_t *number,
                              uint64_t *wide, const void **from) {
  if (is_text) {
    *text = call_text(c, i, "attr_value");
    *from = text;
    return sizeof *text;
  }
  if (is_int32) {
    *number = (int32_t)call_signed(c, i, "attr_value", INT32_MIN, INT32_MAX);
    *from = number;
    return sizeof *number;
  }
  *wide = call_unsigned(c, i, "attr_value", UINT64_MAX);
  *from = wide;
  return sizeof *wide;
}

PyObject *bind_mdl_set_config_opt(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.set_config_opt", args, 3, "config_handle, attr, attr_value");
  aclmdlConfigHandle *handle = call_pointer(&c, 0, "config_handle");
  const int attr = (int)call_signed(&c, 1, "attr", INT32_MIN, INT32_MAX);
  const char *text;
  int32_t number;
  uint64_t wide;
  const void *from;
  const int is_text = attr == ACL_MDL_PATH_PTR || attr == ACL_MDL_WEIGHT_PATH_PTR;
  const size_t bytes = attribute_value(&c, 2, is_text, attr == ACL_MDL_PRIORITY_INT32, &text, &number, &wide, &from);
  if (c.failed) return call_end(&c, 0);
  return call_end(&c, 1, PyLong_FromLong(aclmdlSetConfigOpt(handle, (aclmdlConfigAttr)attr, from, bytes)));
}

PyObject *bind_mdl_set_exec_config_opt(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.mdl.set_exec_config_opt", args, 3, "handle, attr, attr_value");
  aclmdlExecConfigHandle *handle = call_pointer(&c, 0, "handle");
  const int attr = (int)call_signed(&c, 1, "attr", INT32_MIN, INT32_MAX);
  const char *text;
  int32_t number;
  uint64_t wide;
  const void *from;
  const size_t bytes = attribute_value(&c, 2, 0, attr <= ACL_MDL_EVENT_SYNC_TIMEOUT, &text, &number, &wide, &from);
  if (c.failed) return call_end(&c, 0);
  return call_end(&c, 1, PyLong_FromLong(aclmdlSetExecConfigOpt(handle, (aclmdlExecConfigAttr)attr, from, bytes)));
}
