/* A phase of a convolution's direct ways, as correlate.c sets it up; correlate_pairs.c does those by words of two channels
 * (direct_pairs.h). */
#ifndef CANNON_KERNEL_CONV_CORRELATE_PHASE_H
#define CANNON_KERNEL_CONV_CORRELATE_PHASE_H

#include "kernel/conv/correlate.h"
#include "kernel/conv/direct.h"
#include "kernel/conv/pair_weights.h"
#include "kernel/conv/phase.h"
#include "kernel/engine/loops.h"

/* A phase of some images, as all threads see it. */
typedef struct {
  const correlation *c;
  const pair_kernel *pairs; /* or NULL: on floats */
  phase_axis axis[CONV_AXES];
  const conv_image *image;            /* of these outputs' inputs */
  int64_t pitch, lines, width_out;    /* of positions: from line to line, lines of a plane; outputs of a line */
  direct_sums sums;                   /* of the first group, tile and position */
  int64_t w_group, w_axis[CONV_AXES]; /* elements */
  const float *x, *bias;
  pair_weights weights; /* those of words of two channels, */
  char *packed;         /* and where they are packed */
  bool one_pass;        /* these are all images and bands */
  bool has_range;       /* already: of the weights, which are floats */
  float_exponents weight_range;
  bool is_packed;             /* already: they are the same for all images and phases */
  int64_t x_image, x_group;   /* elements */
  char *outputs, *to;         /* the first of all, and of the phase */
  int64_t to_axis[CONV_AXES]; /* bytes from output to output of the phase */
  int64_t channels, rows;     /* of a group: summed over, and made */
  int64_t n_images, positions, row_tiles, width, position_tiles;
  bool rows_outer;
  store_loop *store;
} phase;

enum { WEIGHT_BYTES = 3 << 18 /* more than this is read once, and positions are walked inside */ };

/* The kernel for words of two channels, where they fit: bfloat16, of enough channels; or floats where there is also enough
 * to do for each. */
const pair_kernel *pairs_of(const correlation *c);
/* Bytes of n images, and of the weights. */
uint64_t pairs_image_bytes(const correlation *c, int64_t n);
uint64_t pairs_weight_bytes(const correlation *c);
/* Fills the image; false: floats that bfloat16's products would lose. w: the floats' weights. */
bool pairs_prepare(const correlation *c, const char *from, int64_t n, char *image, phase *f);
/* Everything is set but how positions are cut. sums.w_tap: the numbers of taps among those of the kernel. */
void pairs_run_phase(phase *f, uint64_t cost_ns);
/* The taps of a row and channel are one run, in their order. */
bool taps_are_plain(const correlation *c);

#endif
