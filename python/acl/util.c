/* SPDX-License-Identifier: Apache-2.0 */
/* acl.util: addresses of Python's memory and back, and threads. NumPy is reached through Python: the module neither
 * needs it to be installed nor depends on its version. */
#include "bindings.h"
#include "call.h"

PyObject *bind_util_bytes_to_ptr(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.bytes_to_ptr", args, 1, "data");
  PyObject *data = call_argument(&c, 0);
  const char *address = NULL;
  if (data && PyBytes_Check(data))
    address = PyBytes_AsString(data);
  else if (data && PyByteArray_Check(data))
    address = PyByteArray_AsString(data);
  else if (data)
    value_wrong_type(&c, data, "data", "bytes");
  Py_XDECREF(data);
  return c.failed ? call_end(&c, 0) : call_end(&c, 1, result_pointer(address));
}

PyObject *bind_util_ptr_to_bytes(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.ptr_to_bytes", args, 2, "ptr, size");
  const char *address = call_pointer(&c, 0, "ptr");
  const Py_ssize_t size = (Py_ssize_t)call_unsigned(&c, 1, "size", PY_SSIZE_T_MAX);
  if (!c.failed && !address && size) call_fail(&c, PyExc_ValueError, "%s(): ptr is 0", c.function);
  if (c.failed) return call_end(&c, 0);
  return call_end(&c, 1, PyBytes_FromStringAndSize(size ? address : "", size));
}

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */

/* The address of an array's first element, by the protocol that NumPy's arrays have; *contiguous: whether its elements
 * follow each other in C's order. */
static const void *array_address(call *c, PyObject *array, const char *name, bool *contiguous) {
  if (c->failed) return NULL;
  const void *address = NULL;
  PyObject *interface = PyObject_GetAttrString(array, "__array_interface__");
  PyObject *data = interface && PyDict_Check(interface) ? PyDict_GetItemString(interface, "data") : NULL; /* borrowed */
  if (!data || !PyTuple_Check(data) || PyTuple_Size(data) < 1) {
    PyErr_Clear();
    value_wrong_type(c, array, name, "numpy.ndarray");
  } else {
    PyObject *strides = PyDict_GetItemString(interface, "strides"); /* borrowed */
    *contiguous = !strides || strides == Py_None;
    address = (const void *)(uintptr_t)value_unsigned(c, PyTuple_GetItem(data, 0), name, UINTPTR_MAX);
  }
  Py_XDECREF(interface);
  return address;
}

PyObject *bind_util_numpy_to_ptr(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.numpy_to_ptr", args, 1, "data");
  PyObject *data = call_argument(&c, 0);
  bool contiguous = true;
  const void *address = data ? array_address(&c, data, "data", &contiguous) : NULL;
  Py_XDECREF(data);
  if (c.failed) return call_end(&c, 0);
  if (!contiguous) /* as CANN's page has it */
    PySys_WriteStdout(
        "Warning:The input ndarray is discontiguous. Please use acl.util.numpy_contiguous_to_ptr instead.\n");
  return call_end(&c, 1, result_pointer(address));
}

PyObject *bind_util_numpy_contiguous_to_ptr(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.numpy_contiguous_to_ptr", args, 1, "data_in");
  PyObject *data = call_argument(&c, 0), *out = NULL;
  bool contiguous = true;
  const void *address = data ? array_address(&c, data, "data_in", &contiguous) : NULL;
  if (!c.failed && contiguous) {
    Py_INCREF(data);
    out = data;
  } else if (!c.failed) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    out = numpy ? PyObject_CallMethod(numpy, "ascontiguousarray", "O", data) : NULL;
    Py_XDECREF(numpy);
    address = out ? array_address(&c, out, "data_in", &contiguous) : NULL;
  }
  Py_XDECREF(data);
  if (c.failed) {
    Py_XDECREF(out);
    return call_end(&c, 0);
  }
  return call_end(&c, 2, result_pointer(address), out);
}

/* NumPy's numbers of types (NPY_BOOL, ...) as the strings of the array protocol. */
static const char *const numpy_types[] = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8",
                                          "<u8", "<i8", "<u8", "<f4", "<f8", NULL,  "<c8", "<c16",
                                          NULL,  NULL,  NULL,  NULL,  NULL,  "<M8", "<m8", "<f2"};
enum { N_NUMPY_TYPES = sizeof(numpy_types) / sizeof(numpy_types[0]) };

