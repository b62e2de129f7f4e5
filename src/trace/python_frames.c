/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/python_frames.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CPython's public interface ---------------------------------------------------------------------------------- */

typedef struct object_of_python PyObject;

#define FOR_EACH_FUNCTION(X)                                                                                           \
  X(int, Py_IsInitialized, (void))                                                                                     \
  X(const char *, Py_GetVersion, (void))                                                                               \
  X(int, Py_AddPendingCall, (int (*function)(void *), void *argument))                                                 \
  X(int, PyGILState_Check, (void))                                                                                     \
  X(char *, PyGILState_GetThisThreadState, (void))                                                                     \
  X(PyObject *, PyEval_GetFrame, (void))                                                                               \
  X(PyObject *, PyFrame_GetBack, (PyObject * frame))                                                                   \
  X(PyObject *, PyFrame_GetCode, (PyObject * frame))                                                                   \
  X(int, PyFrame_GetLineNumber, (PyObject * frame))                                                                    \
  X(int, PyCode_Addr2Line, (PyObject * code, int at))                                                                  \
  X(PyObject *, PyObject_GetAttrString, (PyObject * object, const char *name))                                         \
  X(const char *, PyUnicode_AsUTF8, (PyObject * text))                                                                 \
  X(void, PyErr_Clear, (void))                                                                                         \
  X(void, Py_IncRef, (PyObject * object))                                                                              \
  X(void, Py_DecRef, (PyObject * object))

#define DECLARE(result, name, arguments) result(*name) arguments;
static struct {
  int (*PyFrame_GetLasti)(PyObject *frame); /* NULL before Python 3.11 */
  void *PyCode_Type;
  FOR_EACH_FUNCTION(DECLARE)
} py;

