/* Attributes (aclopAttr): named values that an operator is called with by name. Setting a name again replaces its value.
 * Values are kept as the arguments of operators that they become. Not thread-safe for writes. */
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
  /* No operator here has one of these: that it was set is known, its value is not kept. */
  ATTR_LIST_STRING,
  ATTR_LIST_DATA_TYPE,
  ATTR_LIST_LIST_INT,
} attr_kind;

extern const char *const attr_kind_names[]; /* for messages: "a number", "a list of numbers" */

typedef struct attr_value {
  struct attr_value *next;
  attr_kind kind;
  op_arg value; /* a string's and a list's memory is the attribute's */
  char name[];
} attr_value;

struct aclopAttr {
  attr_value *first;
};

typedef struct aclopAttr attributes;

attributes *attributes_new(void); /* NULL after fail() */
void attributes_free(attributes *a);

/* Numbers and lists of numbers as the union has them; a string and the elements of a list are copied. data: the elements
 * (of int64_t, float or bool), n of them. ST_INVALID_PARAM, ST_NO_HOST_MEMORY. */
status attributes_set(attributes *a, const char *name, attr_kind kind, op_arg value);
status attributes_set_list(attributes *a, const char *name, attr_kind kind, int n, const void *data);

/* NULL where it was not set. a may be NULL. */
const attr_value *attributes_find(const attributes *a, const char *name);

#endif
