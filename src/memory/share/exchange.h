/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, notifies or events that one process offers and other processes of its machine (machine.h) take by a key. The
 * memory is pieces of the exporter's file; the taker opens that file through /proc/<pid>/fd. The system allows that to
 * processes of the same user; it needs no right to trace, as pidfd_getfd does, which containers refuse, and no thread
 * or socket in the exporter. Used by vmm.c, ipc.c, and notify_share.c and event_share.c of runtime/; calls machine.h.
 *
 * The exporter can't withdraw what a living process has taken, so that its memory is not used for something else
 * meanwhile. When an exporter ends, its keys become invalid, but the memory stays with the processes that have taken
 * it. Thread-safe. */
#ifndef CANNON_MEMORY_SHARE_EXCHANGE_H
#define CANNON_MEMORY_SHARE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"

enum { EXCHANGE_TAG_BYTES = 32, EXCHANGE_MOST_PIDS = 64 };

typedef enum { EXCHANGE_PHYSICAL, EXCHANGE_BLOCK, EXCHANGE_NOTIFY, EXCHANGE_EVENT } exchange_kind;

typedef struct {
  exchange_kind kind;
  int device; /* -1: host memory */
  int file;   /* that has the pieces; in a taken item, a descriptor that the taker closes */
  uint64_t bytes;
  char tag[EXCHANGE_TAG_BYTES]; /* handed from the exporter to the taker unchanged */
  const heap_piece *pieces;     /* of the file; whole pages */
  size_t n_pieces;
} exchange_item;

/* Converts a key to text and back. from: the function that the text should come from, for messages. */
enum { EXCHANGE_TEXT_BYTES = 65 }; /* with the terminating 0 */
void exchange_print(uint64_t key, char text[EXCHANGE_TEXT_BYTES]);
status exchange_parse(const char *text, const char *from, uint64_t *key);

/* Offers an item to all processes of the machine, or only to those that exchange_allow names. Returns its key.
 * ST_NO_MEMORY where too much is offered, ST_NOT_SUPPORTED where the process shares nothing with others. */
status exchange_offer(const exchange_item *item, bool to_all, uint64_t *key);

/* Adds processes to those that may take what this process offers under the key. name: the key's, for messages. */
status exchange_allow(uint64_t key, const int32_t *pids, size_t n, const char *name);

/* Takes what another process offers under the key, at most once per process. *pieces: item->pieces, malloc'ed, which
 * the caller frees. ST_NO_PERMISSION where this process is not among those that are named. */
status exchange_take(uint64_t key, exchange_kind kind, const char *name, exchange_item *item, heap_piece **pieces);

/* Tells the exporter that this process no longer uses what it has taken. */
void exchange_drop(uint64_t key);

/* Ends an offer of this process and returns 0. Where living processes have taken it, returns the id of one and leaves
 * the offer; with for_good, no other process can take it from then on. */
int32_t exchange_withdraw(uint64_t key, bool for_good);

#endif
