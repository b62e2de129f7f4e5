/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator knows of its ranks on other hosts: which ranks each host has, a channel to each of them, and
 * notes, by which a host tells the others that the communicator has failed. Called by communicator.c, collective.c and
 * the files beside it, where a communicator has more than one host. Thread-safe. */
#ifndef CANNON_COMM_NET_HOSTS_H
#define CANNON_COMM_NET_HOSTS_H

#include "comm/collective_private.h"

typedef struct {
  status code; /* ST_OK: the rank has done all its calls and destroyed its communicator */
  uint32_t rank;
  char words[NODE_WORDS];
} hosts_note;

typedef struct {
  uint32_t host, index;                /* which host it is on, and which of the ranks there */
  net_channel *channel;                /* NULL: this host */
  _Atomic uint64_t n_sent, n_received; /* transfers with it that were submitted */
  hosts_note note;                     /* that the rank may send */
  net_request note_request, own_request;
  bool listens, told;
  _Atomic bool left; /* it has said so; from then on it may end */
} hosts_rank;

typedef struct comm_hosts {
  uint64_t id; /* of the communicator, the same in all ranks */
  uint32_t n_hosts, own;
  bool is_even;        /* all hosts have the same number of ranks */
  uint32_t **ranks_of; /* by host, ascending */
  uint32_t *n_ranks_of;
  hosts_note own_note; /* that this rank sends */
  _Atomic uint64_t n_calls;
  _Atomic bool telling; /* a thread has begun to send own_note */
  hosts_rank ranks[];
} comm_hosts;

/* Connects to the ranks of other hosts; cards are there. addresses: of all ranks' processes. */
status hosts_connect(comm *c, const net_address *addresses);
void hosts_disconnect(comm *c);

/* Looks for notes of other hosts and for channels that are lost, and notes the communicator's failure. */
void hosts_look(comm *c);

/* Tells the other hosts of a failure that this rank has found. */
void hosts_tell(comm *c, status code, const char *words);

/* Fails the communicator because a message with the rank has failed. */
status hosts_fail_message(const collective *op, const collective_part *p, uint32_t rank);

#endif
