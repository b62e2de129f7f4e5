/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint: which engine it uses, the table of channels, and the thread that moves data while no caller does. One
 * lock guards all of it, also the engine's state; it is held while an engine moves some data (at most some 100 us) and
 * never while anybody waits. */
#include "comm/net/net.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/settings/variables.h"
#include "base/sync.h"
#include "comm/net/net_private.h"
#include "runtime/scheduler.h"

/* While callers poll, the thread only looks that often whether they still do. */
enum { NET_LOOK_NS = 250 * 1000 };

enum { NET_THREAD_NONE, NET_THREAD_RUNS, NET_THREAD_STOPS };

static mutex net_lock = MUTEX_INITIALIZER(NET);
static struct {
  const net_engine *_Atomic engine; /* NULL: not open */
  net_address address;
  net_channel *channels;
  int event, wake; /* the engine's descriptor; one by which the thread is woken */
  bool watches_forks;
  unsigned unreported; /* requests that are done, and channels that are lost, of which `done` does not know */
  void (*_Atomic done)(void);
  _Atomic uint32_t n_polls;
  bool thread_sleeps, thread_looks_again;
  _Atomic uint32_t thread; /* NET_THREAD_... */
} net = {.event = -1, .wake = -1};

/* ---- the lock ---------------------------------------------------------------------------------------------- */

/* Frees channels that nobody needs any more. One that no caller has had yet stays even when it is lost: the peer's
 * messages are in it, and the caller for them may come while the endpoint is open. */
static void net_sweep(void) {
  for (net_channel **at = &net.channels, *c; (c = *at);) {
    const bool awaits_caller = !c->peer.bytes && atomic_load(&net.engine);
    if (c->n_references || !atomic_load(&c->lost) || awaits_caller) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    c->engine->release(c);
    free(c);
  }
}

/* Releases the lock, and tells the listener. For threads that hold no lock of a caller's. */
static void net_unlock_and_tell(void) {
  const bool tell = net.unreported;
  net.unreported = 0;
  mutex_unlock(&net_lock);
  void (*done)(void) = atomic_load(&net.done);
  if (tell && done) done();
}

static void net_wake_thread(void) {
  const uint64_t one = 1;
  if (write(net.wake, &one, sizeof one) != sizeof one) INVARIANT(errno == EAGAIN);
}

/* Releases the lock after a post or a cancellation. Its caller may hold locks that the listener takes, so the thread
 * tells what else has happened meanwhile. */
static void net_unlock_after_post(void) {
  if (net.thread_sleeps && (net.thread_looks_again || net.unreported)) net_wake_thread();
  mutex_unlock(&net_lock);
}

/* ---- what engines call -------------------------------------------------------------------------------------- */

void net_wake_later(void) { net.thread_looks_again = true; }

const unsigned char *net_own_number(void) { return ((const net_head *)net.address.data)->number; }

net_channel *net_first(void) { return net.channels; }

net_channel *net_find(const unsigned char number[NET_NUMBER_BYTES]) {
  for (net_channel *c = net.channels; c; c = c->next)
    if (memcmp(c->number, number, NET_NUMBER_BYTES) == 0) return c;
  return NULL;
}

net_channel *net_add(const unsigned char number[NET_NUMBER_BYTES], const char *peer_words) {
  const net_engine *engine = atomic_load(&net.engine);
  net_channel *c = calloc(1, engine->channel_bytes);
  if (!c) return NULL;
  c->engine = engine;
  memcpy(c->number, number, NET_NUMBER_BYTES);
  snprintf(c->peer_words, sizeof c->peer_words, "%s", peer_words);
  engine->init(c);
  c->next = net.channels;
  net.channels = c;
  return c;
}

void net_finish(net_request *r, int state) {
  INVARIANT(state != 0 && atomic_load(&r->state) == 0);
  ++net.unreported;
  atomic_store_explicit(&r->state, state, memory_order_release);
}

