/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the module `acl` and its submodules from the tables of bindings and constants. */
#include "bindings.h"
#include "callback.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BINDING(id, name, function, call)                                                                              \
  {name, (binding_address)&function, {#id, bind_##id, METH_VARARGS, call "\nC: " #function}},
#define BINDING_OURS(id, name, call) {name, always_there, {#id, bind_##id, METH_VARARGS, call}},
static void always_there(void) {}

static const binding hand_bindings[] = {
#include "hand.def"
    {NULL, NULL, {NULL, NULL, 0, NULL}},
};

/* The method of a binding, with the last part of its name. It is never freed, as functions made of it may live on. */
static PyMethodDef *keep_method(const binding *b) {
  PyMethodDef *m = PyMem_Malloc(sizeof(*m));
  if (!m) {
    PyErr_NoMemory();
    return NULL;
  }
  *m = b->method;
  m->ml_name = strrchr(b->name, '.') + 1;
  return m;
}

/* The module of a binding: acl itself, or the submodule that the middle of its name says. That is made when it is first
 * needed, and can be imported by its name. A borrowed reference; NULL with an exception set. */
static PyObject *module_of(PyObject *acl, const binding *b) {
  const char *end = strrchr(b->name, '.');
  if (end == strchr(b->name, '.')) return acl;
  char name[16]; /* the longest are acl.media and the like */
  if (snprintf(name, sizeof(name), "%.*s", (int)(end - b->name), b->name) < 0) return NULL;
  PyObject *module = PyImport_AddModule(name); /* borrowed: sys.modules has it */
  if (!module) return NULL;
  Py_INCREF(module); /* for PyModule_AddObject, which takes it over unless it fails */
  if (!PyModule_AddObject(acl, strchr(name, '.') + 1, module)) return module;
  Py_DECREF(module);
  return NULL;
}

static bool add_bindings(PyObject *acl, const binding *table) {
  for (const binding *b = table; b->name; ++b) {
    if (!b->address) continue;
    PyObject *module = module_of(acl, b);
    PyMethodDef *method = module ? keep_method(b) : NULL;
    PyObject *name = method ? PyModule_GetNameObject(module) : NULL;
    PyObject *function = name ? PyCFunction_NewEx(method, NULL, name) : NULL;
    Py_XDECREF(name);
    if (!function || PyModule_AddObject(module, method->ml_name, function)) {
      Py_XDECREF(function);
      return false;
    }
  }
  return true;
}

static bool add_constants(PyObject *acl) {
  for (const constant *k = generated_constants; k->name; ++k) {
    PyObject *value = k->text       ? PyUnicode_FromString(k->text)
                      : k->negative ? PyLong_FromLongLong((int64_t)k->value)
                                    : PyLong_FromUnsignedLongLong(k->value);
    if (!value || PyModule_AddObject(acl, k->name, value)) {
      Py_XDECREF(value);
      return false;
    }
  }
  return true;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "acl",
    .m_doc =
        "pyACL: CANN's interface (AscendCL) for Python.\n\n"
        "Objects and pointers are int. A function gives its values and then the error code, which is 0 for success.",
    .m_size = -1, /* one library in the process, so one module */
};

PyMODINIT_FUNC PyInit_acl(void) {
  PyObject *acl = PyModule_Create(&definition);
  if (!acl) return NULL;
  if (add_bindings(acl, generated_bindings) && add_bindings(acl, hand_bindings) && add_constants(acl) &&
      callback_at_exit())
    return acl;
  Py_DECREF(acl);
  return NULL;
}
