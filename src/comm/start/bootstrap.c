/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' side of a session. */
#include "comm/start/bootstrap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/store/hash.h"
#include "base/text.h"
#include "comm/comm_settings.h"
#include "comm/start/bootstrap_private.h"

static const char info_magic[8] = {'C', 'A', 'N', 'N', 'O', 'N', 'R', 'I'};
_Static_assert(sizeof(bootstrap_info) <= BOOTSTRAP_INFO_BYTES, "the information fits");

uint32_t bootstrap_test_timeout_ms;

/* Owned by the caller of bootstrap_join; used by one thread at a time. */
struct bootstrap {
  int fd;
  pid_t pid; /* of the process that joined: a forked child has no part in the session */
  uint32_t n_ranks, rank, n_exchanges;
  bool failed; /* the session has failed for this rank; nothing more is sent */
  bootstrap_words root;
};

/* ---- time, addresses, sockets ------------------------------------------------------------------------------------ */

status bootstrap_timeout_s(uint32_t *seconds) {
  const comm_settings *settings;
  TRY(comm_settings_get(&settings));
  *seconds = settings->connect_timeout_s;
  return ST_OK;
}

status bootstrap_timeout_ms(uint64_t *ms) {
  uint32_t seconds;
  *ms = bootstrap_test_timeout_ms;
  if (*ms) return ST_OK;
  TRY(bootstrap_timeout_s(&seconds));
  *ms = UINT64_C(1000) * seconds;
  return ST_OK;
}

uint64_t bootstrap_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

socklen_t bootstrap_address_bytes(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static uint16_t bootstrap_port_of(const struct sockaddr_storage *address) {
  return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                              : ((const struct sockaddr_in *)address)->sin_port);
}

static const void *bootstrap_ip_of(const struct sockaddr_storage *address) {
  return address->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                                        : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
}

bootstrap_words bootstrap_address_words(const struct sockaddr_storage *address) {
  bootstrap_words words;
  char ip[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address->ss_family, bootstrap_ip_of(address), ip, sizeof ip);
  snprintf(words.text, sizeof words.text, "%s port %u", ip, bootstrap_port_of(address));
  return words;
}

/* A bit for each of this module's descriptors. A table without a lock, since a fork may come at any moment. Higher
 * descriptors than it has room for are not closed in children. */
enum { TRACKED_SOCKETS = 1 << 16 };
static _Atomic uint64_t tracked[TRACKED_SOCKETS / 64];

int bootstrap_socket_keep(int fd) {
  if (fd >= 0 && fd < TRACKED_SOCKETS) atomic_fetch_or(&tracked[fd / 64], UINT64_C(1) << fd % 64);
  return fd;
}

void bootstrap_socket_close(int fd) {
  if (fd < 0) return;
  if (fd < TRACKED_SOCKETS) atomic_fetch_and(&tracked[fd / 64], ~(UINT64_C(1) << fd % 64));
  close(fd);
}

static void bootstrap_close_in_child(void) {
  for (int i = 0; i < TRACKED_SOCKETS / 64; ++i)
    for (uint64_t bits = atomic_exchange(&tracked[i], 0); bits; bits &= bits - 1) close(i * 64 + __builtin_ctzll(bits));
}

__attribute__((constructor)) static void bootstrap_watch_forks(void) {
  pthread_atfork(NULL, NULL, bootstrap_close_in_child);
}

/* ---- the root information ---------------------------------------------------------------------------------------- */

/* A hash of the information with a checksum of 0. */
static uint64_t bootstrap_checksum(const unsigned char info[BOOTSTRAP_INFO_BYTES]) {
  const size_t from = offsetof(bootstrap_info, checksum), to = from + sizeof(uint64_t);
  const uint64_t zero = 0, hash = hash_bytes(hash_bytes(HASH_START, info, from), &zero, sizeof zero);
  return hash_bytes(hash, info + to, BOOTSTRAP_INFO_BYTES - to);
}

