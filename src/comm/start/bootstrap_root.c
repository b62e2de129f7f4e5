/* SPDX-License-Identifier: Apache-2.0 */
/* The root's side of a session: one thread, which serves all ranks by epoll.
 *
 *   link    a connection. New ones have no rank until their HELLO has the session's number; others are closed
 *   round   one exchange: the cards that have come. It lives until its last byte has been sent
 *
 * All of a session belongs to its thread. When the session fails, all ranks that are there, and those that still come,
 * get the words; the thread then ends as soon as all have been told, or after the timeout. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/text.h"
#include "comm/comm_settings.h"
#include "comm/start/bootstrap_private.h"
#include "runtime/scheduler.h"

enum { HELLO_MS = 30000 }; /* within which a new connection introduces itself */

typedef struct {
  size_t n_users; /* links that still have to send it, and the session while it collects cards */
  uint32_t bytes; /* of a card */
  size_t n_bytes; /* of all cards */
  char *cards;    /* of all ranks, in their order */
} root_round;

typedef enum { LINK_NEW, LINK_JOINED, LINK_LEFT, LINK_DRAINED } root_link_state;

typedef struct root_link root_link;
struct root_link {
  root_link *next;
  int fd;
  root_link_state state;
  uint32_t rank, pid;
  char host[BOOTSTRAP_HOST_NAME];
  uint64_t since_ms;
  bool gave, dead; /* gave: its card is in the round. dead: to be closed */
  /* What comes in: first a frame's header, then its bytes to `in`. */
  bootstrap_frame frame;
  size_t n_in; /* of header and bytes together */
  char *in;
  union {
    bootstrap_hello hello;
    char words[BOOTSTRAP_WORDS];
  } body;
  /* What goes out, in this order. */
  char head[2 * sizeof(bootstrap_frame)];
  size_t n_head, head_sent;
  root_round *round;
  size_t round_sent;
  char tail[sizeof(bootstrap_frame) + BOOTSTRAP_WORDS];
  size_t n_tail, tail_sent;
};

typedef struct {
  int listener, poll;
  bootstrap_session number;
  bootstrap_words address;
  uint64_t timeout_ms, deadline_ms; /* deadline_ms: when the present wait ends; 0: the session waits without limit */
  uint32_t n_ranks;                 /* 0 until the first has joined */
  uint32_t n_joined, n_left, n_given, n_exchanges, n_told;
  unsigned char *seen;                       /* for each rank whether it has joined, at some time */
  char first_left[60 + BOOTSTRAP_HOST_NAME]; /* which rank has left first, in words; its link may be closed */
  root_link *links;
  root_round *round; /* whose cards are being collected; NULL before the first one comes */
  status failure;    /* ST_OK: the session is well */
  char words[BOOTSTRAP_WORDS];
} root_session;

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static void root_round_release(root_round *round) {
  if (!round || --round->n_users) return;
  free(round->cards);
  free(round);
}

