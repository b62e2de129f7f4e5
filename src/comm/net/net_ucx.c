/* SPDX-License-Identifier: Apache-2.0 */
/* The engine by UCX (libucp): tagged messages of one worker, which UCX moves by what the hosts have in common, from
 * InfiniBand to TCP. The library is bound when the endpoint is opened; only its headers are needed for the build.
 *
 * UCX matches messages by a tag of 64 bits, whoever sent them. So the tag on the wire is made of the caller's tag and
 * the numbers of both endpoints: two tags of one channel always differ there, and those of different channels differ
 * but by a chance of 2^-64. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/sync.h"
#include "comm/net/net_private.h"
#include "comm/start/bootstrap.h"

/* CANCEL: how long a request that UCX cannot take back at once may go on. */
enum { UCX_PASSES = 16, UCX_CANCEL_MS = 1000, UCX_FAREWELL_MS = 500 };
/* Beats: a byte for each peer every second, since UCX's keep-alive does not notice a link that is cut while data is
 * under way (1.13 over TCP: the kernel sends the data again for a quarter of an hour). The endpoint looks for beats
 * twice as often, so that they do not pile up. A peer that is stopped for so long counts as silent, too. */
enum { UCX_TICK_MS = 500, UCX_TICKS_PER_BEAT = 2, UCX_SILENT_TICKS = 20 };
static const uint64_t UCX_BEAT_TAG =
    UINT64_C(0x6265617462656174); /* other tags are mixed, and never come out as this */
#define MS_TO_NS UINT64_C(1000000)

/* The functions of libucp and libucs, by their own names. */
#define UCX_FUNCTIONS(F)                                                                                               \
  F(ucp_config_read)                                                                                                   \
  F(ucp_config_modify)                                                                                                 \
  F(ucp_config_release)                                                                                                \
  F(ucp_init_version)                                                                                                  \
  F(ucp_cleanup)                                                                                                       \
  F(ucp_worker_create)                                                                                                 \
  F(ucp_worker_destroy)                                                                                                \
  F(ucp_worker_get_address)                                                                                            \
  F(ucp_worker_release_address)                                                                                        \
  F(ucp_worker_get_efd)                                                                                                \
  F(ucp_worker_arm)                                                                                                    \
  F(ucp_worker_progress)                                                                                               \
  F(ucp_ep_create)                                                                                                     \
  F(ucp_ep_close_nbx)                                                                                                  \
  F(ucp_tag_send_nbx)                                                                                                  \
  F(ucp_tag_recv_nbx)                                                                                                  \
  F(ucp_request_cancel)                                                                                                \
  F(ucp_request_check_status)                                                                                          \
  F(ucp_request_free)                                                                                                  \
  F(ucs_status_string)

typedef struct ucx_channel ucx_channel;

/* A request that is under way. It outlives a net_request that was given back to its caller before UCX was done. */
typedef struct ucx_op {
  struct ucx_op *next, *previous; /* of the channel */
  ucx_channel *channel;
  net_request *request; /* NULL: given back */
  void *handle;         /* UCX's */
  size_t bytes;
  uint64_t tag;
  bool is_receive;
} ucx_op;

struct ucx_channel {
  net_channel base;
  ucp_ep_h ep; /* NULL: none yet, or closed */
  ucx_op *ops;
  uint64_t send_key, receive_key;
  bool broken; /* UCX has reported an error, of which the channel's end is to be drawn */
  ucs_status_t error;
  /* Beats. A request is under way where its state is 0 and it was posted. */
  net_request say, hear;
  bool says, hears;  /* posted */
  bool was_heard;    /* something has come from the peer */
  unsigned n_silent; /* ticks since something came */
  unsigned n_ticks;
  char said, heard;
};

static struct {
  void *library;
#define UCX_POINTER(name) __typeof__(&name) name;
  UCX_FUNCTIONS(UCX_POINTER)
  ucp_context_h context;
  ucp_worker_h worker;
  bool any_broken;
  uint64_t ticked_ns;
  bool is_parents; /* this process was forked from one that had an endpoint */
} ucx;

