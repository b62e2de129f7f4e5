/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/communicator.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/log.h"
#include "base/store/hash.h"
#include "comm/comm_private.h"
#include "comm/comm_settings.h"
#include "comm/net/hosts.h"
#include "comm/start/bootstrap.h"
#include "comm/start/rank_table.h"
#include "comm/sub.h"
#include "comm/waits.h"
#include "memory/memory.h"
#include "memory/share/machine.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/scheduler.h"
#include "runtime/wait/outside.h"

enum { SPIN_NS = 20 * 1000 }; /* where each rank can have a processor */
enum { COMM_VERSION = 1 };

static _Atomic int process_deterministic = COMM_UNSET; /* as HcclSetConfig has set it */

/* ---- cards ------------------------------------------------------------------------------------------------------- */

/* What this rank tells the others. */
static status comm_make_card(int device, const comm_config *config, comm_card *card) {
  static _Atomic uint32_t n_made;
  memset(card, 0, sizeof *card);
  TRY(neighbour_own_card(&card->process));
  TRY(neighbour_describe(heap_file(memory_heap(device)), &card->memory));
  if (!machine_identity(card->machine)) { /* a machine of its own */
    card->machine[0] = UINT64_MAX;
    card->machine[1] = card->process.unique;
  }
  card->version = COMM_VERSION;
  card->device = device;
  card->buffer_mib = config->buffer_mib;
  card->deterministic = config->deterministic;
  if (gethostname(card->host, sizeof card->host - 1)) snprintf(card->host, sizeof card->host, "unknown");
  if (*config->name)
    snprintf(card->name, sizeof card->name, "%s", config->name);
  else
    snprintf(card->name, sizeof card->name, "%.63s_%d_%u_%ju", card->host, getpid(), atomic_fetch_add(&n_made, 1),
             (uintmax_t)now_ns() / 1000);
  return ST_OK;
}

/* Checks what must be the same in all ranks, and that no device has two. */
static status comm_check_cards(const comm_card *cards, uint32_t n, uint32_t own) {
  const comm_card *mine = &cards[own];
  for (uint32_t r = 0; r < n; ++r) {
    const comm_card *x = &cards[r];
    if (x->version != mine->version)
      return fail(ST_COMM_MISMATCH, "rank %u runs version %u of Cannon's communication, rank %u version %u", r,
                  x->version, own, mine->version);
    if (x->buffer_mib != mine->buffer_mib || x->deterministic != mine->deterministic)
      return fail(ST_COMM_MISMATCH,
                  "rank %u has a buffer size of %jd MiB and determinism %jd, rank %u has %jd MiB and %jd, expected the "
                  "same in all ranks",
                  r, (intmax_t)x->buffer_mib, (intmax_t)x->deterministic, own, (intmax_t)mine->buffer_mib,
                  (intmax_t)mine->deterministic);
    for (uint32_t q = 0; q < r; ++q)
      if (cards[q].device == x->device && cards[q].process.unique == x->process.unique)
        return fail(ST_INVALID_VALUE, "ranks %u and %u are both on device %d of process %d, expected a device each", q,
                    r, x->device, x->process.page.pid);
  }
  return ST_OK;
}

static void comm_on_progress(void);

/* ---- construction ------------------------------------------------------------------------------------------------ */

static void comm_free(comm *c) {
  for (uint32_t i = 0; c->members && i < c->n_members; ++i)
    if (c->members[i].process) neighbour_drop(c->members[i].process);
  hosts_disconnect(c);
  if (c->node) node_drop(c->node);
  if (c->charged_bytes) memory_discharge(c->device, c->charged_bytes);
  free(c->members);
  free(c->member_of);
  free(c->processes);
  free(c->cards);
  free(c->addresses);
  object_release(OBJECT_COMM, &c->o);
}

void comm_unref(comm *c) {
  if (object_unref(&c->o)) comm_free(c);
}

/* Finds a member's process, and maps its device's memory where it is another. */
static status comm_find_process(comm *c, uint32_t i) {
  comm_member *m = &c->members[i];
  const comm_card *card = &c->cards[m->rank];
  TRY(neighbour_find(&card->process, &m->process));
  m->memory = card->memory;
  if (neighbour_is_self(m->process)) {
    c->has_own_peers |= i != c->member;
    return ST_OK;
  }
  char *base;
  TRY(neighbour_map(m->process, &m->memory, &base));
  m->base = base;
  return ST_OK;
}

