/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise loops of recurrent cells, one table per instruction set level (engine/level.h). Arrays are contiguous
 * floats, n of each, and do not overlap. Gates come in as weighted sums and are replaced by their activated values.
 * Called row by row by lstm.c, gru.c and their gradients; the functions are stateless. */
#ifndef CANNON_KERNEL_RECURRENT_CELLS_H
#define CANNON_KERNEL_RECURRENT_CELLS_H

#include <stdint.h>

/* Gates of an LSTM cell (j is the candidate) and of a GRU cell (n is the candidate). */
enum { LSTM_I, LSTM_J, LSTM_F, LSTM_O, LSTM_GATES };
enum { GRU_R, GRU_Z, GRU_N, GRU_GATES };

/* The place of each gate of an LSTM cell in PyTorch's order, i f g o, where g is the candidate. */
static const int8_t lstm_gate_place[LSTM_GATES] = {[LSTM_I] = 0, [LSTM_F] = 1, [LSTM_J] = 2, [LSTM_O] = 3};

typedef struct {
  /* c: the cell state, replaced by the next one. tanh_c and h are results. */
  void (*lstm)(float *const gate[LSTM_GATES], float forget_bias, float *c, float *tanh_c, float *h, int64_t n);
  /* gate: activated. dc: gradient of the cell state after this step, replaced by that of c, the state before it. dh:
   * gradient of the output. d_gate: results, the gradients of the weighted sums. */
  void (*lstm_grad)(const float *const gate[LSTM_GATES], const float *tanh_c, const float *c, const float *dh,
                    float *dc, float *const d_gate[LSTM_GATES], int64_t n);
  /* gate: weighted sums over the input; from_h: those over the state. h: the state, replaced by the next one. */
  void (*gru)(float *const gate[GRU_GATES], const float *const from_h[GRU_GATES], float *h, int64_t n);
  /* gate: activated. n_from_h: the candidate's weighted sum over the state. h: the state before this step. dh:
   * gradient of the state after this step, replaced by the part that flows to h directly (times z). d_gate:
   * results, the gradients of the sums over the input; those over the state are the same but for the
   * candidate's, which is dn_from_h. */
  void (*gru_grad)(const float *const gate[GRU_GATES], const float *n_from_h, const float *h, float *dh,
                   float *const d_gate[GRU_GATES], float *dn_from_h, int64_t n);
  /* to = old + mask * (to - old) */
  void (*blend)(float *to, const float *old, const float *mask, int64_t n);
  /* to *= x */
  void (*multiply)(float *to, const float *x, int64_t n);
  /* to += x */
  void (*add)(float *to, const float *x, int64_t n);
} cell_loops;

extern const cell_loops *cells; /* set before main, for the processor */

#endif
