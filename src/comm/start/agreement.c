/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the ranks of a communicator called the same thing, and the words where they did not, or where one is
 * missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "comm/collective_private.h"
#include "comm/net/hosts.h"
#include "runtime/python_place.h"

enum { CALL_WORDS = 100, RANK_WORDS = 120, MEMBER_WORDS = 152 };

static bool kind_reduces(int kind) {
  return kind == COMM_ALL_REDUCE || kind == COMM_REDUCE || kind == COMM_REDUCE_SCATTER || kind == COMM_REDUCE_SCATTER_V;
}

static bool kind_has_root(int kind) { return kind == COMM_REDUCE || kind == COMM_BROADCAST || kind == COMM_SCATTER; }

static void describe_called(const agreement_call *x, char *words, size_t bytes) {
  int n = snprintf(words, bytes, "%s #%ju", comm_kind_name(x->kind), (uintmax_t)x->number);
  if (x->kind != COMM_BARRIER && !job_has_arrays((comm_kind)x->kind))
    n += snprintf(words + n, bytes - (size_t)n, " of %ju", (uintmax_t)x->count);
  if (x->kind != COMM_BARRIER) n += snprintf(words + n, bytes - (size_t)n, " %s", comm_dtype_name(x->dtype));
  if (kind_reduces(x->kind)) n += snprintf(words + n, bytes - (size_t)n, " (%s)", comm_reduction_name(x->reduction));
  if (kind_has_root(x->kind)) snprintf(words + n, bytes - (size_t)n, ", root %u", x->root);
}

static agreement_call called_of_part(const collective_part *p) {
  return (agreement_call){p->kind, p->dtype, p->reduction, p->root, p->count, p->number};
}

static agreement_call called_of_record(const node_record *r, uint64_t number) {
  return (agreement_call){r->kind, r->dtype, r->reduction, r->root, r->count, number};
}

void agreement_describe(const collective_part *p, char *words, size_t bytes) {
  const agreement_call x = called_of_part(p);
  describe_called(&x, words, bytes);
}

static uint64_t agreement_place(const collective *op) {
  return op->n_transfers ? op->transfers[0].place : op->call.place;
}

void agreement_peek_place(const collective *op, char *words, size_t bytes) {
  char place[PYTHON_PLACE_WORDS];
  words[0] = '\0';
  if (python_place_words(agreement_place(op), false, place, sizeof place))
    snprintf(words, bytes, "%.*s", (int)bytes - 1, place);
}

/* Where the program made the call: the line of a Python program; otherwise the function or library, as the dynamic
 * linker knows it. "" where it does not. */
static void agreement_describe_site(const collective *op, char *words, size_t bytes) {
  char place[PYTHON_PLACE_WORDS];
  Dl_info info;
  words[0] = '\0';
  if (python_place_words(agreement_place(op), true, place, sizeof place)) {
    snprintf(words, bytes, " (%s)", place);
    return;
  }
  if (!op->call.site || !dladdr(op->call.site, &info)) return;
  const char *file = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
  file = file ? file + 1 : info.dli_fname;
  if (info.dli_sname)
    snprintf(words, bytes, " in %s of %s", info.dli_sname, file ? file : "?");
  else if (file)
    snprintf(words, bytes, " at %s+%#jx", file, (uintmax_t)((char *)op->call.site - (char *)info.dli_fbase));
}

/* This rank's call, and where the program has made it. */
static void agreement_describe_own(const collective *op, const collective_part *p, char *words, size_t bytes) {
  char call[CALL_WORDS], site[CALL_WORDS];
  agreement_describe(p, call, sizeof call);
  agreement_describe_site(op, site, sizeof site);
  snprintf(words, bytes, "%.70s%.58s", call, site);
}

static void agreement_tell_all(comm *c, status code, const char *words) {
  node_fail(c->node, c->rank, code, words);
  if (c->hosts) hosts_tell(c, code, words);
  for (uint32_t i = 0; i < c->n_processes; ++i) neighbour_ring(c->processes[i]);
}

