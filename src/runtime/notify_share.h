/* Notifies between processes: the number of one that is exported lives in a page of memory that those who import it
 * map. Only its owner waits; nobody tells it of records elsewhere, so that the ticker looks while its streams wait. */
#ifndef CANNON_RUNTIME_NOTIFY_SHARE_H
#define CANNON_RUNTIME_NOTIFY_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/share/exchange.h"

typedef struct notify notify;

/* Of a notify that is shared; guarded by its lock, but for the word. */
typedef struct notify_share {
  _Atomic uint32_t *word;
  uint64_t key;
  bool imported, to_all;
  notify *next, *previous; /* exported ones */
} notify_share;

/* A key for a binary notify, the same each time; ST_INVALID_VALUE where to_all is not as before, or the notify was
 * imported. */
status notify_export(notify *n, bool to_all, char key[EXCHANGE_TEXT_BYTES]);
status notify_allow(notify *n, const int32_t *pids, size_t n_pids);

/* Another process's notify, once, as one of this device, which can be recorded and cleared. */
status notify_import(const char *key, int device, notify **out);

/* The last reference is gone. */
void notify_unshare(notify *n);

/* Streams that wait for exported notifies, and a look at those. */
extern _Atomic int notify_n_shared_waiting;
void notify_look(void);

#endif