static bool python_look_up(void) {
#define FIND(result, name, arguments)                                                                                  \
  if (!(*(void **)(void *)&py.name = dlsym(RTLD_DEFAULT, #name))) return false;
  FOR_EACH_FUNCTION(FIND)
  *(void **)(void *)&py.PyFrame_GetLasti = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
  return (py.PyCode_Type = dlsym(RTLD_DEFAULT, "PyCode_Type"));
}

/* ---- where the fields are ---------------------------------------------------------------------------------------- */

enum { NONE = -1 };

/* Offsets in bytes, of 64-bit builds. Sources: Include/cpython/pystate.h, Include/cpython/frameobject.h and
 * Include/internal/pycore_frame.h of each version. */
typedef struct {
  int minor;
  int state_frames;      /* in the thread's state: the innermost frame, or a _PyCFrame that points to it */
  int c_frame;           /* the field of _PyCFrame; NONE: the state has the frame itself */
  int code, previous;    /* in a frame */
  int at;                /* in a frame: the instruction, a number (int) before 3.11, then an address */
  int owner, owner_is_c; /* in a frame: who has it, a byte; frames that C code has are no Python lines */
  int unit;              /* before 3.11: bytes for each step of `at` */
} layout;

static const layout layouts[] = {
    {9, 24, NONE, 32, 24, 104, NONE, 0, 1}, {10, 24, NONE, 32, 24, 96, NONE, 0, 2}, {11, 56, 8, 32, 48, 56, NONE, 0, 0},
    {12, 56, 0, 0, 8, 56, 70, 3, 0},        {13, 72, NONE, 0, 8, 56, 70, 3, 0},
};

/* Found by looking, with the lock. */
static struct {
  const layout *l;
  int file, function; /* in a code object: co_filename, co_qualname (co_name before 3.11) */
  intptr_t bytecode;  /* in a code object, from 3.11: the first instruction */
  int text;           /* in a string of ASCII: its bytes; its length is at offset 16 in all versions */
} where;

enum { UNKNOWN, ASKED, USABLE, UNUSABLE };
static _Atomic int reading;

#define FIELD(type, object, offset) (*(const type *)((const char *)(object) + (offset)))

enum { OBJECT_TYPE = 8, STRING_LENGTH = 16 };

static const char *innermost(const char *state) {
  const char *at = FIELD(char *, state, where.l->state_frames);
  return at && where.l->c_frame != NONE ? FIELD(char *, at, where.l->c_frame) : at;
}

static bool is_line(const char *frame) {
  if (where.l->owner != NONE && FIELD(char, frame, where.l->owner) == where.l->owner_is_c) return false;
  const char *code = FIELD(char *, frame, where.l->code);
  return code && FIELD(void *, code, OBJECT_TYPE) == py.PyCode_Type;
}

static uint32_t read_frames(const char *state, python_at at[PYTHON_FRAMES]) {
  uint32_t n = 0;
  for (const char *f = innermost(state); f && n < PYTHON_FRAMES; f = FIELD(char *, f, where.l->previous)) {
    if (!is_line(f)) continue;
    at[n].code = FIELD(void *, f, where.l->code);
    at[n++].at = where.l->unit ? FIELD(int, f, where.l->at) : FIELD(intptr_t, f, where.l->at);
  }
  return n;
}

static int line_of(python_at at) {
  const intptr_t bytes = where.l->unit ? at.at * where.l->unit : at.at - ((intptr_t)at.code + where.bytecode);
  return py.PyCode_Addr2Line((PyObject *)(uintptr_t)at.code, (int)bytes);
}

/* The text of a string object; NULL if it is not ASCII, since other strings have their bytes elsewhere. */
static const char *python_text(const char *string) {
  const char *text = string + where.text;
  const size_t n = FIELD(size_t, string, STRING_LENGTH);
  for (size_t i = 0; i < n; ++i)
    if (text[i] < ' ' || text[i] > '~') return NULL;
  return text[n] ? NULL : text;
}

/* ---- looking, with the lock -------------------------------------------------------------------------------------- */

/* Finds where the code object has what the attribute gives: at the last place, since co_qualname, which may be the same
 * string as co_name, lies behind it. */
static int python_attribute(PyObject *code, const char *name) {
  enum { FIRST = 16, LAST = 200 }; /* a code object of every version is longer */
  PyObject *value = py.PyObject_GetAttrString(code, name);
  if (!value) py.PyErr_Clear();
  int at = value ? LAST : FIRST - 8;
  while (at >= FIRST && FIELD(void *, code, at) != value) at -= 8;
  const char *text = value && at >= FIRST ? py.PyUnicode_AsUTF8(value) : NULL;
  if (text && !where.text && text > (char *)value && text - (char *)value < 128)
    where.text = (int)(text - (char *)value);
  if (value) py.Py_DecRef(value);
  return at >= FIRST ? at : NONE;
}

/* Whether the frame, read by the public functions, is what was read in place. */
static bool python_agrees(PyObject *frame, PyObject *code, python_at at) {
  if (at.code != code) return false;
  if (py.PyFrame_GetLasti && !where.bytecode) where.bytecode = at.at - (intptr_t)code - py.PyFrame_GetLasti(frame);
  return line_of(at) == py.PyFrame_GetLineNumber(frame);
}

static bool frames_agree(void) {
  python_at at[PYTHON_FRAMES];
  const uint32_t n = read_frames(py.PyGILState_GetThisThreadState(), at);
  PyObject *frame = py.PyEval_GetFrame();
  if (!frame || !n) return false;
  py.Py_IncRef(frame);
  bool good = true;
  for (uint32_t i = 0; good && i < n; ++i) {
    PyObject *code = frame ? py.PyFrame_GetCode(frame) : NULL, *back = frame ? py.PyFrame_GetBack(frame) : NULL;
    good = frame && code && python_agrees(frame, code, at[i]);
    if (i == 0 && good) {
      where.file = python_attribute(code, "co_filename");
      where.function = python_attribute(code, py.PyFrame_GetLasti ? "co_qualname" : "co_name");
      good = where.file != NONE && where.function != NONE && where.text;
    }
    if (code) py.Py_DecRef(code);
    if (frame) py.Py_DecRef(frame);
    frame = back;
  }
  if (frame) py.Py_DecRef(frame);
  return good;
}

/* A pending call of the interpreter; also called directly where the lock is held. */
static int look(void *unused) {
  (void)unused;
  int major = 0, minor = 0;
  if (atomic_load(&reading) >= USABLE) return 0;
  if (!py.PyEval_GetFrame()) {
    atomic_store(&reading, UNKNOWN);
    return 0;
  }
  if (sscanf(py.Py_GetVersion(), "%d.%d", &major, &minor) != 2) major = 0;
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i)
    if (major == 3 && layouts[i].minor == minor) where.l = &layouts[i];
  atomic_store(&reading, sizeof(void *) == 8 && where.l && frames_agree() ? USABLE : UNUSABLE);
  return 0;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

static bool is_found; /* set before any hook */

/* Looks at the next line of Python; the lock is not waited for. */
static void ask(void) {
  int unknown = UNKNOWN;
  if (!py.Py_IsInitialized() || !atomic_compare_exchange_strong(&reading, &unknown, ASKED)) return;
  if (py.Py_AddPendingCall(look, NULL)) atomic_store(&reading, UNKNOWN); /* the interpreter's table is full */
}

void python_frames_prepare(void) {
  if (is_found && atomic_load_explicit(&reading, memory_order_relaxed) == UNKNOWN) ask();
}

/* ctypes gives the lock up while it loads a library. */
void python_frames_start(void) {
  is_found = python_look_up();
  if (is_found && py.Py_IsInitialized() && py.PyGILState_Check())
    look(NULL);
  else
    python_frames_prepare();
}

uint32_t python_frames_take(python_at at[PYTHON_FRAMES]) {
  const int now = atomic_load_explicit(&reading, memory_order_acquire);
  if (now == UNKNOWN && is_found) ask();
  if (now != USABLE) return 0;
  const char *state = py.PyGILState_GetThisThreadState();
  return state ? read_frames(state, at) : 0;
}

python_line python_frames_line(python_at at) {
  const char *file = python_text(FIELD(char *, at.code, where.file));
  const char *function = python_text(FIELD(char *, at.code, where.function));
  return (python_line){strdup(file ? file : "?"), strdup(function ? function : "?"), line_of(at)};
}
