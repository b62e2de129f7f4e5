/* SPDX-License-Identifier: Apache-2.0 */
/** \file
 * Memory functions that Cannon offers beyond CANN, in libcannon.so.
 *
 *     cannon_check_carved    checks a program that divides a block itself against CANN's rules for that
 *     cannon_trim            returns memory that a device keeps for reuse to the host
 *
 * Both functions may be called from any thread at any time. An error leaves a message for aclGetRecentErrMsg().
 */
#ifndef CANNON_MEMORY_H
#define CANNON_MEMORY_H

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a piece of memory is used for. `cannon info --rules` prints the rules of each use. */
typedef enum cannonUse {
  /** Operators and copies: the start is a multiple of 64, and there is room for ALIGN_UP(length, 32) + 32 bytes. */
  CANNON_USE_DEVICE = 0,
  /** Media processing (DVPP): the start is a multiple of 128, and there is the same room as for CANNON_USE_DEVICE. */
  CANNON_USE_DVPP = 1,
  /** Asynchronous copies only: the start is a multiple of 64, and there is room for length bytes. */
  CANNON_USE_ASYNC_COPY = 2,
} cannonUse;

/** A piece of a block. */
typedef struct cannonPiece {
  const void *address; /**< Start of the piece, inside the block. */
  size_t length;       /**< Bytes used, 1 or more, without the room that the rules require after them. */
  cannonUse use;       /**< What the piece is used for. */
} cannonPiece;

/** Checks whether the pieces that a program carved out of a block obey CANN's rules for their uses. The room of a piece
 * ends where the next piece starts; the room of the last one ends with the block.
 *
 * \param block   Start of the block, which was returned by an allocation function, mapped, or registered.
 * \param pieces  The pieces, in ascending order of their addresses.
 * \param count   Number of pieces, 1 or more.
 * \param failed  If not NULL, receives the index of the piece that breaks a rule; unchanged if none does.
 * \return ACL_SUCCESS; ACL_ERROR_RT_ADDR_UNALIGNED if a piece is not aligned; ACL_ERROR_RT_PARAM_INVALID if another
 *     rule is broken, or `block` is not the start of a block; ACL_ERROR_INVALID_PARAM if `block` or `pieces` is NULL.
 *     The message for aclGetRecentErrMsg() names the rule and the piece.
 */
ACL_FUNC_VISIBILITY aclError cannon_check_carved(const void *block, const cannonPiece *pieces, size_t count,
                                                 size_t *failed);

/** Returns free memory of a device, which is kept for reuse, to the host, down to single pages between small blocks,
 * until at most `keep` bytes are committed or no memory is free. Blocks keep their addresses and contents, and memory
 * that tasks may still use is not touched.
 *
 * \param device     Device number.
 * \param keep       Committed bytes to keep. SIZE_MAX returns nothing and only reads *committed.
 * \param committed  If not NULL, receives the number of bytes committed afterwards.
 * \return ACL_SUCCESS, or ACL_ERROR_RT_INVALID_DEVICEID if there is no such device.
 */
ACL_FUNC_VISIBILITY aclError cannon_trim(int32_t device, size_t keep, size_t *committed);

#ifdef __cplusplus
}
#endif

#endif