/* An array over memory that it does not own: NumPy makes it from an object with the array protocol. */
static PyObject *array_over(const void *address, PyObject *shape, const char *type) {
  PyObject *interface = Py_BuildValue("{s:i,s:O,s:s,s:(NO)}", "version", 3, "shape", shape, "typestr", type, "data",
                                      result_pointer(address), Py_False);
  PyObject *types = interface ? PyImport_ImportModule("types") : NULL;
  PyObject *holder = types ? PyObject_CallMethod(types, "SimpleNamespace", NULL) : NULL;
  PyObject *numpy = NULL, *array = NULL;
  if (holder && !PyObject_SetAttrString(holder, "__array_interface__", interface))
    numpy = PyImport_ImportModule("numpy");
  if (numpy) array = PyObject_CallMethod(numpy, "asarray", "O", holder);
  Py_XDECREF(numpy);
  Py_XDECREF(holder);
  Py_XDECREF(types);
  Py_XDECREF(interface);
  return array;
}

PyObject *bind_util_ptr_to_numpy(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.ptr_to_numpy", args, 3, "ptr, shape, type");
  const void *address = call_pointer(&c, 0, "ptr");
  PyObject *list = call_list(&c, 1, "shape"), *shape = NULL;
  size_t n_dims = 0;
  const int64_t *dims = call_integers(&c, 1, "shape", &n_dims, 1, sizeof(int64_t), 1);
  const int32_t type = (int32_t)call_signed(&c, 2, "type", INT32_MIN, INT32_MAX);
  bool empty = false;
  for (size_t i = 0; i < n_dims && !c.failed; ++i) {
    if (dims[i] < 0) call_fail(&c, PyExc_ValueError, "%s(): shape[%zu] is %lld", c.function, i, (long long)dims[i]);
    empty = empty || dims[i] == 0;
  }
  if (!c.failed && (type < 0 || type >= N_NUMPY_TYPES || !numpy_types[type]))
    call_fail(&c, PyExc_ValueError,
              "%s(): type is %d, expected one of NumPy's numbers of types (NPY_BOOL 0, ..., "
              "NPY_FLOAT16 23) of fixed size",
              c.function, (int)type);
  if (!c.failed && !address && !empty) call_fail(&c, PyExc_ValueError, "%s(): ptr is 0", c.function);
  if (c.failed || !(shape = PySequence_Tuple(list))) return call_end(&c, 1, NULL);
  static char nothing[16]; /* NumPy takes no array at 0, not even an empty one */
  PyObject *array = array_over(address ? address : nothing, shape, numpy_types[type]);
  Py_DECREF(shape);
  return call_end(&c, 1, array);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* {identifier: threading.Thread} of the threads that were started and not yet stopped. The identifier is pthread_self()
 * of the thread, which acl.rt.subscribe_report takes. Guarded by the GIL. */
static PyObject *threads;

PyObject *bind_util_start_thread(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.start_thread", args, 2, "thr_func, args_list");
  PyObject *function = call_callable(&c, 0, "thr_func"), *list = call_list(&c, 1, "args_list");
  if (c.failed || (!threads && !(threads = PyDict_New()))) return call_end(&c, 1, NULL);
  PyObject *threading = PyImport_ImportModule("threading"), *thread = NULL, *started = NULL, *identifier = NULL;
  if (threading) thread = PyObject_CallMethod(threading, "Thread", "OOO(O)", Py_None, function, Py_None, list);
  /* A thread that the program forgets to stop does not keep it from ending. */
  if (thread && !PyObject_SetAttrString(thread, "daemon", Py_True))
    started = PyObject_CallMethod(thread, "start", NULL);
  if (started) identifier = PyObject_GetAttrString(thread, "ident");
  if (identifier && PyDict_SetItem(threads, identifier, thread)) Py_CLEAR(identifier);
  Py_XDECREF(started);
  Py_XDECREF(thread);
  Py_XDECREF(threading);
  return call_end(&c, 2, identifier, PyLong_FromLong(ACL_SUCCESS));
}

PyObject *bind_util_stop_thread(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.util.stop_thread", args, 1, "thr_id");
  const uint64_t identifier = call_unsigned(&c, 0, "thr_id", UINT64_MAX);
  PyObject *key = c.failed ? NULL : PyLong_FromUnsignedLongLong(identifier);
  if (!key) return call_end(&c, 1, NULL);
  PyObject *thread = threads ? PyDict_GetItemWithError(threads, key) : NULL, *joined = NULL;
  long ret = ACL_ERROR_INVALID_PARAM;
  if (thread) {
    Py_INCREF(thread);
    ret = ACL_SUCCESS;
    joined = PyObject_CallMethod(thread, "join", NULL);
    if (joined && PyDict_GetItemWithError(threads, key) == thread) PyDict_DelItem(threads, key);
    Py_DECREF(thread);
  }
  Py_DECREF(key);
  if (PyErr_Occurred()) return call_end(&c, 1, NULL);
  Py_XDECREF(joined);
  return call_end(&c, 1, PyLong_FromLong(ret));
}
