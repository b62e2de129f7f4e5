/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables HCCL_* that have a meaning here; comm_settings.c has the table with ranges and defaults.
 * Called by the files of src/comm and by HCCL's entry points. Thread-safe. */
#ifndef CANNON_COMM_COMM_SETTINGS_H
#define CANNON_COMM_COMM_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"
#include "comm/comm_types.h"

typedef enum { COMM_DETERMINISTIC_OFF, COMM_DETERMINISTIC_ON, COMM_DETERMINISTIC_STRICT } comm_determinism;

typedef enum {
  COMM_EXPANSION_UNSET,
  COMM_EXPANSION_HOST,
  COMM_EXPANSION_HOST_TS,
  COMM_EXPANSION_AI_CPU,
  COMM_EXPANSION_AIV,
  COMM_EXPANSION_CCU_MS,
  COMM_EXPANSION_CCU_SCHED,
} comm_expansion;

/* When the ranks' calls are compared: at the first of a kind, at each, never. */
typedef enum { COMM_CHECK_FIRST, COMM_CHECK_ON, COMM_CHECK_OFF } comm_comparison;

enum { COMM_ALGO_NAME = 16, COMM_ALGO_ENTRIES = 20, COMM_PORT_RANGES = 16, COMM_IFNAME = 256 };

/* One entry of HCCL_ALGO. Empty names: not said. */
typedef struct {
  char operation[24]; /* in lower case, such as allreduce; empty: all operations */
  char level1[COMM_ALGO_NAME], level2[COMM_ALGO_NAME];
} comm_algo;

typedef struct {
  uint16_t first, last; /* inclusive */
} comm_ports;

typedef struct {
  uint32_t connect_timeout_s;
  double exec_timeout_s; /* 0: none */
  uint32_t buffer_mib;
  comm_determinism deterministic;
  size_t n_algo;
  comm_algo algo[COMM_ALGO_ENTRIES];
  comm_expansion expansion;
  struct sockaddr_storage if_ip;   /* ss_family 0: not set */
  char socket_ifname[COMM_IFNAME]; /* as the user wrote it; empty: not set */
  int socket_family;               /* AF_INET, AF_INET6; 0: not set */
  uint16_t if_base_port;
  size_t n_host_ports; /* 0: not set, or auto */
  comm_ports host_ports[COMM_PORT_RANGES];
  bool entry_log;
  comm_comparison inconsistent_check;
} comm_settings;

/* The algorithm that HCCL_ALGO names for a kind of call between hosts (level 1); NULL: none, so that the choice is
 * Cannon's. */
const char *comm_settings_algorithm(const comm_settings *s, comm_kind kind);

/* The variables as they were at the first call that found all of them right; valid for ever. Until then each call reads
 * them anew. ST_INVALID_VALUE, with variable, value and expectation, if one is wrong. */
status comm_settings_get(const comm_settings **out);

/* Reads the variables now. Of use to tests. */
status comm_settings_read(comm_settings *out);

#endif