/* ---- the library ----------------------------------------------------------------------------------------- */

/* UCX installs handlers for faults when it is loaded; those that were there before are put back. It would also patch
 * the code of mmap, munmap and others in the C library, to learn of changes to memory that it has registered with
 * hardware; but Cannon moves memory by these functions all the time. It reads the variable that prevents this while it
 * is loaded. */
static void *ucx_load_quietly(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  struct sigaction before[sizeof faults / sizeof *faults];
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) sigaction(faults[i], NULL, &before[i]);
  const bool is_set = getenv("UCX_MEM_EVENTS");
  setenv("UCX_MEM_EVENTS", "n", 0);
  void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!is_set) unsetenv("UCX_MEM_EVENTS");
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) sigaction(faults[i], &before[i], NULL);
  return library;
}

/* UCX's own messages go to stdout, so it writes none unless the user asks, by its variable or by the log's level. */
static void ucx_set_log_level(void) {
  if (getenv("UCX_LOG_LEVEL")) return;
  ucs_status_t (*set)(const char *, const char *) =
      (ucs_status_t(*)(const char *, const char *))dlsym(ucx.library, "ucs_global_opts_set_value");
  if (set) set("LOG_LEVEL", log_wanted(LOG_DEBUG) ? "info" : log_wanted(LOG_INFO) ? "error" : "fatal");
}

static const char *ucx_bind(void) {
  static char words[256];
  if (!(ucx.library = ucx_load_quietly())) {
    snprintf(words, sizeof words, "%s", dlerror());
    return words;
  }
#define UCX_BIND(name)                                                                                                 \
  if (!(ucx.name = (__typeof__(&name))dlsym(ucx.library, #name))) {                                                    \
    snprintf(words, sizeof words, "libucp.so.0 has no function " #name);                                               \
    return words;                                                                                                      \
  }
  UCX_FUNCTIONS(UCX_BIND)
  ucx_set_log_level();
  return NULL;
}

static const char *ucx_why_not;
static void ucx_bind_once(void) { ucx_why_not = ucx_bind(); }

bool net_ucx_is_there(bool asked_for) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, ucx_bind_once);
  if (!ucx_why_not) return true;
  log_line(asked_for ? LOG_ERROR : LOG_INFO, "network: no UCX (%s): TCP is used", ucx_why_not);
  if (asked_for)
    fprintf(stderr, "cannon: warning: CANNON_NET is ucx, but UCX cannot be used (%s): TCP is used\n", ucx_why_not);
  return false;
}

/* ---- opening --------------------------------------------------------------------------------------------- */

static status ucx_failed(const char *what, ucs_status_t error) {
  return fail(ST_FAILURE, "UCX: %s: %s (CANNON_NET=tcp does without UCX)", what, ucx.ucs_status_string(error));
}

static bool ucx_has_infiniband(void) {
  DIR *folder = opendir("/sys/class/infiniband");
  bool any = false;
  for (struct dirent *entry; folder && (entry = readdir(folder));) any |= entry->d_name[0] != '.';
  if (folder) closedir(folder);
  return any;
}

static bool ucx_same_ip(const struct sockaddr *a, const struct sockaddr_storage *b) {
  if (!a || a->sa_family != b->ss_family) return false;
  if (a->sa_family == AF_INET)
    return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
  return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                            &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* The interface that has the host's address, so that UCX's TCP goes where HCCL_IF_IP and HCCL_SOCKET_IFNAME say. Empty
 * where there is InfiniBand, which UCX shall use. */
static status ucx_interface(char name[IF_NAMESIZE]) {
  struct sockaddr_storage host;
  struct ifaddrs *all;
  name[0] = 0;
  TRY(bootstrap_host_address(&host));
  if (ucx_has_infiniband() || getifaddrs(&all) != 0) return ST_OK;
  for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next)
    if (ucx_same_ip(i->ifa_addr, &host)) snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
  freeifaddrs(all);
  return ST_OK;
}

/* Ranks of one host share memory without the network, so UCX's own ways inside a host are left out. */
static status ucx_configure(ucp_config_t *config) {
  char interface[IF_NAMESIZE];
  TRY(ucx_interface(interface));
  ucs_status_t error = UCS_OK;
  if (!getenv("UCX_TLS")) error = ucx.ucp_config_modify(config, "TLS", "^shm");
  if (error == UCS_OK && interface[0] && !getenv("UCX_NET_DEVICES"))
    error = ucx.ucp_config_modify(config, "NET_DEVICES", interface);
  return error == UCS_OK ? ST_OK : ucx_failed("configuring", error);
}

static status ucx_open_context(void) {
  ucp_config_t *config;
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                               .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                               .name = "cannon"};
  ucs_status_t error = ucx.ucp_config_read(NULL, NULL, &config);
  if (error != UCS_OK) return ucx_failed("reading its configuration", error);
  const status st = ucx_configure(config);
  if (st == ST_OK) error = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &ucx.context);
  ucx.ucp_config_release(config);
  if (error != UCS_OK) ucx.context = NULL;
  return st != ST_OK ? st : error == UCS_OK ? ST_OK : ucx_failed("initialising", error);
}

