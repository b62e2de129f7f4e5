/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a collective that exchange messages with ranks on other hosts. */
#include <stdlib.h>

#include "comm/collective_private.h"
#include "comm/net/hosts.h"

/* A tag for each message under way: of the communicator, its call, the part and both ranks (splitmix64's mixing). */
static uint64_t messages_mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t messages_tag(const collective *op, const collective_part *p, const collective_message *m) {
  const uint32_t from = m->receives ? m->rank : op->c->rank, to = m->receives ? op->c->rank : m->rank;
  const uint64_t call = m->number ? m->number << 1 | 1 : op->wide_number << 1; /* transfers are numbered by pair */
  const uint64_t part = (uint64_t)m->index << 32 | p->track << 24 | p->stage;
  return messages_mix(messages_mix(messages_mix(op->c->hosts->id ^ call) ^ part) ^ ((uint64_t)from << 32 | to));
}

status messages_add(collective *op, collective_part *p, uint32_t rank, bool receives, void *data, uint64_t bytes) {
  collective_message *messages = realloc(p->messages, (p->n_messages + 1) * sizeof *messages);
  if (!messages) return fail(ST_NO_HOST_MEMORY, "no host memory for %u messages", p->n_messages + 1);
  p->messages = messages;
  uint32_t index = 0;
  for (uint32_t i = 0; i < p->n_messages; ++i) index += messages[i].rank == rank && messages[i].receives == receives;
  p->messages[p->n_messages++] = (collective_message){.channel = op->c->hosts->ranks[rank].channel,
                                                      .data = data,
                                                      .bytes = bytes,
                                                      .receives = receives,
                                                      .rank = rank,
                                                      .index = index};
  return ST_OK;
}

static status messages_post(collective *op, collective_part *p) {
  for (uint32_t i = 0; i < p->n_messages; ++i) {
    collective_message *m = &p->messages[i];
    const uint64_t tag = messages_tag(op, p, m);
    if (m->receives)
      TRY(net_receive(m->channel, tag, m->data, m->bytes, &m->request));
    else
      TRY(net_send(m->channel, tag, m->data, m->bytes, &m->request));
    m->posted = true;
  }
  p->state = PART_WORKS;
  return ST_OK;
}

/* Whether the message will never come: its sender has done all its calls, and what it had sent is there. */
static bool messages_is_in_vain(const collective *op, const collective_message *m) {
  return m->receives && atomic_load_explicit(&op->c->hosts->ranks[m->rank].left, memory_order_acquire) &&
         atomic_load_explicit(&m->request.state, memory_order_acquire) == 0;
}

static int messages_state(const collective_message *m) {
  return atomic_load_explicit(&m->request.state, memory_order_acquire);
}

status messages_advance(collective *op, collective_part *p) {
  if (p->state == PART_BEFORE) TRY(messages_post(op, p));
  net_progress();
  for (uint32_t i = 0; i < p->n_messages; ++i) {
    const collective_message *m = &p->messages[i];
    if (messages_state(m) < 0 || messages_is_in_vain(op, m)) return hosts_fail_message(op, p, m->rank);
    if (messages_state(m) == 0) return ST_OK;
  }
  p->state = PART_DONE;
  return ST_OK;
}

bool messages_move(const collective *op, const collective_part *p) {
  if (p->state == PART_BEFORE) return true;
  for (uint32_t i = 0; i < p->n_messages; ++i) {
    if (messages_state(&p->messages[i]) < 0 || messages_is_in_vain(op, &p->messages[i])) return true;
    if (messages_state(&p->messages[i]) == 0) return false;
  }
  return true;
}

void messages_end(collective_part *p) {
  for (uint32_t i = 0; i < p->n_messages; ++i) {
    collective_message *m = &p->messages[i];
    if (m->posted && messages_state(m) == 0) net_cancel(m->channel, &m->request);
  }
  free(p->messages);
  p->messages = NULL;
  p->n_messages = 0;
}
