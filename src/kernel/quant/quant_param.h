/* SPDX-License-Identifier: Apache-2.0 */
/* Quantisation parameters in the format of NPUs: 64-bit words with a float scale in the lower half, of which only the
 * 19 upper bits are used, a 9-bit signed offset in bits 37 to 45, and bit 46 set. */
#ifndef CANNON_KERNEL_QUANT_QUANT_PARAM_H
#define CANNON_KERNEL_QUANT_QUANT_PARAM_H

#include <stdint.h>

/* Packing rounds the offset to an integer and saturates it, and truncates the scale to 19 bits. */
uint64_t quant_param_pack(float scale, float offset);
/* Unpacking of the scale and the offset. */
float quant_param_scale(uint64_t word);
int quant_param_offset(uint64_t word);

#endif
