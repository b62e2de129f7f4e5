/* The rules of each kind of allocation, as CANN documents them: one table, used by memory.c and by whoever explains. */
#ifndef CANNON_MEMORY_RULES_H
#define CANNON_MEMORY_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
  const char *call;        /* CANN's function */
  uint32_t round_bytes;    /* a power of two that the size is rounded up to */
  uint32_t slack_bytes;    /* and grows by this */
  uint32_t promised_align; /* of the start, as documented */
  bool pinned;             /* on the host */
} alloc_rule;

typedef enum { RULE_MALLOC, RULE_MALLOC_ALIGN32, RULE_MALLOC_CACHED, RULE_MALLOC_HOST, N_RULES } rule_kind;

extern const alloc_rule alloc_rules[N_RULES];

/* Device blocks start at multiples of 512, of which frameworks that carve blocks up make use; pinned blocks on pages,
 * since programs register what they get. Both are above everything promised. */
enum { RULE_DEVICE_UNIT_SHIFT = 9, RULE_PINNED_UNIT_SHIFT = 12 };

/* What a request of `size` bytes makes of it: ALIGN_UP(size, round) + slack; 0 where that overflows. */
static inline uint64_t rule_bytes(const alloc_rule *rule, uint64_t size) {
  const uint64_t rounded = (size + rule->round_bytes - 1) & -(uint64_t)rule->round_bytes;
  if (size > UINT64_MAX - rule->round_bytes || rounded > UINT64_MAX - rule->slack_bytes) return 0;
  return rounded + rule->slack_bytes;
}

/* The same, refused in words. */
static inline status rule_round(const alloc_rule *rule, uint64_t size, uint64_t *bytes) {
  if (unlikely(!size)) return fail(ST_INVALID_PARAM, "size is 0, expected 1 or more");
  *bytes = rule_bytes(rule, size);
  if (likely(*bytes)) return ST_OK;
  return fail(ST_NO_MEMORY, "size is %ju, which overflows when it is rounded", (uintmax_t)size);
}

#endif
