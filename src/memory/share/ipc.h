/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of device memory that processes share under a key (aclrtIpcMem...): keeps the lists of what this process has
 * exported and imported. Used by src/api, memory.c and pools; calls exchange.h and vmm.h. Thread-safe. */
#ifndef CANNON_MEMORY_SHARE_IPC_H
#define CANNON_MEMORY_SHARE_IPC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/share/exchange.h"

enum { IPC_KEY_BYTES = EXCHANGE_TEXT_BYTES };

/* Exports [p, p + bytes), which is in a live block and starts on a page, to all processes or to those that ipc_allow
 * names. Writes the key. */
status ipc_export(const void *p, uint64_t bytes, bool to_all, char key[IPC_KEY_BYTES]);

/* Adds processes to those that may import the key. */
status ipc_allow(const char *key, const int32_t *pids, size_t n);

/* Imports another process's memory, at most once, as memory of this device; *out: its address in this process. */
status ipc_import(const char *key, int device, void **out);

/* Ends an import, or an export that no living process has imported. */
status ipc_close(const char *key);

/* Number of exports. ipc_has_exports: whether there are any, by one load. */
extern _Atomic uint32_t ipc_n_exports;
static inline bool ipc_has_exports(void) { return atomic_load_explicit(&ipc_n_exports, memory_order_relaxed); }

/* Called before the block that starts there is freed: ends its exports. ST_INVALID_VALUE, and the block must not be
 * freed, where a living process has imported one. name: the argument's. */
status ipc_forget(uintptr_t block, const char *name);

#endif
