/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of Python programs, for messages: "train.py:88" is the line that made a call. The interpreter is found by dlsym
 * in the process; without one, or with CANNON_PYTHON_SITES=0, everything here does nothing.
 *
 * A place is a number. It is noted without the interpreter's lock, which frameworks have given up when they call the
 * library: a pending call (Py_AddPendingCall) is left for the main thread, which runs it as soon as it comes back to
 * Python code, that is, on the line in question. Only then is the place known.
 *
 * torch_npu hands collectives to a thread of its own, without Python code. There, a call gets its place later: from the
 * next event that is recorded on its stream, which torch_npu has created on the calling thread for this call.
 *
 *   calling thread   creates an event:    python_place_note
 *   queue's thread   calls HCCL:          python_place_of_call
 *                    records the event:   python_place_recorded
 *
 * Threads of autograd have no Python code: their place is where the main thread calls backward(). The places of other
 * Python threads are not told. The latest few hundred places are kept. Called by src/api and src/comm. Thread-safe. */
#ifndef CANNON_RUNTIME_PYTHON_PLACE_H
#define CANNON_RUNTIME_PYTHON_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PYTHON_PLACE_WORDS = 48 };

/* Whether places are noted. */
extern _Atomic bool python_place_on;

static inline bool python_places_wanted(void) {
  return __builtin_expect(atomic_load_explicit(&python_place_on, memory_order_relaxed), 0);
}

/* Begins to note places, if there is an interpreter. To be called when a communicator of several ranks was made. */
void python_place_start(void);

/* The place from which Python calls on this thread; 0: none, as on a thread that has never run Python code. Call it
 * only where python_places_wanted(). */
uint64_t python_place_note(void);

/* The place of a call on a stream; on a thread without Python code it is one that python_place_recorded may give.
 * Likewise. */
uint64_t python_place_of_call(const void *stream);

/* An event was recorded on the stream by this thread; `place` is where it was created (0: not known). Likewise. */
void python_place_recorded(const void *stream, uint64_t place);

/* "train.py:88": the innermost line outside of PyTorch's own packages; false if it is not known, or no longer. `waits`:
 * waits for it for up to some 0.1 s, for the words of a failure; the caller holds no lock. */
bool python_place_words(uint64_t place, bool waits, char *words, size_t bytes);

#endif
