/* The gradient of w on AMX, from floats that are bfloat16s: positions are what is summed over. */
#ifndef CANNON_KERNEL_CONV_WEIGHT_GRADIENT_AMX_H
#define CANNON_KERNEL_CONV_WEIGHT_GRADIENT_AMX_H

#include <stdint.h>

/* Images of x and y as weight_gradient.h has them, in one order of positions; `channel` apart are the channels of one. */
typedef struct {
  int64_t channels, rows;       /* of a group */
  int64_t x_channel, y_channel; /* floats; y's is a multiple of 16 and 0 where there are no outputs */
} amx_gradient;

/* Bytes of one group's x and y, packed. */
int64_t amx_gradient_x_bytes(const amx_gradient *g);
int64_t amx_gradient_y_bytes(const amx_gradient *g);
/* 16 channels (rows) from `first` on. */
void amx_gradient_pack_x(const amx_gradient *g, char *to, const float *x, int64_t first);
void amx_gradient_pack_y(const amx_gradient *g, char *to, const float *y, int64_t first);
/* sum[i * 32 + j] for rows row + i and channels channel + j (both multiples of 32): y[row + i] . x[channel + j] from
 * element `tap` of x on. 32 by 32, or as many as there are, in whole 16s. */
void amx_gradient_block(const amx_gradient *g, const char *x, const char *y, int64_t row, int64_t channel, int64_t tap,
                        float *sum);

#endif
