/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to correlate.c, correlate_pairs.c and tap_weights.c: one phase (phase.h) of a convolution by one of the
 * direct algorithms. correlate.c sets it up and executes phases of floats; correlate_pairs.c executes those of VNNI
 * pairs (direct_pairs.h). */
#ifndef CANNON_KERNEL_CONV_CORRELATE_PHASE_H
#define CANNON_KERNEL_CONV_CORRELATE_PHASE_H

#include "kernel/conv/correlate.h"
#include "kernel/conv/direct/direct.h"
#include "kernel/conv/pair_weights.h"
#include "kernel/conv/phase.h"
#include "kernel/engine/loops.h"

/* A phase of some batch items. It lives on the stack of correlation_run; worker threads only read it. */
typedef struct {
  const correlation *c;
  const pair_kernel *pairs; /* NULL: computed in float */
  phase_axis axis[CONV_AXES];
  const conv_image *image;            /* the padded copy of these outputs' inputs */
  int64_t pitch, lines, width_out;    /* positions from line to line; lines of a plane; outputs of a line */
  direct_sums sums;                   /* of the first group, tile and position */
  int64_t w_group, w_axis[CONV_AXES]; /* elements */
  const float *x, *bias;
  pair_weights weights; /* VNNI pairs: the weights */
  char *packed;         /* and where their packed tiles are */
  bool one_pass;        /* this pass covers all batch items and bands */
  bool has_range;       /* the exponents of float weights are already known */
  float_exponents weight_range;
  bool is_packed;             /* the weights are already packed; all batch items and phases use the same ones */
  int64_t x_image, x_group;   /* elements */
  char *outputs, *to;         /* the first output of all, and that of the phase */
  int64_t to_axis[CONV_AXES]; /* bytes from output to output of the phase */
  int64_t channels, rows;     /* of a group: channels to sum over, and outputs per position */
  int64_t n_images, positions, row_tiles, width, position_tiles;
  bool rows_outer;
  conv_store store;
} phase;

enum { WEIGHT_BYTES = 3 << 18 /* larger weights are read once, with the loop over positions inside */ };

/* Returns the kernel for VNNI pairs if it suits the operands: bfloat16 with enough channels, or float if there is
 * also enough work per weight and input to repay the split; otherwise NULL. */
const pair_kernel *pairs_kernel(const correlation *c);
/* Bytes of the padded copy of n batch items, and of the packed weights. */
uint64_t pairs_image_bytes(const correlation *c, int64_t n);
uint64_t pairs_weight_bytes(const correlation *c);
/* Copies the call's weights in the order of c->w, [tap][row][channel]. */
void correlation_order_taps(const correlation *c, const void *w, char *to);
/* Packs the weights, those of f->sums.w, to `packed`, which has pairs_packed_bytes. */
uint64_t pairs_packed_bytes(const correlation *c);
void pairs_pack(phase *f, char *packed);
/* Takes packed weights. */
void pairs_take_packed(phase *f, const char *packed);
/* Fills the padded copy. Returns false if the exponents of float operands do not allow products of bfloat16 terms.
 * The range of the weights is taken from f->sums.w. */
bool pairs_prepare(const correlation *c, const char *from, int64_t n, char *image, phase *f);
/* Executes the phase. The caller has set everything except how positions are split into tiles. sums.w_tap holds the
 * indices of the taps in the kernel. */
void pairs_run_phase(phase *f, uint64_t cost_ns);
/* Returns whether the taps of a row and channel are contiguous and in order in the call's weights. */
bool correlation_taps_are_plain(const correlation *c);

#endif