/* Finds the process of each member, and which of them are others. */
static status comm_find_processes(comm *c) {
  for (uint32_t i = 0; i < c->n_members; ++i) {
    const comm_member *m = &c->members[i];
    const status st = comm_find_process(c, i);
    if (st != ST_OK) return fail(st, "rank %u can't be reached: %s", m->rank, fail_take());
    if (neighbour_is_self(m->process)) continue;
    uint32_t k = 0;
    while (k < c->n_processes && c->processes[k] != m->process) ++k;
    if (k == c->n_processes) c->processes[c->n_processes++] = m->process;
  }
  return ST_OK;
}

/* Makes the struct from the cards, which it takes over in any case. It has no node yet. */
static status comm_new(comm_card *cards, uint32_t n, uint32_t rank, const comm_config *config, comm **out) {
  comm *c = object_new(OBJECT_COMM);
  if (!c) {
    free(cards);
    return fail(ST_NO_HOST_MEMORY, "too many communicators");
  }
  c->cards = cards;
  c->n_ranks = n;
  c->rank = rank;
  c->device = cards[rank].device;
  c->config = *config;
  snprintf(c->config.name, sizeof c->config.name, "%s", cards[0].name);
  c->members = calloc(n, sizeof *c->members);
  c->member_of = malloc(n * sizeof *c->member_of);
  c->processes = calloc(n, sizeof(neighbour *));
  status st = c->members && c->member_of && c->processes
                  ? ST_OK
                  : fail(ST_NO_HOST_MEMORY, "no host memory for a communicator of %u ranks", n);
  for (uint32_t r = 0; st == ST_OK && r < n; ++r) {
    c->member_of[r] = UINT32_MAX;
    if (!comm_is_same_machine(&cards[r], &cards[rank])) continue;
    if (r == rank) c->member = c->n_members;
    c->member_of[r] = c->n_members;
    c->members[c->n_members++].rank = r;
  }
  if (st == ST_OK && c->n_members > JOB_MOST_RANKS)
    st = fail(ST_NOT_SUPPORTED, "%u ranks are on this host, expected at most %d", c->n_members, JOB_MOST_RANKS);
  if (st == ST_OK) st = comm_find_processes(c);
  if (st != ST_OK) {
    comm_free(c);
    return st;
  }
  const uint64_t bytes = 2 * ((uint64_t)config->buffer_mib << 20);
  st = memory_charge(c->device, bytes, "the buffers of a communicator (HCCL_BUFFSIZE)");
  if (st != ST_OK) {
    comm_free(c);
    return st;
  }
  c->charged_bytes = bytes;
  c->most_threads = scheduler_n_cores() / (int)c->n_members;
  c->spin_ns = (int)c->n_members <= scheduler_n_cores() ? SPIN_NS : 0;
  *out = c;
  return ST_OK;
}

static status comm_complete_config(const comm_config *given, comm_config *out) {
  const comm_settings *settings;
  TRY(comm_settings_get(&settings));
  *out = *given;
  if (out->buffer_mib == COMM_UNSET) out->buffer_mib = settings->buffer_mib;
  if (out->deterministic == COMM_UNSET) out->deterministic = comm_deterministic();
  if (out->exec_timeout_s == COMM_UNSET) {
    out->exec_timeout_s = (int64_t)settings->exec_timeout_s;
    if (settings->exec_timeout_s > 0 && !out->exec_timeout_s) out->exec_timeout_s = 1;
  }
  return ST_OK;
}

/* Connects to the ranks of other hosts, whose processes' addresses all ranks exchange. */
static status comm_join_hosts(comm *c, bootstrap *b) {
  net_address own, *addresses = calloc(c->n_ranks, sizeof *addresses);
  status st = addresses ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for %u addresses", c->n_ranks);
  net_on_progress(comm_on_progress);
  if (st == ST_OK) st = net_open(&own);
  if (st == ST_OK) st = bootstrap_exchange(b, &own, sizeof own, addresses);
  if (st == ST_OK) st = hosts_connect(c, addresses);
  if (st == ST_OK) c->addresses = addresses;
  if (st != ST_OK) free(addresses);
  return st;
}

