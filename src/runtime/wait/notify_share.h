/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies between processes: the number of an exported notify lives in a page of memory that importing
 * processes map. Only the exporter can wait for it. It gets no message when another process records, so the
 * scheduler's ticker looks at the numbers while streams wait for exported notifies. Called by src/api, notify.c
 * and the scheduler. Thread-safe. */
#ifndef CANNON_RUNTIME_WAIT_NOTIFY_SHARE_H
#define CANNON_RUNTIME_WAIT_NOTIFY_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/share/exchange.h"

typedef struct notify notify;

/* The part of a notify that is shared. It belongs to the notify, and is guarded by the lock of
 * notify_share.c; the word is atomic. */
typedef struct notify_share {
  _Atomic uint32_t *word;
  uint64_t key;
  bool imported, to_all;
  notify *next, *previous; /* in the list of exported notifies */
} notify_share;

/* Exports a binary notify and writes its key, the same one each time. to_all: any process may import it, else only
 * those of notify_allow(). ST_INVALID_VALUE if to_all is not as in the first call, or the notify was imported. */
status notify_export(notify *n, bool to_all, char key[EXCHANGE_TEXT_BYTES]);
status notify_allow(notify *n, const int32_t *pids, size_t n_pids);

/* Creates a notify of this device that stands for another process's, and can be recorded and cleared. */
status notify_import(const char *key, int device, notify **out);

/* For notify_unref(), at the last reference: frees n->share. */
void notify_unshare(notify *n);

/* The number of streams that wait for exported notifies; and unblocks those whose condition holds. */
extern _Atomic int notify_n_shared_waiting;
void notify_look(void);

#endif
