/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of `cannon model` share with command_model.c, which reads their options. */
#ifndef CANNON_CLI_MODEL_MODEL_COMMAND_H
#define CANNON_CLI_MODEL_MODEL_COMMAND_H

#include <cjson/cJSON.h>

#include "cli/model/shape_list.h"
#include "cli/output.h"

enum { MODEL_MOST_INPUTS = 64 };

/* First bytes of model_page.html, by which such pages are distinguished from other files. */
#define MODEL_PAGE_BEGINS "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>cannon model</title>\n"

typedef struct {
  const char *path;
  cannon_model_shape shapes[MOST_SHAPES];
  size_t n_shapes;
  output json, html;
  bool force, help_wanted, tune;
  const char *goal; /* NULL: none */
  /* of `run` */
  const char *inputs[MODEL_MOST_INPUTS]; /* "FILE" or "NAME=FILE" */
  int n_inputs;
  const char *folder; /* of outputs; NULL: they are not written */
  bool fill;          /* inputs without a file get random numbers */
  uint64_t seed;
  uint64_t repeat;
} model_options;

/* Both return the exit status. */
int model_show(model_options *o);
int model_run(model_options *o);

/* Writes the page for a description (cannon_model_describe). */
bool model_write_html(FILE *f, const char *path, const char *description);

/* "float32 [1, 3]" of a description's value; the text is valid until the eighth call from now. */
const char *model_value_text(const cJSON *value);

#endif
