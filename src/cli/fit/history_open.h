/* SPDX-License-Identifier: Apache-2.0 */
/* Reads recordings with the lines of C programs (fit/history.h). For `cannon memory`, `cannon advise` and the
 * page of `cannon replay`. */
#ifndef CANNON_CLI_FIT_HISTORY_OPEN_H
#define CANNON_CLI_FIT_HISTORY_OPEN_H

#include "fit/history.h"

/* As history_read of the file's contents. */
history *history_open(const char *path, char error[256]);

/* As history_read. */
history *history_open_data(const void *data, size_t n, char error[256]);

#endif
