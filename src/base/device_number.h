/* The number of the device that a block of memory is on: from 0 on, or one of these for host memory, in hooks, statistics
 * and recordings alike. */
#ifndef CANNON_BASE_DEVICE_NUMBER_H
#define CANNON_BASE_DEVICE_NUMBER_H

#include <stdio.h>

enum {
  HOST_PINNED = -1,
  HOST_MANAGED = -2, /* reached by host and devices */
};

typedef struct {
  char text[24];
} device_words;

static inline device_words device_in_words(int device) {
  device_words words;
  if (device >= 0)
    snprintf(words.text, sizeof words.text, "device %d", device);
  else
    snprintf(words.text, sizeof words.text, "%s", device == HOST_MANAGED ? "managed" : "pinned");
  return words;
}

#endif