void net_note_lost(net_channel *c, const char *format, ...) {
  if (atomic_load(&c->lost)) return;
  va_list args;
  va_start(args, format);
  vsnprintf(c->lost_words, sizeof c->lost_words, format, args);
  va_end(args);
  log_line(LOG_INFO, "network: %s", c->lost_words);
  ++net.unreported;
  atomic_store(&c->lost, true);
}

void net_note_failed(net_channel *c, const char *format, ...) {
  if (atomic_load(&c->failed)) return;
  va_list args;
  va_start(args, format);
  vsnprintf(c->failed_words, sizeof c->failed_words, format, args);
  va_end(args);
  log_line(LOG_INFO, "network: %s", c->failed_words);
  atomic_store(&c->failed, true);
}

status net_fail_lost(const net_channel *c) { return fail(ST_COMM_REMOTE, "%s", c->lost_words); }

/* ---- the thread ---------------------------------------------------------------------------------------------- */

/* Sleeps until there is something to do. */
static void net_sleep(const net_engine *engine) {
  struct pollfd sources[2] = {{.fd = net.event, .events = POLLIN}, {.fd = net.wake, .events = POLLIN}};
  int timeout_ms = -1;
  mutex_lock(&net_lock);
  bool sleeps = !net.unreported && !net.thread_looks_again && atomic_load(&net.thread) == NET_THREAD_RUNS;
  net.thread_sleeps = sleeps && engine->may_sleep(&timeout_ms);
  sleeps = net.thread_sleeps;
  mutex_unlock(&net_lock);
  lock_expect_none(NULL);
  if (!sleeps) return;
  poll(sources, 2, timeout_ms);
  mutex_lock(&net_lock);
  net.thread_sleeps = false;
  mutex_unlock(&net_lock);
}

static void net_drain_wake(void) {
  uint64_t n;
  if (read(net.wake, &n, sizeof n) != sizeof n) INVARIANT(errno == EAGAIN || errno == EINTR);
}

/* Whether callers have polled for the last NET_LOOK_NS, in which the thread sleeps. */
static bool net_others_poll(uint32_t *seen) {
  const uint32_t polls = atomic_load(&net.n_polls);
  if (polls == *seen) return false;
  struct pollfd source = {.fd = net.wake, .events = POLLIN};
  lock_expect_none(NULL);
  ppoll(&source, 1, &(struct timespec){.tv_nsec = NET_LOOK_NS}, NULL);
  *seen = polls;
  return polls != atomic_load(&net.n_polls);
}

static void *net_thread(void *unused) {
  (void)unused;
  const net_engine *engine = atomic_load(&net.engine);
  uint32_t seen = atomic_load(&net.n_polls);
  while (atomic_load(&net.thread) == NET_THREAD_RUNS) {
    const bool others_poll = net_others_poll(&seen);
    net_drain_wake();
    if (others_poll) continue;
    mutex_lock(&net_lock);
    net.thread_looks_again = false;
    const bool moved = engine->progress();
    net_sweep();
    net_unlock_and_tell();
    if (!moved) net_sleep(engine);
  }
  atomic_store(&net.thread, NET_THREAD_NONE);
  futex_wake(&net.thread, INT_MAX);
  return NULL;
}

/* Waits until the thread has ended. No lock is held. */
static void net_stop_thread(void) {
  uint32_t state = NET_THREAD_RUNS;
  if (!atomic_compare_exchange_strong(&net.thread, &state, NET_THREAD_STOPS)) return;
  net_wake_thread();
  while ((state = atomic_load(&net.thread)) != NET_THREAD_NONE) futex_wait(&net.thread, state, 0);
}

/* ---- forks --------------------------------------------------------------------------------------------------- */

static void net_before_fork(void) { mutex_lock(&net_lock); }
static void net_in_parent(void) { mutex_unlock(&net_lock); }

/* The connections are the parent's. The child's copies of the descriptors are closed, since a peer sees the parent's
 * end only when nobody has its sockets. Channels that the child's code still refers to are lost. */
