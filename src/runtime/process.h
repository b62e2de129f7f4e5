/* The library's own life: initialised a number of times, with one configuration. Any thread. */
#ifndef CANNON_RUNTIME_PROCESS_H
#define CANNON_RUNTIME_PROCESS_H

#include "base/status.h"

/* Reads the JSON configuration (NULL: none). ST_REPEATED_INIT where it is initialised already, which still counts;
 * the first configuration stays. */
status process_init(const char *config_path);

/* One count less, *left of them remain; at zero (all: at once) the configuration is forgotten. ST_REPEATED_FINALISE
 * where it is not initialised. left may be NULL. */
status process_finalize(bool all, uint64_t *left);

/* aclmdlInitDump, aclmdlSetDump and aclmdlFinalizeDump (trace/dump_config.h), which need the library initialised. */
status process_dump_init(void);
status process_dump_set(const char *path);
status process_dump_finalize(void);

/* Options of the process (aclSysParamOpt); contexts have values of their own, with the same checks. */
status process_option_check(int option);
status process_option_check_value(int option, int64_t value);
status process_option_set(int option, int64_t value);
int64_t process_option(int option);

#endif
