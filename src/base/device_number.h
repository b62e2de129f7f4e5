/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the devices that blocks of memory are on, in hooks, statistics and recordings alike: devices count from 0,
 * and the negative numbers below stand for host memory. */
#ifndef CANNON_BASE_DEVICE_NUMBER_H
#define CANNON_BASE_DEVICE_NUMBER_H

#include <stdio.h>

enum {
  HOST_PINNED = -1,
  HOST_MANAGED = -2, /* managed memory, which the host and the devices reach */
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
