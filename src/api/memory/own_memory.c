/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of Cannon's own about memory (include/cannon/memory.h). */
#include "memory/carve.h"

#include <stdio.h>

#include "api/api.h"
#include "cannon/memory.h"
#include "memory/memory.h"
#include "memory/pool/stream_pool.h"
#include "runtime/device.h"

_Static_assert((int)CANNON_USE_DEVICE == CARVE_DEVICE && (int)CANNON_USE_DVPP == CARVE_DVPP &&
                   (int)CANNON_USE_ASYNC_COPY == CARVE_ASYNC_COPY,
               "rows of carve_rules");

static carve_piece piece_of(const cannonPiece *p) {
  return (carve_piece){(uintptr_t)p->address, p->length, (int)p->use};
}

static status check_pieces(const void *block, const cannonPiece *pieces, size_t count, size_t *failed) {
  memory_holder holder;
  TRY(device_check_child());
  if (count == 0) return fail(ST_INVALID_VALUE, "count is 0, expected 1 or more");
  TRY(memory_holder_of(block, "block", &holder));
  if (holder.start != (uintptr_t)block)
    return fail(ST_INVALID_VALUE, "block is %p, inside of the block at %p, expected its start", block,
                (void *)holder.start);
  for (size_t i = 0; i < count; ++i) {
    char name[40];
    const carve_piece piece = piece_of(&pieces[i]), next = i + 1 < count ? piece_of(&pieces[i + 1]) : (carve_piece){0};
    snprintf(name, sizeof name, "pieces[%zu]", i);
    const status st =
        carve_check(holder.start, holder.bytes_usable, memory_slack_bytes, &piece, i + 1 < count ? &next : NULL, name);
    if (st == ST_OK) continue;
    if (failed) *failed = i;
    return st;
  }
  return ST_OK;
}

aclError cannon_check_carved(const void *block, const cannonPiece *pieces, size_t count, size_t *failed) {
  API_ENTER();
  NEED(block);
  NEED(pieces);
  API_RETURN(check_pieces(block, pieces, count, failed));
}

aclError cannon_trim(int32_t device, size_t keep, size_t *committed) {
  API_ENTER();
  NEED_OK(device_check_child());
  NEED_OK(device_check(device, "device"));
  heap *h = memory_heap(device);
  heap_usage usage = {0};
  if (h) {
    heap_measure(h, &usage);
    if (usage.committed_bytes > keep) pools_relieve(device);
    heap_trim(h, keep);
    heap_measure(h, &usage);
  }
  if (committed) *committed = usage.committed_bytes;
  return ACL_SUCCESS;
}
