/* SPDX-License-Identifier: Apache-2.0 */
#include "callback.h"
#include "bindings.h"
#include "call.h"
#include <stdatomic.h>
#include <time.h>

/* How long the end of the interpreter waits for callbacks that are running. One that still runs then is treated as
 * Python treats a daemon thread: it stops where it next needs the interpreter. */
enum { EXIT_WAIT_MS = 2000 };

static atomic_bool ended;   /* the interpreter ends: no new callback enters it */
static atomic_uint running; /* callbacks that are in the interpreter or about to enter it */

/* A callback that was given to the library. It owns both references, and is freed by the thread that runs it. */
typedef struct {
  PyObject *function, *argument;
} callback;

static callback *callback_new(PyObject *function, PyObject *argument) {
  callback *b = PyMem_Malloc(sizeof(*b));
  if (!b) {
    PyErr_NoMemory();
    return NULL;
  }
  Py_INCREF(function);
  Py_INCREF(argument);
  *b = (callback){function, argument};
  return b;
}

static void callback_free(callback *b) {
  Py_DECREF(b->function);
  Py_DECREF(b->argument);
  PyMem_Free(b);
}

/* What the library calls, on any thread, without the GIL. */
static void callback_run(void *argument) {
  callback *b = argument;
  /* Either this thread sees that the interpreter ends, or the one that ends it sees that this one runs. */
  atomic_fetch_add(&running, 1);
  if (!atomic_load(&ended)) {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunctionObjArgs(b->function, b->argument, NULL);
    if (!result) PyErr_WriteUnraisable(b->function);
    Py_XDECREF(result);
    callback_free(b);
    PyGILState_Release(state);
  }
  atomic_fetch_sub(&running, 1);
}

PyObject *bind_rt_launch_callback(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.rt.launch_callback", args, 4, "fn, user_data_list, block_type, stream");
  PyObject *function = call_callable(&c, 0, "fn");
  PyObject *list = call_list(&c, 1, "user_data_list");
  const int32_t block_type = (int32_t)call_signed(&c, 2, "block_type", INT32_MIN, INT32_MAX);
  aclrtStream stream = call_pointer(&c, 3, "stream");
  callback *b = c.failed ? NULL : callback_new(function, list);
  if (!b) return call_end(&c, 1, NULL);
  aclError ret;
  WITHOUT_GIL(ret = aclrtLaunchCallback(callback_run, b, (aclrtCallbackBlockType)block_type, stream));
  if (ret) callback_free(b);
  return call_end(&c, 1, PyLong_FromLong(ret));
}

PyObject *bind_rt_launch_host_func(PyObject *self, PyObject *args) {
  (void)self;
  call c = CALL("acl.rt.launch_host_func", args, 3, "stream, fn, args");
  aclrtStream stream = call_pointer(&c, 0, "stream");
  PyObject *function = call_callable(&c, 1, "fn");
  PyObject *argument = call_argument(&c, 2);
  callback *b = c.failed ? NULL : callback_new(function, argument);
  Py_XDECREF(argument);
  if (!b) return call_end(&c, 1, NULL);
  aclError ret;
  WITHOUT_GIL(ret = aclrtLaunchHostFunc(stream, callback_run, b));
  if (ret) callback_free(b);
  return call_end(&c, 1, PyLong_FromLong(ret));
}

/* ---- the end of the interpreter ---------------------------------------------------------------------------------- */

static void await_callbacks(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int waited_ms = 0; atomic_load(&running) && waited_ms < EXIT_WAIT_MS; ++waited_ms) nanosleep(&pause, NULL);
}

static PyObject *at_exit(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  atomic_store(&ended, true);
  WITHOUT_GIL(await_callbacks());
  Py_RETURN_NONE;
}

bool callback_at_exit(void) {
  static PyMethodDef method = {"acl_at_exit", at_exit, METH_NOARGS, NULL};
  PyObject *atexit = PyImport_ImportModule("atexit");
  PyObject *function = atexit ? PyCFunction_NewEx(&method, NULL, NULL) : NULL;
  PyObject *result = function ? PyObject_CallMethod(atexit, "register", "O", function) : NULL;
  const bool done = result != NULL;
  Py_XDECREF(result);
  Py_XDECREF(function);
  Py_XDECREF(atexit);
  return done;
}
