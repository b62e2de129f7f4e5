/* SPDX-License-Identifier: Apache-2.0 */
/* Python's C interface, limited to what every version from 3.9 on has, so that one binary serves them all. */
#pragma once
#ifndef Py_LIMITED_API
#  define Py_LIMITED_API 0x03090000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* A call of the library that may block or wait for one of its locks: other Python threads go on meanwhile. */
#define WITHOUT_GIL(call)                                                                                              \
  do {                                                                                                                 \
    Py_BEGIN_ALLOW_THREADS;                                                                                            \
    call;                                                                                                              \
    Py_END_ALLOW_THREADS;                                                                                              \
  } while (0)
