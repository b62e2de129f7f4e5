/* SPDX-License-Identifier: Apache-2.0 */
/* The signals by which a user can ask a process for a report: those that programs can do without. Any thread. */
#ifndef CANNON_BASE_SIGNAL_NAMES_H
#define CANNON_BASE_SIGNAL_NAMES_H

#include <stdbool.h>

/* The number of a signal by its name, with or without SIG; 0 for "none". False for any other text. */
bool signal_of_name(const char *name, int *out);

#endif