static void ucx_close_worker(void) {
  if (ucx.worker) ucx.ucp_worker_destroy(ucx.worker);
  if (ucx.context) ucx.ucp_cleanup(ucx.context);
  ucx.worker = NULL;
  ucx.context = NULL;
}

static status ucx_open_worker(net_address *address, int *event) {
  const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  TRY(ucx_open_context());
  ucs_status_t error = ucx.ucp_worker_create(ucx.context, &params, &ucx.worker);
  if (error != UCS_OK) return ucx_failed("creating a worker", error);
  if ((error = ucx.ucp_worker_get_efd(ucx.worker, event)) != UCS_OK) return ucx_failed("events", error);
  ucp_address_t *own;
  size_t bytes;
  error = ucx.ucp_worker_get_address(ucx.worker, &own, &bytes);
  if (error != UCS_OK) return ucx_failed("the address", error);
  const bool fits = bytes <= NET_ADDRESS_BYTES - address->bytes;
  if (fits) memcpy(address->data + address->bytes, own, bytes);
  ucx.ucp_worker_release_address(ucx.worker, own);
  if (!fits)
    return fail(ST_FAILURE, "UCX's address has %zu bytes: limit UCX_NET_DEVICES, or set CANNON_NET=tcp", bytes);
  address->bytes += (uint32_t)bytes;
  return ST_OK;
}

static status ucx_open(net_address *address, int *event) {
  if (ucx.is_parents)
    return fail(ST_NOT_SUPPORTED, "the network is UCX, which was in use when this process was forked: start processes "
                                  "by exec (spawn), or set CANNON_NET=tcp");
  const status st = ucx_open_worker(address, event);
  if (st != ST_OK) ucx_close_worker();
  return st;
}

/* ---- operations ------------------------------------------------------------------------------------------ */

/* A bijection of 64-bit numbers (the end of splitmix64). */
static uint64_t ucx_mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static uint64_t ucx_key(const unsigned char *from, const unsigned char *to) {
  uint64_t a, b;
  memcpy(&a, from, sizeof a);
  memcpy(&b, to + sizeof b, sizeof b);
  return ucx_mix(a ^ ucx_mix(b));
}

static void ucx_init(net_channel *channel) {
  ucx_channel *c = (ucx_channel *)channel;
  c->send_key = ucx_key(net_own_number(), channel->number);
  c->receive_key = ucx_key(channel->number, net_own_number());
}

/* Ends an operation: it leaves its channel's list, and its request is the caller's again. */
static void ucx_finish(ucx_op *op, int state) {
  *(op->previous ? &op->previous->next : &op->channel->ops) = op->next;
  if (op->next) op->next->previous = op->previous;
  if (op->request) net_finish(op->request, state);
  free(op);
}

