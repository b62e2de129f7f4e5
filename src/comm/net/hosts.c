/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/net/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE_TAG_STEP = 0x10001 };

/* ---- which ranks are where --------------------------------------------------------------------------------------- */

static status hosts_find(comm *c, comm_hosts *h) {
  h->ranks_of = calloc(c->n_ranks, sizeof *h->ranks_of);
  h->n_ranks_of = calloc(c->n_ranks, sizeof *h->n_ranks_of);
  if (!h->ranks_of || !h->n_ranks_of) return fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", c->n_ranks);
  for (uint32_t r = 0; r < c->n_ranks; ++r) {
    uint32_t k = 0;
    while (k < h->n_hosts && !comm_is_same_machine(&c->cards[h->ranks_of[k][0]], &c->cards[r])) ++k;
    if (k == h->n_hosts) {
      h->ranks_of[k] = malloc(c->n_ranks * sizeof **h->ranks_of);
      if (!h->ranks_of[k]) return fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", c->n_ranks);
      ++h->n_hosts;
    }
    h->ranks[r].host = k;
    h->ranks[r].index = h->n_ranks_of[k];
    h->ranks_of[k][h->n_ranks_of[k]++] = r;
  }
  h->own = h->ranks[c->rank].host;
  h->is_even = true;
  for (uint32_t k = 1; k < h->n_hosts; ++k) h->is_even &= h->n_ranks_of[k] == h->n_ranks_of[0];
  return ST_OK;
}

/* ---- notes of failures ------------------------------------------------------------------------------------------- */

/* The tag of notes from one rank to another. Calls have tags that are mixed, which never come out as these. */
static uint64_t hosts_note_tag(const comm *c, uint32_t from, uint32_t to) {
  return (c->hosts->id ^ NOTE_TAG_STEP) + ((uint64_t)from << 32 | to);
}

/* Sends the rank's only note to all ranks of other hosts. */
static void hosts_send_note(comm *c, status code, const char *words) {
  comm_hosts *h = c->hosts;
  if (atomic_exchange(&h->telling, true)) return;
  h->own_note = (hosts_note){.code = code, .rank = c->rank};
  snprintf(h->own_note.words, sizeof h->own_note.words, "%s", words);
  for (uint32_t r = 0; r < c->n_ranks; ++r) {
    hosts_rank *x = &h->ranks[r];
    const char *lost;
    if (!x->channel || x->told || net_is_lost(x->channel, &lost)) continue;
    x->told =
        net_send(x->channel, hosts_note_tag(c, c->rank, r), &h->own_note, sizeof h->own_note, &x->own_request) == ST_OK;
  }
  net_progress();
}

void hosts_tell(comm *c, status code, const char *words) { hosts_send_note(c, code, words); }

/* The others must not take this rank's end for a loss: they are told that it has left, or why it has failed, which they
 * may not have heard from the rank that has found it. Waits for a while until they have been told. */
static void hosts_say_left(comm *c) {
  const uint64_t most_ns = 1000 * 1000 * 1000, begun_ns = now_ns();
  comm_hosts *h = c->hosts;
  const status failure = node_failure(c->node);
  hosts_send_note(c, failure, failure == ST_OK ? "" : c->node->head->words);
  for (uint32_t r = 0; r < c->n_ranks; ++r) {
    hosts_rank *x = &h->ranks[r];
    const char *lost;
    while (x->told && !atomic_load(&x->own_request.state) && !net_is_lost(x->channel, &lost) &&
           now_ns() - begun_ns < most_ns)
      net_progress();
  }
}

void hosts_look(comm *c) {
  comm_hosts *h = c->hosts;
  if (node_failure(c->node) != ST_OK) return;
  for (uint32_t r = 0; r < c->n_ranks; ++r) {
    hosts_rank *x = &h->ranks[r];
    if (!x->listens) continue;
    const int state = atomic_load_explicit(&x->note_request.state, memory_order_acquire);
    if (state == 1 && x->note.code == ST_OK) {
      atomic_store_explicit(&x->left, true, memory_order_release);
      continue;
    }
    if (state == 1) {
      x->note.words[NODE_WORDS - 1] = '\0';
      node_fail(c->node, c->rank, x->note.code, x->note.words);
      collective_tell(c);
      return;
    }
    const char *lost;
    if (net_is_lost(x->channel, &lost)) {
      char words[NODE_WORDS], rank[NODE_WORDS / 2];
      comm_describe_rank(c, r, rank, sizeof rank);
      snprintf(words, sizeof words, "%s is lost: %s", rank, lost);
      node_fail(c->node, c->rank, ST_COMM_REMOTE, words);
      hosts_tell(c, ST_COMM_REMOTE, words);
      collective_tell(c);
      return;
    }
  }
}

status hosts_fail_message(const collective *op, const collective_part *p, uint32_t rank) {
  comm *c = op->c;
  char words[NODE_WORDS], call[NODE_WORDS / 4], peer[NODE_WORDS / 4];
  const char *lost = "the message has another length than expected, or the connection has failed";
  hosts_look(c); /* which may know better */
  if (node_failure(c->node) != ST_OK) return node_check(c->node);
  if (atomic_load(&c->hosts->ranks[rank].left)) lost = "the rank has destroyed its communicator";
  net_is_lost(c->hosts->ranks[rank].channel, &lost);
  agreement_describe(p, call, sizeof call);
  comm_describe_rank(c, rank, peer, sizeof peer);
  snprintf(words, sizeof words, "a message between rank %u and %s failed in %s: %s", c->rank, peer, call, lost);
  return agreement_fail(op, ST_COMM_REMOTE, words);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static status hosts_connect_rank(comm *c, uint32_t r, const net_address *address) {
  hosts_rank *x = &c->hosts->ranks[r];
  char words[NODE_WORDS / 4];
  comm_describe_rank(c, r, words, sizeof words);
  TRY(net_connect(address, words, &x->channel));
  TRY(net_receive(x->channel, hosts_note_tag(c, r, c->rank), &x->note, sizeof x->note, &x->note_request));
  x->listens = true;
  return ST_OK;
}

status hosts_connect(comm *c, const net_address *addresses) {
  c->hosts = calloc(1, sizeof *c->hosts + c->n_ranks * sizeof c->hosts->ranks[0]);
  if (!c->hosts) return fail(ST_NO_HOST_MEMORY, "no host memory for %u ranks", c->n_ranks);
  c->hosts->id = comm_number(c);
  TRY(hosts_find(c, c->hosts));
  for (uint32_t r = 0; r < c->n_ranks; ++r)
    if (c->hosts->ranks[r].host != c->hosts->own) TRY(hosts_connect_rank(c, r, &addresses[r]));
  return ST_OK;
}

void hosts_disconnect(comm *c) {
  comm_hosts *h = c->hosts;
  if (!h) return;
  if (c->node) hosts_say_left(c);
  for (uint32_t r = 0; r < c->n_ranks; ++r) {
    hosts_rank *x = &h->ranks[r];
    if (!x->channel) continue;
    if (x->listens && !atomic_load(&x->note_request.state)) net_cancel(x->channel, &x->note_request);
    if (x->told && !atomic_load(&x->own_request.state)) net_cancel(x->channel, &x->own_request);
    net_disconnect(x->channel);
  }
  for (uint32_t k = 0; h->ranks_of && k < h->n_hosts; ++k) free(h->ranks_of[k]);
  free(h->ranks_of);
  free(h->n_ranks_of);
  free(h);
  c->hosts = NULL;
}
