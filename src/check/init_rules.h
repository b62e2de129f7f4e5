/* SPDX-License-Identifier: Apache-2.0 */
/* Which of their operands operators really read. Pure functions. */
#ifndef CANNON_CHECK_INIT_RULES_H
#define CANNON_CHECK_INIT_RULES_H

#include <stdbool.h>

typedef enum {
  READ_ALL,   /* every byte matters */
  READ_SOME,  /* which bytes depends on other operands' contents: it is wrong only if none was written */
  READ_NONE,  /* maybe none matters */
  READ_MOVED, /* the outputs get the bytes as they are */
} read_rule;

/* argument: its name, or NULL. */
read_rule init_read_rule(const char *op, const char *argument);

/* For an operator with READ_MOVED, returns whether an output has the elements of its only source in their order,
 * repeated where the source has fewer. */
bool init_keeps_order(const char *op);

#endif
