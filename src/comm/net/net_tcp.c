/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of the TCP engine (net_tcp.h). Each endpoint listens on one port of the host's address. Between two
 * endpoints there is one connection, for both directions, which the first to need it makes. The one who connects sends
 * a greeting with both endpoints' numbers; the other answers WELCOME, or TIE if it is connecting, too, and its number
 * is the lower one. A connection that does not begin with a greeting to this endpoint is closed. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/sync.h"
#include "comm/net/net_tcp.h"
#include "comm/start/bootstrap.h"

/* SILENCE: after so long without a sign of the peer's host the connection is lost. A peer process that is stopped
 * while data waits for it counts as silent, too. */
enum { TCP_SILENCE_S = 10, TCP_CONNECT_S = 10, TCP_GREETING_S = 5, TCP_AWAITED_S = 1, TCP_FAREWELL_MS = 500 };
enum { TCP_MOST_GUESTS = 256, TCP_EVENTS = 16 };
#define S_TO_NS UINT64_C(1000000000)

/* What the one who connects says first. */
typedef struct {
  char magic[8];
  unsigned char to[NET_NUMBER_BYTES], from[NET_NUMBER_BYTES];
} tcp_greeting;
static const char tcp_magic[8] = "CANNON1";

/* The engine's part of an address. */
typedef struct {
  uint16_t family, port; /* port: in network order */
  unsigned char ip[16];
} tcp_place;

/* A connection that has not said yet whose it is. */
typedef struct tcp_guest {
  tcp_source source;
  struct tcp_guest *next;
  uint64_t deadline_ns;
  size_t got;
  tcp_greeting greeting;
} tcp_guest;

static struct {
  tcp_source listener;
  int epoll;
  tcp_guest *guests;
  unsigned n_guests;
  unsigned n_timed; /* channels with a deadline, and guests */
} tcp = {.listener = {TCP_LISTENER, -1}, .epoll = -1};

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

static socklen_t tcp_place_to(const tcp_place *place, struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  if (place->family == AF_INET6) {
    struct sockaddr_in6 *a = (struct sockaddr_in6 *)out;
    a->sin6_family = AF_INET6;
    a->sin6_port = place->port;
    memcpy(&a->sin6_addr, place->ip, sizeof a->sin6_addr);
    return sizeof *a;
  }
  struct sockaddr_in *a = (struct sockaddr_in *)out;
  a->sin_family = AF_INET;
  a->sin_port = place->port;
  memcpy(&a->sin_addr, place->ip, sizeof a->sin_addr);
  return sizeof *a;
}

static tcp_place tcp_place_of(const struct sockaddr_storage *address) {
  tcp_place place = {.family = address->ss_family};
  if (address->ss_family == AF_INET6) {
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)address;
    place.port = a->sin6_port;
    memcpy(place.ip, &a->sin6_addr, sizeof a->sin6_addr);
  } else {
    const struct sockaddr_in *a = (const struct sockaddr_in *)address;
    place.port = a->sin_port;
    memcpy(place.ip, &a->sin_addr, sizeof a->sin_addr);
  }
  return place;
}

typedef struct {
  char text[INET6_ADDRSTRLEN + 16];
} tcp_words;

static tcp_words tcp_place_words(const tcp_place *place) {
  tcp_words words;
  char ip[INET6_ADDRSTRLEN] = "?";
  inet_ntop(place->family, place->ip, ip, sizeof ip);
  snprintf(words.text, sizeof words.text, place->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip, ntohs(place->port));
  return words;
}

static void tcp_set(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

/* Small messages leave at once; a host that is silent is noticed, with data under way or without. */
static void tcp_set_options(int fd) {
  tcp_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  tcp_set(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* as in bootstrap.c: rank 0 of a rank table can listen at this port */
  tcp_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  tcp_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, TCP_SILENCE_S / 2);
  tcp_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  tcp_set(fd, IPPROTO_TCP, TCP_KEEPCNT, TCP_SILENCE_S / 2);
  tcp_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_SILENCE_S * 1000);
}

static bool tcp_watch(tcp_source *source, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = source};
  return epoll_ctl(tcp.epoll, EPOLL_CTL_ADD, source->fd, &event) == 0;
}

void tcp_want_write(tcp_channel *c, bool wanted) {
  if (c->waits_to_write == wanted) return;
  struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = &c->source};
  if (epoll_ctl(tcp.epoll, EPOLL_CTL_MOD, c->source.fd, &event) == 0) c->waits_to_write = wanted;
}

static void tcp_init(net_channel *c) { ((tcp_channel *)c)->source = (tcp_source){TCP_CHANNEL, -1}; }

/* ---- channels ---------------------------------------------------------------------------------------------------- */

