/* SPDX-License-Identifier: Apache-2.0 */
/* AIPP: an input of a model takes pictures of 8-bit values, which are prepared when the model runs: channels are
 * swapped, a part is cut out, colours are converted, (value - mean - min) * reciprocal of the variance becomes a
 * number, and a border is added. How is part of the model (static), or comes with each execution in an input of its
 * own (dynamic).
 * Pure functions; called by model.c, om.c and src/api. */
#ifndef CANNON_GRAPH_AIPP_H
#define CANNON_GRAPH_AIPP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Failures that only AIPP has. */
#define ST_AIPP_BATCH_EMPTY ((status)145014) /* parameters are for no picture */
#define ST_AIPP_NOT_THERE   ((status)145015) /* the input has no AIPP */
#define ST_AIPP_STATIC      ((status)145016) /* it has a static one, but a dynamic one is wanted */

/* The formats of pictures that are supported, as aclAippInputFormat. */
enum { AIPP_YUV420SP = 1, AIPP_XRGB8888 = 2, AIPP_RGB888 = 3, AIPP_YUV400 = 4 };

enum { AIPP_CHANNELS = 4, AIPP_MOST = 8 /* AIPP operators of a model */ };

/* What holds for all pictures. */
typedef struct {
  int32_t format, width, height; /* of the source; width 0: that of the model */
  int32_t csc, swap_rb, swap_ax; /* switches */
  int32_t matrix[9], out_bias[3], in_bias[3];
  float padding_value;
} aipp_common;

/* What each picture of a batch has of its own. A width of 0: the rest of the source. */
typedef struct {
  int32_t crop, crop_x, crop_y, crop_w, crop_h;
  int32_t padding, top, bottom, left, right;
  int32_t mean[AIPP_CHANNELS];
  float min[AIPP_CHANNELS], reciprocal[AIPP_CHANNELS];
} aipp_picture;

/* An operator of a configuration. */
typedef struct {
  bool dynamic;
  bool half;           /* the model takes float16, else float32; not in the configuration */
  int input;           /* of the model */
  uint64_t most_bytes; /* of a dynamic one: of a picture */
  aipp_common common;  /* of a static one */
  aipp_picture picture;
} aipp_config;

/* The contents of the input of a dynamic one, which aclmdlSetInputAIPP writes; n pictures follow. */
typedef struct {
  uint64_t magic, n;
  aipp_common common;
} aipp_header;
#define AIPP_MAGIC UINT64_C(0x70706961206e6e63)
static inline size_t aipp_bytes(uint64_t n) { return sizeof(aipp_header) + (size_t)n * sizeof(aipp_picture); }

/* Defaults: nothing is done. */
void aipp_defaults(aipp_common *c, aipp_picture *p);

/* Reads a configuration as atc's --insert_op_conf has it: "aipp_op { key: value ... }", once for each input. At most
 * AIPP_MOST. ST_INVALID_PARAM, with the key. */
status aipp_read(const char *text, aipp_config *configs, int *n);

/* The configuration in one line, without comments; malloc'ed. NULL: no memory. */
char *aipp_line(const char *text);

/* Bytes of a source picture. */
uint64_t aipp_picture_bytes(const aipp_common *c, int64_t width, int64_t height);

/* Whether the parameters make pictures of this size of sources that are width x height. ST_INVALID_PARAM. */
status aipp_check(const aipp_common *c, const aipp_picture *p, int64_t channels, int64_t height, int64_t width);

/* What an input with AIPP gets for an execution. */
typedef struct {
  const uint8_t *source;
  uint64_t source_bytes;
  const aipp_header *parameters; /* NULL: they are the model's */
  uint64_t parameter_bytes;
} aipp_source;

/* Prepares dims[0] pictures to dims[1] channels of dims[2] x dims[3] (height, width). ST_AIPP_BATCH_EMPTY: there are no
 * parameters; ST_INVALID_PARAM: they do not fit; ST_MODEL_INPUT: the source is too small. */
status aipp_run(const aipp_config *c, const aipp_source *s, const int64_t *dims, void *to);

#endif
