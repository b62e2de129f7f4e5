/* SPDX-License-Identifier: Apache-2.0 */
/* Rank tables: the JSON files that say which rank has which device of which server. Called by communicator.c.
 * Thread-safe. */
#ifndef CANNON_COMM_START_RANK_TABLE_H
#define CANNON_COMM_START_RANK_TABLE_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"

enum { RANK_TABLE_ID = 64 };

typedef struct {
  uint32_t rank, device;
  char server[RANK_TABLE_ID];
  char super_pod[RANK_TABLE_ID]; /* empty: none */
  struct sockaddr_storage host;  /* host_ip, else server_id if it is an address; ss_family 0: neither */
} rank_table_entry;

typedef struct {
  uint32_t n_ranks;
  rank_table_entry *ranks; /* in the order of ranks; owned */
} rank_table;

/* Versions 1.0 and 1.2. ST_CONFIG_PATH if the file cannot be read; ST_INVALID_VALUE, with key, value and expectation,
 * if its content is wrong. On failure *out is unchanged. The caller frees the table with rank_table_free. */
status rank_table_load(const char *path, rank_table *out);
status rank_table_parse(const char *text, rank_table *out);
void rank_table_free(rank_table *table);

#endif
