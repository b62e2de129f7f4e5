/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/om_shell.h"

#include <string.h>

enum { MAGIC = 0x444f4d49 /* "IMOD" */, VERSION = 0x20000000, MODEL_STANDARD = 1, MOST_PARTITIONS = 64 };

/* Offsets in the header. */
enum {
  AT_LENGTH = 76, /* what follows the header, in 32 bits; older than AT_MODEL_LENGTH */
  AT_TYPE = 82,
  AT_NAME = 84,
  AT_N_MODELS = 156,
  AT_PLATFORM = 160,
  AT_MODEL_LENGTH = 184,
};

bool om_is(const void *bytes, size_t n) {
  uint32_t magic;
  if (n < sizeof magic) return false;
  memcpy(&magic, bytes, sizeof magic);
  return magic == MAGIC;
}

/* Entry i of the table, in the newer form or, with 12 bytes an entry, the older one. */
static om_partition partition_at(const char *table, bool newer, uint32_t i) {
  om_partition p = {0};
  uint32_t old[3];
  if (newer) {
    memcpy(&p, table + sizeof(om_partition_table) + i * sizeof p, sizeof p);
    return p;
  }
  memcpy(old, table + sizeof(uint32_t) + i * sizeof old, sizeof old);
  return (om_partition){.kind = old[0], .offset = old[1], .bytes = old[2]};
}

const char *om_find(const void *bytes, size_t n, uint32_t kind, const void **at, uint64_t *size) {
  const char *header = bytes, *const table = header + OM_HEADER_BYTES;
  uint64_t length;
  uint32_t n_partitions;
  *at = NULL;
  *size = 0;
  if (n < OM_HEADER_BYTES + sizeof(om_partition_table)) return "the file is shorter than its header";
  memcpy(&length, header + AT_MODEL_LENGTH, sizeof length);
  memcpy(&n_partitions, table, sizeof n_partitions);
  const bool newer = length;
  const uint64_t rest = n - OM_HEADER_BYTES;
  const uint64_t head = newer ? sizeof(om_partition_table) + (uint64_t)n_partitions * sizeof(om_partition)
                              : sizeof(uint32_t) + (uint64_t)n_partitions * 3 * sizeof(uint32_t);
  if (n_partitions > MOST_PARTITIONS || head > rest) return "the file is cut off in the table of its partitions";
  for (uint32_t i = 0; i < n_partitions; ++i) {
    const om_partition p = partition_at(table, newer, i);
    if (p.offset > rest - head || p.bytes > rest - head - p.offset) return "a partition of the file is cut off";
    if (p.kind != kind || *at) continue;
    *at = table + head + p.offset;
    *size = p.bytes;
  }
  return NULL;
}

void om_fill_header(char h[OM_HEADER_BYTES], const char *name, uint64_t length) {
  const uint32_t numbers[] = {MAGIC, OM_HEADER_BYTES, VERSION}, one = 1;
  const uint32_t short_length = length <= UINT32_MAX ? (uint32_t)length : 0;
  memset(h, 0, OM_HEADER_BYTES);
  memcpy(h, numbers, sizeof numbers);
  memcpy(h + AT_LENGTH, &short_length, sizeof short_length);
  h[AT_TYPE] = MODEL_STANDARD;
  strncpy(h + AT_NAME, name, OM_NAME_BYTES - 1);
  memcpy(h + AT_N_MODELS, &one, sizeof one);
  strcpy(h + AT_PLATFORM, "cannon");
  memcpy(h + AT_MODEL_LENGTH, &length, sizeof length);
}