void agreement_tell(comm *c, const char *words) { agreement_tell_all(c, ST_COMM_REMOTE, words); }

/* Fails the communicator with the words, and returns the stream's failure. */
status agreement_fail(const collective *op, status code, const char *words) {
  agreement_tell_all(op->c, code, words);
  TRY(node_check(op->c->node));
  return fail(code, "%s", words); /* another rank has begun to note a failure, and was killed before it was done */
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* CANN compares no types in a batch, and the pipelines of PyTorch 2.8 and later begin with an int64 that is sent to a
 * float32. Such a pair is taken where both sides' records hold the data and no more is received than was sent. */
static bool agreement_of_batched(const collective_part *p, const node_record *r) {
  const size_t mine = comm_dtype_bytes(p->dtype), theirs = comm_dtype_bytes((comm_dtype)r->dtype);
  return p->is_inline && job_is_inline(p->kind, p->count, theirs, p->n_records) &&
         (p->kind == COMM_RECV ? mine <= theirs : theirs <= mine);
}

static bool agreement_of_pair(const collective *op, const collective_part *p, const node_record *r) {
  return r->count == p->count &&
         (r->dtype == p->dtype || (op->call.kind == COMM_BATCH_SEND_RECV && agreement_of_batched(p, r)));
}

/* Two members whose arrays differ, and how. */
typedef struct {
  uint32_t first, second;
  char words[NODE_WORDS / 4];
} agreement_difference;

static bool agreement_of_counts(const comm *c, agreement_difference *d, uint32_t receiver, uint64_t wanted,
                                uint32_t sender, uint64_t sent) {
  if (likely(wanted == sent)) return true;
  d->first = sender;
  d->second = receiver;
  snprintf(d->words, sizeof d->words, "; rank %u sends %ju elements to rank %u, which expects %ju",
           c->members[sender].rank, (uintmax_t)sent, c->members[receiver].rank, (uintmax_t)wanted);
  return false;
}

/* Whether the members `from` and `to` of a V form agree about what the first sends to the second. */
static bool agreement_of_transfer(const collective *op, const collective_part *p, uint32_t from, uint32_t to,
                                  agreement_difference *d) {
  const comm *c = op->c;
  const uint32_t n = c->n_members;
  const node_record *sender = node_record_of(c->node, p->job, from), *receiver = node_record_of(c->node, p->job, to);
  const uint64_t sent = p->kind == COMM_ALL_GATHER_V ? sender->count : sender->arrays[JOB_SEND_COUNTS * n + to];
  return agreement_of_counts(c, d, to, receiver->arrays[JOB_RECEIVE_COUNTS * n + from], from, sent);
}

/* V forms: whether member i agrees with all before it, and with itself. So each rank compares all pairs, and none takes
 * a call as done that fails in another. */
static bool agreement_of_arrays(const collective *op, const collective_part *p, uint32_t i, agreement_difference *d) {
  const comm *c = op->c;
  const uint32_t n = c->n_members;
  if (p->kind != COMM_REDUCE_SCATTER_V) {
    for (uint32_t k = 0; k <= i; ++k)
      if (!agreement_of_transfer(op, p, k, i, d) || !agreement_of_transfer(op, p, i, k, d)) return false;
    return true;
  }
  const uint64_t *mine = p->arrays + JOB_SEND_COUNTS * n;
  const uint64_t *theirs = node_record_of(c->node, p->job, i)->arrays + JOB_SEND_COUNTS * n;
  for (uint32_t k = 0; k < n; ++k) {
    if (likely(mine[k] == theirs[k])) continue;
    snprintf(d->words, sizeof d->words, "; for rank %u, rank %u gives %ju elements and rank %u %ju", c->members[k].rank,
             c->rank, (uintmax_t)mine[k], c->members[i].rank, (uintmax_t)theirs[k]);
    return false;
  }
  return true;
}

/* Whether record r is of the same call as the part, arrays aside. */
static bool agreement_of_call(const collective *op, const collective_part *p, const node_record *r) {
  if (p->kind == COMM_SEND || p->kind == COMM_RECV) return agreement_of_pair(op, p, r);
  return r->kind == p->kind && (p->kind == COMM_BARRIER || r->dtype == p->dtype) &&
         (!kind_reduces(p->kind) || r->reduction == p->reduction) && (!kind_has_root(p->kind) || r->root == p->root) &&
         (job_has_arrays(p->kind) || r->count == p->count);
}

/* Tells the other members of the host the line of this rank's call. */
static void agreement_publish_place(const collective *op, const collective_part *p) {
  node_member *m = &op->c->node->head->members[op->c->member];
  char place[PYTHON_PLACE_WORDS] = "";
  (void)python_place_words(agreement_place(op), true, place, sizeof place);
  snprintf(m->place, sizeof m->place, "%.*s", NODE_PLACE_BYTES - 1, place);
  atomic_store(&m->differs, p->number);
}

/* The line of another member's call, which finds the difference at about the same time. */
static void agreement_await_place(const collective *op, const collective_part *p, uint32_t member, char *words,
                                  size_t bytes) {
  enum { TRIES = 250 }; /* of a millisecond each */
  const node_member *m = &op->c->node->head->members[member];
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < TRIES && node_failure(op->c->node) == ST_OK; ++i) {
    if (atomic_load(&m->differs) == p->number) {
      if (m->place[0]) snprintf(words, bytes, " (%.*s)", NODE_PLACE_BYTES, m->place);
      return;
    }
    nanosleep(&pause, NULL);
  }
}

