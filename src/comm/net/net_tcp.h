/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the TCP engine: connections (net_tcp.c) and the messages on one connection (net_tcp_messages.c).
 * Both run with the network's lock held.
 *
 * A connection carries frames: a header, and in EAGER and DATA frames the message's bytes. Messages of up to
 * TCP_EAGER_BYTES are sent at once, as far as the peer has not yet received TCP_WINDOW_BYTES of such; others are
 * announced, and sent when the peer asks for them since it has a place for them. So what a peer must keep for receives
 * that are not posted yet is bounded, and a connection is always read. */
#ifndef CANNON_COMM_NET_NET_TCP_H
#define CANNON_COMM_NET_NET_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/net/net_private.h"

enum { TCP_EAGER_BYTES = 64 << 10, TCP_WINDOW_BYTES = 1 << 20, TCP_STAGE_BYTES = 16 << 10 };

typedef enum {
  TCP_WELCOME = 1, /* the connection is accepted */
  TCP_TIE,         /* refused, as the connection that the sender of this is making takes precedence */
  TCP_EAGER,       /* a message of `bytes` bytes, which follow */
  TCP_ANNOUNCE,    /* a message that waits under `number` */
  TCP_ASK,         /* for the message `number` */
  TCP_DATA,        /* the message `number`; its bytes follow */
  TCP_RETRACT,     /* the message `number` was cancelled */
  TCP_REFUSE,      /* the message `number` (0: an eager one) has another length than its receive, which has `bytes` */
  TCP_CREDIT,      /* `bytes` of the window are free again */
  TCP_GOODBYE      /* the endpoint is being closed */
} tcp_frame_kind;

/* In the byte order of x86-64 and AArch64. */
typedef struct {
  uint32_t kind, reserved;
  uint64_t tag, bytes, number;
} tcp_frame;

typedef struct tcp_op tcp_op;
typedef struct {
  tcp_op *first, *last;
} tcp_list;

/* Something that is to be sent, a receive, or a message without a receive. It lives in the net_request, or (is_own) in
 * memory of its own, which is freed when it is done. */
struct tcp_op {
  tcp_op *next, *previous;
  tcp_list *list; /* NULL: none */
  tcp_op *taker;  /* of a message that is still being read: the receive that it is for */
  uint64_t tag, number;
  unsigned char *data;
  size_t bytes; /* of the message, or the field of that name in a frame without data */
  size_t moved; /* sending: of header and data; receiving: of the data */
  uint32_t kind;
  bool is_own;
};

typedef enum {
  TCP_IDLE,       /* no connection yet */
  TCP_CONNECTING, /* the kernel is at it */
  TCP_GREETING,   /* waits for WELCOME or TIE */
  TCP_AWAITED,    /* the peer is about to connect; if it does not, this side tries again */
  TCP_OPEN,
  TCP_GONE
} tcp_state;

/* What the epoll set tells about: the listening socket, a connection that has not said whose it is, or a channel. */
typedef struct {
  enum { TCP_LISTENER, TCP_GUEST, TCP_CHANNEL } kind;
  int fd; /* -1: none */
} tcp_source;

typedef struct {
  net_channel base;
  tcp_source source;
  tcp_state state;
  uint64_t deadline_ns; /* of TCP_CONNECTING and TCP_AWAITED */
  bool waits_to_write;  /* the epoll set tells when the socket takes more */
  tcp_list out;         /* to be sent, in this order */
  tcp_list announced;   /* sends that wait to be asked for */
  tcp_list receives;    /* that no message has come for */
  tcp_list asked;       /* receives whose message was asked for */
  tcp_list unexpected;  /* messages without a receive */
  uint64_t n_announced; /* gives numbers */
  size_t window_used;   /* by eager messages that the peer has not received */
  size_t credit;        /* to be given back to the peer */
  /* Reading. */
  tcp_op *sink;    /* takes the bytes of the current message; NULL: they are dropped */
  size_t owed;     /* bytes of the current message that are still to come */
  size_t n_staged; /* bytes in stage[], which begin with a header */
  unsigned char stage[TCP_STAGE_BYTES];
} tcp_channel;

/* net_tcp.c */
/* The connection of the channel has ended, or the engine gives it up: closes it, and fails its requests. The words say
 * why, if nothing else has. */
__attribute__((format(printf, 2, 3))) void tcp_lose(tcp_channel *c, const char *format, ...);
/* Adjusts what the epoll set tells about the channel. */
void tcp_want_write(tcp_channel *c, bool wanted);
/* The socket's error `error` in the words of TCP. */
void tcp_lose_by_error(tcp_channel *c, int error);

/* net_tcp_messages.c */
/* Sends what waits, and reads what has come, at most TCP_PASS_BYTES each. True if bytes were moved. */
bool tcp_flush(tcp_channel *c);
bool tcp_read(tcp_channel *c);
/* Queues a frame without data. The channel is lost if there is no memory for it. */
void tcp_push_frame(tcp_channel *c, tcp_frame_kind kind, uint64_t tag, uint64_t bytes, uint64_t number);
/* Fails all requests, and frees what cannot be received any more (all: also complete messages). */
void tcp_drop_messages(tcp_channel *c, bool all);
status tcp_send(net_channel *c, uint64_t tag, const void *data, size_t bytes, net_request *r);
status tcp_receive(net_channel *c, uint64_t tag, void *data, size_t bytes, net_request *r);
void tcp_cancel(net_channel *c, net_request *r);
/* Starts the connection where there is none yet. */
void tcp_start(tcp_channel *c);

#endif
