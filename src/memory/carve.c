/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/carve.h"

#include "memory/rules.h"

static status check_room(uintptr_t end, const carve_rule *rule, uint32_t slack_bytes, const carve_piece *piece,
                         bool behind_is_piece, const char *name) {
  const uint64_t wanted = carve_bytes(rule, piece->length, slack_bytes), room = end - piece->address;
  if (wanted && wanted <= room) return ST_OK;
  if (!wanted)
    return fail(ST_INVALID_VALUE, "rule room: %s has length %ju, which overflows when it is rounded", name,
                (uintmax_t)piece->length);
  return fail(ST_INVALID_VALUE,
              "rule room: %s of %ju bytes for %s has %ju bytes to %s, expected %ju: ALIGN_UP(length, %u) + %u", name,
              (uintmax_t)piece->length, rule->use, (uintmax_t)room,
              behind_is_piece ? "the next piece" : "the end of the block", (uintmax_t)wanted, rule->round_bytes,
              rule->slack ? slack_bytes : 0);
}

status carve_check(uintptr_t start, uint64_t bytes, uint32_t slack_bytes, const carve_piece *piece,
                   const carve_piece *next, const char *name) {
  if ((unsigned)piece->use >= N_CARVE_USES)
    return fail(ST_INVALID_VALUE, "rule use: %s is for %d, expected 0 to %d", name, piece->use, N_CARVE_USES - 1);
  const carve_rule *rule = &carve_rules[piece->use];
  if (piece->length == 0) return fail(ST_INVALID_VALUE, "rule length: %s has length 0, expected 1 or more", name);
  if (piece->address < start || piece->address - start >= bytes)
    return fail(ST_INVALID_VALUE,
                "rule inside: %s starts at %#jx, expected an address in the block's %ju bytes at %#jx", name,
                (uintmax_t)piece->address, (uintmax_t)bytes, (uintmax_t)start);
  if (piece->address % rule->start_align)
    return fail(ST_MISALIGNED, "rule start-%u: %s for %s starts at %#jx, %u bytes behind a multiple of %u", //
                rule->start_align, name, rule->use, (uintmax_t)piece->address,
                (unsigned)(piece->address % rule->start_align), rule->start_align);
  if (next && next->address <= piece->address)
    return fail(ST_INVALID_VALUE,
                "rule room: %s starts at %#jx, and the next piece at %#jx, expected ascending addresses", name,
                (uintmax_t)piece->address, (uintmax_t)next->address);
  const bool behind_is_piece = next && next->address - start < bytes;
  return check_room(behind_is_piece ? next->address : start + bytes, rule, slack_bytes, piece, behind_is_piece, name);
}
