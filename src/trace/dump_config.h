/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of dumps of operators' tensors into files: whether, of which tensors, and where. op/tensor_dump.h
 * writes them.
 *
 * It is set by the "dump" section of aclInit's configuration, or by aclmdlSetDump between aclmdlInitDump and
 * aclmdlFinalizeDump. Scenes, which on a device dump the state after an AI Core error (dump_scene), are accepted
 * without effect, since there is no AI Core. Any thread. */
#ifndef CANNON_TRACE_DUMP_CONFIG_H
#define CANNON_TRACE_DUMP_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

struct cJSON;

enum { DUMP_INPUTS = 1, DUMP_OUTPUTS = 2, DUMP_MAX_PATH = 4096 };

/* The kinds of tensors (DUMP_...) to dump of operators that are prepared from now on; 0: none. */
extern _Atomic unsigned dump_wanted;
static inline unsigned dump_wants(void) { return atomic_load_explicit(&dump_wanted, memory_order_relaxed); }

/* The folder for a device's files, which is made if it is missing; false if it can't be made. */
bool dump_folder(int device, char path[DUMP_MAX_PATH]);

/* Applies a configuration's "dump" section; NULL: there is none. ST_CONFIG_DUMP if it is invalid; ST_NOT_SUPPORTED for
 * kinds of dump that are not implemented or have no meaning here. from_init: it is aclInit's; if that asks for tensors,
 * dump_init fails afterwards. */
status dump_configure(const struct cJSON *section, bool from_init);

/* The functions of aclmdlInitDump and aclmdlFinalizeDump. aclmdlSetDump begins with dump_check_init. */
status dump_init(void);
status dump_check_init(void);
status dump_finalize(void);

/* Ends all dumping, as at the end of aclInit's configuration. */
void dump_forget(void);

#endif
