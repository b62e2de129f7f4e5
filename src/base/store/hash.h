/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, a hash of short texts and records that has no need to resist an attacker. Any thread. */
#ifndef CANNON_BASE_STORE_HASH_H
#define CANNON_BASE_STORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Continues a hash, which begins as HASH_START, with further bytes. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < n; ++i) hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
  return hash;
}

#endif