static void ucx_end_send(ucx_op *op, ucs_status_t error) { ucx_finish(op, error == UCS_OK ? 1 : -1); }

static void ucx_end_receive(ucx_op *op, ucs_status_t error, size_t bytes) {
  const bool mismatch = error == UCS_ERR_MESSAGE_TRUNCATED || (error == UCS_OK && bytes != op->bytes);
  if (error == UCS_OK) {
    op->channel->was_heard = true;
    op->channel->n_silent = 0;
  }
  if (mismatch)
    net_note_failed(&op->channel->base, "%s sent a message of %zu bytes, expected %zu (tag %#llx)",
                    op->channel->base.peer_words, bytes, op->bytes, (unsigned long long)op->tag);
  ucx_finish(op, error == UCS_OK && !mismatch ? 1 : -1);
}

static void ucx_on_sent(void *handle, ucs_status_t error, void *op) {
  ucx.ucp_request_free(handle);
  ucx_end_send(op, error);
}

static void ucx_on_received(void *handle, ucs_status_t error, const ucp_tag_recv_info_t *info, void *op) {
  ucx.ucp_request_free(handle);
  ucx_end_receive(op, error, info->length);
}

/* Called inside UCX; what follows from it is done by ucx_bury. */
static void ucx_on_error(void *channel, ucp_ep_h ep, ucs_status_t error) {
  (void)ep;
  ucx_channel *c = channel;
  c->error = error;
  c->broken = ucx.any_broken = true;
}

/* ---- channels -------------------------------------------------------------------------------------------- */

static void ucx_close_ep(ucx_channel *c) {
  const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
  if (!c->ep) return;
  void *handle = ucx.ucp_ep_close_nbx(c->ep, &params);
  if (UCS_PTR_IS_PTR(handle)) ucx.ucp_request_free(handle);
  c->ep = NULL;
}

/* Ends a channel whose peer is gone. Receives that are posted stay in UCX, and are cancelled. */
static void ucx_bury(ucx_channel *c) {
  c->broken = false;
  net_note_lost(&c->base, "%s has ended, or the connection to it broke (%s)", c->base.peer_words,
                ucx.ucs_status_string(c->error));
  ucx_close_ep(c);
  for (ucx_op *op = c->ops, *next; op; op = next) {
    next = op->next;
    if (op->is_receive) ucx.ucp_request_cancel(ucx.worker, op->handle);
  }
}

static void ucx_bury_broken(void) {
  if (!ucx.any_broken) return;
  ucx.any_broken = false;
  for (net_channel *c = net_first(); c; c = c->next)
    if (((ucx_channel *)c)->broken) ucx_bury((ucx_channel *)c);
}

/* Creates the endpoint on the channel, if there is none. One that only receives needs it, too: it reports errors. */
static status ucx_start(ucx_channel *c) {
  if (c->ep) return ST_OK;
  if (atomic_load(&c->base.lost)) return net_fail_lost(&c->base);
  const ucp_ep_params_t params = {
      .field_mask =
          UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = (const ucp_address_t *)(c->base.peer.data + sizeof(net_head)),
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {ucx_on_error, c},
  };
  const ucs_status_t error = ucx.ucp_ep_create(ucx.worker, &params, &c->ep);
  if (error == UCS_OK) return ST_OK;
  c->ep = NULL;
  net_note_lost(&c->base, "%s cannot be reached: UCX: %s", c->base.peer_words, ucx.ucs_status_string(error));
  return net_fail_lost(&c->base);
}

static void ucx_tick(void);

static bool ucx_progress(void) {
  unsigned n = 0;
  while (n < UCX_PASSES && ucx.ucp_worker_progress(ucx.worker)) ++n;
  ucx_tick();
  ucx_bury_broken();
  return n != 0;
}

static bool ucx_may_sleep(int *timeout_ms) {
  *timeout_ms = net_first() ? UCX_TICK_MS : -1;
  return ucx.ucp_worker_arm(ucx.worker) == UCS_OK;
}

/* ---- requests -------------------------------------------------------------------------------------------- */

