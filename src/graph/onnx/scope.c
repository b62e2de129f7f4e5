/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/onnx/scope.h"

#include <string.h>

#include "base/store/hash.h"

typedef struct {
  const char *name; /* NULL: the slot is free */
  ir_value *value;
} scope_slot;

/* A hash table with open addressing, at most half full. */
struct onnx_scope {
  ir_graph *g;
  onnx_scope *outside;
  size_t n, n_slots; /* n_slots: a power of two */
  scope_slot *slots;
};

enum { FIRST_SLOTS = 64 };

static scope_slot *slot_of(const onnx_scope *s, const char *name) {
  size_t i = (size_t)hash_bytes(HASH_START, name, strlen(name));
  while (s->slots[i & (s->n_slots - 1)].name && strcmp(s->slots[i & (s->n_slots - 1)].name, name) != 0) ++i;
  return &s->slots[i & (s->n_slots - 1)];
}

static status scope_no_memory(void) {
  return fail(ST_NO_HOST_MEMORY, "no host memory for the names of a model's values");
}

status scope_new(ir_graph *g, onnx_scope *outside, onnx_scope **out) {
  onnx_scope *s = REGION_NEW(&g->memory, onnx_scope, 1);
  scope_slot *slots = REGION_NEW(&g->memory, scope_slot, FIRST_SLOTS);
  if (!s || !slots) return scope_no_memory();
  *s = (onnx_scope){.g = g, .outside = outside, .n_slots = FIRST_SLOTS, .slots = slots};
  *out = s;
  return ST_OK;
}

static status scope_enlarge(onnx_scope *s) {
  onnx_scope larger = *s;
  larger.n_slots = 2 * s->n_slots;
  larger.slots = REGION_NEW(&s->g->memory, scope_slot, larger.n_slots);
  if (!larger.slots) return scope_no_memory();
  for (size_t i = 0; i < s->n_slots; ++i)
    if (s->slots[i].name) *slot_of(&larger, s->slots[i].name) = s->slots[i];
  *s = larger;
  return ST_OK;
}

status scope_add(onnx_scope *s, const char *name, ir_value *v) {
  if (2 * s->n >= s->n_slots) TRY(scope_enlarge(s));
  scope_slot *slot = slot_of(s, name);
  if (slot->name) return fail(ST_GRAPH_ENGINE, "value %s is computed twice", name);
  *slot = (scope_slot){name, v};
  ++s->n;
  return ST_OK;
}

ir_value *scope_find(const onnx_scope *s, const char *name) {
  for (; s; s = s->outside) {
    const scope_slot *slot = slot_of(s, name);
    if (slot->name) return slot->value;
  }
  return NULL;
}
