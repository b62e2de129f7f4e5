/* Quantisation parameters as NPUs take them: words of 64 bits with a float scale, of which the 19 upper bits count, in
 * the lower half, an offset of 9 bits in bits 37 to 45, and bit 46 set. */
#ifndef CANNON_KERNEL_QUANT_QUANT_PARAM_H
#define CANNON_KERNEL_QUANT_QUANT_PARAM_H

#include <stdint.h>

uint64_t quant_param_pack(float scale, float offset);
float quant_param_scale(uint64_t word);
int quant_param_offset(uint64_t word);

#endif
