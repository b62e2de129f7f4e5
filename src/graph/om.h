/* SPDX-License-Identifier: Apache-2.0 */
/* .om files, which atc writes and aclmdlLoadFromFile reads. The shell is CANN's: a header of 256 bytes, a table of
 * partitions, and the partitions (Apache-2.0 sources of the older graph engine describe it). The content is our own, in
 * the partition TASK_INFO: the ONNX model and the shapes that were chosen for its inputs. It has no addresses and
 * nothing that depends on the processor, so files move between machines. Files for NPUs are recognised and refused. */
#ifndef CANNON_GRAPH_OM_H
#define CANNON_GRAPH_OM_H

#include "graph/gears.h"

/* What a file has; shapes and gears are owned, the rest lies in the file's bytes. */
typedef struct {
  const void *onnx;
  size_t onnx_bytes;
  onnx_shape *shapes;
  int n_shapes;
  model_gears gears;
  const char *aipp; /* a configuration in one line (aipp.h); NULL: none */
  char *names;      /* of the shapes, and aipp when it was read */
} om_contents;

/* Whether bytes begin as a .om file does. */
bool om_is(const void *bytes, size_t n);

/* Reads a file, whose bytes must stay. om_free frees what it has allocated. ST_CONFIG_PARSE, with the reason. */
status om_read(const void *bytes, size_t n, om_contents *out);
void om_free(om_contents *c);

/* The shape of an input; NULL: none was chosen. */
const onnx_shape *om_shape(const om_contents *c, const char *name);

/* Makes a file of what it is to have. name: of the model, for those who look into the header. *out: malloc'ed. */
status om_write(const char *name, const om_contents *c, void **out, size_t *n);

#endif