/* "rank 1 called AllReduce #3 of 16 float32 (sum) in train of model.so". The place of another rank's call is known only
 * if it is a line of a Python program on this host. */
static void agreement_describe_member(const collective *op, const collective_part *p, uint32_t member,
                                      const node_record *r, char *words, size_t bytes) {
  char call[CALL_WORDS], site[CALL_WORDS] = "";
  const agreement_call x = called_of_record(r, p->number);
  describe_called(&x, call, sizeof call);
  if (member == op->c->member)
    agreement_describe_site(op, site, sizeof site);
  else if (agreement_place(op))
    agreement_await_place(op, p, member, site, sizeof site);
  snprintf(words, bytes, "rank %u called %.70s%.58s", op->c->members[member].rank, call, site);
}

status agreement_check(const collective *op, const collective_part *p, uint32_t i) {
  const comm *c = op->c;
  agreement_difference d = {.first = p->own, .second = i};
  bool same = agreement_of_call(op, p, node_record_of(c->node, p->job, i));
  if (same && job_has_arrays(p->kind) && !p->only_agrees) same = agreement_of_arrays(op, p, i, &d);
  if (likely(same)) return ST_OK;
  char words[NODE_WORDS], first[MEMBER_WORDS], second[MEMBER_WORDS];
  agreement_publish_place(op, p);
  agreement_describe_member(op, p, collective_member_of(op, p, d.first), node_record_of(c->node, p->job, d.first),
                            first, sizeof first);
  agreement_describe_member(op, p, collective_member_of(op, p, d.second), node_record_of(c->node, p->job, d.second),
                            second, sizeof second);
  snprintf(words, sizeof words, "the arguments for collective communication are inconsistent between ranks: %s; %s%s",
           first, second, d.words);
  return agreement_fail(op, ST_COMM_MISMATCH, words);
}

status agreement_fail_call(const collective *op, uint32_t rank, const agreement_call *theirs) {
  char words[NODE_WORDS], mine[MEMBER_WORDS], other[CALL_WORDS];
  agreement_call x = *theirs;
  x.number = op->parts[0].number;
  agreement_describe_own(op, &op->parts[0], mine, sizeof mine);
  describe_called(&x, other, sizeof other);
  snprintf(
      words, sizeof words,
      "the arguments for collective communication are inconsistent between ranks: rank %u called %s; rank %u called "
      "%s",
      op->c->rank, mine, rank, other);
  return agreement_fail(op, ST_COMM_MISMATCH, words);
}