static ucx_op *ucx_op_make(ucx_channel *c, uint64_t tag, size_t bytes, net_request *r, bool is_receive) {
  ucx_op *op = malloc(sizeof *op);
  if (!op) return NULL;
  *op = (ucx_op){.next = c->ops, .channel = c, .request = r, .bytes = bytes, .tag = tag, .is_receive = is_receive};
  if (c->ops) c->ops->previous = op;
  c->ops = op;
  r->internal[0] = op;
  return op;
}

static status ucx_send(net_channel *channel, uint64_t tag, const void *data, size_t bytes, net_request *r) {
  ucx_channel *c = (ucx_channel *)channel;
  TRY(ucx_start(c));
  ucx_op *op = ucx_op_make(c, tag, bytes, r, false);
  if (!op) return fail(ST_NO_HOST_MEMORY, "no memory for a message to %s", channel->peer_words);
  const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                      .cb.send = ucx_on_sent,
                                      .user_data = op};
  void *handle = ucx.ucp_tag_send_nbx(c->ep, data, bytes, ucx_mix(tag ^ c->send_key), &params);
  if (UCS_PTR_IS_PTR(handle)) {
    op->handle = handle;
    net_wake_later();
  } else {
    ucx_end_send(op, UCS_PTR_STATUS(handle));
  }
  ucx_bury_broken();
  return ST_OK;
}

static status ucx_receive(net_channel *channel, uint64_t tag, void *data, size_t bytes, net_request *r) {
  ucx_channel *c = (ucx_channel *)channel;
  const bool lost = atomic_load(&channel->lost);
  if (!ucx.worker) return net_fail_lost(channel);
  if (!lost) TRY(ucx_start(c));
  ucx_op *op = ucx_op_make(c, tag, bytes, r, true);
  if (!op) return fail(ST_NO_HOST_MEMORY, "no memory for a message of %s", channel->peer_words);
  /* Without immediate completion: that does not always tell the message's length (1.13). */
  const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                      UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                      .cb.recv = ucx_on_received,
                                      .user_data = op};
  void *handle = ucx.ucp_tag_recv_nbx(ucx.worker, data, bytes, ucx_mix(tag ^ c->receive_key), UINT64_MAX, &params);
  if (UCS_PTR_IS_ERR(handle)) {
    ucx_end_receive(op, UCS_PTR_STATUS(handle), 0);
  } else if (atomic_load(&r->state) == 0) { /* otherwise the callback has freed the operation */
    op->handle = handle;
    net_wake_later();
    if (lost) ucx.ucp_request_cancel(ucx.worker, handle); /* no message was there */
  }
  return ST_OK;
}

/* ---- beats ----------------------------------------------------------------------------------------------- */

/* Ticks are counted rather than time, so that a process that was stopped itself does not take its peers for silent. */
static void ucx_beat(ucx_channel *c) {
  if (c->was_heard && c->n_silent++ >= UCX_SILENT_TICKS) {
    net_note_lost(&c->base, "%s has given no sign for %d s", c->base.peer_words, UCX_SILENT_TICKS * UCX_TICK_MS / 1000);
    c->error = UCS_ERR_ENDPOINT_TIMEOUT;
    ucx_bury(c);
    return;
  }
  if (!c->hears || atomic_load(&c->hear.state)) {
    c->hear = (net_request){0};
    c->hears = ucx_receive(&c->base, UCX_BEAT_TAG, &c->heard, 1, &c->hear) == ST_OK;
  }
  if (c->n_ticks++ % UCX_TICKS_PER_BEAT == 0 && c->ep && (!c->says || atomic_load(&c->say.state))) {
    c->say = (net_request){0};
    c->says = ucx_send(&c->base, UCX_BEAT_TAG, &c->said, 1, &c->say) == ST_OK;
  }
}

