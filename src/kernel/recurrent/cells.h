/* The loops of recurrent cells, by instruction set level (engine/level.h): contiguous floats, n of each, that do not overlap.
 * Weighted sums become activated values in place. */
#ifndef CANNON_KERNEL_RECURRENT_CELLS_H
#define CANNON_KERNEL_RECURRENT_CELLS_H

#include <stdint.h>

/* Gates of an LSTM cell (j: the candidate), and of a GRU cell (n: the candidate). */
enum { LSTM_I, LSTM_J, LSTM_F, LSTM_O, LSTM_GATES };
enum { GRU_R, GRU_Z, GRU_N, GRU_GATES };

typedef struct {
  /* c: the state, made the next; tanh_c and h are made. */
  void (*lstm)(float *const gate[LSTM_GATES], float forget_bias, float *c, float *tanh_c, float *h, int64_t n);
  /* gate: activated. dc: of the state behind the cell, made that of the one before, c. d_gate: made, of the sums. */
  void (*lstm_grad)(const float *const gate[LSTM_GATES], const float *tanh_c, const float *c, const float *dh,
                    float *dc, float *const d_gate[LSTM_GATES], int64_t n);
  /* gate: sums over the input; from_h: over the state. h: the state, made the next. */
  void (*gru)(float *const gate[GRU_GATES], const float *const from_h[GRU_GATES], float *h, int64_t n);
  /* gate: activated. n_from_h: the candidate's sum over the state, h: the state before. dh: of the state behind the cell,
   * made what of it goes to h directly. d_gate: made, of sums over the input; those over the state have dn_from_h
   * instead of the candidate's. */
  void (*gru_grad)(const float *const gate[GRU_GATES], const float *n_from_h, const float *h, float *dh,
                   float *const d_gate[GRU_GATES], float *dn_from_h, int64_t n);
  /* to = old + mask * (to - old) */
  void (*blend)(float *to, const float *old, const float *mask, int64_t n);
  void (*multiply)(float *to, const float *x, int64_t n);
  void (*add)(float *to, const float *x, int64_t n);
} cell_loops;

extern const cell_loops *cells; /* set before main */

#endif
