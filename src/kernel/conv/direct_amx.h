/* Sums of products of bfloat16 on AMX: as direct.h's, with words of two neighbouring channels for inputs, and packed
 * weights. Only where direct_has_amx(). */
#ifndef CANNON_KERNEL_CONV_DIRECT_AMX_H
#define CANNON_KERNEL_CONV_DIRECT_AMX_H

#include <stdbool.h>
#include <stdint.h>

enum {
  AMX_ROWS = 32,     /* of a block of outputs, and its positions */
  AMX_CHANNELS = 32, /* of one step */
  AMX_TILE_BYTES = 1024,
};

/* sum over steps of channels and taps. Weights are tiles of 16 rows by 32 channels, those of a block of 32 rows
 * [steps][taps][1 or 2]; inputs are words of two channels, x_pair words from one pair to the next, tap t at
 * x + x_tap[t]. */
typedef struct {
  const char *w;
  const uint32_t *x;
  int64_t x_pair;
  const int64_t *x_tap;
  int64_t steps, taps;
} amx_sums;

bool direct_has_amx(void);
/* c[row * AMX_ROWS + position]: two_rows, two_vectors: 32 of them, else 16. */
void direct_amx_block(const amx_sums *s, bool two_rows, bool two_vectors, float *c);

#endif