bootstrap_session bootstrap_session_of(uint64_t number) {
  bootstrap_session session;
  const uint64_t halves[2] = {number, number * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_C(0x72616e6b7461626c)};
  memcpy(session.bytes, halves, sizeof halves);
  return session;
}

void bootstrap_make_info(const struct sockaddr_storage *address, const bootstrap_session *session, bool may_come_late,
                         unsigned char info[BOOTSTRAP_INFO_BYTES]) {
  const bool six = address->ss_family == AF_INET6;
  bootstrap_info i = {.version = BOOTSTRAP_VERSION,
                      .may_come_late = may_come_late,
                      .family = six ? 6 : 4,
                      .port = bootstrap_port_of(address),
                      .scope = six ? ((const struct sockaddr_in6 *)address)->sin6_scope_id : 0,
                      .session = *session};
  memcpy(i.magic, info_magic, sizeof i.magic);
  memcpy(i.ip, bootstrap_ip_of(address), six ? 16 : 4);
  inet_ntop(address->ss_family, bootstrap_ip_of(address), i.address, sizeof i.address);
  memset(info, 0, BOOTSTRAP_INFO_BYTES);
  memcpy(info, &i, sizeof i);
  i.checksum = bootstrap_checksum(info);
  memcpy(info, &i, sizeof i);
}

void bootstrap_table_info(const struct sockaddr_storage *address, uint64_t number,
                          unsigned char info[BOOTSTRAP_INFO_BYTES]) {
  const bootstrap_session session = bootstrap_session_of(number);
  bootstrap_make_info(address, &session, true, info);
}

static status bootstrap_read_info(const unsigned char info[BOOTSTRAP_INFO_BYTES], bootstrap_info *out,
                                  struct sockaddr_storage *address) {
  memcpy(out, info, sizeof *out);
  if (memcmp(out->magic, info_magic, sizeof info_magic) != 0)
    return fail(ST_INVALID_VALUE,
                "rootInfo was not made by HcclGetRootInfo of Cannon, expected the %d bytes that "
                "it gave to the root",
                BOOTSTRAP_INFO_BYTES);
  if (out->version != BOOTSTRAP_VERSION)
    return fail(ST_INVALID_VALUE, "rootInfo is of version %u, expected %d: the root has another release of Cannon",
                out->version, BOOTSTRAP_VERSION);
  if (bootstrap_checksum(info) != out->checksum || (out->family != 4 && out->family != 6) || out->port == 0)
    return fail(ST_INVALID_VALUE,
                "rootInfo is damaged (its checksum does not agree), expected all %d bytes as "
                "HcclGetRootInfo gave them to the root",
                BOOTSTRAP_INFO_BYTES);
  memset(address, 0, sizeof *address);
  if (out->family == 6) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(out->port), .sin6_scope_id = out->scope};
    memcpy(&six->sin6_addr, out->ip, 16);
  } else {
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(out->port)};
    memcpy(&four->sin_addr, out->ip, 4);
  }
  return ST_OK;
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