static root_round *root_round_new(uint32_t n_ranks, uint32_t bytes) {
  root_round *round = malloc(sizeof *round);
  if (!round) return NULL;
  const size_t n_bytes = (size_t)n_ranks * bytes;
  *round = (root_round){.n_users = 1, .bytes = bytes, .n_bytes = n_bytes, .cards = malloc(n_bytes + 1)};
  if (round->cards) return round;
  free(round);
  return NULL;
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

/* Puts the session's words after what the link still has to send. */
static void root_tell(root_session *s, root_link *l) {
  if (l->n_tail) return;
  const size_t n = strlen(s->words);
  const bootstrap_frame frame = {BOOTSTRAP_MAGIC, BOOTSTRAP_FAILED, (uint32_t)s->failure, (uint32_t)n};
  memcpy(l->tail, &frame, sizeof frame);
  memcpy(l->tail + sizeof frame, s->words, n);
  l->n_tail = sizeof frame + n;
  l->state = LINK_DRAINED;
  ++s->n_told;
}

/* The first failure counts; all ranks get it. */
__attribute__((format(printf, 3, 4))) static void root_fail(root_session *s, status code, const char *format, ...) {
  if (s->failure != ST_OK) return;
  va_list values;
  va_start(values, format);
  vsnprintf(s->words, sizeof s->words, format, values);
  va_end(values);
  s->failure = code;
  s->deadline_ms = bootstrap_now_ms() + s->timeout_ms;
  root_round_release(s->round);
  s->round = NULL;
  s->n_told += s->n_left;
  for (root_link *l = s->links; l; l = l->next)
    if (l->state == LINK_JOINED) root_tell(s, l);
}

/* Writes "3, 5 to 7 and others": the ranks for which `here` is 0. */
static void root_list_missing(const root_session *s, const unsigned char *here, char *out, size_t room) {
  size_t n = 0;
  out[0] = '\0';
  for (uint32_t from = 0, to; from < s->n_ranks; from = to + 1) {
    to = from;
    if (here[from]) continue;
    while (to + 1 < s->n_ranks && !here[to + 1]) ++to;
    if (n + 40 > room) {
      snprintf(out + n, room - n, " and others");
      return;
    }
    n += (size_t)snprintf(out + n, room - n, from == to ? "%s%u" : "%s%u to %u", n ? ", " : "", from, to);
  }
}

/* The time is over in an exchange: says which ranks have not joined, or else which have not given their cards. */
static void root_fail_late(root_session *s) {
  char missing[200];
  if (s->n_joined < s->n_ranks) {
    root_list_missing(s, s->seen, missing, sizeof missing);
    root_fail(s, ST_COMM_TIMEOUT,
              "%u of %u ranks have not joined the root at %s within %ju s (HCCL_CONNECT_TIMEOUT): "
              "rank %s",
              s->n_ranks - s->n_joined, s->n_ranks, s->address.text, (uintmax_t)s->timeout_ms / 1000, missing);
    return;
  }
  unsigned char *gave = calloc(s->n_ranks, 1);
  if (gave)
    for (const root_link *l = s->links; l; l = l->next)
      if (l->state == LINK_JOINED) gave[l->rank] = l->gave;
  if (gave)
    root_list_missing(s, gave, missing, sizeof missing);
  else
    snprintf(missing, sizeof missing, "(no host memory to list them)");
  free(gave);
  root_fail(s, ST_COMM_TIMEOUT,
            "%u of %u ranks have not come to exchange %u within %ju s (HCCL_CONNECT_TIMEOUT): "
            "rank %s",
            s->n_ranks - s->n_given, s->n_ranks, s->n_exchanges, (uintmax_t)s->timeout_ms / 1000, missing);
}

/* ---- frames that come in ----------------------------------------------------------------------------------------- */

static bool root_link_queue_head(root_link *l, bootstrap_kind kind, uint32_t number, uint32_t bytes) {
  const bootstrap_frame frame = {BOOTSTRAP_MAGIC, kind, number, bytes};
  if (l->n_head + sizeof frame > sizeof l->head) return false;
  memcpy(l->head + l->n_head, &frame, sizeof frame);
  l->n_head += sizeof frame;
  return true;
}

static root_link *root_find(const root_session *s, uint32_t rank) {
  for (root_link *l = s->links; l; l = l->next)
    if (l->state != LINK_NEW && l->rank == rank) return l;
  return NULL;
}

/* What is wrong with a newcomer fails the session: the others would wait in vain for the rank that it should be. */
static void root_check_hello(root_session *s, const bootstrap_hello *h, const char *host) {
  if (h->version != BOOTSTRAP_VERSION)
    root_fail(s, ST_COMM_MISMATCH,
              "rank %u (process %u on %s) speaks version %u of the bootstrap, the root at %s "
              "speaks %d; expected the same release of Cannon",
              h->rank, h->pid, host, h->version, s->address.text, BOOTSTRAP_VERSION);
  else if (h->n_ranks == 0 || h->n_ranks > BOOTSTRAP_MAX_RANKS || (s->n_ranks && h->n_ranks != s->n_ranks))
    root_fail(s, ST_COMM_MISMATCH, "nRanks is %u in rank %u (process %u on %s), but %u in the ranks that joined before",
              h->n_ranks, h->rank, h->pid, host, s->n_ranks);
  else if (h->rank >= h->n_ranks)
    root_fail(s, ST_COMM_MISMATCH, "rank is %u in process %u on %s, expected less than nRanks = %u", h->rank, h->pid,
              host, h->n_ranks);
  else if (s->seen && s->seen[h->rank]) {
    const root_link *first = root_find(s, h->rank);
    root_fail(s, ST_COMM_MISMATCH, "rank %u joined twice: process %u on %s, and process %u on %s", h->rank,
              first ? first->pid : 0, first ? first->host : "?", h->pid, host);
  }
}

static void root_hello(root_session *s, root_link *l) {
  const bootstrap_hello h = l->body.hello;
  text_safe(l->host, sizeof l->host, h.host, strnlen(h.host, sizeof h.host));
  if (memcmp(&h.session, &s->number, sizeof h.session) != 0) {
    l->dead = true;
    return;
  }
  root_check_hello(s, &h, l->host);
  if (s->failure == ST_OK && !s->n_ranks) {
    s->seen = calloc(h.n_ranks, 1);
    if (s->seen)
      s->n_ranks = h.n_ranks;
    else
      root_fail(s, ST_NO_HOST_MEMORY, "the root at %s has no host memory for %u ranks", s->address.text, h.n_ranks);
  }
  l->rank = h.rank;
  l->pid = h.pid;
  if (s->failure != ST_OK) {
    root_tell(s, l);
    return;
  }
  l->state = LINK_JOINED;
  s->seen[h.rank] = 1;
  ++s->n_joined;
  if (!s->round) s->deadline_ms = 0;
  root_link_queue_head(l, BOOTSTRAP_WELCOME, 0, 0);
}

/* A rank begins an exchange that one which has left will never come to. */
static void root_fail_left(root_session *s, uint32_t rank, uint32_t number) {
  root_fail(s, ST_COMM_REMOTE, "%s left before exchange %u, in which rank %u takes part", s->first_left, number, rank);
}

/* The header of a card: prepares the place where the card comes. */
static void root_card_begins(root_session *s, root_link *l) {
  const bootstrap_frame *f = &l->frame;
  if (s->n_left) root_fail_left(s, l->rank, f->number);
  if (s->failure != ST_OK) return;
  if (f->bytes > BOOTSTRAP_MAX_CARD || f->number != s->n_exchanges || l->gave || l->round) {
    root_fail(s, ST_COMM_REMOTE, "rank %u (process %u on %s) sent a frame that is no card of exchange %u", l->rank,
              l->pid, l->host, s->n_exchanges);
    return;
  }
  if (!s->round) {
    s->round = root_round_new(s->n_ranks, f->bytes);
    s->deadline_ms = bootstrap_now_ms() + s->timeout_ms;
    if (!s->round)
      root_fail(s, ST_NO_HOST_MEMORY, "the root at %s has no host memory for %u cards of %u bytes", s->address.text,
                s->n_ranks, f->bytes);
  }
  if (s->failure != ST_OK) return;
  if (s->round->bytes != f->bytes)
    root_fail(s, ST_COMM_MISMATCH,
              "the card of rank %u (process %u on %s) has %u bytes in exchange %u, those of other "
              "ranks have %u; expected the same release of Cannon",
              l->rank, l->pid, l->host, f->bytes, s->n_exchanges, s->round->bytes);
  else
    l->in = s->round->cards + (size_t)l->rank * f->bytes;
}

static void root_card(root_session *s, root_link *l) {
  l->gave = true;
  if (++s->n_given < s->n_ranks) return;
  root_round *round = s->round;
  for (root_link *k = s->links; k; k = k->next) {
    if (k->state != LINK_JOINED) continue;
    root_link_queue_head(k, BOOTSTRAP_CARDS, s->n_exchanges, round->bytes);
    k->round = round;
    k->round_sent = 0;
    k->gave = false;
    ++round->n_users;
  }
  s->round = NULL;
  s->n_given = 0;
  s->deadline_ms = 0;
  ++s->n_exchanges;
  root_round_release(round);
}

static void root_leave(root_session *s, root_link *l) {
  l->state = LINK_LEFT;
  if (!s->n_left++)
    snprintf(s->first_left, sizeof s->first_left, "rank %u (process %u on %s)", l->rank, l->pid, l->host);
  if (s->round)
    root_fail(s, ST_COMM_REMOTE, "rank %u (process %u on %s) left before exchange %u, in which other ranks take part",
              l->rank, l->pid, l->host, s->n_exchanges);
}

/* A frame's header has come: checks it, and sets where its bytes go. */
static void root_frame_begins(root_session *s, root_link *l) {
  const bootstrap_frame *f = &l->frame;
  l->in = l->body.words;
  if (l->state == LINK_NEW) {
    l->dead = f->magic != BOOTSTRAP_MAGIC || f->kind != BOOTSTRAP_HELLO || f->bytes != sizeof(bootstrap_hello);
    return;
  }
  const bool known =
      f->magic == BOOTSTRAP_MAGIC && (f->kind == BOOTSTRAP_CARD || (f->kind == BOOTSTRAP_LEAVE && f->bytes == 0) ||
                                      (f->kind == BOOTSTRAP_ABANDON && f->bytes < BOOTSTRAP_WORDS));
  if (!known)
    root_fail(s, ST_COMM_REMOTE, "rank %u (process %u on %s) sent what is no frame of a session", l->rank, l->pid,
              l->host);
  else if (f->kind == BOOTSTRAP_CARD)
    root_card_begins(s, l);
}

static void root_frame_ends(root_session *s, root_link *l) {
  l->n_in = 0;
  if (l->state == LINK_NEW)
    root_hello(s, l);
  else if (l->frame.kind == BOOTSTRAP_CARD)
    root_card(s, l);
  else if (l->frame.kind == BOOTSTRAP_LEAVE)
    root_leave(s, l);
  else {
    l->body.words[l->frame.bytes] = '\0';
    char safe[BOOTSTRAP_WORDS - 100];
    text_safe(safe, sizeof safe, l->body.words, l->frame.bytes);
    l->state = LINK_LEFT;
    ++s->n_left;
    root_fail(s, ST_COMM_REMOTE, "rank %u (process %u on %s) gave up: %s", l->rank, l->pid, l->host, safe);
  }
}

/* The connection has ended. */
static void root_link_ended(root_session *s, root_link *l) {
  l->dead = true;
  if (l->state != LINK_JOINED) return;
  l->state = LINK_LEFT;
  ++s->n_left;
  root_fail(s, ST_COMM_REMOTE, "rank %u (process %u on %s) has ended, or its connection is lost, after %u exchanges",
            l->rank, l->pid, l->host, s->n_exchanges);
}

/* Receives what there is. Links that have left, or have been told that the session has failed, are only drained:
 * closing a socket with unread bytes would take back the words that are on their way. */
static void root_link_read(root_session *s, root_link *l) {
  char waste[4096];
  while (!l->dead) {
    const bool drain = l->state == LINK_LEFT || l->state == LINK_DRAINED;
    const size_t header = sizeof l->frame, whole = header + (l->n_in >= header ? l->frame.bytes : 0);
    char *to = drain ? waste : l->n_in < header ? (char *)&l->frame + l->n_in : l->in + (l->n_in - header);
    const size_t room = drain ? sizeof waste : l->n_in < header ? header - l->n_in : whole - l->n_in;
    const ssize_t n = recv(l->fd, to, room, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      root_link_ended(s, l);
      return;
    }
    if (drain) continue;
    l->n_in += (size_t)n;
    if (l->n_in == header) root_frame_begins(s, l);
    if (l->dead || l->state == LINK_DRAINED) continue;
    if (l->n_in >= header && l->n_in == header + l->frame.bytes) root_frame_ends(s, l);
  }
}

/* ---- what goes out ----------------------------------------------------------------------------------------------- */

/* Sends what is left of the bytes; whether all are sent. */
static bool root_link_push(root_link *l, const char *data, size_t n, size_t *sent) {
  while (*sent < n) {
    const ssize_t k = send(l->fd, data + *sent, n - *sent, MSG_NOSIGNAL);
    if (k > 0)
      *sent += (size_t)k;
    else if (errno != EINTR) {
      if (errno != EAGAIN) *sent = n; /* the connection is broken, which its end shows */
      return errno != EAGAIN;
    }
  }
  return true;
}

static void root_link_write(root_link *l) {
  if (!root_link_push(l, l->head, l->n_head, &l->head_sent)) return;
  l->n_head = l->head_sent = 0;
  if (l->round) {
    root_round *round = l->round;
    INVARIANT(round->n_users >= 1);
    if (!root_link_push(l, round->cards, round->n_bytes, &l->round_sent)) return;
    l->round = NULL;
    root_round_release(round);
  }
  if (!l->n_tail || l->tail_sent == l->n_tail) return;
  if (root_link_push(l, l->tail, l->n_tail, &l->tail_sent)) shutdown(l->fd, SHUT_WR);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Lets the process open as many files as its hard limit allows. It is done only when the soft limit, often 1024, is
 * too low for the ranks; programs that use select() are not affected before. */
static bool root_raise_file_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void root_add_link(root_session *s, int fd) {
  const int on = 1;
  root_link *l = calloc(1, sizeof *l);
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = l};
  bootstrap_socket_keep(fd);
  if (!l || epoll_ctl(s->poll, EPOLL_CTL_ADD, fd, &e) != 0) {
    bootstrap_socket_close(fd);
    free(l);
    return; /* its rank sees the connection end */
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  l->fd = fd;
  l->since_ms = bootstrap_now_ms();
  l->next = s->links;
  s->links = l;
}

static void root_accept(root_session *s) {
  for (;;) {
    const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
      root_add_link(s, fd);
    else if (errno == EAGAIN)
      return;
    else if (errno == EMFILE && root_raise_file_limit())
      continue;
    else if (errno != EINTR && errno != ECONNABORTED) {
      root_fail(s, ST_FAILURE, "the root at %s cannot accept more ranks: %s", s->address.text, strerror(errno));
      return;
    }
  }
}

static void root_link_free(root_link *l) {
  root_round_release(l->round);
  bootstrap_socket_close(l->fd);
  free(l);
}

/* Closes the links that are dead, and those that have not introduced themselves in time. */
static void root_sweep(root_session *s, uint64_t now_ms) {
  for (root_link **at = &s->links, *l; (l = *at) != NULL;) {
    if (l->dead || (l->state == LINK_NEW && now_ms - l->since_ms > HELLO_MS)) {
      *at = l->next;
      root_link_free(l);
    } else
      at = &l->next;
  }
}

static bool root_has_links(const root_session *s) {
  for (const root_link *l = s->links; l; l = l->next)
    if (l->state != LINK_NEW) return true;
  return false;
}

/* Whether nothing is left to do: all ranks have left, or have been told of the failure and closed. */
static bool root_is_over(const root_session *s) {
  if (s->failure != ST_OK) return s->n_ranks && s->n_told >= s->n_ranks && !root_has_links(s);
  return s->n_ranks && s->n_left == s->n_ranks;
}

/* The state of the session is consistent: the counts are those of the links. */
static bool root_is_valid(const root_session *s) {
  uint32_t n_given = 0;
  for (const root_link *l = s->links; l; l = l->next) n_given += l->state == LINK_JOINED && l->gave;
  return s->n_joined <= s->n_ranks && (s->failure != ST_OK || (n_given == s->n_given && s->n_left <= s->n_joined));
}

static void root_serve(root_session *s) {
  enum { EVENTS = 64, MAX_WAIT_MS = 1000 };
  struct epoll_event events[EVENTS];
  for (;;) {
    const uint64_t now = bootstrap_now_ms();
    root_sweep(s, now);
    if (root_is_over(s)) return;
    if (s->deadline_ms && now >= s->deadline_ms) {
      if (s->failure != ST_OK || !s->n_ranks) return;
      root_fail_late(s);
    }
    for (root_link *l = s->links; l; l = l->next)
      if (l->n_head || l->round || l->tail_sent < l->n_tail) root_link_write(l);
    const uint64_t left = s->deadline_ms ? s->deadline_ms - now : MAX_WAIT_MS;
    const int n = epoll_wait(s->poll, events, EVENTS, left < MAX_WAIT_MS ? (int)left + 1 : MAX_WAIT_MS);
    for (int i = 0; i < n; ++i)
      if (events[i].data.ptr)
        root_link_read(s, events[i].data.ptr);
      else
        root_accept(s);
    INVARIANT_WALK(root_is_valid(s));
  }
}

static void root_free(root_session *s) {
  while (s->links) {
    root_link *l = s->links;
    s->links = l->next;
    root_link_free(l);
  }
  root_round_release(s->round);
  bootstrap_socket_close(s->poll);
  bootstrap_socket_close(s->listener);
  free(s->seen);
  free(s);
}

static void *root_thread(void *argument) {
  root_session *s = argument;
  root_serve(s);
  root_free(s);
  return NULL;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* Listens at the address. 0, or errno. */
static int root_listen(const struct sockaddr_storage *address, int *fd) {
  const int on = 1, s = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return errno;
  bootstrap_socket_keep(s);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(s, (const struct sockaddr *)address, bootstrap_address_bytes(address)) == 0 && listen(s, SOMAXCONN) == 0) {
    *fd = s;
    return 0;
  }
  const int error = errno;
  bootstrap_socket_close(s);
  return error;
}

static void root_set_port(struct sockaddr_storage *address, uint32_t port) {
  if (address->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
  else
    ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

/* Listens at a port of HCCL_HOST_SOCKET_PORT_RANGE, or at any. Sets the address's port. */
static status root_listen_somewhere(struct sockaddr_storage *address, int *fd) {
  const comm_settings *settings;
  TRY(comm_settings_get(&settings));
  int error = settings->n_host_ports ? EADDRINUSE : root_listen(address, fd);
  for (size_t i = 0; i < settings->n_host_ports && error == EADDRINUSE; ++i)
    for (uint32_t p = settings->host_ports[i].first; p <= settings->host_ports[i].last && error == EADDRINUSE; ++p) {
      root_set_port(address, p);
      error = root_listen(address, fd);
    }
  socklen_t bytes = sizeof *address;
  if (!error && getsockname(*fd, (struct sockaddr *)address, &bytes) != 0) {
    error = errno;
    bootstrap_socket_close(*fd);
  }
  if (!error) return ST_OK;
  return fail(ST_FAILURE, "the root cannot listen at %s: %s%s", bootstrap_address_words(address).text, strerror(error),
              settings->n_host_ports ? "; expected a free port in HCCL_HOST_SOCKET_PORT_RANGE" : "");
}

/* Takes the listener, also on failure. */
static status root_start(int listener, const struct sockaddr_storage *address, const bootstrap_session *number) {
  uint64_t timeout_ms = 0;
  const status st = bootstrap_timeout_ms(&timeout_ms);
  root_session *s = st == ST_OK ? calloc(1, sizeof *s) : NULL;
  if (!s) {
    bootstrap_socket_close(listener);
    return st != ST_OK ? st : fail(ST_NO_HOST_MEMORY, "no host memory for the root of a communicator");
  }
  *s = (root_session){.listener = listener,
                      .poll = bootstrap_socket_keep(epoll_create1(EPOLL_CLOEXEC)),
                      .number = *number,
                      .address = bootstrap_address_words(address),
                      .timeout_ms = timeout_ms,
                      .deadline_ms = bootstrap_now_ms() + timeout_ms};
  struct epoll_event e = {.events = EPOLLIN}; /* without a link: the listener */
  int error = s->poll < 0 || epoll_ctl(s->poll, EPOLL_CTL_ADD, listener, &e) != 0 ? errno : 0;
  if (!error) error = scheduler_start_thread(root_thread, s);
  if (!error) return ST_OK;
  root_free(s);
  return fail(ST_FAILURE, "the thread of the root cannot start: %s", strerror(error));
}

status bootstrap_root_info(unsigned char info[BOOTSTRAP_INFO_BYTES]) {
  struct sockaddr_storage address;
  bootstrap_session number;
  int listener = -1;
  TRY(bootstrap_host_address(&address));
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
    return fail(ST_FAILURE, "no random number for the root information: %s", strerror(errno));
  TRY(root_listen_somewhere(&address, &listener));
  TRY(root_start(listener, &address, &number));
  bootstrap_make_info(&address, &number, false, info);
  return ST_OK;
}

status bootstrap_table_root(const struct sockaddr_storage *address, uint64_t number) {
  const bootstrap_session session = bootstrap_session_of(number);
  int listener = -1;
  const int error = root_listen(address, &listener);
  if (error)
    return fail(ST_FAILURE, "rank 0 cannot listen at %s, the rank table's host and HCCL_IF_BASE_PORT: %s%s",
                bootstrap_address_words(address).text, strerror(error),
                error == EADDRINUSE ? "; expected a free port, best one outside of net.ipv4.ip_local_port_range" : "");
  return root_start(listener, address, &session);
}
