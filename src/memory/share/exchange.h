/* Memory that one process offers and others of its machine (machine.h) take, by a key. The memory is pieces of the
 * exporter's file; who takes it opens that file through /proc/<pid>/fd, which the system allows to the same user
 * without tracing rights (containers refuse those to pidfd_getfd), and without a thread or a socket in the exporter.
 *
 * The exporter can't withdraw what a living process has taken, so that memory is not used for something else under
 * it; an exporter that dies takes its keys with it, while the memory stays with those who have it. All calls from
 * any thread. */
#ifndef CANNON_MEMORY_SHARE_EXCHANGE_H
#define CANNON_MEMORY_SHARE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"

enum { EXCHANGE_TAG_BYTES = 32, EXCHANGE_MOST_PIDS = 64 };

typedef enum { EXCHANGE_PHYSICAL, EXCHANGE_BLOCK, EXCHANGE_NOTIFY } exchange_kind;

typedef struct {
  exchange_kind kind;
  int device; /* -1: host memory */
  int file;   /* whose pieces they are; of a taken item, a descriptor that the taker closes */
  uint64_t bytes;
  char tag[EXCHANGE_TAG_BYTES]; /* the exporter's, as it is */
  const heap_piece *pieces;     /* whole pages */
  size_t n_pieces;
} exchange_item;

/* A key in words, and back: `from` is the function that gave it, for messages. */
enum { EXCHANGE_TEXT_BYTES = 65 }; /* its end included */
void exchange_print(uint64_t key, char text[EXCHANGE_TEXT_BYTES]);
status exchange_parse(const char *text, const char *from, uint64_t *key);

/* Offers an item, to processes that exchange_allow names, or to all. */
status exchange_offer(const exchange_item *item, bool to_all, uint64_t *key);

/* Adds processes to those that may take what this process offers. name: the key's, for messages. */
status exchange_allow(uint64_t key, const int32_t *pids, size_t n, const char *name);

/* Takes what another process offers, once; *pieces: the item's, malloc'ed, for the taker to free. ST_NO_PERMISSION
 * where this process is not among those named. */
status exchange_take(uint64_t key, exchange_kind kind, const char *name, exchange_item *item, heap_piece **pieces);

/* Gives up what was taken. */
void exchange_drop(uint64_t key);

/* Ends an offer of this process's: 0; or a living process that has it, and then nothing is changed, except with
 * for_good: nobody else can take it any more. */
int32_t exchange_withdraw(uint64_t key, bool for_good);

#endif
