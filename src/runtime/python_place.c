/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/python_place.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/settings/variables.h"
#include "base/text.h"

_Atomic bool python_place_on;

/* ---- CPython's public interface ---------------------------------------------------------------------------------- */

typedef struct object_of_python PyObject;

#define FOR_EACH_FUNCTION(X)                                                                                           \
  X(int, Py_IsInitialized, (void))                                                                                     \
  X(int, Py_AddPendingCall, (int (*function)(void *), void *argument))                                                 \
  X(void *, PyGILState_GetThisThreadState, (void))                                                                     \
  X(int, PyGILState_Ensure, (void))                                                                                    \
  X(void, PyGILState_Release, (int state))                                                                             \
  X(PyObject *, PyEval_GetFrame, (void))                                                                               \
  X(PyObject *, PyFrame_GetBack, (PyObject * frame))                                                                   \
  X(PyObject *, PyFrame_GetCode, (PyObject * frame))                                                                   \
  X(int, PyFrame_GetLineNumber, (PyObject * frame))                                                                    \
  X(PyObject *, PyObject_GetAttrString, (PyObject * object, const char *name))                                         \
  X(PyObject *, PyObject_CallNoArgs, (PyObject * function))                                                            \
  X(const char *, PyUnicode_AsUTF8, (PyObject * text))                                                                 \
  X(PyObject *, PyImport_GetModuleDict, (void))                                                                        \
  X(PyObject *, PyDict_GetItemString, (PyObject * dict, const char *key))                                              \
  X(PyObject *, PyDict_GetItem, (PyObject * dict, PyObject * key))                                                     \
  X(PyObject *, PyLong_FromUnsignedLong, (unsigned long value))                                                        \
  X(PyObject *, PySys_GetObject, (const char *name))                                                                   \
  X(void, PyErr_Clear, (void))                                                                                         \
  X(void, Py_IncRef, (PyObject * object))                                                                              \
  X(void, Py_DecRef, (PyObject * object))

#define DECLARE(result, name, arguments) result(*name) arguments;
static struct {
  int (*PyFrame_GetLasti)(PyObject *frame); /* NULL before Python 3.11 */
  FOR_EACH_FUNCTION(DECLARE)
} py;