/* The first member makes the node's memory, and the others map it. */
static status comm_join_node(comm *c, bootstrap *b) {
  neighbour_file own = {0}, *files = calloc(c->n_ranks, sizeof *files);
  status st = files ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", c->n_ranks);
  const uint64_t bytes = device_memory_bytes();
  if (st == ST_OK && c->member == 0) st = node_create(c->n_members, bytes, &c->node);
  if (st == ST_OK && c->member == 0) own = c->node->file;
  if (st == ST_OK) st = bootstrap_exchange(b, &own, sizeof own, files);
  if (st == ST_OK && c->member != 0) st = node_open(&files[c->members[0].rank], c->n_members, bytes, &c->node);
  if (st == ST_OK && c->n_members < c->n_ranks) st = comm_join_hosts(c, b);
  const uint8_t there = 1;
  if (st == ST_OK) st = bootstrap_exchange(b, &there, sizeof there, files); /* all have it */
  free(files);
  return st;
}

static status comm_exchange_cards(bootstrap *b, const comm_config *config, uint32_t n, uint32_t rank, comm **out) {
  context *context;
  comm_card own, *cards;
  TRY(context_current(&context));
  TRY(comm_make_card(context->device, config, &own));
  cards = calloc(n, sizeof *cards);
  if (!cards) return fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", n);
  status st = bootstrap_exchange(b, &own, sizeof own, cards);
  if (st == ST_OK) st = comm_check_cards(cards, n, rank);
  if (st != ST_OK) {
    free(cards);
    return st;
  }
  TRY(comm_new(cards, n, rank, config, out));
  st = comm_join_node(*out, b);
  if (st != ST_OK) comm_unref(*out);
  return st;
}

static void comm_unref_object(object *o) { comm_unref((comm *)o); }

static void comm_publish(comm *c) {
  neighbour_on_watch(comm_watch);
  waits_report_start();
  object_on_unref_comm(comm_unref_object);
  hooks_tell_handle(HOOK_COMM, HOOK_HANDLE_CREATED, c, "HcclCommInit");
  object_publish(&c->o);
}

status comm_create(const unsigned char *info, uint32_t n_ranks, uint32_t rank, const comm_config *config, comm **out) {
  comm_config complete;
  bootstrap *b;
  comm *c;
  TRY(device_check_child());
  TRY(comm_complete_config(config, &complete));
  TRY(bootstrap_join(info, n_ranks, rank, &b));
  const status st = comm_exchange_cards(b, &complete, n_ranks, rank, &c);
  if (st != ST_OK) {
    const char *words = fail_take();
    bootstrap_abandon(b, words);
    return fail(st, "%s", words);
  }
  bootstrap_leave(b);
  comm_publish(c);
  *out = c;
  return ST_OK;
}

/* ---- by a rank table --------------------------------------------------------------------------------------------- */

/* Identifies the session of a table: the same in all ranks, which have read the same table. */
static uint64_t comm_table_number(const rank_table *t) {
  uint64_t hash = HASH_START;
  for (uint32_t r = 0; r < t->n_ranks; ++r) {
    hash = hash_bytes(hash, &t->ranks[r].device, sizeof t->ranks[r].device);
    hash = hash_bytes(hash, t->ranks[r].server, strlen(t->ranks[r].server) + 1);
  }
  return hash;
}

/* Where rank 0 listens: what the table says; of one server without an address, the host's own. */
static status comm_table_address(const rank_table *t, struct sockaddr_storage *out) {
  *out = t->ranks[0].host;
  if (out->ss_family) return ST_OK;
  for (uint32_t r = 1; r < t->n_ranks; ++r)
    if (strcmp(t->ranks[r].server, t->ranks[0].server) != 0)
      return fail(ST_INVALID_VALUE,
                  "the rank table has no host_ip for server_id '%s' of rank 0, which is no IP address either, expected "
                  "one, since there are several servers",
                  t->ranks[0].server);
  return bootstrap_host_address(out);
}

