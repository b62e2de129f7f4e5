/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/waits.h"

#include <string.h>

/* Where the process shares nothing. */
static machine_wait_slot own_slots[MACHINE_WAITS];

/* This process's slots, which stay mapped while the process lives. */
static machine_wait_slot *waits_own_slots(void) {
  machine_file *file = machine_look();
  machine_wait_slot *slots = file ? file->waits[machine_own_place()] : own_slots;
  machine_leave();
  return slots;
}

static machine_wait_slot *waits_take_slot(void) {
  machine_wait_slot *slots = waits_own_slots();
  for (int i = 0; i < MACHINE_WAITS; ++i) {
    uint32_t unused = 0;
    if (atomic_compare_exchange_strong(&slots[i].is_used, &unused, 1)) return &slots[i];
  }
  return NULL;
}

void waits_publish(machine_wait_slot **slot, const machine_wait *w) {
  uint64_t words[MACHINE_WAIT_WORDS];
  if (!*slot) *slot = waits_take_slot();
  machine_wait_slot *s = *slot;
  if (!s) return;
  memcpy(words, w, sizeof *w);
  /* A process that was killed while it wrote has left an odd version. */
  const uint32_t version = (atomic_load(&s->version) + 1) | 1;
  atomic_store(&s->version, version);
  for (int k = 0; k < MACHINE_WAIT_WORDS; ++k) atomic_store(&s->words[k], words[k]);
  atomic_store(&s->version, version + 1);
}

void waits_end(machine_wait_slot **slot) {
  machine_wait_slot *s = *slot;
  if (!s) return;
  const uint32_t version = (atomic_load(&s->version) + 1) | 1;
  atomic_store(&s->version, version); /* until the next task has written its entry */
  atomic_store(&s->is_used, 0);
  *slot = NULL;
}

static size_t waits_read_slots(machine_wait_slot *slots, machine_wait *out, size_t most) {
  size_t n = 0;
  for (int i = 0; i < MACHINE_WAITS && n < most; ++i) n += waits_read_slot(&slots[i], &out[n]);
  return n;
}

size_t waits_read(machine_wait *out, size_t most, bool own_only) {
  size_t n = 0;
  machine_file *file = machine_look();
  if (!file || own_only) {
    n = waits_read_slots(file ? file->waits[machine_own_place()] : own_slots, out, most);
  } else {
    for (uint32_t i = 0; i < MACHINE_PLACES && n < most; ++i)
      if (atomic_load(&file->places[i].pid) && machine_is_alive(i))
        n += waits_read_slots(file->waits[i], out + n, most - n);
  }
  machine_leave();
  return n;
}
