/* SPDX-License-Identifier: Apache-2.0 */
/* What a program's environment needs so that its recording has tasks, tensors, modules and lines. For `cannon
 * memory` and
 * `cannon advise`, before they start the program. */
#ifndef CANNON_CLI_RECORD_ENVIRONMENT_H
#define CANNON_CLI_RECORD_ENVIRONMENT_H

#include <stdbool.h>

/* Sets the variables of this process, which the program inherits. prefix: of the installation; path: the recording's,
 * absolute. False, with a message on stderr, if a value is too long. */
bool record_environment(const char *prefix, const char *path);

#endif