static void net_in_child(void) {
  const net_engine *engine = atomic_load(&net.engine);
  if (engine) {
    for (net_channel *c = net.channels; c; c = c->next)
      net_note_lost(c, "the connection to %s is the parent process's; this process was forked", c->peer_words);
    engine->forget(net.channels);
    close(net.wake);
    net.channels = NULL;
    net.wake = net.event = -1;
    net.unreported = 0;
    net.thread_sleeps = net.thread_looks_again = false;
    atomic_store(&net.thread, NET_THREAD_NONE);
    atomic_store(&net.engine, NULL);
  }
  mutex_renew(&net_lock);
}

/* ---- opening and closing ------------------------------------------------------------------------------------- */

static const net_engine *net_choice(void) {
#ifdef CANNON_UCX
  uint64_t choice = 0; /* the index in variables.def: ucx, tcp */
  const bool chosen = variable_read(VARIABLE_NET, &choice);
  if (choice == 1) return &net_tcp;
  if (net_ucx_is_there(chosen)) return &net_ucx;
#endif
  return &net_tcp;
}

static status net_make_address(const net_engine *engine) {
  net_head head = {0};
  net.address = (net_address){.bytes = sizeof head};
  snprintf(head.engine, sizeof head.engine, "%s", engine->name);
  if (getrandom(head.number, sizeof head.number, 0) != sizeof head.number)
    return fail(ST_INTERNAL, "the kernel gives no random numbers: %s", strerror(errno));
  memcpy(net.address.data, &head, sizeof head);
  return ST_OK;
}

/* Starts the thread. The lock is held. */
static status net_start_thread(void) {
  net.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (net.wake < 0) return fail(ST_FAILURE, "no descriptor for the network's thread: %s", strerror(errno));
  atomic_store(&net.thread, NET_THREAD_RUNS);
  const int error = scheduler_start_thread(net_thread, NULL);
  if (!error) return ST_OK;
  atomic_store(&net.thread, NET_THREAD_NONE);
  close(net.wake);
  net.wake = -1;
  return fail(ST_FAILURE, "the network's thread cannot be started: %s", strerror(error));
}

/* The lock is held, and the endpoint is not open. */
static status net_open_engine(const net_engine *engine) {
  TRY(net_make_address(engine));
  TRY(engine->open(&net.address, &net.event));
  INVARIANT(net.address.bytes <= NET_ADDRESS_BYTES);
  atomic_store(&net.engine, engine);
  const status st = net_start_thread();
  if (st != ST_OK) {
    engine->close();
    atomic_store(&net.engine, NULL);
  }
  return st;
}

status net_open(net_address *address) {
  status st = ST_OK;
  mutex_lock(&net_lock);
  if (!net.watches_forks) net.watches_forks = pthread_atfork(net_before_fork, net_in_parent, net_in_child) == 0;
  if (!atomic_load(&net.engine)) st = net_open_engine(net_choice());
  if (st == ST_OK) *address = net.address;
  mutex_unlock(&net_lock);
  return st;
}

const char *net_name(void) {
  const net_engine *engine = atomic_load(&net.engine);
  return engine ? engine->name : NULL;
}

void net_on_progress(void (*done)(void)) { atomic_store(&net.done, done); }

void net_close(void) {
  net_stop_thread();
  mutex_lock(&net_lock);
  const net_engine *engine = atomic_load(&net.engine);
  if (engine) {
    engine->close();
    for (net_channel *c = net.channels; c; c = c->next) INVARIANT(atomic_load(&c->lost));
    close(net.wake);
    net.wake = net.event = -1;
    atomic_store(&net.engine, NULL);
    net_sweep(); /* channels that callers still hold are released by net_disconnect */
  }
  net_unlock_and_tell();
}

/* ---- channels ------------------------------------------------------------------------------------------------ */

