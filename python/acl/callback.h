/* SPDX-License-Identifier: Apache-2.0 */
/* Python functions that the library calls, from the user's threads or its own.
 *
 * The references to a function and its argument are held until it has returned. A callback whose stream is destroyed
 * before it ran keeps them: the library does not say that it will never come. When the interpreter ends, callbacks that
 * run are awaited for a while, and later ones do nothing. */
#pragma once
#include <stdbool.h>

/* Arranges for the end of the interpreter. False with an exception set if that fails. Called once, when the module is
 * made. */
bool callback_at_exit(void);
