/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks of different hosts. Two implementations behind one table: UCX (net_ucx.c; libucp.so.0, bound
 * by dlopen) and TCP (net_tcp.c), which is used where UCX is missing, or CANNON_NET=tcp says so.
 *
 *   endpoint   a process's end: one for all communicators; it has an address of bytes that the peers get by bootstrap
 *   channel    from this endpoint to another process's; messages are matched by channel and tag
 *   request    a send or a receive that is under way
 *
 * Sends and receives are posted by any thread and never block. net_progress() moves data; callers poll it, and a
 * thread of the endpoint does so while nobody else does: it sleeps until the network has something, and calls `done`.
 * Tags are chosen by the caller so that at most one send and one receive with a tag are under way on a channel. A
 * receive may be posted before or after its message arrives; a message of another length than the receive's fails both
 * with a message that has both lengths. The messages of a channel with different tags may overtake each other. */
#ifndef CANNON_COMM_NET_NET_H
#define CANNON_COMM_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { NET_ADDRESS_BYTES = 1024 };

typedef struct {
  uint32_t bytes;
  unsigned char data[NET_ADDRESS_BYTES];
} net_address;

typedef struct net_channel net_channel;

/* Lives in the caller's memory, from the post until it is done or cancelled. */
typedef struct net_request {
  _Atomic int state; /* 0: under way; 1: done; negative: failed (the channel's words say why) */
  void *internal[12];
} net_request;

/* Called by any thread, without locks of net, when requests have become done or a channel has failed. Set once, before
 * the first channel. */
void net_on_progress(void (*done)(void));

/* Opens the process's endpoint, once, and returns its address. Repeated calls return the same. */
status net_open(net_address *address);

/* The name of the implementation in use: "ucx" or "tcp"; NULL before net_open. */
const char *net_name(void);

/* Connects to a process, or takes a reference to the channel that is there already. `peer_words` describes the peer in
 * messages ("rank 3 (pid 812 on node-b)") and is copied. Does not wait for the connection. */
status net_connect(const net_address *peer, const char *peer_words, net_channel **out);
void net_disconnect(net_channel *c);

/* Posts. The bytes stay valid and unchanged (send), or untouched (receive), until the request is done. */
status net_send(net_channel *c, uint64_t tag, const void *data, size_t bytes, net_request *r);
status net_receive(net_channel *c, uint64_t tag, void *data, size_t bytes, net_request *r);

/* Takes back a request that is under way; afterwards its memory is the caller's again. */
void net_cancel(net_channel *c, net_request *r);

/* Moves data; true if anything happened. */
bool net_progress(void);

/* Says that the caller stops polling for now: the thread moves data at once, instead of when it has seen no poll for a
 * while. Does not block. */
void net_hand_over(void);

/* Whether the peer is gone: its process ended, the connection broke, or it has not been heard of for the time of the
 * keep-alive (some seconds). *words: why, for messages; lives as long as the channel. */
bool net_is_lost(net_channel *c, const char **words);

/* Ends the endpoint at the end of the process. */
void net_close(void);

#endif
