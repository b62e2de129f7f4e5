/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the network share (net.c, net_tcp*.c, net_ucx.c). An engine is one way to move messages: a table of
 * functions, of which a process uses one for its life. net.c has the lock, the table of channels and the thread.
 *
 * All functions of an engine, and all functions below, are called with the network's lock held (net.c), but for the
 * ones that say otherwise. */
#ifndef CANNON_COMM_NET_NET_PRIVATE_H
#define CANNON_COMM_NET_NET_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/net/net.h"

enum { NET_NUMBER_BYTES = 16, NET_WORDS_BYTES = 384 };

/* An address begins with this; the engine's own part follows. The number is random: it identifies an endpoint, and
 * only those who were told it may connect. */
typedef struct {
  char engine[8];
  unsigned char number[NET_NUMBER_BYTES];
} net_head;

/* The part of a channel that all engines have; an engine's own struct begins with it. */
struct net_channel {
  net_channel *next; /* in the table */
  const struct net_engine *engine;
  unsigned char number[NET_NUMBER_BYTES];
  net_address peer; /* no bytes while the peer is known by its own connection only: no caller has had the channel yet */
  char peer_words[160];
  unsigned n_references; /* of callers; a channel without any stays while its connection lives, for the next caller */
  /* Each of the two texts is written once, before its flag is set. */
  _Atomic bool lost, failed;
  char lost_words[NET_WORDS_BYTES], failed_words[NET_WORDS_BYTES];
};

typedef struct net_engine {
  const char *name;
  size_t channel_bytes;
  /* Appends its part to `address`, which has the head. *event: a descriptor that becomes readable when the network has
   * something. */
  status (*open)(net_address *address, int *event);
  void (*init)(net_channel *c); /* of a new channel, whose bytes are 0 */
  /* A receive may also be posted on a channel that is lost: its message may have come before. */
  status (*send)(net_channel *c, uint64_t tag, const void *data, size_t bytes, net_request *r);
  status (*receive)(net_channel *c, uint64_t tag, void *data, size_t bytes, net_request *r);
  void (*cancel)(net_channel *c, net_request *r); /* of a request that is under way */
  bool (*progress)(void);
  /* Before the thread sleeps: whether the descriptor will tell what comes from now on. *timeout_ms: -1, or the time
   * after which progress() shall be called in any case. */
  bool (*may_sleep)(int *timeout_ms);
  /* Before the memory of a channel that is lost is freed. */
  void (*release)(net_channel *c);
  void (*close)(void);
  /* In a forked child, whose parent goes on: closes the child's copies of descriptors, and touches nothing else. */
  void (*forget)(net_channel *channels);
} net_engine;

extern INTERNAL const net_engine net_tcp;
#ifdef CANNON_UCX
extern INTERNAL const net_engine net_ucx;
/* Whether libucp can be used; says why not, if the user asked for it. Without the lock. */
bool net_ucx_is_there(bool asked_for);
#endif

/* The number of this process's endpoint. */
const unsigned char *net_own_number(void);

/* The channel to the endpoint with this number, or NULL. */
net_channel *net_find(const unsigned char number[NET_NUMBER_BYTES]);
/* Makes a channel without references to an endpoint that connected by itself; NULL if there is no memory. */
net_channel *net_add(const unsigned char number[NET_NUMBER_BYTES], const char *peer_words);
/* The first channel of the table; ->next leads to the others. */
net_channel *net_first(void);

/* Ends a request: it is the caller's again, and is not touched any more. state: 1 or negative. */
void net_finish(net_request *r, int state);

/* Makes the thread look at the engine again, after a post from which something follows that its descriptor does not
 * tell. */
void net_wake_later(void);

/* Notes why the channel is lost; the first words win. The engine then fails its requests. */
__attribute__((format(printf, 2, 3))) void net_note_lost(net_channel *c, const char *format, ...);
/* Notes why a request has failed, where the channel goes on. */
__attribute__((format(printf, 2, 3))) void net_note_failed(net_channel *c, const char *format, ...);
/* The failure of a call on a lost channel. */
status net_fail_lost(const net_channel *c);

#endif
