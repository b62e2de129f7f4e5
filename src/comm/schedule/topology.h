/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies: how devices are connected, as data (devices/topologies/, each number with its source). Devices are
 * numbered so that those of a group follow each other. Used by cost.h and `cannon scale`. Thread-safe, as there is no
 * state. */
#ifndef CANNON_COMM_SCHEDULE_TOPOLOGY_H
#define CANNON_COMM_SCHEDULE_TOPOLOGY_H

#include <stdint.h>

#include "base/status.h"
#include "comm/schedule/schedule.h"

/* What connects the groups of the level below (of level 0: single devices). Bandwidths are of one direction; links work
 * in both at once. */
typedef struct {
  char name[32];
  uint32_t hccl_level;     /* the level of HCCL_ALGO: 0 in a server, 1 between servers, 2 between super nodes */
  uint32_t n_ranks;        /* devices of a group; 0: no limit (the last level only) */
  double latency_ns;       /* alpha: of a round, whatever is sent in it */
  double rank_bytes_per_s; /* of all that a device sends or receives at this level */
  double link_bytes_per_s; /* between two devices; 0: only rank_bytes_per_s limits */
  double oversubscription; /* the devices of a group of the level below can together send
                              1/oversubscription of the sum of their bandwidths */
} topology_level;

typedef struct {
  char name[32], about[128];
  uint32_t n_levels;
  topology_level level[SCHEDULE_MAX_LEVELS];
  double reduce_bytes_per_s; /* 1 / gamma: operand bytes that a device reduces */
} topology;

/* Parses a text in JSON (devices/README.md). ST_INVALID_VALUE with a message that names the member, its value and what
 * was expected; a number without source is an error. */
status topology_parse(const char *text, topology *out);

/* As topology_parse, for a file. */
status topology_read(const char *path, topology *out);

/* The topology of that name in devices/topologies, which the library has in itself; or, if the name has a '/' or
 * ".json", of that file. */
status topology_named(const char *name, topology *out);

/* The name of the topology whose servers have this device. */
const char *topology_of_device(const char *soc_name);

/* The innermost level whose group has both devices. */
uint32_t topology_level_between(const topology *t, uint32_t device_a, uint32_t device_b);

#endif
