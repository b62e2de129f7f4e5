/* SPDX-License-Identifier: Apache-2.0 */
/* The messages on a TCP connection: frames, and the matching of messages and receives (net_tcp.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/invariant.h"
#include "comm/net/net_tcp.h"

/* PASS: what one call moves at most, since it holds the lock: 100 to 200 us. COST: what a message without data costs
 * the peer that keeps it. */
enum { TCP_PASS_BYTES = 1 << 20, TCP_COST_BYTES = sizeof(tcp_op), TCP_MOST_PARTS = 16 };

_Static_assert(sizeof(tcp_op) <= sizeof(((net_request *)NULL)->internal), "an operation fits in a request");

static tcp_channel *tcp_of(net_channel *c) { return (tcp_channel *)c; }
static tcp_op *tcp_op_of(net_request *r) { return (tcp_op *)r->internal; }
static net_request *tcp_request_of(tcp_op *op) { return (net_request *)((char *)op - offsetof(net_request, internal)); }

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static void tcp_list_push(tcp_list *list, tcp_op *op) {
  INVARIANT(!op->list);
  op->list = list;
  op->next = NULL;
  op->previous = list->last;
  *(list->last ? &list->last->next : &list->first) = op;
  list->last = op;
}

static void tcp_list_remove(tcp_op *op) {
  INVARIANT(op->list);
  *(op->previous ? &op->previous->next : &op->list->first) = op->next;
  *(op->next ? &op->next->previous : &op->list->last) = op->previous;
  op->list = NULL;
}

static tcp_op *tcp_find_tag(const tcp_list *list, uint64_t tag) {
  for (tcp_op *op = list->first; op; op = op->next)
    if (op->tag == tag && !op->taker) return op;
  return NULL;
}

static tcp_op *tcp_find_number(const tcp_list *list, uint64_t number) {
  for (tcp_op *op = list->first; op; op = op->next)
    if (op->number == number) return op;
  return NULL;
}

/* The end of an operation that is in no list. Not inlined: where the operation is in a request, gcc at -O3 would warn
 * of the free(), which is for others. */