static bool python_find(void) {
#define FIND(result, name, arguments)                                                                                  \
  if (!(*(void **)(void *)&py.name = dlsym(RTLD_DEFAULT, #name))) return false;
  FOR_EACH_FUNCTION(FIND)
  *(void **)(void *)&py.PyFrame_GetLasti = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
  return py.Py_IsInitialized();
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

enum { PLACES = 1024 };

typedef enum {
  PLACE_PENDING,  /* the main thread will come to it */
  PLACE_EXPECTED, /* a call on a stream, before the event */
  PLACE_GIVEN,    /* it is that of another place */
  PLACE_KNOWN,
  PLACE_UNKNOWN,
} place_state;

typedef struct {
  uint64_t id, given; /* 0: the slot is unused; the place whose words count */
  const void *stream; /* of a call that expects an event */
  pthread_t thread;   /* that noted it */
  place_state state;
  char words[PYTHON_PLACE_WORDS];
} place;

static mutex lock = MUTEX_INITIALIZER(PYTHON_PLACE);
/* The lock guards these. */
static place places[PLACES];
static uint64_t latest_id, resolved_id; /* places up to resolved_id are not pending any more */
static uint64_t noted_last;             /* the latest pending place, which its thread notes again; 0: none */
static bool is_scheduled;               /* a pending call of the interpreter will resolve places */
static pthread_t main_thread;
static bool main_is_known;

/* This thread's calls on a stream that expect an event; 0: none. */
static _Thread_local struct {
  const void *stream;
  uint64_t first, last;
} expecting;

static place *place_find(uint64_t id) {
  place *p = &places[id % PLACES];
  return id && p->id == id ? p : NULL;
}

static uint64_t place_add(place_state state, const void *stream) {
  const uint64_t id = ++latest_id;
  places[id % PLACES] = (place){.id = id, .stream = stream, .thread = pthread_self(), .state = state};
  return id;
}

/* ---- reading frames, with the interpreter's lock ----------------------------------------------------------------- */

enum { OWN_PACKAGES = 2, FOLDER_BYTES = 512 };

/* The folders of PyTorch's packages, with a slash at the end; "" where one is not imported. */
static char own_folders[OWN_PACKAGES][FOLDER_BYTES];

static void python_find_folders(void) {
  static const char *const names[OWN_PACKAGES] = {"torch", "torch_npu"};
  for (int i = 0; i < OWN_PACKAGES; ++i) {
    PyObject *module = py.PyDict_GetItemString(py.PyImport_GetModuleDict(), names[i]);
    PyObject *file = module ? py.PyObject_GetAttrString(module, "__file__") : NULL;
    const char *path = file ? py.PyUnicode_AsUTF8(file) : NULL, *end = path ? strrchr(path, '/') : NULL;
    if (end && end - path + 2 < FOLDER_BYTES)
      snprintf(own_folders[i], FOLDER_BYTES, "%.*s", (int)(end - path + 1), path);
    if (file) py.Py_DecRef(file);
  }
  py.PyErr_Clear();
}

static bool python_is_own(const char *file) {
  if (file[0] == '<') return true; /* <frozen ...> */
  for (int i = 0; i < OWN_PACKAGES; ++i)
    if (own_folders[i][0] && !strncmp(file, own_folders[i], strlen(own_folders[i]))) return true;
  return false;
}

/* What is known of code objects, and of instructions in them, so that a line that is come to again costs little. An
 * entry holds a reference to its code object. Guarded by the interpreter's lock. */
typedef struct {
  PyObject *code; /* NULL: unused */
  int at;         /* the instruction, or IS_OWN: the entry says whether the code is PyTorch's */
  bool is_own;
  char words[PYTHON_PLACE_WORDS];
} known_code;

enum { KNOWN_CODE = 256, IS_OWN = -2 };

static known_code known[KNOWN_CODE];
_Static_assert(KNOWN_CODE == 1 << 8, "an index of eight bits");

/* The entry; it is to be filled in if *is_new. */
static known_code *python_known(PyObject *code, int at, bool *is_new) {
  /* Code objects lie at multiples of 16; 2^64 / golden ratio spreads them. */
  const uint64_t hash = ((uintptr_t)code / 16 + (uint64_t)at) * UINT64_C(0x9e3779b97f4a7c15);
  known_code *k = &known[hash >> 56];
  PyObject *before = k->code;
  *is_new = before != code || k->at != at;
  if (!*is_new) return k;
  py.Py_IncRef(code);
  k->code = code;
  k->at = at;
  if (before) py.Py_DecRef(before);
  return k;
}

static void python_describe_line(const char *path, int line, char *words) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  /* The end of a long name says more than its beginning. */
  const size_t n = strlen(name), most = PYTHON_PLACE_WORDS - sizeof ":2147483647";
  snprintf(words, PYTHON_PLACE_WORDS, "%s:%d", n > most ? name + n - most : name, line);
  text_make_safe(words, PYTHON_PLACE_WORDS);
}

/* The words for one frame; false if it is one of PyTorch's own. */
static bool python_describe_frame(PyObject *frame, char *words) {
  PyObject *code = py.PyFrame_GetCode(frame), *file = NULL;
  bool is_new;
  known_code *k = python_known(code, IS_OWN, &is_new);
  if (is_new) {
    file = py.PyObject_GetAttrString(code, "co_filename");
    const char *path = file ? py.PyUnicode_AsUTF8(file) : NULL;
    k->is_own = !path || python_is_own(path);
  }
  const bool wanted = !k->is_own;
  if (wanted) {
    k = python_known(code, py.PyFrame_GetLasti ? py.PyFrame_GetLasti(frame) : py.PyFrame_GetLineNumber(frame), &is_new);
    if (is_new) {
      if (!file) file = py.PyObject_GetAttrString(code, "co_filename");
      const char *path = file ? py.PyUnicode_AsUTF8(file) : NULL;
      python_describe_line(path ? path : "?", py.PyFrame_GetLineNumber(frame), k->words);
    }
    memcpy(words, k->words, sizeof k->words);
  }
  if (file) py.Py_DecRef(file);
  py.Py_DecRef(code);
  return wanted;
}

/* From the frame outwards. */
static bool python_describe_frames(PyObject *frame, char *words) {
  if (!own_folders[0][0]) python_find_folders();
  bool found = false;
  if (frame) py.Py_IncRef(frame);
  while (frame && !(found = python_describe_frame(frame, words))) {
    PyObject *back = py.PyFrame_GetBack(frame);
    py.Py_DecRef(frame);
    frame = back;
  }
  if (frame) py.Py_DecRef(frame);
  py.PyErr_Clear();
  return found;
}

/* sys._current_frames(): a new dictionary of the threads that run Python code; NULL without. */
static PyObject *python_current_frames(void) {
  PyObject *function = py.PySys_GetObject("_current_frames"), *all = function ? py.PyObject_CallNoArgs(function) : NULL;
  if (!all) py.PyErr_Clear();
  return all;
}

/* The frame of a thread in that dictionary, borrowed; NULL: it runs no Python code. */
static PyObject *python_frame_of(PyObject *all, pthread_t thread) {
  PyObject *key = py.PyLong_FromUnsignedLong((unsigned long)thread), *frame = key ? py.PyDict_GetItem(all, key) : NULL;
  if (key) py.Py_DecRef(key);
  return frame;
}

/* ---- resolving --------------------------------------------------------------------------------------------------- */

/* Whether a place that a thread has noted is the main thread's: it runs no Python code itself. */
static bool place_is_mains(pthread_t thread) {
  PyObject *all = python_current_frames();
  if (!all) return false;
  const bool runs_python = python_frame_of(all, thread);
  py.Py_DecRef(all);
  return !runs_python;
}

/* Ends a pending place. Takes and gives back `lock`, if other threads are asked for. */
static void place_resolve_one(uint64_t id, const char *words) {
  place *p = place_find(id);
  if (!p || p->state != PLACE_PENDING) return;
  bool is_mains = pthread_equal(p->thread, main_thread);
  if (!is_mains && words) {
    const pthread_t thread = p->thread;
    mutex_unlock(&lock);
    is_mains = place_is_mains(thread);
    mutex_lock(&lock);
    if (!(p = place_find(id))) return;
  }
  p->state = words && is_mains ? PLACE_KNOWN : PLACE_UNKNOWN;
  if (p->state == PLACE_KNOWN) memcpy(p->words, words, sizeof p->words);
}

/* Ends all pending places with the main thread's words; NULL: it has none. The caller has the interpreter's lock, for
 * which no thread waits that holds `lock`. */
static void place_resolve(const char *words) {
  mutex_lock(&lock);
  const uint64_t until = latest_id;
  uint64_t id = resolved_id + PLACES < until ? until - PLACES : resolved_id;
  while (++id <= until) place_resolve_one(id, words);
  if (until > resolved_id) resolved_id = until;
  if (noted_last <= until) noted_last = 0;
  mutex_unlock(&lock);
}

/* The pending call, on the main thread. */
static int place_come_back(void *unused) {
  char words[PYTHON_PLACE_WORDS];
  (void)unused;
  mutex_lock(&lock);
  is_scheduled = false;
  main_thread = pthread_self();
  main_is_known = true;
  mutex_unlock(&lock);
  place_resolve(python_describe_frames(py.PyEval_GetFrame(), words) ? words : NULL);
  return 0;
}

/* Resolves places while the main thread is still in the library, or in another call of native code: it has not come
 * back to Python code since it noted its place, so its frame is on that line. */
static void *place_ask(void *done) {
  char words[PYTHON_PLACE_WORDS];
  const int state = py.PyGILState_Ensure();
  PyObject *all = python_current_frames();
  if (all) {
    place_resolve(python_describe_frames(python_frame_of(all, main_thread), words) ? words : NULL);
    py.Py_DecRef(all);
  }
  py.PyGILState_Release(state);
  atomic_store((_Atomic bool *)done, true);
  return NULL;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

void python_place_start(void) {
  static _Atomic bool tried;
  uint64_t wanted = 1;
  if (atomic_exchange(&tried, true)) return;
  if (variable_read(VARIABLE_PYTHON_SITES, &wanted) && !wanted) return;
  if (python_find()) atomic_store(&python_place_on, true);
}

static bool thread_is_main(void) {
  static _Thread_local int known; /* 1: no, 2: yes */
  if (!known) known = gettid() == getpid() ? 2 : 1;
  return known == 2;
}

uint64_t python_place_note(void) {
  if (!py.PyGILState_GetThisThreadState()) return 0;
  const pthread_t self = pthread_self();
  mutex_lock(&lock);
  if (thread_is_main()) {
    main_thread = self;
    main_is_known = true;
  }
  const place *last = place_find(noted_last);
  const uint64_t id = last && last->state == PLACE_PENDING && pthread_equal(last->thread, self)
                          ? last->id
                          : place_add(PLACE_PENDING, NULL);
  noted_last = id;
  const bool schedules = !is_scheduled;
  is_scheduled = true;
  mutex_unlock(&lock);
  if (!schedules || !py.Py_AddPendingCall(place_come_back, NULL)) return id;
  mutex_lock(&lock); /* the interpreter's table is full */
  is_scheduled = false;
  mutex_unlock(&lock);
  return id;
}

uint64_t python_place_of_call(const void *stream) {
  const uint64_t place = python_place_note();
  if (place) return place;
  mutex_lock(&lock);
  const uint64_t id = place_add(PLACE_EXPECTED, stream);
  mutex_unlock(&lock);
  if (!expecting.first || expecting.stream != stream) {
    expecting.stream = stream;
    expecting.first = id;
  }
  expecting.last = id;
  return id;
}

void python_place_recorded(const void *stream, uint64_t given) {
  if (!expecting.first || expecting.stream != stream) return;
  mutex_lock(&lock);
  for (uint64_t id = expecting.first; id <= expecting.last; ++id) {
    place *p = place_find(id);
    if (!p || p->state != PLACE_EXPECTED || p->stream != stream) continue;
    p->state = given ? PLACE_GIVEN : PLACE_UNKNOWN;
    p->given = given;
  }
  mutex_unlock(&lock);
  expecting.first = 0;
}

/* Copies the words of a place; returns its state. */
static place_state place_read(uint64_t id, char *words, size_t bytes) {
  mutex_lock(&lock);
  const place *p = place_find(id);
  if (p && p->state == PLACE_GIVEN) p = place_find(p->given);
  const place_state state = p ? p->state : PLACE_UNKNOWN;
  if (state == PLACE_KNOWN) snprintf(words, bytes, "%s", p->words);
  mutex_unlock(&lock);
  return state;
}

/* Starts place_ask on a thread of its own, as the interpreter's lock may not come: a thread that holds it may be
 * waiting for the caller. */
static bool place_start_asking(_Atomic bool *done) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  if (pthread_attr_init(&attributes)) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = !pthread_create(&thread, &attributes, place_ask, done);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

bool python_place_words(uint64_t id, bool waits, char *words, size_t bytes) {
  enum { EVENT_TRIES = 20, TRIES = 120 }; /* of a millisecond each */
  static _Atomic bool asked = true;       /* outlives the thread that may still be waiting; true: none is */
  const struct timespec pause = {.tv_nsec = 1000000};
  if (!id) return false;
  for (int i = 0;; ++i) {
    const place_state state = place_read(id, words, bytes);
    if (state == PLACE_KNOWN) return true;
    if (state == PLACE_UNKNOWN || !waits || i == TRIES || (state == PLACE_EXPECTED && i > EVENT_TRIES)) return false;
    if (state == PLACE_PENDING && i == 2 && atomic_exchange(&asked, false) && !place_start_asking(&asked))
      atomic_store(&asked, true);
    nanosleep(&pause, NULL);
  }
}
