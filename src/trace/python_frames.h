/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of Python code that the calling thread is in, read without the interpreter's lock. Frameworks give that
 * lock up before they call the library, and a hook must not wait for it, so the public functions cannot be called. But
 * nobody else changes the frames of a thread that is in native code, and they keep their code objects alive: the
 * thread reads its own frames in place, as py-spy and the like read those of another process.
 *
 * Where their fields lie depends on the interpreter's version: a table has it for CPython 3.9 to 3.13. Before anything
 * is read that way, a call with the lock (from a constructor, or a pending call of the interpreter) reads the frames
 * both ways; if these differ, as in builds without the lock, no thread's frames are read. Only dlsym is needed, no
 * symbols of the interpreter's own. Threads on which no Python code runs have no frames. Thread-safe. */
#ifndef CANNON_TRACE_PYTHON_FRAMES_H
#define CANNON_TRACE_PYTHON_FRAMES_H

#include <stdint.h>

enum { PYTHON_FRAMES = 24 };

/* An instruction of a code object: the same pair, the same line. */
typedef struct {
  const void *code;
  intptr_t at;
} python_at;

typedef struct {
  char *file, *function; /* from malloc */
  int line;
} python_line;

/* Looks for an interpreter, which need not be initialised yet. To be called once, before any hook. */
void python_frames_start(void);

/* Has the interpreter look at its frames soon, if it has not: the first stack that is wanted comes too late. To
 * be called where a device is begun. Takes no lock. */
void python_frames_prepare(void);

/* The calling thread's innermost frames. Returns their number; 0 without Python. Takes no lock, allocates nothing. */
uint32_t python_frames_take(python_at at[PYTHON_FRAMES]);

/* The line of a frame that this thread has taken and not left yet. */
python_line python_frames_line(python_at at);

#endif
