/* SPDX-License-Identifier: Apache-2.0 */
/* Sanitizers and emulators slow down by a factor of 5 to 20, so their builds run fewer random cases. */
#ifndef CANNON_TESTS_UNIT_SLOW_H
#define CANNON_TESTS_UNIT_SLOW_H

#include "base/sanitizer.h"

#ifdef TESTS_EMULATED
#  define SLOWED_DOWN 1
#else
#  define SLOWED_DOWN (WITH_ASAN || WITH_TSAN)
#endif

#endif