/* Waits until the socket has one of the events. 0, or ETIMEDOUT. */
static int bootstrap_await(int fd, short events, uint64_t deadline_ms) {
  for (;;) {
    const uint64_t now = bootstrap_now_ms();
    if (now >= deadline_ms) return ETIMEDOUT;
    struct pollfd p = {.fd = fd, .events = events};
    const uint64_t left = deadline_ms - now;
    const int n = poll(&p, 1, left > 60000 ? 60000 : (int)left);
    if (n > 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
  }
}

/* Tries once. 0 and *fd, or errno. */
static int bootstrap_connect_once(const struct sockaddr_storage *address, uint64_t deadline_ms, int *fd) {
  const int s = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return errno;
  const int on = 1;
  bootstrap_socket_keep(s);
  /* The kernel may choose the port at which rank 0 of a rank table is to listen later. With this option it can. */
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int error = connect(s, (const struct sockaddr *)address, bootstrap_address_bytes(address)) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    socklen_t bytes = sizeof error;
    error = bootstrap_await(s, POLLOUT, deadline_ms);
    if (!error && getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  }
  if (error) {
    bootstrap_socket_close(s);
    return error;
  }
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  *fd = s;
  return 0;
}

/* Whether a later try may succeed: the network settles, or (for rank tables) the root starts. */
static bool bootstrap_may_retry(int error, bool may_come_late) {
  return error == EAGAIN || error == EADDRNOTAVAIL || error == ECONNRESET || error == ECONNABORTED ||
         (may_come_late && (error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH));
}

static status bootstrap_connect(const struct sockaddr_storage *address, bool may_come_late, uint64_t deadline_ms,
                                int *fd) {
  enum { PAUSE_MS = 20, MAX_PAUSE_MS = 500 };
  int error, pause_ms = PAUSE_MS;
  while ((error = bootstrap_connect_once(address, deadline_ms, fd)) != 0) {
    const bool late = bootstrap_now_ms() + (uint64_t)pause_ms >= deadline_ms;
    if (late || !bootstrap_may_retry(error, may_come_late)) break;
    nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
    if (pause_ms < MAX_PAUSE_MS) pause_ms *= 2;
  }
  if (!error) return ST_OK;
  if (error == ECONNREFUSED && !may_come_late)
    return fail(ST_COMM_REMOTE,
                "the root at %s cannot be reached: %s; expected its process to run, and its root "
                "information to be of a communicator that is not complete yet",
                bootstrap_address_words(address).text, strerror(error));
  return fail(error == EMFILE || error == ENFILE ? ST_FAILURE : ST_COMM_TIMEOUT,
              "the root at %s cannot be reached: %s (HCCL_CONNECT_TIMEOUT, HCCL_IF_IP and HCCL_SOCKET_IFNAME say how "
              "long is waited, and which address the root has)",
              bootstrap_address_words(address).text, strerror(error));
}

/* ---- sending and receiving --------------------------------------------------------------------------------------- */

/* 0, or errno. */
static int bootstrap_send(int fd, const void *data, size_t bytes, uint64_t deadline_ms) {
  const char *at = data;
  while (bytes) {
    const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      at += n;
      bytes -= (size_t)n;
    } else if (n < 0 && errno == EAGAIN) {
      const int error = bootstrap_await(fd, POLLOUT, deadline_ms);
      if (error) return error;
    } else if (n < 0 && errno != EINTR)
      return errno;
  }
  return 0;
}

/* 0, or errno; ECONNRESET also if the other side has closed. */
static int bootstrap_receive(int fd, void *data, size_t bytes, uint64_t deadline_ms) {
  char *at = data;
  while (bytes) {
    const ssize_t n = recv(fd, at, bytes, 0);
    if (n == 0) return ECONNRESET;
    if (n > 0) {
      at += n;
      bytes -= (size_t)n;
    } else if (errno == EAGAIN) {
      const int error = bootstrap_await(fd, POLLIN, deadline_ms);
      if (error) return error;
    } else if (errno != EINTR)
      return errno;
  }
  return 0;
}

/* A failed transfer. */
static status bootstrap_lost(bootstrap *b, int error, const char *when) {
  b->failed = true;
  if (error == ETIMEDOUT)
    return fail(ST_COMM_TIMEOUT, "the root at %s has not answered rank %u within HCCL_CONNECT_TIMEOUT (%s)",
                b->root.text, b->rank, when);
  return fail(ST_COMM_REMOTE,
              "the root at %s closed the connection of rank %u (%s): %s; its process has ended, or its "
              "root information is of another communicator",
              b->root.text, b->rank, when, strerror(error));
}

