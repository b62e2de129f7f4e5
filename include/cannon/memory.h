/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what Cannon offers beyond CANN. In libcannon.so.
 *
 * cannon_check_carved    whether a program that divides a block itself keeps to CANN's rules for that
 * cannon_trim            gives back what a device only keeps for reuse */
#ifndef CANNON_MEMORY_H
#define CANNON_MEMORY_H

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a piece of memory is for. `cannon info --rules` prints what each asks for. */
typedef enum cannonUse {
  CANNON_USE_DEVICE = 0,     /* operators and copies: starts at a multiple of 64, has ALIGN_UP(length, 32) + 32 bytes */
  CANNON_USE_DVPP = 1,       /* media processing: starts at a multiple of 128, as much room */
  CANNON_USE_ASYNC_COPY = 2, /* nothing but asynchronous copies: starts at a multiple of 64 */
} cannonUse;

/* Part of a block. */
typedef struct cannonPiece {
  const void *address;
  size_t length; /* bytes that are used; the room that the rules ask for behind them is not counted */
  cannonUse use;
} cannonPiece;

/* Checks count pieces, in ascending order of their addresses, that were carved out of the block which starts at
 * `block`: from an allocating function, mapped, or registered. A piece's room ends where the next one starts, the last
 * one's with the block. Where a rule is broken, aclGetRecentErrMsg names the rule and the piece, and *failed, if not
 * NULL, is its index. Errors: ACL_ERROR_RT_ADDR_UNALIGNED: a start is not aligned; ACL_ERROR_RT_PARAM_INVALID: anything
 * else. */
ACL_FUNC_VISIBILITY aclError cannon_check_carved(const void *block, const cannonPiece *pieces, size_t count,
                                                 size_t *failed);

/* Gives memory of the device that is free, but kept for reuse, back to the host, down to single pages between small blocks,
 * until at most `keep` bytes are committed, or none is free. Blocks stay where they are, and what tasks may still use is not
 * touched. *committed, if not NULL: bytes that are committed then; keep SIZE_MAX just asks. Errors:
 * ACL_ERROR_RT_INVALID_DEVICEID. */
ACL_FUNC_VISIBILITY aclError cannon_trim(int32_t device, size_t keep, size_t *committed);

#ifdef __cplusplus
}
#endif

#endif