__attribute__((noinline)) static void tcp_finish(tcp_op *op, int state) {
  INVARIANT(!op->list);
  if (op->is_own)
    free(op);
  else
    net_finish(tcp_request_of(op), state);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static bool tcp_has_data(const tcp_op *op) { return op->kind == TCP_EAGER || op->kind == TCP_DATA; }
static size_t tcp_total(const tcp_op *op) { return sizeof(tcp_frame) + (tcp_has_data(op) ? op->bytes : 0); }

void tcp_push_frame(tcp_channel *c, tcp_frame_kind kind, uint64_t tag, uint64_t bytes, uint64_t number) {
  if (c->state == TCP_GONE) return;
  tcp_op *op = malloc(sizeof *op);
  if (!op) {
    tcp_lose(c, "no memory for the connection to %s", c->base.peer_words);
    return;
  }
  *op = (tcp_op){.kind = kind, .tag = tag, .bytes = bytes, .number = number, .is_own = true};
  tcp_list_push(&c->out, op);
}

/* An operation has been written. */
static void tcp_sent(tcp_channel *c, tcp_op *op) {
  tcp_list_remove(op);
  if (op->kind == TCP_ANNOUNCE && !op->is_own) {
    tcp_list_push(&c->announced, op);
    return;
  }
  /* An announcement of a send that was cancelled while it was being written. */
  if (op->kind == TCP_ANNOUNCE) tcp_push_frame(c, TCP_RETRACT, op->tag, 0, op->number);
  tcp_finish(op, 1);
}

/* Notes that n bytes of what waits have been written. */
static void tcp_advance(tcp_channel *c, size_t n) {
  while (n) {
    tcp_op *op = c->out.first;
    const size_t rest = tcp_total(op) - op->moved, part = n < rest ? n : rest;
    op->moved += part;
    n -= part;
    if (part == rest) tcp_sent(c, op);
  }
}

/* Describes the bytes of waiting operations, from the first on. Returns the number of parts; *all: their bytes. */
static int tcp_gather(const tcp_channel *c, struct iovec *parts, tcp_frame *headers, size_t *all) {
  int n = 0;
  *all = 0;
  for (tcp_op *op = c->out.first; op && n + 2 <= TCP_MOST_PARTS && *all < TCP_PASS_BYTES; op = op->next, ++headers) {
    size_t skip = op->moved;
    if (skip < sizeof *headers) {
      *headers = (tcp_frame){op->kind, 0, op->tag, op->bytes, op->number};
      parts[n] = (struct iovec){(char *)headers + skip, sizeof *headers - skip};
      *all += parts[n++].iov_len;
      skip = sizeof *headers;
    }
    const size_t done = skip - sizeof *headers, rest = tcp_has_data(op) ? op->bytes - done : 0;
    if (!rest) continue;
    const size_t part = rest < TCP_PASS_BYTES ? rest : TCP_PASS_BYTES;
    parts[n] = (struct iovec){op->data + done, part};
    *all += parts[n++].iov_len;
    if (part < rest) break;
  }
  return n;
}

bool tcp_flush(tcp_channel *c) {
  size_t moved = 0;
  while (c->state == TCP_OPEN && c->out.first && moved < TCP_PASS_BYTES) {
    struct iovec parts[TCP_MOST_PARTS];
    tcp_frame headers[TCP_MOST_PARTS];
    size_t all;
    const int n_parts = tcp_gather(c, parts, headers, &all);
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n_parts};
    const ssize_t n = sendmsg(c->source.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      tcp_lose_by_error(c, errno);
      return true;
    }
    if (n > 0) tcp_advance(c, (size_t)n);
    if (n > 0) moved += (size_t)n;
    if (n < (ssize_t)all) break; /* the socket is full */
  }
  if (c->state == TCP_OPEN) tcp_want_write(c, c->out.first != NULL);
  return moved;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

/* Gives the peer room for further eager messages, now and then. */
static void tcp_give_credit(tcp_channel *c, size_t bytes) {
  c->credit += bytes + TCP_COST_BYTES;
  if (c->credit < TCP_WINDOW_BYTES / 4) return;
  tcp_push_frame(c, TCP_CREDIT, 0, c->credit, 0);
  c->credit = 0;
}

/* A message and its receive have different lengths: both fail. number: of an announced message, otherwise 0. */
static void tcp_mismatch(tcp_channel *c, tcp_op *receive, uint64_t bytes, uint64_t number) {
  net_note_failed(&c->base, "%s sent a message of %llu bytes, expected %zu (tag %#llx)", c->base.peer_words,
                  (unsigned long long)bytes, receive->bytes, (unsigned long long)receive->tag);
  tcp_push_frame(c, TCP_REFUSE, receive->tag, receive->bytes, number);
  tcp_finish(receive, -1);
}

static void tcp_ask(tcp_channel *c, tcp_op *receive, uint64_t number) {
  receive->number = number;
  tcp_list_push(&c->asked, receive); /* first: a loss fails what is in lists */
  tcp_push_frame(c, TCP_ASK, receive->tag, 0, number);
}

/* Keeps a message without a receive. */
static tcp_op *tcp_keep(tcp_channel *c, const tcp_frame *f) {
  const size_t bytes = f->kind == TCP_EAGER ? f->bytes : 0;
  tcp_op *op = malloc(sizeof *op + bytes);
  if (!op) {
    tcp_lose(c, "no memory for a message of %s", c->base.peer_words);
    return NULL;
  }
  *op = (tcp_op){.kind = f->kind, .tag = f->tag, .bytes = f->bytes, .number = f->number, .is_own = true};
  op->data = (unsigned char *)(op + 1);
  tcp_list_push(&c->unexpected, op);
  return op;
}

static void tcp_on_eager(tcp_channel *c, const tcp_frame *f) {
  tcp_op *receive = tcp_find_tag(&c->receives, f->tag);
  if (!receive) {
    c->sink = tcp_keep(c, f);
    return;
  }
  tcp_list_remove(receive);
  if (receive->bytes != f->bytes)
    tcp_mismatch(c, receive, f->bytes, 0);
  else
    c->sink = receive;
  tcp_give_credit(c, f->bytes);
}

static void tcp_on_announce(tcp_channel *c, const tcp_frame *f) {
  tcp_op *receive = tcp_find_tag(&c->receives, f->tag);
  if (!receive) {
    tcp_keep(c, f);
    return;
  }
  tcp_list_remove(receive);
  if (receive->bytes != f->bytes)
    tcp_mismatch(c, receive, f->bytes, f->number);
  else
    tcp_ask(c, receive, f->number);
}

static void tcp_on_ask(tcp_channel *c, const tcp_frame *f) {
  tcp_op *send = tcp_find_number(&c->announced, f->number);
  if (!send) return; /* cancelled meanwhile */
  tcp_list_remove(send);
  send->kind = TCP_DATA;
  send->moved = 0;
  tcp_list_push(&c->out, send);
}

static void tcp_on_data(tcp_channel *c, const tcp_frame *f) {
  tcp_op *receive = tcp_find_number(&c->asked, f->number);
  if (!receive) return; /* cancelled meanwhile: the bytes are dropped */
  tcp_list_remove(receive);
  if (receive->bytes == f->bytes)
    c->sink = receive;
  else
    tcp_finish(receive, -1);
}

static void tcp_on_retract(tcp_channel *c, const tcp_frame *f) {
  tcp_op *op = tcp_find_number(&c->unexpected, f->number);
  if (op && op->kind == TCP_ANNOUNCE) {
    tcp_list_remove(op);
    free(op);
  } else if ((op = tcp_find_number(&c->asked, f->number))) {
    tcp_list_remove(op);
    tcp_list_push(&c->receives, op);
  }
}

static void tcp_on_refuse(tcp_channel *c, const tcp_frame *f) {
  tcp_op *send = f->number ? tcp_find_number(&c->announced, f->number) : NULL;
  if (send)
    net_note_failed(&c->base, "%s expects a message of %llu bytes, which has %zu (tag %#llx)", c->base.peer_words,
                    (unsigned long long)f->bytes, send->bytes, (unsigned long long)f->tag);
  else
    net_note_failed(&c->base, "%s expected a message of %llu bytes, which had another length (tag %#llx)",
                    c->base.peer_words, (unsigned long long)f->bytes, (unsigned long long)f->tag);
  if (!send) return;
  tcp_list_remove(send);
  tcp_finish(send, -1);
}

/* The last byte of a message has come. */
static void tcp_received(tcp_channel *c) {
  tcp_op *op = c->sink;
  c->sink = NULL;
  if (!op) return;
  if (!op->is_own) {
    tcp_finish(op, 1);
  } else if (op->taker) {
    tcp_op *receive = op->taker;
    tcp_list_remove(op);
    if (op->bytes) memcpy(receive->data, op->data, op->bytes);
    free(op);
    tcp_finish(receive, 1);
  }
}

/* Acts on a frame; false if it is none of this protocol, and the channel is lost. */
static bool tcp_on_frame(tcp_channel *c, const tcp_frame *f) {
  c->sink = NULL;
  switch (f->kind) {
  case TCP_EAGER: tcp_on_eager(c, f); break;
  case TCP_ANNOUNCE: tcp_on_announce(c, f); break;
  case TCP_ASK: tcp_on_ask(c, f); break;
  case TCP_DATA: tcp_on_data(c, f); break;
  case TCP_RETRACT: tcp_on_retract(c, f); break;
  case TCP_REFUSE: tcp_on_refuse(c, f); break;
  case TCP_CREDIT: c->window_used -= f->bytes < c->window_used ? f->bytes : c->window_used; break;
  case TCP_GOODBYE: tcp_lose(c, "%s has closed its end of the network", c->base.peer_words); break;
  default: tcp_lose(c, "%s sent bytes that are no message of this version", c->base.peer_words);
  }
  if (c->state != TCP_OPEN) return false;
  c->owed = f->kind == TCP_EAGER || f->kind == TCP_DATA ? f->bytes : 0;
  if (!c->owed) tcp_received(c);
  return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void tcp_take(tcp_channel *c, size_t n) {
  if (c->sink) c->sink->moved += n;
  c->owed -= n;
  if (!c->owed) tcp_received(c);
}

/* Acts on what is in stage[]. */
static void tcp_unstage(tcp_channel *c) {
  size_t at = 0;
  while (c->state == TCP_OPEN && at < c->n_staged) {
    const size_t rest = c->n_staged - at;
    if (c->owed) {
      const size_t part = rest < c->owed ? rest : c->owed;
      if (c->sink) memcpy(c->sink->data + c->sink->moved, c->stage + at, part);
      tcp_take(c, part);
      at += part;
    } else {
      tcp_frame f;
      if (rest < sizeof f) break;
      memcpy(&f, c->stage + at, sizeof f);
      at += sizeof f;
      if (!tcp_on_frame(c, &f)) return;
    }
  }
  c->n_staged -= at;
  memmove(c->stage, c->stage + at, c->n_staged);
}

/* One system call: the rest of the current message goes where it belongs, what follows it into stage[]. */
static ssize_t tcp_read_some(tcp_channel *c, size_t *asked_for) {
  static unsigned char dropped[64 << 10];
  struct iovec parts[2];
  int n_parts = 0;
  *asked_for = 0;
  if (c->owed) {
    const size_t most = c->sink ? TCP_PASS_BYTES : sizeof dropped;
    INVARIANT(!c->n_staged);
    parts[0] = (struct iovec){c->sink ? c->sink->data + c->sink->moved : dropped, c->owed < most ? c->owed : most};
    *asked_for = parts[n_parts++].iov_len;
  }
  if (*asked_for == c->owed) {
    parts[n_parts] = (struct iovec){c->stage + c->n_staged, sizeof c->stage - c->n_staged};
    *asked_for += parts[n_parts++].iov_len;
  }
  const size_t owed_part = c->owed ? parts[0].iov_len : 0;
  const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n_parts};
  const ssize_t n = recvmsg(c->source.fd, (struct msghdr *)&message, MSG_DONTWAIT);
  if (n <= 0) return n;
  const size_t direct = (size_t)n < owed_part ? (size_t)n : owed_part;
  if (direct) tcp_take(c, direct);
  c->n_staged += (size_t)n - direct;
  return n;
}

bool tcp_read(tcp_channel *c) {
  size_t moved = 0;
  while (c->state == TCP_OPEN && moved < TCP_PASS_BYTES) {
    size_t asked_for;
    const ssize_t n = tcp_read_some(c, &asked_for);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      tcp_lose_by_error(c, n < 0 ? errno : 0);
      return true;
    }
    moved += (size_t)n;
    tcp_unstage(c);
    if ((size_t)n < asked_for) break; /* that was all */
  }
  if (c->state == TCP_OPEN && c->out.first && !c->waits_to_write) tcp_flush(c);
  return moved;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

status tcp_send(net_channel *channel, uint64_t tag, const void *data, size_t bytes, net_request *r) {
  tcp_channel *c = tcp_of(channel);
  tcp_op *op = tcp_op_of(r);
  const size_t cost = bytes + TCP_COST_BYTES;
  const bool eager = bytes <= TCP_EAGER_BYTES && c->window_used + cost <= TCP_WINDOW_BYTES;
  *op = (tcp_op){.kind = eager ? TCP_EAGER : TCP_ANNOUNCE, .tag = tag, .bytes = bytes};
  op->data = (unsigned char *)(uintptr_t)data;
  if (eager)
    c->window_used += cost;
  else
    op->number = ++c->n_announced;
  tcp_list_push(&c->out, op);
  tcp_start(c);
  if (!c->waits_to_write) tcp_flush(c);
  return ST_OK;
}

status tcp_receive(net_channel *channel, uint64_t tag, void *data, size_t bytes, net_request *r) {
  tcp_channel *c = tcp_of(channel);
  tcp_op *op = tcp_op_of(r), *message = tcp_find_tag(&c->unexpected, tag);
  *op = (tcp_op){.tag = tag, .bytes = bytes, .data = data};
  if (!message) {
    if (atomic_load(&channel->lost)) return net_fail_lost(channel);
    tcp_list_push(&c->receives, op);
    tcp_start(c);
    return ST_OK;
  }
  const bool eager = message->kind == TCP_EAGER;
  if (eager && message->bytes == bytes && message->moved < bytes) { /* a part of it has come */
    message->taker = op;
    tcp_give_credit(c, bytes);
    return ST_OK;
  }
  tcp_list_remove(message);
  if (c->sink == message) c->sink = NULL;
  if (message->bytes != bytes) {
    tcp_mismatch(c, op, message->bytes, message->number);
  } else if (!eager) {
    tcp_ask(c, op, message->number);
  } else {
    if (bytes) memcpy(data, message->data, bytes);
    net_finish(r, 1);
  }
  if (eager) tcp_give_credit(c, message->bytes);
  free(message);
  if (!c->waits_to_write) tcp_flush(c);
  return ST_OK;
}

/* A send that was written in part: the rest must follow, from a copy. */
static void tcp_orphan(tcp_channel *c, tcp_op *op) {
  const size_t bytes = tcp_has_data(op) ? op->bytes : 0;
  tcp_op *copy = malloc(sizeof *copy + bytes);
  if (!copy) {
    tcp_lose(c, "no memory for the rest of a message to %s that was cancelled", c->base.peer_words);
    return;
  }
  *copy = *op;
  copy->is_own = true;
  copy->data = (unsigned char *)(copy + 1);
  if (bytes) memcpy(copy->data, op->data, bytes);
  *(op->previous ? &op->previous->next : &op->list->first) = copy;
  *(op->next ? &op->next->previous : &op->list->last) = copy;
  op->list = NULL;
}

/* A receive that is in no list: its message is being read, which goes on without it. */
static void tcp_leave_message(tcp_channel *c, const tcp_op *op) {
  if (c->sink == op) c->sink = NULL;
  for (tcp_op *message = c->unexpected.first; message; message = message->next)
    if (message->taker == op) {
      if (c->sink == message) c->sink = NULL;
      tcp_list_remove(message);
      free(message);
      return;
    }
}

void tcp_cancel(net_channel *channel, net_request *r) {
  tcp_channel *c = tcp_of(channel);
  tcp_op *op = tcp_op_of(r);
  if (!op->list) {
    tcp_leave_message(c, op);
  } else if (op->list == &c->out && op->moved) {
    tcp_orphan(c, op);
  } else {
    const bool retract = op->list == &c->announced || (op->list == &c->out && op->kind == TCP_DATA);
    if (op->list == &c->out && op->kind == TCP_EAGER) c->window_used -= op->bytes + TCP_COST_BYTES;
    tcp_list_remove(op);
    if (retract) tcp_push_frame(c, TCP_RETRACT, op->tag, 0, op->number);
    if (!c->waits_to_write) tcp_flush(c);
  }
  if (atomic_load(&r->state) == 0) net_finish(r, -1);
}

/* Empties a list whose operations have failed. */
static void tcp_fail_all(tcp_list *list) {
  for (tcp_op *op; (op = list->first);) {
    tcp_list_remove(op);
    tcp_finish(op, -1);
  }
}

void tcp_drop_messages(tcp_channel *c, bool all) {
  if (c->sink && !c->sink->is_own) tcp_finish(c->sink, -1);
  c->sink = NULL;
  c->owed = 0;
  tcp_fail_all(&c->out);
  tcp_fail_all(&c->announced);
  tcp_fail_all(&c->receives);
  tcp_fail_all(&c->asked);
  for (tcp_op *op = c->unexpected.first, *next; op; op = next) {
    next = op->next;
    if (!all && op->kind == TCP_EAGER && op->moved == op->bytes) continue;
    tcp_list_remove(op);
    if (op->taker) tcp_finish(op->taker, -1);
    free(op);
  }
}
