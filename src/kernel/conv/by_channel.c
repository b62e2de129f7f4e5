/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/by_channel.h"

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"

LEVEL_CHOICE(channel_loops_table, channel_loops, channel_loops_table)

bool by_channel_fits(const conv_geometry *g, const conv_operand *from, const conv_operand *to) {
  return conv_volume(g->stride) == 1 && by_channel_fits_forward(g, from, to);
}

bool by_channel_fits_forward(const conv_geometry *g, const conv_operand *from, const conv_operand *to) {
  const int64_t size = (int64_t)dtype_bytes(from->dtype);
  return channel_loops->rows && g->channels == 1 && g->rows == 1 &&
         (g->stride[2] == 1 || (g->stride[2] == 2 && from->dtype == ACL_FLOAT)) && g->kernel[2] <= CHANNEL_MOST_TAPS &&
         from->dtype == to->dtype && from->axis[2] == size && to->axis[2] == size;
}

void channel_window_init(channel_window *c, const conv_operand *from, const int64_t *in, const conv_operand *to,
                         const phase_axis *axis, const int64_t *w_axis) {
  c->dtype = from->dtype;
  for (int a = 0; a < CONV_AXES; ++a) {
    c->in[a] = in[a];
    c->out[a] = axis[a].out;
    c->taps[a] = axis[a].taps;
    c->shift[a] = axis[a].shift;
    c->dilation[a] = axis[a].dilation;
    c->stride[a] = axis[a].stride;
    c->from_axis[a] = from->axis[a];
    c->to_axis[a] = to->axis[a];
    c->w_axis[a] = w_axis[a] * axis[a].tap_step;
  }
}

static void by_channel_run_rows(const void *job, int64_t begin, int64_t end) {
  const by_channel *b = job;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t image = i / b->groups, group = i % b->groups;
    char *const out = b->out + image * b->to->outer + group * b->to->inner;
    channel_loops->rows(b->window, out, b->x + image * b->from->outer + group * b->from->inner,
                        b->w + group * b->w_group, b->bias ? b->bias[group] : 0);
    if (b->store.epilogue) conv_finish_plane(&b->store, out, b->to->axis, b->window->out);
  }
}

void by_channel_run(const by_channel *b, uint64_t cost_ns) {
  rows_parallel(by_channel_run_rows, b, b->batch * b->groups, 1, cost_ns);
}
