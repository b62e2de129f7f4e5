/* The devices that a program would see now, asked through CANN's own interface. */
#ifndef CANNON_CLI_DEVICE_LIST_H
#define CANNON_CLI_DEVICE_LIST_H

#include <stddef.h>

typedef struct {
  size_t free_bytes, total_bytes;
} device_memory;

typedef struct {
  const char *soc_name;
  unsigned count;
  device_memory *memory; /* one a device */
} device_list;

/* Returns 0 and fills *list, or prints to stderr (beginning with `tool`) which call failed and why, and
 * returns 1. May be called once; the memory is the process's till its end. */
int device_list_query(const char *tool, device_list *list);

#endif