/* The port is HCCL_IF_BASE_PORT's, which is at the same place in addresses of both families. */
static status comm_table_port(struct sockaddr_storage *address) {
  const comm_settings *settings;
  TRY(comm_settings_get(&settings));
  _Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port), "one place");
  ((struct sockaddr_in *)address)->sin_port = htons(settings->if_base_port);
  return ST_OK;
}

static status comm_create_of_table(const rank_table *t, uint32_t rank, const comm_config *config, comm **out) {
  context *current;
  struct sockaddr_storage address;
  unsigned char info[BOOTSTRAP_INFO_BYTES];
  TRY(context_current(&current));
  if (rank >= t->n_ranks)
    return fail(ST_INVALID_VALUE, "rank is %u, expected less than %u, the ranks of the table", rank, t->n_ranks);
  if (t->ranks[rank].device != (uint32_t)current->device)
    return fail(ST_INVALID_VALUE, "device_id of rank %u is %u in the rank table, expected %d, the current device", rank,
                t->ranks[rank].device, current->device);
  TRY(comm_table_address(t, &address));
  TRY(comm_table_port(&address));
  const uint64_t number = comm_table_number(t);
  if (rank == 0) TRY(bootstrap_table_root(&address, number));
  bootstrap_table_info(&address, number, info);
  return comm_create(info, t->n_ranks, rank, config, out);
}

status comm_create_by_table(const char *table, bool is_text, uint32_t rank, const comm_config *config, comm **out) {
  rank_table t;
  TRY(device_check_child());
  TRY(is_text ? rank_table_parse(table, &t) : rank_table_load(table, &t));
  const status st = comm_create_of_table(&t, rank, config, out);
  rank_table_free(&t);
  return st;
}

/* ---- of devices of this process ---------------------------------------------------------------------------------- */

static status comm_make_local_cards(const int32_t *devices, uint32_t n, const comm_config *config, comm_card *cards) {
  for (uint32_t r = 0; r < n; ++r) {
    TRY(device_check(devices[r], "devices[]"));
    TRY(device_open(devices[r]));
    TRY(comm_make_card(devices[r], config, &cards[r]));
  }
  return comm_check_cards(cards, n, 0);
}

static comm_card *comm_copy_cards(const comm_card *cards, uint32_t n) {
  comm_card *copy = malloc(n * sizeof *copy);
  if (copy) memcpy(copy, cards, n * sizeof *copy);
  if (!copy) fail_words("no host memory for %u ranks", n);
  return copy;
}

static status comm_make_local(const comm_card *cards, uint32_t n, const comm_config *config, comm **out) {
  node *shared;
  TRY(node_create(n, device_memory_bytes(), &shared));
  status st = ST_OK;
  uint32_t made = 0;
  while (made < n && st == ST_OK) {
    comm_card *copy = comm_copy_cards(cards, n);
    st = copy ? comm_new(copy, n, made, config, &out[made]) : ST_NO_HOST_MEMORY;
    if (st == ST_OK) st = node_open(&shared->file, n, device_memory_bytes(), &out[made++]->node);
  }
  node_drop(shared);
  if (st != ST_OK)
    while (made) comm_unref(out[--made]);
  return st;
}

status comm_create_local(const int32_t *devices, uint32_t n, comm **out) {
  comm_config unset = COMM_CONFIG_UNSET, config;
  TRY(device_check_child());
  TRY(comm_complete_config(&unset, &config));
  comm_card *cards = calloc(n, sizeof *cards);
  if (!cards) return fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", n);
  status st = comm_make_local_cards(devices, n, &config, cards);
  if (st == ST_OK) st = comm_make_local(cards, n, &config, out);
  free(cards);
  if (st != ST_OK) return st;
  for (uint32_t r = 0; r < n; ++r) comm_publish(out[r]);
  return ST_OK;
}

/* ---- of some ranks of another ------------------------------------------------------------------------------------ */

/* Identifies a sub-communicator by its number and its ranks. Not 0. */
static uint64_t comm_sub_key(uint64_t id, const uint32_t *ranks, uint32_t n) {
  const uint64_t hash = hash_bytes(hash_bytes(HASH_START, &id, sizeof id), ranks, n * sizeof *ranks);
  return hash ? hash : 1;
}

