/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shape_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 8 };

bool shape_list_read(char *text, cannon_model_shape *shapes, size_t *n, char error[256]) {
  char *state = NULL;
  for (char *one = strtok_r(text, ";", &state); one; one = strtok_r(NULL, ";", &state)) {
    char *colon = strrchr(one, ':'), *end;
    if (!colon || colon == one || *n == MOST_SHAPES) {
      snprintf(error, 256, "%.80s, expected \"name:1,3,224,224;name:...\"", one);
      return false;
    }
    *colon = 0;
    cannon_model_shape *s = &shapes[(*n)++];
    *s = (cannon_model_shape){.name = one};
    for (char *p = colon + 1; *p; p = end + (*end == ',')) {
      errno = 0;
      const long long value = strtoll(p, &end, 10);
      if (end == p || errno || value < -1 || (*end && *end != ',') || s->n_dims == MOST_DIMS) {
        snprintf(error, 256, "%.80s for %.80s, expected up to %d numbers of -1 or more with commas between", p, one,
                 MOST_DIMS);
        return false;
      }
      s->dims[s->n_dims++] = value;
    }
  }
  return true;
}
