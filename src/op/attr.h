/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes (aclopAttr): named values for operators that are called by name. Setting a name again replaces
 * its value. Values are stored as the operator arguments that they become. Called by src/api and aclop.c.
 * Not thread-safe for writes. */
#ifndef CANNON_OP_ATTR_H
#define CANNON_OP_ATTR_H

#include "op/op.h"

typedef enum {
  ATTR_BOOL,
  ATTR_INT,
  ATTR_FLOAT,
  ATTR_STRING,
  ATTR_DATA_TYPE,
  ATTR_LIST_BOOL,
  ATTR_LIST_INT,
  ATTR_LIST_FLOAT,
  ATTR_LIST_LIST_INT, /* stored as one list, of the elements of all */
  /* No operator has an attribute of these kinds: the name is stored, but not the value. */
  ATTR_LIST_STRING,
  ATTR_LIST_DATA_TYPE,
} attr_kind;

extern const char *const attr_kind_names[]; /* for messages: "a number", "a list of numbers" */

typedef struct attr_value {
  struct attr_value *next;
  attr_kind kind;
  op_arg value; /* the memory of a string or a list belongs to the attribute */
  char name[];
} attr_value;

struct aclopAttr {
  attr_value *first;
};

typedef struct aclopAttr attributes;

attributes *attributes_new(void); /* NULL, with a message, if there is no host memory */
void attributes_free(attributes *a);

/* Set a value. A string is copied. Of a list, data are its n elements (int64_t, float or bool), which are copied.
 * ST_INVALID_PARAM, ST_NO_HOST_MEMORY. */
status attributes_set(attributes *a, const char *name, attr_kind kind, op_arg value);
status attributes_set_list(attributes *a, const char *name, attr_kind kind, int n, const void *data);

/* The same for lists of integers, of which list i has sizes[i]. */
status attributes_set_lists(attributes *a, const char *name, int n, const int *sizes, const int64_t *const *lists);

/* The value of that name, or NULL. a may be NULL. */
const attr_value *attributes_find(const attributes *a, const char *name);

#endif
