/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that a program would see now, found through CANN's own interface. Called by `cannon info` and npu-smi. */
#ifndef CANNON_CLI_DEVICE_LIST_H
#define CANNON_CLI_DEVICE_LIST_H

#include <stddef.h>

typedef struct {
  size_t free_bytes, total_bytes;
} device_memory;

typedef struct {
  const char *soc_name;
  unsigned count;
  device_memory *memory; /* one element per device */
} device_list;

/* Returns 0 and fills *list, or prints which call failed and why (to stderr, beginning with `tool`) and returns 1.
 * May be called once; the memory is kept until the process ends. */
int device_list_query(const char *tool, device_list *list);

#endif
