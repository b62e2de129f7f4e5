/* SPDX-License-Identifier: Apache-2.0 */
/* Emulation of AMX in C. Compiling a kernel with `-include` of this header makes it run on any processor that has
 * AVX-512 and AVX512_BF16. The tiles follow Intel's manual (Architecture Instruction Set Extensions, chapter 3); all
 * have 16 rows of 64 bytes, the only configuration that the project uses. About 100 times slower than the hardware. */
#ifndef CANNON_TESTS_SUPPORT_AMX_EMULATED_H
#define CANNON_TESTS_SUPPORT_AMX_EMULATED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cpuid.h>
#include <immintrin.h>

/* ---- detection: the processor reports AMX, and the system permits its use ---- */

static inline int emulated_cpuid(unsigned leaf, unsigned part, unsigned *a, unsigned *b, unsigned *c, unsigned *d) {
  const int known = __get_cpuid_count(leaf, part, a, b, c, d);
  if (leaf == 7 && part == 0) *d |= 1u << 22 | 1u << 24 | 1u << 25;
  return known;
}
#define __get_cpuid_count emulated_cpuid // NOLINT(bugprone-reserved-identifier)
#define syscall(...)      0

/* Not inlined: with AddressSanitizer a kernel's file takes minutes to compile with these inlined, and seconds so. */
#define EMULATION __attribute__((noinline, unused)) static

/* ---- tiles ---- */

typedef union {
  char row[16][64];
  float f32[16][16];
  int32_t i32[16][16];
  uint16_t bf16[16][32];
  int8_t i8[16][64];
} emulated_tile;

/* The thread's eight tiles, or NULL while tiles are not configured. Weak, so that all sources share one definition. */
__attribute__((weak)) _Thread_local emulated_tile *emulated_tiles;

/* Returns tile t. Traps when tiles are not configured, as a real processor raises a fault. */
static inline emulated_tile *emulated(int t) {
  if (!emulated_tiles) __builtin_trap();
  return &emulated_tiles[t];
}

EMULATION void emulated_configure(const void *config) {
  static const uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  static const uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  if (*(const uint8_t *)config != 1 || memcmp((const char *)config + 16, bytes, sizeof bytes) ||
      memcmp((const char *)config + 48, rows, sizeof rows))
    __builtin_trap();
  free(emulated_tiles);
  emulated_tiles = calloc(8, sizeof *emulated_tiles);
}

EMULATION void emulated_release(void) {
  free(emulated_tiles);
  emulated_tiles = NULL;
}

EMULATION void emulated_load(int t, const void *from, int64_t pitch) {
  for (int i = 0; i < 16; i++) memcpy(emulated(t)->row[i], (const char *)from + i * pitch, 64);
}

EMULATION void emulated_store(int t, void *to, int64_t pitch) {
  for (int i = 0; i < 16; i++) memcpy((char *)to + i * pitch, emulated(t)->row[i], 64);
}

/* Converts bfloat16 to float; denormals become zeros. */
static inline float emulated_float(uint16_t bf16) {
  const uint32_t bits = bf16 & 0x7f80 ? (uint32_t)bf16 << 16 : (uint32_t)(bf16 & 0x8000) << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

EMULATION void emulated_dpbf16ps(int c, int a, int b) {
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 16; j++)
        for (int p = 0; p < 2; p++)
          emulated(c)->f32[i][j] +=
              emulated_float(emulated(a)->bf16[i][2 * k + p]) * emulated_float(emulated(b)->bf16[k][2 * j + p]);
}

EMULATION void emulated_dpbssd(int c, int a, int b) {
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 16; j++)
        for (int p = 0; p < 4; p++)
          emulated(c)->i32[i][j] += emulated(a)->i8[i][4 * k + p] * emulated(b)->i8[k][4 * j + p];
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define _tile_loadconfig            emulated_configure
#define _tile_release               emulated_release
#define _tile_zero(t)               memset(emulated(t), 0, sizeof(emulated_tile))
#define _tile_loadd(t, from, pitch) emulated_load(t, from, pitch)
#define _tile_stream_loadd          _tile_loadd
#define _tile_stored                emulated_store
#define _tile_dpbf16ps              emulated_dpbf16ps
#define _tile_dpbssd                emulated_dpbssd

#endif
