/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory: blocks that the host and devices access at one address. Here they always lie in host memory; what the
 * program advises, and where it has prefetched to, is only recorded for each page of 2 MiB and can be queried. Used by
 * src/api; calls memory.h. Thread-safe. */
#ifndef CANNON_MEMORY_MANAGED_H
#define CANNON_MEMORY_MANAGED_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { MANAGED_PAGE_BYTES = 2 << 20, MANAGED_MOST_NODES = 64 };

/* The values of this enum, of managed_advice and of managed_attribute are CANN's. */
typedef enum {
  MANAGED_NOWHERE,
  MANAGED_ON_DEVICE,
  MANAGED_ON_HOST,
  MANAGED_ON_NODE,        /* a NUMA node of the host */
  MANAGED_ON_CURRENT_NODE /* the calling thread's */
} managed_kind;

typedef struct {
  managed_kind kind;
  int32_t id; /* of the device or node */
} managed_location;

typedef enum {
  MANAGED_SET_READ_MOSTLY,
  MANAGED_UNSET_READ_MOSTLY,
  MANAGED_SET_PREFERRED,
  MANAGED_UNSET_PREFERRED,
  MANAGED_SET_ACCESSED_BY,
  MANAGED_UNSET_ACCESSED_BY,
  N_MANAGED_ADVICE
} managed_advice;

typedef enum {
  MANAGED_READ_MOSTLY = 1,
  MANAGED_PREFERRED,
  MANAGED_ACCESSED_BY,
  MANAGED_PREFERRED_KIND,
  MANAGED_PREFERRED_ID,
  MANAGED_PREFETCHED,
  MANAGED_PREFETCHED_KIND,
  MANAGED_PREFETCHED_ID,
  MANAGED_ATTRIBUTES_END
} managed_attribute;

/* Ids in answers that are no device or node. */
enum { MANAGED_ID_HOST = -1, MANAGED_ID_NONE = -2 };

/* Allocates a block of whole pages without advice. site: the caller's return address. It is freed by memory_free. */
status managed_alloc(uint64_t bytes, void *site, void **out);

/* Checks that [p, p + bytes) lies in one live managed block. name: the range's, for messages. */
status managed_check(const void *p, uint64_t bytes, const char *name);

/* Checks that memory can be at that location. MANAGED_ON_CURRENT_NODE is replaced by the calling thread's node, and the
 * id of the host by MANAGED_ID_HOST. name: the argument's. */
status managed_check_location(managed_location *location, const char *name);

/* Records advice for a checked range, with a checked location where the advice has one; records where it was prefetched
 * to. */
void managed_advise(const void *p, uint64_t bytes, managed_advice advice, managed_location location);
void managed_note_prefetch(const void *p, uint64_t bytes, managed_location location);

/* Checks that an answer of `bytes` is right for the attribute; answers for a checked range. */
status managed_check_answer(managed_attribute attribute, size_t bytes);
void managed_answer(const void *p, uint64_t bytes, managed_attribute attribute, int32_t *answer, size_t answer_bytes);

#endif
