/* SPDX-License-Identifier: Apache-2.0 */
/* ge.proto.ModelDef, the description of a graph in .om files, as JSON with two spaces of indent. */
#ifndef CANNON_CLI_ATC_ATC_JSON_H
#define CANNON_CLI_ATC_ATC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* First bytes of the JSON. */
#define ATC_JSON_BEGINS "{\n  \"attr\": ["

/* Returns false if the message is malformed. */
bool atc_json_write(FILE *f, const void *model_def, size_t bytes);

#endif