/* Makes the root's words this rank's failure. */
static status bootstrap_told(bootstrap *b, const bootstrap_frame *frame, uint64_t deadline_ms) {
  char words[BOOTSTRAP_WORDS] = "", safe[BOOTSTRAP_WORDS + 60];
  const size_t bytes = frame->bytes < sizeof words ? frame->bytes : sizeof words - 1;
  const int error = bootstrap_receive(b->fd, words, bytes, deadline_ms);
  if (error) return bootstrap_lost(b, error, "while it told why the session fails");
  b->failed = true;
  text_safe(safe, sizeof safe, words, strlen(words));
  const status code = frame->number ? (status)frame->number : ST_COMM_REMOTE;
  return fail(code, "%s", safe);
}

/* Receives the header of a frame of this kind. */
static status bootstrap_expect(bootstrap *b, bootstrap_kind kind, bootstrap_frame *frame, uint64_t deadline_ms,
                               const char *when) {
  const int error = bootstrap_receive(b->fd, frame, sizeof *frame, deadline_ms);
  if (error) return bootstrap_lost(b, error, when);
  if (frame->magic == BOOTSTRAP_MAGIC && frame->kind == BOOTSTRAP_FAILED) return bootstrap_told(b, frame, deadline_ms);
  if (frame->magic == BOOTSTRAP_MAGIC && frame->kind == kind) return ST_OK;
  b->failed = true;
  return fail(ST_COMM_REMOTE, "what listens at %s is no root of Cannon: its answer to rank %u is no frame of a session",
              b->root.text, b->rank);
}

/* ---- a rank's part ----------------------------------------------------------------------------------------------- */

static status bootstrap_introduce(bootstrap *b, const bootstrap_info *info, uint64_t deadline_ms) {
  struct {
    bootstrap_frame frame;
    bootstrap_hello hello;
  } m = {{BOOTSTRAP_MAGIC, BOOTSTRAP_HELLO, 0, sizeof m.hello},
         {info->session, BOOTSTRAP_VERSION, b->n_ranks, b->rank, (uint32_t)b->pid, ""}};
  bootstrap_frame answer;
  gethostname(m.hello.host, sizeof m.hello.host - 1);
  bootstrap_send(b->fd, &m, sizeof m, deadline_ms); /* an error shows at the answer, which may say why */
  return bootstrap_expect(b, BOOTSTRAP_WELCOME, &answer, deadline_ms, "while it joined");
}

status bootstrap_join(const unsigned char info[BOOTSTRAP_INFO_BYTES], uint32_t n_ranks, uint32_t rank,
                      bootstrap **out) {
  bootstrap_info read;
  struct sockaddr_storage address;
  uint64_t timeout_ms;
  if (n_ranks == 0 || n_ranks > BOOTSTRAP_MAX_RANKS)
    return fail(ST_INVALID_VALUE, "nRanks is %u, expected 1 to %d", n_ranks, BOOTSTRAP_MAX_RANKS);
  if (rank >= n_ranks) return fail(ST_INVALID_VALUE, "rank is %u, expected 0 to nRanks - 1 = %u", rank, n_ranks - 1);
  TRY(bootstrap_read_info(info, &read, &address));
  TRY(bootstrap_timeout_ms(&timeout_ms));
  bootstrap *b = malloc(sizeof *b);
  if (!b) return fail(ST_NO_HOST_MEMORY, "no host memory to join a communicator");
  *b = (bootstrap){
      .fd = -1, .pid = getpid(), .n_ranks = n_ranks, .rank = rank, .root = bootstrap_address_words(&address)};
  const uint64_t now = bootstrap_now_ms();
  status st = bootstrap_connect(&address, read.may_come_late, now + timeout_ms, &b->fd);
  if (st == ST_OK) st = bootstrap_introduce(b, &read, now + timeout_ms + BOOTSTRAP_GRACE_MS);
  if (st != ST_OK) {
    bootstrap_socket_close(b->fd);
    free(b);
    return st;
  }
  *out = b;
  return ST_OK;
}

