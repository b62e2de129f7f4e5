/* SPDX-License-Identifier: Apache-2.0 */
/* The number of threads that the library has started and that have not ended: all others are the program's. One that is
 * about to begin or to end may be left out, and so may threads that live for a moment only. */
#ifndef CANNON_BASE_THREADS_H
#define CANNON_BASE_THREADS_H

#include <stdatomic.h>

#include "base/status.h"

extern INTERNAL _Atomic int threads_of_library;

#endif
