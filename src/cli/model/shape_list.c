/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/model/shape_list.h"

#include <stdio.h>
#include <string.h>

#include "graph/file/option_texts.h"

bool shape_list_read(char *text, cannon_model_shape *shapes, size_t *n, char error[256]) {
  char *state = NULL;
  for (char *one = strtok_r(text, ";", &state); one; one = strtok_r(NULL, ";", &state)) {
    char *colon = strrchr(one, ':');
    if (!colon || colon == one || *n == MOST_SHAPES) {
      snprintf(error, 256, "%.80s, expected \"name:1,3,224,224;name:...\"", one);
      return false;
    }
    *colon = 0;
    char why[OPTION_ERROR];
    cannon_model_shape *s = &shapes[(*n)++];
    *s = (cannon_model_shape){.name = one};
    if (!option_dims(colon + 1, s, why)) {
      snprintf(error, 256, "for %.60s %.190s", one, why);
      return false;
    }
  }
  return true;
}
