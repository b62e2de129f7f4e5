/* Dumping of operators' tensors into files: whether, of which, and where. op/tensor_dump.h writes them.
 *
 * Set by the "dump" section of aclInit's configuration, or between aclmdlInitDump and aclmdlFinalizeDump by
 * aclmdlSetDump. Scenes that dump what an AI Core error leaves (dump_scene) are accepted and mean nothing: there is no AI
 * Core. Any thread. */
#ifndef CANNON_TRACE_DUMP_CONFIG_H
#define CANNON_TRACE_DUMP_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

struct cJSON;

enum { DUMP_INPUTS = 1, DUMP_OUTPUTS = 2, DUMP_MAX_PATH = 4096 };

/* DUMP_... of operators that are prepared from now on; 0: nothing is dumped. */
extern _Atomic unsigned dump_wanted;
static inline unsigned dump_wants(void) { return atomic_load_explicit(&dump_wanted, memory_order_relaxed); }

/* The folder for a device's files, made if it is missing; false where it can't be. */
bool dump_folder(int device, char path[DUMP_MAX_PATH]);

/* A configuration's section, NULL where it has none. ST_CONFIG_DUMP for what is invalid, ST_NOT_SUPPORTED for kinds of dump
 * that mean nothing here, or are not there yet. from_init: aclInit's, after which dump_init fails if it asks for tensors. */
status dump_configure(const struct cJSON *section, bool from_init);

/* As aclmdlInitDump and aclmdlFinalizeDump; dump_check_init is what aclmdlSetDump begins with. */
status dump_init(void);
status dump_check_init(void);
status dump_finalize(void);

/* At the end of aclInit's configuration. */
void dump_forget(void);

#endif