static status comm_check_sub(const comm *of, const uint32_t *ranks, uint32_t n, uint32_t index) {
  if (!n || n > of->n_ranks)
    return fail(ST_INVALID_VALUE, "rankNum is %u, expected 1 to %u, the ranks of the communicator", n, of->n_ranks);
  if (index >= n || ranks[index] != of->rank)
    return fail(ST_INVALID_VALUE,
                "subCommRankId is %u, where rankIds has %u, expected this rank's place, which is rank %u", index,
                index < n ? ranks[index] : 0, of->rank);
  for (uint32_t i = 0; i < n; ++i) {
    if (ranks[i] >= of->n_ranks)
      return fail(ST_INVALID_VALUE, "rankIds[%u] is %u, expected less than %u", i, ranks[i], of->n_ranks);
    for (uint32_t k = 0; k < i; ++k)
      if (ranks[k] == ranks[i])
        return fail(ST_INVALID_VALUE, "rankIds[%u] and rankIds[%u] are both %u, expected different ranks", k, i,
                    ranks[i]);
  }
  return ST_OK;
}

/* The same addresses as in the communicator that the ranks come from. */
static status comm_connect_sub(const comm *of, const uint32_t *ranks, comm *c) {
  c->addresses = calloc(c->n_ranks, sizeof *c->addresses);
  if (!c->addresses) return fail(ST_NO_HOST_MEMORY, "no host memory for %u addresses", c->n_ranks);
  for (uint32_t i = 0; i < c->n_ranks; ++i) c->addresses[i] = of->addresses[ranks[i]];
  return hosts_connect(c, c->addresses);
}