/* ---- who is missing ---------------------------------------------------------------------------------------------- */

/* "; its last call was AllGather #16" */
static void describe_last_call(const comm *c, uint32_t member, char *words, size_t bytes) {
  const node_member *m = &c->node->head->members[member];
  const uint64_t called = atomic_load(&m->called);
  if (called)
    snprintf(words, bytes, "; its last call was %s #%ju", comm_kind_name((int)atomic_load(&m->kind)),
             (uintmax_t)called);
  else
    snprintf(words, bytes, "; it has called nothing on this communicator");
}

status agreement_fail_gone(const collective *op, const collective_part *p, uint32_t member) {
  const comm *c = op->c;
  char words[NODE_WORDS], mine[MEMBER_WORDS], rank[RANK_WORDS], last[CALL_WORDS];
  const bool left = atomic_load(&c->node->head->members[member].left);
  agreement_describe_own(op, p, mine, sizeof mine);
  comm_describe_rank(c, c->members[member].rank, rank, sizeof rank);
  describe_last_call(c, member, last, sizeof last);
  snprintf(words, sizeof words, "%s %s, while rank %u waits for it in %s%s", rank,
           left ? "has destroyed its communicator" : "has ended", c->rank, mine, last);
  return agreement_fail(op, ST_COMM_REMOTE, words);
}

void agreement_tell_destroyed(comm *c) {
  char words[NODE_WORDS], rank[RANK_WORDS], last[CALL_WORDS];
  comm_describe_rank(c, c->rank, rank, sizeof rank);
  describe_last_call(c, c->member, last, sizeof last);
  snprintf(words, sizeof words, "%s has destroyed its communicator before its calls were over%s", rank, last);
  agreement_tell(c, words);
}

/* The member whose record a part still misses; UINT32_MAX: none. */
static uint32_t agreement_missing(const collective *op, const collective_part *p) {
  for (uint32_t i = 0; i < p->n_records; ++i)
    if (i != p->own &&
        (p->state == PART_BEFORE || atomic_load(&node_record_of(op->c->node, p->job, i)->number) != p->number))
      return collective_member_of(op, p, i);
  return UINT32_MAX;
}

/* The words of a timeout, as HCCL begins them. A message has room for a short cycle; the log has all of it. */
status agreement_fail_late(const collective *op, const collective_part *p) {
  const comm *c = op->c;
  char words[NODE_WORDS], cycle[WAITS_CYCLE_WORDS], mine[MEMBER_WORDS], last[CALL_WORDS] = "";
  char rank[RANK_WORDS] = "unknown";
  const uint32_t member = agreement_missing(op, p);
  const bool found = account_describe_cycle(op, cycle, sizeof cycle);
  if (found) log_line(LOG_ERROR, "ranks wait for each other: %s", cycle);
  if (member != UINT32_MAX && found) {
    snprintf(rank, sizeof rank, "rank %u", c->members[member].rank);
  } else if (member != UINT32_MAX) {
    comm_describe_rank(c, c->members[member].rank, rank, sizeof rank);
    describe_last_call(c, member, last, sizeof last);
  }
  for (uint32_t i = 0; i < p->n_messages; ++i) {
    if (atomic_load(&p->messages[i].request.state)) continue;
    comm_describe_rank(c, p->messages[i].rank, rank, sizeof rank);
    break;
  }
  agreement_describe_own(op, p, mine, sizeof mine);
  const int n = snprintf(
      words, sizeof words,
      "The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify "
      "record from remote rank [%s]. Rank %u has waited %ju s in %s%s",
      rank, c->rank, (uintmax_t)((now_ns() - op->begun_ns) / 1000000000), mine, last);
  enum { CYCLE_PREFIX = 32 };
  const int room = (int)sizeof words - n - CYCLE_PREFIX;
  if (found && n > 0 && room > 0)
    snprintf(words + n, sizeof words - (size_t)n, "; ranks wait for each other: %.*s", room, cycle);
  return agreement_fail(op, ST_COMM_TIMEOUT, words);
}
