/* Blocks of device memory that processes share under a key in words: those that this process has exported, and those of
 * others that it has imported. All calls from any thread. */
#ifndef CANNON_MEMORY_SHARE_IPC_H
#define CANNON_MEMORY_SHARE_IPC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/share/exchange.h"

enum { IPC_KEY_BYTES = EXCHANGE_TEXT_BYTES };

/* A key for `bytes` bytes from p on, which are in a live block and start on a page; for processes that ipc_allow
 * names, or for all. */
status ipc_export(const void *p, uint64_t bytes, bool to_all, char key[IPC_KEY_BYTES]);

status ipc_allow(const char *key, const int32_t *pids, size_t n);

/* The memory of another process's key, once, as memory of this device: an address of this process's own. */
status ipc_import(const char *key, int device, void **out);

/* Ends an import, or an export that nobody has imported (any more). */
status ipc_close(const char *key);

/* Whether anything is exported: one load. */
extern _Atomic uint32_t ipc_n_exports;
static inline bool ipc_has_exports(void) { return atomic_load_explicit(&ipc_n_exports, memory_order_relaxed); }

/* Before the block that starts there is freed: ends its exports. ST_INVALID_VALUE where one is imported. */
status ipc_forget(uintptr_t block, const char *name);

#endif
