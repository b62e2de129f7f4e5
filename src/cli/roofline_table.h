/* What operators would take on the device, as `cannon run` shows it (the model is in runtime/roofline.h). */
#ifndef CANNON_CLI_ROOFLINE_TABLE_H
#define CANNON_CLI_ROOFLINE_TABLE_H

#include <stdio.h>

#include "trace/stats.h"

/* A table of the operators that would take longest; nothing where none was launched. */
void roofline_print(FILE *out, const stats_file *p);

const char *roofline_bound_name(stats_bound bound);

/* What bounds most of the operator's time. */
stats_bound roofline_bound_of(const stats_op *op);

#endif