static void ucx_tick(void) {
  const uint64_t now = now_ns();
  if (now - ucx.ticked_ns < UCX_TICK_MS * MS_TO_NS) return;
  ucx.ticked_ns = now;
  for (net_channel *base = net_first(); base; base = base->next) {
    ucx_channel *c = (ucx_channel *)base;
    if (c->ep && !c->broken && !atomic_load(&base->lost)) ucx_beat(c);
  }
}

/* UCX takes back a receive that no message has been matched with. Anything else is given time to end; if it does not,
 * the channel is given up, since only then UCX leaves the memory alone. */
static void ucx_cancel(net_channel *channel, net_request *r) {
  ucx_channel *c = (ucx_channel *)channel;
  ucx_op *op = r->internal[0];
  if (op->is_receive) ucx.ucp_request_cancel(ucx.worker, op->handle);
  uint64_t end = now_ns() + UCX_CANCEL_MS * MS_TO_NS;
  for (int forced = 0; atomic_load(&r->state) == 0;) {
    ucx_progress();
    if (now_ns() < end) continue;
    if (forced++) break;
    c->error = UCS_ERR_CANCELED;
    ucx_bury(c);
    end = now_ns() + UCX_CANCEL_MS * MS_TO_NS;
  }
  if (atomic_load(&r->state) == 0) {
    op->request = NULL;
    net_finish(r, -1);
  }
}

/* ---- closing --------------------------------------------------------------------------------------------- */

static void ucx_release(net_channel *channel) {
  enum { PASSES = 1000 };
  ucx_channel *c = (ucx_channel *)channel;
  for (int i = 0; i < PASSES && ucx.worker && c->ops; ++i) ucx.ucp_worker_progress(ucx.worker); /* a beat may end */
  for (ucx_op *op = c->ops, *next; op; op = next) { /* given back, and forgotten by UCX with the worker */
    next = op->next;
    free(op);
  }
}

/* Flushes and closes all endpoints, within UCX_FAREWELL_MS. */
static void ucx_say_goodbye(void) {
  const uint64_t end = now_ns() + UCX_FAREWELL_MS * MS_TO_NS;
  for (net_channel *base = net_first(); base; base = base->next) {
    ucx_channel *c = (ucx_channel *)base;
    if (!c->ep) continue;
    const ucp_request_param_t params = {0};
    void *handle = ucx.ucp_ep_close_nbx(c->ep, &params);
    c->ep = NULL;
    if (!UCS_PTR_IS_PTR(handle)) continue;
    while (ucx.ucp_request_check_status(handle) == UCS_INPROGRESS && now_ns() < end)
      ucx.ucp_worker_progress(ucx.worker);
    ucx.ucp_request_free(handle);
  }
}

static void ucx_close(void) {
  ucx_say_goodbye();
  for (net_channel *base = net_first(); base; base = base->next) {
    ucx_channel *c = (ucx_channel *)base;
    net_note_lost(base, "this process has closed its end of the network");
    c->broken = false;
    for (ucx_op *op = c->ops, *next; op; op = next) {
      next = op->next;
      if (op->is_receive) ucx.ucp_request_cancel(ucx.worker, op->handle);
    }
  }
  ucx_close_worker();
  for (net_channel *base = net_first(); base; base = base->next)
    while (((ucx_channel *)base)->ops) ucx_finish(((ucx_channel *)base)->ops, -1);
}

/* UCX's descriptors cannot be told from others, so the child keeps its copies until it ends. */
static void ucx_forget(net_channel *channels) {
  for (net_channel *c = channels; c; c = c->next) ((ucx_channel *)c)->ep = NULL;
  ucx.worker = NULL;
  ucx.context = NULL;
  ucx.is_parents = true;
}

const net_engine net_ucx = {.name = "ucx",
                            .channel_bytes = sizeof(ucx_channel),
                            .open = ucx_open,
                            .init = ucx_init,
                            .send = ucx_send,
                            .receive = ucx_receive,
                            .cancel = ucx_cancel,
                            .progress = ucx_progress,
                            .may_sleep = ucx_may_sleep,
                            .release = ucx_release,
                            .close = ucx_close,
                            .forget = ucx_forget};
