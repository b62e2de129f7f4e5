/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a model as texts, in the forms that CANN gives them: for the command line of atc (src/cli) and for the
 * options of aclgrphBuildModel (src/ge), both of which compile this file in. No function allocates or keeps anything;
 * names that are found are parts of the text, which is changed and must stay. Thread-safe. */
#ifndef CANNON_GRAPH_FILE_OPTION_TEXTS_H
#define CANNON_GRAPH_FILE_OPTION_TEXTS_H

#include <stdbool.h>

#include "cannon/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OPTION_MOST_NUMBERS = 3200, OPTION_MOST_OUTPUTS = 64, OPTION_ERROR = 256 };

/* Each returns false, with what the text has and what was expected of it, such as "x, expected a number". */

/* Dimensions: numbers with commas between, in brackets or not. -1 is an open one, "2~8" one with a range, "2~-1" one
 * without an upper end. Adds them to the shape. */
bool option_dims(const char *text, cannon_model_shape *to, char error[OPTION_ERROR]);

/* Gears: sizes with commas between ("1,2,4", for batches only), or lists of such with semicolons between. numbers has
 * room for OPTION_MOST_NUMBERS; `gears` and those after it in *to are set. */
bool option_gears(const char *text, cannon_model_gears kind, int64_t *numbers, cannon_model_options *to,
                  char error[OPTION_ERROR]);

/* "node:0;name", whose parts go into the list of OPTION_MOST_OUTPUTS. */
bool option_outputs(char *text, const char **list, size_t *n, char error[OPTION_ERROR]);

/* "FP16" for all outputs, or "node:0:FP16;name:INT8"; the list has room for OPTION_MOST_OUTPUTS. */
bool option_types(char *text, cannon_model_type *list, size_t *n, char error[OPTION_ERROR]);

#ifdef __cplusplus
}
#endif

#endif