/* Receives the cards of all ranks. */
static status bootstrap_collect(bootstrap *b, size_t bytes, void *all, uint64_t deadline_ms) {
  bootstrap_frame frame;
  TRY(bootstrap_expect(b, BOOTSTRAP_CARDS, &frame, deadline_ms, "in an exchange"));
  if (frame.bytes != bytes || frame.number != b->n_exchanges) {
    b->failed = true;
    return fail(ST_COMM_REMOTE,
                "the root at %s sent rank %u cards of %u bytes of exchange %u, expected %zu bytes of "
                "exchange %u",
                b->root.text, b->rank, frame.bytes, frame.number, bytes, b->n_exchanges);
  }
  const int error = bootstrap_receive(b->fd, all, bytes * b->n_ranks, deadline_ms);
  if (error) return bootstrap_lost(b, error, "in an exchange");
  ++b->n_exchanges;
  return ST_OK;
}

status bootstrap_exchange_many(bootstrap *const *b, size_t n, const void *own, size_t bytes, void *all) {
  uint64_t timeout_ms;
  if (bytes > BOOTSTRAP_MAX_CARD)
    return fail(ST_INVALID_VALUE, "a card has %zu bytes, expected at most %d", bytes, BOOTSTRAP_MAX_CARD);
  for (size_t i = 0; i < n; ++i)
    if (b[i]->failed || b[i]->pid != getpid())
      return fail(ST_COMM_REMOTE, "rank %u cannot exchange: its session with the root at %s %s", b[i]->rank,
                  b[i]->root.text, b[i]->failed ? "has failed" : "belongs to the process that forked this one");
  TRY(bootstrap_timeout_ms(&timeout_ms));
  const uint64_t deadline_ms = bootstrap_now_ms() + timeout_ms + BOOTSTRAP_GRACE_MS;
  for (size_t i = 0; i < n; ++i) {
    const bootstrap_frame frame = {BOOTSTRAP_MAGIC, BOOTSTRAP_CARD, b[i]->n_exchanges, (uint32_t)bytes};
    /* An error shows when the cards are awaited; the root may have said why it closed. */
    if (bootstrap_send(b[i]->fd, &frame, sizeof frame, deadline_ms) == 0)
      bootstrap_send(b[i]->fd, (const char *)own + i * bytes, bytes, deadline_ms);
  }
  status st = ST_OK;
  for (size_t i = 0; i < n && st == ST_OK; ++i) st = bootstrap_collect(b[i], bytes, all, deadline_ms);
  if (st != ST_OK)
    for (size_t i = 0; i < n; ++i) b[i]->failed = true;
  return st;
}

status bootstrap_exchange(bootstrap *b, const void *own, size_t bytes, void *all) {
  return bootstrap_exchange_many(&b, 1, own, bytes, all);
}

/* Closes the rank's part. In a forked child the descriptor is closed already, and its number may be another file's. */
static void bootstrap_close(bootstrap *b) {
  if (b->pid == getpid()) bootstrap_socket_close(b->fd);
  free(b);
}

/* Sends a last frame; a root that does not take it within a few seconds sees the connection end. */
static void bootstrap_say_last(bootstrap *b, bootstrap_kind kind, const char *words) {
  enum { LAST_MS = 5000 };
  const uint64_t deadline_ms = bootstrap_now_ms() + LAST_MS;
  struct {
    bootstrap_frame frame;
    char words[BOOTSTRAP_WORDS];
  } m = {.frame = {BOOTSTRAP_MAGIC, kind, 0, 0}};
  if (words) m.frame.bytes = (uint32_t)text_safe(m.words, sizeof m.words, words, strlen(words));
  bootstrap_send(b->fd, &m, sizeof m.frame + m.frame.bytes, deadline_ms);
}

void bootstrap_abandon(bootstrap *b, const char *words) {
  if (!b) return;
  if (!b->failed && b->pid == getpid()) bootstrap_say_last(b, BOOTSTRAP_ABANDON, words);
  bootstrap_close(b);
}

void bootstrap_leave(bootstrap *b) {
  if (!b) return;
  if (!b->failed && b->pid == getpid()) bootstrap_say_last(b, BOOTSTRAP_LEAVE, NULL);
  bootstrap_close(b);
}
