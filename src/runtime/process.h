/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation of the library (aclInit), which is counted, its configuration, and options of the process.
 * Called by src/api. Thread-safe. */
#ifndef CANNON_RUNTIME_PROCESS_H
#define CANNON_RUNTIME_PROCESS_H

#include "base/status.h"

/* Reads the JSON configuration (NULL: none). ST_REPEATED_INIT if the library is initialised already: the call counts,
 * but the first configuration stays in force. */
status process_init(const char *config_path);

/* Undoes one process_init(), or with `all` each of them; *left of them remain (left may be NULL). When none remains,
 * the configuration is forgotten. ST_REPEATED_FINALISE if the library is not initialised. */
status process_finalize(bool all, uint64_t *left);

/* aclmdlInitDump, aclmdlSetDump and aclmdlFinalizeDump (trace/dump_config.h). ST_NOT_INITIALISED before aclInit. */
status process_dump_init(void);
status process_dump_set(const char *path);
status process_dump_finalize(void);

/* Options of the process (aclSysParamOpt). Contexts have values of their own, for which the same checks hold. */
status process_option_check(int option);
status process_option_check_value(int option, int64_t value);
status process_option_set(int option, int64_t value);
int64_t process_option(int option);

#endif
