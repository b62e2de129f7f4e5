/* SPDX-License-Identifier: Apache-2.0 */
/* The struct of communicators, for communicator.c, collective.c and the files beside them. */
#ifndef CANNON_COMM_COMM_PRIVATE_H
#define CANNON_COMM_COMM_PRIVATE_H

#include <string.h>

#include "base/store/hash.h"
#include "comm/communicator.h"
#include "comm/job.h"
#include "comm/neighbour.h"
#include "comm/net/net.h"
#include "comm/node.h"
#include "runtime/object.h"

/* What a rank tells the others when the communicator is created. Two ranks are on one host if they share a simulated
 * machine (memory/share/machine.h). */
typedef struct {
  uint64_t machine[2];
  neighbour_card process;
  neighbour_file memory; /* of its device */
  int32_t device;
  uint32_t version;
  int64_t buffer_mib, deterministic;
  char host[64];
  char name[COMM_NAME_BYTES];
} comm_card;

static inline bool comm_is_same_machine(const comm_card *a, const comm_card *b) {
  return a->machine[0] == b->machine[0] && a->machine[1] == b->machine[1];
}

/* A member of the node as this process reaches it. */
typedef struct {
  uint32_t rank; /* in the communicator */
  neighbour *process;
  neighbour_file memory;
  char *_Atomic base;                  /* the device's file here, mapped when it is first needed; NULL for own ranks */
  _Atomic uint64_t dead_since_ns;      /* when the process was first seen to have ended; 0: it lives */
  _Atomic uint64_t n_sent, n_received; /* transfers with it that were submitted */
} comm_member;

/* Lives as an object of object.h does; tasks have references. All but atomics is constant after creation. */
struct comm {
  object o;
  int device;
  uint32_t n_ranks, rank;
  uint32_t n_members, member; /* of the node; this rank's number among them */
  uint32_t n_processes;       /* other processes of the node */
  bool has_own_peers;         /* further ranks of this process are members */
  node *node;
  comm_member *members;
  uint32_t *member_of; /* by rank; UINT32_MAX: on another host */
  neighbour **processes;
  comm_card *cards; /* by rank */
  comm_config config;
  net_address *addresses;   /* by rank, of their processes; NULL: all ranks are on this host */
  struct comm_hosts *hosts; /* of hosts.h; NULL: all ranks are on this host */
  uint64_t charged_bytes;   /* of the device, for buffers that the device would have */
  int most_threads;         /* of a collective's work in this process */
  uint64_t spin_ns;         /* how long a task spins for other ranks before it yields its processor */
  _Atomic uint64_t n_calls;
  _Atomic uint32_t n_pending; /* calls that were submitted and are not over */
  _Atomic bool destroyed, suspended;
};
_Static_assert(sizeof(struct comm) <= 1 << COMM_SLOT_SHIFT, "COMM_SLOT_SHIFT");

/* A number of the communicator that is the same in all ranks, and different in communicators that exist at the same
 * time: a hash of its name. */
static inline uint64_t comm_number(const comm *c) {
  return hash_bytes(HASH_START, c->config.name, strlen(c->config.name));
}

/* "rank 3 (process 812 on node-b)" */
void comm_describe_rank(const comm *c, uint32_t rank, char *words, size_t bytes);

/* Called ten times a second while tasks wait: notes members whose processes have ended. */
void comm_watch(void);

#endif