status comm_create_sub(comm *of, const uint32_t *ranks, uint32_t n, uint64_t id, uint32_t index,
                       const comm_config *config, comm **out) {
  comm_config complete;
  TRY(device_check_child());
  TRY(comm_check_sub(of, ranks, n, index));
  TRY(comm_complete_config(config, &complete));
  comm_card *cards = malloc(n * sizeof *cards);
  if (!cards) return fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", n);
  for (uint32_t i = 0; i < n; ++i) cards[i] = of->cards[ranks[i]];
  if (*config->name)
    snprintf(cards[0].name, sizeof cards[0].name, "%s", config->name);
  else
    snprintf(cards[0].name, sizeof cards[0].name, "%.80s_sub_%ju", of->config.name, (uintmax_t)id);
  comm *c;
  TRY(comm_new(cards, n, index, &complete, &c));
  status st = sub_node(of->node, comm_sub_key(id, ranks, n), c->n_members, device_memory_bytes(), &c->node);
  if (st == ST_OK && c->n_members < n) st = comm_connect_sub(of, ranks, c);
  if (st != ST_OK) {
    comm_unref(c);
    return st;
  }
  comm_publish(c);
  *out = c;
  return ST_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

status comm_destroy(comm *c) {
  if (!object_kill(&c->o)) return fail(ST_INVALID_VALUE, "comm was destroyed by another thread during this call");
  hooks_tell_handle(HOOK_COMM, HOOK_HANDLE_DESTROYED, c, "HcclCommDestroy");
  atomic_store(&c->destroyed, true);
  /* Whether streams have begun these calls or not: ranks that have the record of one must not go on, since the program
   * may free the buffers, and ranks that call nothing may ask whether the communicator has failed. A call that is not
   * seen here will see `destroyed` before it begins. */
  if (atomic_load(&c->n_pending)) agreement_tell_destroyed(c);
  atomic_exchange(&c->node->head->members[c->member].left, 1);
  for (uint32_t i = 0; i < c->n_processes; ++i) neighbour_ring(c->processes[i]);
  outside_look(); /* tasks of this communicator end */
  comm_unref(c);
  return ST_OK;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

status comm_of(void *handle, comm **out) {
  *out = object_acquire(OBJECT_COMM, handle);
  if (*out) return ST_OK;
  return fail(ST_INVALID_VALUE, "comm is %p, which is no communicator (destroyed before?)", handle);
}

status comm_of_name(const char *name, comm **out) {
  const context *current = context_peek();
  comm *found = NULL;
  for (comm *c = object_next(OBJECT_COMM, NULL), *next; c; c = next) {
    next = object_next(OBJECT_COMM, c);
    const bool fits =
        object_is_live(&c->o) && !strcmp(c->config.name, name) && (!found || (current && c->device == current->device));
    if (fits && found) comm_unref(found);
    if (fits)
      found = c;
    else
      comm_unref(c);
  }
  *out = found;
  return found ? ST_OK : fail(ST_INVALID_VALUE, "'%.127s' names no communicator of this process", name);
}

void *comm_handle(const comm *c) { return (void *)(uintptr_t)c; }
uint32_t comm_n_ranks(const comm *c) { return c->n_ranks; }
uint32_t comm_rank(const comm *c) { return c->rank; }
int comm_device(const comm *c) { return c->device; }
const char *comm_name(const comm *c) { return c->config.name; }
const comm_config *comm_configuration(const comm *c) { return &c->config; }

void comm_describe_rank(const comm *c, uint32_t rank, char *words, size_t bytes) {
  const comm_card *card = &c->cards[rank];
  snprintf(words, bytes, "rank %u (device %d of process %d on %s)", rank, card->device, card->process.page.pid,
           card->host);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Looks at the hosts of the communicators that tasks wait on. */
static void comm_look_at_hosts(void) {
  for (comm *c = object_next(OBJECT_COMM, NULL), *next; c; c = next) {
    next = object_next(OBJECT_COMM, c);
    if (object_is_live(&c->o) && c->hosts && atomic_load(&c->n_pending)) hosts_look(c);
    comm_unref(c);
  }
}

void comm_watch(void) {
  comm_look_at_hosts();
  for (comm *c = object_next(OBJECT_COMM, NULL), *next; c; c = next) {
    next = object_next(OBJECT_COMM, c);
    if (object_is_live(&c->o) && atomic_load(&c->n_pending))
      for (uint32_t i = 0; i < c->n_members; ++i) {
        comm_member *m = &c->members[i];
        if (!atomic_load(&m->dead_since_ns) && !neighbour_is_alive(m->process))
          atomic_store(&m->dead_since_ns, now_ns());
      }
    comm_unref(c);
  }
}

/* Something has come from another host. */
static void comm_on_progress(void) {
  comm_look_at_hosts();
  outside_look();
}

status comm_failure(const comm *c) {
  if (c->hosts) hosts_look((comm *)(uintptr_t)c);
  if (atomic_load_explicit(&c->suspended, memory_order_relaxed)) return ST_COMM_SUSPENDED;
  return node_failure(c->node);
}

status comm_check(comm *c) {
  TRY(device_check_child());
  if (c->hosts) hosts_look(c);
  TRY(node_check(c->node));
  if (likely(!atomic_load_explicit(&c->suspended, memory_order_relaxed))) return ST_OK;
  return fail(ST_COMM_SUSPENDED, "the communicator '%s' is suspended", c->config.name);
}

status comm_suspend(comm *c) {
  atomic_store(&c->suspended, true);
  return ST_OK;
}

status comm_resume(comm *c) {
  for (uint32_t i = 0; i < c->n_members; ++i)
    if (!neighbour_is_alive(c->members[i].process))
      return fail(ST_COMM_REMOTE, "rank %u of '%s' has ended, so the communicator can't be resumed", c->members[i].rank,
                  c->config.name);
  TRY(node_check(c->node));
  atomic_store(&c->suspended, false);
  return ST_OK;
}

bool comm_is_suspended(const comm *c) { return atomic_load(&c->suspended); }

status comm_set_deterministic(int value) {
  if (value < 0 || value > 2) return fail(ST_INVALID_VALUE, "HCCL_DETERMINISTIC is %d, expected 0, 1 or 2", value);
  atomic_store(&process_deterministic, value);
  return ST_OK;
}

int comm_deterministic(void) {
  const comm_settings *settings;
  const int value = atomic_load(&process_deterministic);
  if (value != COMM_UNSET) return value;
  if (comm_settings_get(&settings) == ST_OK) return (int)settings->deterministic;
  (void)fail_take(); /* the variable's value is refused where a communicator is created */
  return COMM_DETERMINISTIC_OFF;
}
