/* SPDX-License-Identifier: Apache-2.0 */
#include "op/attr.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/objects.h"

const char *const attr_kind_names[] = {[ATTR_BOOL] = "a bool",
                                       [ATTR_INT] = "an integer",
                                       [ATTR_FLOAT] = "a float",
                                       [ATTR_STRING] = "a string",
                                       [ATTR_DATA_TYPE] = "a data type",
                                       [ATTR_LIST_BOOL] = "a list of bools",
                                       [ATTR_LIST_INT] = "a list of integers",
                                       [ATTR_LIST_FLOAT] = "a list of floats",
                                       [ATTR_LIST_LIST_INT] = "a list of lists of integers",
                                       [ATTR_LIST_STRING] = "a list of strings",
                                       [ATTR_LIST_DATA_TYPE] = "a list of data types"};

static bool owns_memory(attr_kind kind) { return kind == ATTR_STRING || kind >= ATTR_LIST_BOOL; }

static void value_free(attr_value *v) {
  if (owns_memory(v->kind)) free((void *)v->value.pointer);
  free(v);
}

attributes *attributes_new(void) {
  attributes *a = calloc(1, sizeof *a);
  if (!a) fail_words("no host memory for attributes");
  return a;
}

void attributes_free(attributes *a) {
  for (attr_value *v = a ? a->first : NULL, *next; v; v = next) {
    next = v->next;
    value_free(v);
  }
  free(a);
}

const attr_value *attributes_find(const attributes *a, const char *name) {
  const attr_value *v = a ? a->first : NULL;
  while (v && strcmp(v->name, name) != 0) v = v->next;
  return v;
}

/* Adds or replaces a value. Takes over the memory that belongs to the value, also on failure. */
static status attributes_put(attributes *a, const char *name, attr_kind kind, op_arg value) {
  const size_t length = strlen(name) + 1;
  attr_value *v = malloc(sizeof *v + length);
  if (!v) {
    if (owns_memory(kind)) free((void *)value.pointer);
    return fail(ST_NO_HOST_MEMORY, "no host memory for the attribute %s", name);
  }
  v->kind = kind;
  v->value = value;
  memcpy(v->name, name, length);
  attr_value **at = &a->first;
  while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
  attr_value *const old = *at;
  v->next = old ? old->next : NULL;
  *at = v;
  if (old) value_free(old);
  return ST_OK;
}

status attributes_set(attributes *a, const char *name, attr_kind kind, op_arg value) {
  if (kind == ATTR_STRING && !(value.string = strdup(value.string)))
    return fail(ST_NO_HOST_MEMORY, "no host memory for the attribute %s", name);
  return attributes_put(a, name, kind, value);
}

status attributes_set_list(attributes *a, const char *name, attr_kind kind, int n, const void *data) {
  static const struct {
    uint32_t magic;
    size_t header, element;
  } arrays[] = {[ATTR_LIST_BOOL] = {MAGIC_BOOL_ARRAY, sizeof(aclBoolArray), sizeof(bool)},
                [ATTR_LIST_INT] = {MAGIC_INT_ARRAY, sizeof(aclIntArray), sizeof(int64_t)},
                [ATTR_LIST_FLOAT] = {MAGIC_FLOAT_ARRAY, sizeof(aclFloatArray), sizeof(float)},
                [ATTR_LIST_LIST_INT] = {MAGIC_INT_ARRAY, sizeof(aclIntArray), sizeof(int64_t)}};
  op_arg value = {.pointer = NULL};
  if (n < 0) return fail(ST_INVALID_PARAM, "the number of values of %s is %d, expected 0 or more", name, n);
  if (n && !data) return fail(ST_INVALID_PARAM, "values of %s is NULL, expected %d of them", name, n);
  if (kind <= ATTR_LIST_LIST_INT) {
    value.pointer = array_new(arrays[kind].magic, arrays[kind].header, data, (uint64_t)n, arrays[kind].element);
    if (!value.pointer) return ST_NO_HOST_MEMORY;
  }
  return attributes_put(a, name, kind, value);
}

status attributes_set_lists(attributes *a, const char *name, int n, const int *sizes, const int64_t *const *lists) {
  int64_t total = 0;
  if (n > 0 && (!sizes || !lists)) return attributes_set_list(a, name, ATTR_LIST_LIST_INT, n, NULL);
  for (int i = 0; i < n; ++i) {
    if (sizes[i] < 0 || (sizes[i] && !lists[i]))
      return fail(ST_INVALID_PARAM, "numValues[%d] is %d and values[%d] %p, expected as many values", i, sizes[i], i,
                  (const void *)lists[i]);
    total += sizes[i];
  }
  if (total > INT32_MAX) return fail(ST_INVALID_PARAM, "%s has %jd values, expected fewer", name, (intmax_t)total);
  int64_t *const all = malloc((size_t)total * sizeof *all + 1);
  if (!all) return fail(ST_NO_HOST_MEMORY, "no host memory for the attribute %s", name);
  for (int64_t i = 0, at = 0; i < n; at += sizes[i++])
    if (sizes[i]) memcpy(all + at, lists[i], (size_t)sizes[i] * sizeof *all);
  const status st = attributes_set_list(a, name, ATTR_LIST_LIST_INT, n < 0 ? n : (int)total, all);
  free(all);
  return st;
}