static bool tcp_is_timed(tcp_state state) { return state == TCP_CONNECTING || state == TCP_AWAITED; }

static void tcp_set_state(tcp_channel *c, tcp_state state) {
  tcp.n_timed += tcp_is_timed(state) - tcp_is_timed(c->state);
  c->state = state;
}

/* Closes the channel's socket. It may get another. */
static void tcp_hang_up(tcp_channel *c) {
  if (c->source.fd >= 0) close(c->source.fd); /* leaves the epoll set, too */
  c->source.fd = -1;
  c->waits_to_write = false;
}

void tcp_lose(tcp_channel *c, const char *format, ...) {
  if (c->state == TCP_GONE) return;
  char words[NET_WORDS_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  net_note_lost(&c->base, "%s", words);
  tcp_hang_up(c);
  tcp_set_state(c, TCP_GONE);
  tcp_drop_messages(c, false);
}

void tcp_lose_by_error(tcp_channel *c, int error) {
  if (error == 0 || error == ECONNRESET || error == EPIPE)
    tcp_lose(c, "%s has ended without closing its connection", c->base.peer_words);
  else if (error == ETIMEDOUT)
    tcp_lose(c, "%s has given no sign for %d s", c->base.peer_words, TCP_SILENCE_S);
  else
    tcp_lose(c, "the connection to %s broke: %s", c->base.peer_words, strerror(error));
}

static tcp_place tcp_place_of_channel(const tcp_channel *c) {
  tcp_place place;
  memcpy(&place, c->base.peer.data + sizeof(net_head), sizeof place);
  return place;
}

static void tcp_lose_unreached(tcp_channel *c, const char *why) {
  const tcp_place place = tcp_place_of_channel(c);
  tcp_lose(c, "%s cannot be reached at %s: %s", c->base.peer_words, tcp_place_words(&place).text, why);
}

/* The kernel has connected, or failed to. */
static void tcp_greet(tcp_channel *c) {
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(c->source.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  tcp_greeting greeting;
  memcpy(greeting.magic, tcp_magic, sizeof tcp_magic);
  memcpy(greeting.to, c->base.number, NET_NUMBER_BYTES);
  memcpy(greeting.from, net_own_number(), NET_NUMBER_BYTES);
  if (!error && send(c->source.fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) error = errno;
  if (error) {
    tcp_lose_unreached(c, strerror(error));
    return;
  }
  tcp_set_state(c, TCP_GREETING);
  tcp_want_write(c, false);
}

/* Begins to connect. */
static void tcp_dial(tcp_channel *c) {
  struct sockaddr_storage address;
  const tcp_place place = tcp_place_of_channel(c);
  const socklen_t bytes = tcp_place_to(&place, &address);
  c->source = (tcp_source){TCP_CHANNEL, socket(place.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (c->source.fd < 0) {
    tcp_lose_unreached(c, strerror(errno));
    return;
  }
  tcp_set_options(c->source.fd);
  const int result = connect(c->source.fd, (struct sockaddr *)&address, bytes);
  if ((result != 0 && errno != EINPROGRESS) || !tcp_watch(&c->source, EPOLLIN | EPOLLOUT)) {
    tcp_lose_unreached(c, strerror(errno));
    return;
  }
  c->waits_to_write = true;
  c->deadline_ns = now_ns() + TCP_CONNECT_S * S_TO_NS;
  tcp_set_state(c, TCP_CONNECTING);
  net_wake_later(); /* for the deadline */
}

void tcp_start(tcp_channel *c) {
  if (c->state != TCP_IDLE) return;
  if (c->base.peer.bytes == sizeof(net_head) + sizeof(tcp_place))
    tcp_dial(c);
  else
    tcp_lose(c, "the network address of %s has %u bytes, expected %zu", c->base.peer_words, c->base.peer.bytes,
             sizeof(net_head) + sizeof(tcp_place));
}

/* The answer to the greeting has come. */
static void tcp_on_answer(tcp_channel *c) {
  tcp_frame f;
  const ssize_t n = recv(c->source.fd, &f, sizeof f, MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    tcp_lose_by_error(c, n < 0 ? errno : 0);
    return;
  }
  if (n < (ssize_t)sizeof f || recv(c->source.fd, &f, sizeof f, 0) != sizeof f) return; /* the rest is under way */
  if (f.kind == TCP_WELCOME) {
    tcp_set_state(c, TCP_OPEN);
    tcp_flush(c);
  } else if (f.kind == TCP_TIE) {
    tcp_hang_up(c);
    c->deadline_ns = now_ns() + TCP_AWAITED_S * S_TO_NS;
    tcp_set_state(c, TCP_AWAITED);
  } else {
    tcp_lose(c, "%s gave an answer that is none of this version", c->base.peer_words);
  }
}

/* ---- guests ------------------------------------------------------------------------------------------------------ */

static void tcp_guest_end(tcp_guest *g) {
  tcp_guest **at = &tcp.guests;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  --tcp.n_guests;
  --tcp.n_timed;
  if (g->source.fd >= 0) close(g->source.fd);
  free(g);
}

static void tcp_accept(void) {
  int fd;
  while ((fd = accept4(tcp.listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
    tcp_guest *g = tcp.n_guests < TCP_MOST_GUESTS ? calloc(1, sizeof *g) : NULL;
    if (!g) {
      close(fd);
      continue;
    }
    tcp_set_options(fd);
    *g = (tcp_guest){.source = {TCP_GUEST, fd}, .next = tcp.guests, .deadline_ns = now_ns() + TCP_GREETING_S * S_TO_NS};
    tcp.guests = g;
    ++tcp.n_guests;
    ++tcp.n_timed;
    if (!tcp_watch(&g->source, EPOLLIN)) tcp_guest_end(g);
  }
}

static void tcp_answer(int fd, tcp_frame_kind kind) {
  const tcp_frame f = {.kind = kind};
  if (send(fd, &f, sizeof f, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof f)
    log_line(LOG_DEBUG, "network: no answer to a connection: %s", strerror(errno)); /* which has ended, then */
}

/* The channel that the guest's connection is for, with the guest's socket; NULL if it cannot have it. */
static tcp_channel *tcp_admit(const tcp_guest *g) {
  tcp_channel *c = (tcp_channel *)net_find(g->greeting.from);
  if (!c) {
    c = (tcp_channel *)net_add(g->greeting.from, "a process that has connected");
    if (!c) return NULL;
  }
  const bool dials = c->state == TCP_CONNECTING || c->state == TCP_GREETING;
  if (dials && memcmp(net_own_number(), g->greeting.from, NET_NUMBER_BYTES) < 0) {
    tcp_answer(g->source.fd, TCP_TIE);
    return NULL;
  }
  if (dials) tcp_hang_up(c);
  return dials || c->state == TCP_IDLE || c->state == TCP_AWAITED ? c : NULL;
}

static void tcp_on_guest(tcp_guest *g) {
  char *at = (char *)&g->greeting + g->got;
  const ssize_t n = recv(g->source.fd, at, sizeof g->greeting - g->got, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) g->got += (size_t)n;
  const bool ours = memcmp(g->greeting.magic, tcp_magic, g->got < sizeof tcp_magic ? g->got : sizeof tcp_magic) == 0;
  if (n > 0 && ours && g->got < sizeof g->greeting) return;
  tcp_channel *c = NULL;
  if (n > 0 && ours && memcmp(g->greeting.to, net_own_number(), NET_NUMBER_BYTES) == 0) c = tcp_admit(g);
  if (c) {
    c->source = (tcp_source){TCP_CHANNEL, g->source.fd};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &c->source};
    epoll_ctl(tcp.epoll, EPOLL_CTL_MOD, c->source.fd, &event);
    g->source.fd = -1;
    tcp_set_state(c, TCP_OPEN);
    tcp_answer(c->source.fd, TCP_WELCOME);
    tcp_flush(c);
  }
  tcp_guest_end(g);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static void tcp_on_channel(tcp_channel *c, uint32_t events, bool *moved) {
  switch (c->state) {
  case TCP_CONNECTING: tcp_greet(c); break;
  case TCP_GREETING: tcp_on_answer(c); break;
  case TCP_OPEN:
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) *moved |= tcp_read(c);
    if (c->state == TCP_OPEN && events & EPOLLOUT) *moved |= tcp_flush(c);
    break;
  default: break; /* the event is older than the state */
  }
}

static void tcp_check_deadlines(void) {
  const uint64_t now = now_ns();
  for (tcp_guest *g = tcp.guests, *next; g; g = next) {
    next = g->next;
    if (now >= g->deadline_ns) tcp_guest_end(g);
  }
  for (net_channel *base = net_first(); base; base = base->next) {
    tcp_channel *c = (tcp_channel *)base;
    if (!tcp_is_timed(c->state) || now < c->deadline_ns) continue;
    if (c->state == TCP_CONNECTING)
      tcp_lose_unreached(c, "no answer");
    else
      tcp_dial(c);
  }
}

static bool tcp_progress(void) {
  struct epoll_event events[TCP_EVENTS];
  const int n = epoll_wait(tcp.epoll, events, TCP_EVENTS, 0);
  bool moved = false;
  /* No event frees a source of a later one: a guest ends by its own event only, and channels are freed in between. */
  for (int i = 0; i < n; ++i) {
    tcp_source *source = events[i].data.ptr;
    switch (source->kind) {
    case TCP_LISTENER: tcp_accept(); break;
    case TCP_GUEST: tcp_on_guest((tcp_guest *)source); break;
    case TCP_CHANNEL:
      tcp_on_channel((tcp_channel *)((char *)source - offsetof(tcp_channel, source)), events[i].events, &moved);
      break;
    }
  }
  if (tcp.n_timed) tcp_check_deadlines();
  return moved;
}

static bool tcp_may_sleep(int *timeout_ms) {
  *timeout_ms = tcp.n_timed ? 1000 : -1;
  return true;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void tcp_close_descriptors(void) {
  while (tcp.guests) tcp_guest_end(tcp.guests);
  if (tcp.listener.fd >= 0) close(tcp.listener.fd);
  if (tcp.epoll >= 0) close(tcp.epoll);
  tcp.listener.fd = tcp.epoll = -1;
}

/* A socket that listens on a free port of the host's address, and its place. */
static status tcp_listen(tcp_place *place) {
  struct sockaddr_storage address;
  TRY(bootstrap_host_address(&address));
  *place = tcp_place_of(&address);
  place->port = 0;
  socklen_t bytes = tcp_place_to(place, &address);
  tcp.listener.fd = socket(place->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (tcp.listener.fd < 0 || bind(tcp.listener.fd, (struct sockaddr *)&address, bytes) != 0 ||
      listen(tcp.listener.fd, SOMAXCONN) != 0 || getsockname(tcp.listener.fd, (struct sockaddr *)&address, &bytes) != 0)
    return fail(ST_FAILURE, "no connections can be accepted at %s: %s", tcp_place_words(place).text, strerror(errno));
  *place = tcp_place_of(&address);
  return ST_OK;
}

static status tcp_open_endpoint(net_address *address) {
  tcp_place place;
  tcp.epoll = epoll_create1(EPOLL_CLOEXEC);
  if (tcp.epoll < 0) return fail(ST_FAILURE, "no descriptor for the network: %s", strerror(errno));
  TRY(tcp_listen(&place));
  if (!tcp_watch(&tcp.listener, EPOLLIN)) return fail(ST_FAILURE, "epoll: %s", strerror(errno));
  memcpy(address->data + address->bytes, &place, sizeof place);
  address->bytes += sizeof place;
  return ST_OK;
}

static status tcp_open(net_address *address, int *event) {
  const status st = tcp_open_endpoint(address);
  if (st != ST_OK) tcp_close_descriptors();
  *event = tcp.epoll;
  return st;
}

static void tcp_release(net_channel *channel) {
  tcp_channel *c = (tcp_channel *)channel;
  INVARIANT(c->state == TCP_GONE);
  tcp_drop_messages(c, true);
}

/* Says goodbye on all connections, after what is still to be sent there, and reads until the peers have closed their
 * ends: a socket that is closed with unread bytes would take back what it has sent. */
static void tcp_close(void) {
  const uint64_t end = now_ns() + TCP_FAREWELL_MS * UINT64_C(1000000);
  for (net_channel *c = net_first(); c; c = c->next) tcp_push_frame((tcp_channel *)c, TCP_GOODBYE, 0, 0, 0);
  for (bool waits = true; waits && now_ns() < end;) {
    waits = false;
    for (net_channel *base = net_first(); base; base = base->next) {
      tcp_channel *c = (tcp_channel *)base;
      if (c->state != TCP_OPEN) continue;
      if (c->out.first) tcp_flush(c);
      if (c->state == TCP_OPEN && !c->out.first) shutdown(c->source.fd, SHUT_WR);
      if (c->state == TCP_OPEN) tcp_read(c);
      waits |= c->state == TCP_OPEN;
    }
    if (waits) usleep(200);
  }
  for (net_channel *c = net_first(); c; c = c->next)
    tcp_lose((tcp_channel *)c, "this process has closed its end of the network");
  tcp_close_descriptors();
}

static void tcp_forget(net_channel *channels) {
  for (net_channel *c = channels; c; c = c->next) tcp_hang_up((tcp_channel *)c);
  tcp_close_descriptors();
  tcp.n_timed = tcp.n_guests = 0;
}

const net_engine net_tcp = {.name = "tcp",
                            .channel_bytes = sizeof(tcp_channel),
                            .open = tcp_open,
                            .init = tcp_init,
                            .send = tcp_send,
                            .receive = tcp_receive,
                            .cancel = tcp_cancel,
                            .progress = tcp_progress,
                            .may_sleep = tcp_may_sleep,
                            .release = tcp_release,
                            .close = tcp_close,
                            .forget = tcp_forget};