/* Checks that the address is one that this endpoint can reach. */
static status net_check_address(const net_address *peer, const char *peer_words) {
  net_head head;
  if (peer->bytes < sizeof head || peer->bytes > NET_ADDRESS_BYTES)
    return fail(ST_INVALID_VALUE, "the network address of %s has %u bytes, expected %zu to %d", peer_words, peer->bytes,
                sizeof head, NET_ADDRESS_BYTES);
  memcpy(&head, peer->data, sizeof head);
  const char *own = net_name();
  if (!own) return fail(ST_NOT_INITIALISED, "the network is not open");
  if (strncmp(head.engine, own, sizeof head.engine) != 0)
    return fail(ST_INVALID_VALUE,
                "%s uses the network by %.*s and this process by %s, expected the same in all processes: install the "
                "same libraries on all hosts, or set CANNON_NET=tcp for all",
                peer_words, (int)sizeof head.engine, head.engine, own);
  return ST_OK;
}

status net_connect(const net_address *peer, const char *peer_words, net_channel **out) {
  TRY(net_check_address(peer, peer_words));
  net_head head;
  memcpy(&head, peer->data, sizeof head);
  mutex_lock(&net_lock);
  net_channel *c = net_find(head.number);
  if (!c) c = net_add(head.number, peer_words);
  if (c) {
    if (!c->peer.bytes) { /* new, or the peer has connected already */
      c->peer = *peer;
      snprintf(c->peer_words, sizeof c->peer_words, "%s", peer_words);
    }
    ++c->n_references;
  }
  mutex_unlock(&net_lock);
  if (!c) return fail(ST_NO_HOST_MEMORY, "no memory for a connection to %s", peer_words);
  *out = c;
  return ST_OK;
}

void net_disconnect(net_channel *c) {
  mutex_lock(&net_lock);
  INVARIANT(c->n_references > 0);
  --c->n_references;
  net_sweep();
  mutex_unlock(&net_lock);
}

bool net_is_lost(net_channel *c, const char **words) {
  const bool lost = atomic_load(&c->lost);
  *words = lost ? c->lost_words : atomic_load(&c->failed) ? c->failed_words : "";
  return lost;
}

/* ---- messages ------------------------------------------------------------------------------------------------ */

_Static_assert(sizeof(void *) * 12 == sizeof((net_request *)NULL)->internal, "net_request has 12 words for engines");

/* Before and after a post of the request: what the post itself has ended is not told, since its caller looks. */
static unsigned net_begin_post(net_request *r) {
  mutex_lock(&net_lock);
  atomic_store_explicit(&r->state, 0, memory_order_relaxed);
  return net.unreported;
}

static status net_end_post(net_request *r, unsigned before, status st) {
  if (net.unreported == before + 1 && atomic_load(&r->state)) net.unreported = before;
  if (st != ST_OK) atomic_store(&r->state, -1);
  net_unlock_after_post();
  return st;
}

status net_send(net_channel *c, uint64_t tag, const void *data, size_t bytes, net_request *r) {
  const unsigned before = net_begin_post(r);
  const bool lost = atomic_load(&c->lost);
  return net_end_post(r, before, lost ? net_fail_lost(c) : c->engine->send(c, tag, data, bytes, r));
}

status net_receive(net_channel *c, uint64_t tag, void *data, size_t bytes, net_request *r) {
  const unsigned before = net_begin_post(r);
  return net_end_post(r, before, c->engine->receive(c, tag, data, bytes, r));
}

void net_cancel(net_channel *c, net_request *r) {
  mutex_lock(&net_lock);
  if (atomic_load(&r->state) == 0) c->engine->cancel(c, r);
  net_unlock_after_post();
}

void net_hand_over(void) {
  mutex_lock(&net_lock);
  if (net.wake >= 0 && !net.thread_sleeps) net_wake_thread();
  mutex_unlock(&net_lock);
}

bool net_progress(void) {
  const net_engine *engine = atomic_load(&net.engine);
  if (!engine) return false;
  atomic_fetch_add_explicit(&net.n_polls, 1, memory_order_relaxed);
  /* Whoever holds the lock moves data, or is about to release it. The rank is not checked, since nobody waits. */
  if (pthread_mutex_trylock(&net_lock.mutex) != 0) return false;
  bool moved = false;
  if (engine == atomic_load(&net.engine)) {
    moved = engine->progress();
    net_sweep();
    moved |= net.unreported != 0;
  }
  net_unlock_and_tell();
  return moved;
}
