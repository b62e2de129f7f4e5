/* SPDX-License-Identifier: Apache-2.0 */
/* The operators Convolution, ConvDepthwise2d and ConvTbc and their gradients: checks of the arguments, and plans
 * that call correlate.h and weight_gradient.h. */
#include <stdlib.h>
#include <string.h>

#include "kernel/conv/convolution.h"
#include "kernel/conv/correlate.h"
#include "kernel/conv/dilated.h"
#include "kernel/conv/weight_gradient.h"
#include "kernel/engine/rows.h"
#include "kernel/families.h"
#include "kernel/product/factor/factors.h"

static status conv_run_empty(const executor *e, void *const *view, void *scratch) {
  (void)e, (void)view, (void)scratch;
  return ST_OK;
}

/* ---- the forward pass -------------------------------------------------------------------------------------------- */

/* operand: as in conv_forward. parts: how many dilated_part e->heap has, which then compute it instead of c. */
typedef struct {
  correlation c;
  int8_t operand[CONV_OPERANDS];
  int64_t parts;
} forward_plan;

_Static_assert(sizeof(forward_plan) <= EXECUTOR_PLAN_BYTES, "");

static status conv_run_forward(const executor *e, void *const *view, void *scratch) {
  const forward_plan *p = PLAN(e, forward_plan);
  const correlation_call call = {.from = view[p->operand[CONV_FROM]],
                                 .w = view[p->operand[CONV_BY]],
                                 .bias = view[p->operand[CONV_PLUS]],
                                 .to = view[p->operand[CONV_TO]],
                                 .residual = p->c.epilogue.has_residual ? view[p->operand[CONV_RESIDUAL]] : NULL,
                                 .packed = e->packed};
  return p->parts ? dilated_run(e->heap, p->parts, &call, scratch) : correlation_run(&p->c, &call, scratch);
}

static void pack_weights(const executor *e, const void *from, void *packed) {
  conv_pack(&PLAN(e, forward_plan)->c, from, packed);
}

static status expect_bias(const tensor *bias, const char *name, int64_t channels) {
  if (!bias) return ST_OK;
  TRY(op_expect_dtype(bias, name, DTYPES_FLOAT_TO_32));
  EXPECT(bias->n == channels && bias->rank <= 1, "%s has shape %s, expected [%jd]", name, SHAPE_OF(bias),
         (intmax_t)channels);
  return ST_OK;
}

status conv_prepare_forward(executor *e, const conv_forward *f, const conv_arguments *a) {
  const tensor *input = f->input, *weight = f->weight, *bias = f->bias, *output = f->output;
  forward_plan *p = PLAN(e, forward_plan);
  correlation *c = &p->c;
  const conv_geometry *g = &c->g;
  int n;
  int64_t dims[MAX_RANK];
  TRY(op_expect_dtype(input, f->input_name, DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(weight, "weight", DTYPES_FLOAT_TO_32));
  TRY(op_expect_dtype(output, f->output_name, DTYPES_FLOAT_TO_32));
  TRY(conv_geometry_init(&c->g, input, weight, a, &n));
  TRY(expect_bias(bias, "bias", g->groups * (a->transposed ? g->channels : g->rows)));
  conv_output_dims(g, a->transposed, n, dims);
  TRY(op_expect_shape(output, f->output_name, dims, input->rank));
  e->run = conv_run_empty;
  if (output->n == 0) return ST_OK;
  memcpy(p->operand, f->operand, sizeof p->operand);
  c->backward = a->transposed;
  conv_operand_init(&c->from, input, n);
  conv_operand_init(&c->to, output, n);
  conv_operand_init(&c->given_w, weight, n);
  c->epilogue = f->epilogue;
  c->constant_w = e->constants >> e->operands[f->operand[CONV_BY]].argument & 1;
  e->run = conv_run_forward;
  p->parts = dilated_parts(c);
  if (p->parts) {
    HEAP_PLAN(dilated_part, parts, e, (size_t)p->parts * sizeof *parts);
    dilated_init(parts, c, e, bias);
    c->cost_ns = dilated_cost_ns(parts, p->parts);
  } else {
    correlation_init(c, e, bias);
  }
  if (unlikely(e->constants) && !p->parts)
    e->packing = (executor_packing){.bytes = conv_packed_bytes(c),
                                    .layout = conv_packed_layout(c),
                                    .pack = pack_weights,
                                    .operand = (uint16_t)f->operand[CONV_BY],
                                    .replaces = !conv_reads_weights(c)};
  executor_cost(e, (uint64_t)(input->n + output->n + weight->n) * 4, c->cost_ns * 32);
  return ST_OK;
}

/* For a call whose tensors are input, weight, bias and output, in this order. */
static status conv_prepare_call(executor *e, const tensor *input, const tensor *weight, const tensor *bias,
                                const tensor *output, const conv_arguments *a, const char *output_name) {
  const conv_forward f = {.input = input,
                          .weight = weight,
                          .bias = bias,
                          .output = output,
                          .operand = {0, 1, 2, 3},
                          .input_name = e->operands[0].name,
                          .output_name = output_name};
  return conv_prepare_forward(e, &f, a);
}

status prepare_convolution(executor *e, const convolution_args *a) {
  const conv_arguments c = {.stride = a->stride,
                            .padding = a->padding,
                            .dilation = a->dilation,
                            .transposed = a->transposed,
                            .output_padding = a->output_padding,
                            .groups = a->groups};
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  if (c.transposed && !c.output_padding)
    return fail(ST_OP_NULL, "outputPadding is NULL, expected an array, as transposed is true");
  return conv_prepare_call(e, a->input, a->weight, a->bias, a->output, &c, "output");
}

/* Checks the epilogue. */
static status conv_epilogue_of(const convolution_epilogue_args *a, conv_epilogue *epilogue) {
  const tensor *residual = a->residual, *output = a->output;
  EXPECT(a->activation >= 0 && a->activation < N_ACTIVATIONS, "activation is %jd, expected 0 to %d",
         (intmax_t)a->activation, N_ACTIVATIONS - 1);
  *epilogue = (conv_epilogue){.activation = {(activation_function)a->activation, {(float)a->p, (float)a->q}},
                              .has_residual = residual,
                              .residual_first = a->residual_first};
  if (!residual) return ST_OK;
  TRY(op_expect_dtype(residual, "residual", DTYPE_BIT(output->dtype)));
  TRY(op_expect_same_shape(residual, "residual", output));
  for (int d = 0; d < output->rank; ++d)
    EXPECT(residual->strides[d] == output->strides[d] || output->dims[d] <= 1,
           "residual has stride %jd for dimension %d, expected the output's %jd", (intmax_t)residual->strides[d], d,
           (intmax_t)output->strides[d]);
  return ST_OK;
}

status prepare_convolution_epilogue(executor *e, const convolution_epilogue_args *a) {
  const conv_arguments c = {.stride = a->stride,
                            .padding = a->padding,
                            .dilation = a->dilation,
                            .transposed = a->transposed,
                            .output_padding = a->output_padding,
                            .groups = a->groups};
  conv_forward f = {.input = a->input,
                    .weight = a->weight,
                    .bias = a->bias,
                    .output = a->output,
                    .operand = {[CONV_FROM] = CONVOLUTION_EPILOGUE_INPUT,
                                [CONV_BY] = CONVOLUTION_EPILOGUE_WEIGHT,
                                [CONV_PLUS] = CONVOLUTION_EPILOGUE_BIAS,
                                [CONV_TO] = CONVOLUTION_EPILOGUE_OUTPUT,
                                [CONV_RESIDUAL] = CONVOLUTION_EPILOGUE_RESIDUAL},
                    .input_name = "input",
                    .output_name = "output"};
  TRY(conv_epilogue_of(a, &f.epilogue));
  return conv_prepare_forward(e, &f, &c);
}

/* weight is [channels * multiplier, 1, H, W]. */
status prepare_conv_depthwise(executor *e, const conv_depthwise_args *a) {
  const tensor *self = a->self, *weight = a->weight;
  EXPECT(weight->rank == 4 && weight->dims[1] == 1, "weight has shape %s, expected [channels, 1, H, W]",
         SHAPE_OF(weight));
  TRY(op_expect_rank(self, "self", 4, 4));
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  EXPECT(a->kernel_size->size == 2 && a->kernel_size->value[0] == weight->dims[2] &&
             a->kernel_size->value[1] == weight->dims[3],
         "kernelSize is not [%jd, %jd], expected the weight's", (intmax_t)weight->dims[2], (intmax_t)weight->dims[3]);
  const conv_arguments c = {
      .stride = a->stride, .padding = a->padding, .dilation = a->dilation, .groups = self->dims[1]};
  return conv_prepare_call(e, self, weight, a->bias, a->out, &c, "out");
}

/* The tensor with its dimensions in the order o. */
static tensor permuted(const tensor *t, const int o[3]) {
  tensor p = *t;
  for (int d = 0; d < 3; ++d) {
    p.dims[d] = t->dims[o[d]];
    p.strides[d] = t->strides[o[d]];
  }
  return p;
}

/* The orders that turn data [time, batch, channels] and weights [time, channels, outputs] into those of the kernels. */
static const int tbc_data[3] = {1, 2, 0}, tbc_weight[3] = {2, 1, 0};

/* Room for an aclIntArray of one number. */
typedef union {
  aclIntArray array;
  char room[sizeof(aclIntArray) + sizeof(int64_t)];
} one_int;

static const aclIntArray *one_int_set(one_int *a, int64_t value) {
  a->array.size = 1;
  a->array.value[0] = value;
  return &a->array;
}

/* The arguments of a convolution along one axis. Its arrays are kept in `room`, which must outlive the result. */
static conv_arguments time_arguments(one_int room[2], int64_t pad) {
  const aclIntArray *one = one_int_set(&room[0], 1);
  return (conv_arguments){.stride = one, .padding = one_int_set(&room[1], pad), .dilation = one, .groups = 1};
}

status prepare_conv_tbc(executor *e, const conv_tbc_args *a) {
  TRY(op_expect_rank(a->self, "self", 3, 3));
  TRY(op_expect_rank(a->weight, "weight", 3, 3));
  TRY(op_expect_rank(a->output, "output", 3, 3));
  TRY(factors_check_cube_math(a->cube_math_type, 4));
  const tensor self = permuted(a->self, tbc_data), weight = permuted(a->weight, tbc_weight),
               output = permuted(a->output, tbc_data);
  one_int room[2];
  const conv_arguments c = time_arguments(room, a->pad);
  return conv_prepare_call(e, &self, &weight, a->bias, &output, &c, "output");
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

typedef struct {
  bool of_input, of_weight, of_bias;
  correlation input;
  weight_gradient weight;
  /* The gradient of the bias is the sum of gradOutput over the batch and the axes. */
  conv_operand grad;
  int64_t batch, channels, dims[CONV_AXES];
  int bias_dtype;
  int64_t bias_stride; /* bytes */
  uint64_t bias_cost_ns;
  int8_t operand[6]; /* the CONV_TENSORS' indices among the call's tensors */
  bool transposed;
} backward_plan;

typedef struct {
  const backward_plan *plan;
  const char *grad;
  char *bias;
} bias_job;

static void sum_channels(const void *job, int64_t begin, int64_t end) {
  _Alignas(64) float tile[REDUCE_BLOCK];
  const bias_job *j = job;
  const backward_plan *p = j->plan;
  load_loop *const load = loops->load[p->grad.dtype][COMPUTE_F32];
  const int64_t rows = p->batch * p->dims[0] * p->dims[1];
  for (int64_t c = begin; c < end; ++c) {
    double sum = 0;
    int64_t fill = 0; /* elements in the tile */
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t n = r / (p->dims[0] * p->dims[1]), d = r / p->dims[1] % p->dims[0], h = r % p->dims[1];
      const char *from = j->grad + n * p->grad.outer + c * p->grad.inner + d * p->grad.axis[0] + h * p->grad.axis[1];
      for (int64_t w = 0, m; w < p->dims[2]; w += m, fill += m, from += m * p->grad.axis[2]) {
        if (fill == REDUCE_BLOCK) sum += loops->sum_f32(tile, fill), fill = 0;
        m = i64_min(REDUCE_BLOCK - fill, p->dims[2] - w);
        load(tile + fill, from, p->grad.axis[2], m);
      }
    }
    sum += loops->sum_f32(tile, fill);
    const float result = (float)sum;
    loops->store[p->bias_dtype][COMPUTE_F32](j->bias + c * p->bias_stride, 0, &result, 1);
  }
}

static status conv_run_gradients(const executor *e, void *const *view, void *scratch) {
  const backward_plan *p = e->heap;
  const void *const grad = view[p->operand[CONV_GRAD]];
  if (p->of_input)
    TRY(correlation_run(
        &p->input,
        &(correlation_call){.from = grad, .to = view[p->operand[CONV_GRAD_INPUT]], .w = view[p->operand[CONV_WEIGHT]]},
        scratch));
  if (p->of_weight) {
    const void *const input = view[p->operand[CONV_INPUT]];
    TRY(weight_gradient_run(&p->weight, p->transposed ? grad : input, p->transposed ? input : grad,
                            view[p->operand[CONV_GRAD_WEIGHT]], scratch));
  }
  if (p->of_bias) {
    const bias_job job = {.plan = p, .grad = grad, .bias = view[p->operand[CONV_GRAD_BIAS]]};
    rows_parallel(sum_channels, &job, p->channels, 1, p->bias_cost_ns);
  }
  return ST_OK;
}

static void plan_bias(backward_plan *p, const tensor *grad, const tensor *bias, int n) {
  conv_operand_init(&p->grad, grad, n);
  p->batch = grad->dims[0];
  p->channels = grad->dims[1];
  for (int a = 0; a < CONV_AXES; ++a) p->dims[a] = a < CONV_AXES - n ? 1 : grad->dims[2 + a - (CONV_AXES - n)];
  for (int a = CONV_AXES - 2; a >= 0; --a) /* contiguous axes become part of the last one */
    if (p->grad.axis[a] == p->dims[CONV_AXES - 1] * p->grad.axis[CONV_AXES - 1])
      p->dims[CONV_AXES - 1] *= p->dims[a], p->dims[a] = 1;
  p->bias_dtype = bias->dtype;
  p->bias_stride = (bias->rank ? bias->strides[0] : 1) * (int64_t)dtype_bytes(bias->dtype);
  p->bias_cost_ns = (uint64_t)grad->n / 4;
}

status conv_prepare_gradients(executor *e, const conv_backward *b, const conv_arguments *a) {
  const tensor *const *t = b->t;
  conv_geometry g;
  int n;
  int64_t dims[MAX_RANK];
  for (int i = 0; i < 6; ++i)
    if (t[i]) TRY(op_expect_dtype(t[i], b->name[i], DTYPES_FLOAT_TO_32));
  TRY(conv_geometry_init(&g, t[CONV_INPUT], t[CONV_WEIGHT], a, &n));
  conv_output_dims(&g, a->transposed, n, dims);
  TRY(op_expect_shape(t[CONV_GRAD], b->name[CONV_GRAD], dims, t[CONV_INPUT]->rank));
  if (t[CONV_GRAD_INPUT]) TRY(op_expect_same_shape(t[CONV_GRAD_INPUT], b->name[CONV_GRAD_INPUT], t[CONV_INPUT]));
  if (t[CONV_GRAD_WEIGHT]) TRY(op_expect_same_shape(t[CONV_GRAD_WEIGHT], b->name[CONV_GRAD_WEIGHT], t[CONV_WEIGHT]));
  TRY(expect_bias(t[CONV_GRAD_BIAS], b->name[CONV_GRAD_BIAS], g.groups * (a->transposed ? g.channels : g.rows)));
  HEAP_PLAN(backward_plan, p, e, sizeof *p);
  *p = (backward_plan){.of_input = t[CONV_GRAD_INPUT] && t[CONV_GRAD_INPUT]->n,
                       .of_weight = t[CONV_GRAD_WEIGHT] && t[CONV_GRAD_WEIGHT]->n,
                       .of_bias = t[CONV_GRAD_BIAS] && t[CONV_GRAD_BIAS]->n,
                       .transposed = a->transposed};
  memcpy(p->operand, b->operand, sizeof p->operand);
  conv_operand grad, input;
  conv_operand_init(&grad, t[CONV_GRAD], n);
  conv_operand_init(&input, t[CONV_INPUT], n);
  uint64_t cost = 0;
  if (p->of_input) {
    p->input = (correlation){.g = g, .backward = !a->transposed, .from = grad};
    conv_operand_init(&p->input.to, t[CONV_GRAD_INPUT], n);
    conv_operand_init(&p->input.given_w, t[CONV_WEIGHT], n);
    correlation_init(&p->input, e, NULL);
    cost += p->input.cost_ns;
  }
  if (p->of_weight) {
    conv_operand to;
    conv_operand_init(&to, t[CONV_GRAD_WEIGHT], n);
    weight_gradient_init(&p->weight, e, &g, a->transposed ? &grad : &input, a->transposed ? &input : &grad, &to);
    cost += p->weight.cost_ns;
  }
  if (p->of_bias) plan_bias(p, t[CONV_GRAD], t[CONV_GRAD_BIAS], n);
  e->run = conv_run_gradients;
  executor_cost(e, (uint64_t)(t[CONV_GRAD]->n + t[CONV_INPUT]->n + t[CONV_WEIGHT]->n) * 4, cost * 32);
  return ST_OK;
}

static status expect_output_padding(const conv_arguments *a) {
  for (uint64_t i = 0; i < a->output_padding->size; ++i)
    EXPECT(a->transposed || a->output_padding->value[i] == 0,
           "outputPadding[%ju] is %jd, expected 0, as transposed is false", (uintmax_t)i,
           (intmax_t)a->output_padding->value[i]);
  return ST_OK;
}

/* biasSizes is ignored, since it repeats the shape of gradBias. */
status prepare_convolution_backward(executor *e, const convolution_backward_args *a) {
  const aclBoolArray *mask = a->output_mask;
  TRY(op_expect_size(mask->size, "outputMask", 3));
  conv_backward b = {.t = {a->grad_output, a->input, a->weight},
                     .name = {"gradOutput", "input", "weight", "gradInput", "gradWeight", "gradBias"},
                     .operand = {CONVOLUTION_BACKWARD_GRAD_OUTPUT, CONVOLUTION_BACKWARD_INPUT,
                                 CONVOLUTION_BACKWARD_WEIGHT, CONVOLUTION_BACKWARD_GRAD_INPUT,
                                 CONVOLUTION_BACKWARD_GRAD_WEIGHT, CONVOLUTION_BACKWARD_GRAD_BIAS}};
  const tensor *const gradients[] = {a->grad_input, a->grad_weight, a->grad_bias};
  for (int i = 0; i < 3; ++i) {
    if (!mask->value[i]) continue;
    b.t[CONV_GRAD_INPUT + i] = gradients[i];
    EXPECT(b.t[CONV_GRAD_INPUT + i], "%s is NULL, expected a tensor, as outputMask[%d] is true",
           b.name[CONV_GRAD_INPUT + i], i);
  }
  const conv_arguments c = {.stride = a->stride,
                            .padding = a->padding,
                            .dilation = a->dilation,
                            .transposed = a->transposed,
                            .output_padding = a->output_padding,
                            .groups = a->groups};
  TRY(factors_check_cube_math(a->cube_math_type, 3));
  TRY(expect_output_padding(&c));
  return conv_prepare_gradients(e, &b, &c);
}

status prepare_conv_tbc_backward(executor *e, const conv_tbc_backward_args *a) {
  static const char *const names[] = {"self", "input", "weight", "gradInput", "gradWeight", "gradBias"};
  const tensor *const given[] = {a->self, a->input, a->weight, a->grad_input, a->grad_weight, a->grad_bias};
  tensor t[5];
  conv_backward b = {.operand = {CONV_TBC_BACKWARD_SELF, CONV_TBC_BACKWARD_INPUT, CONV_TBC_BACKWARD_WEIGHT,
                                 CONV_TBC_BACKWARD_GRAD_INPUT, CONV_TBC_BACKWARD_GRAD_WEIGHT,
                                 CONV_TBC_BACKWARD_GRAD_BIAS}};
  TRY(factors_check_cube_math(a->cube_math_type, 3));
  memcpy(b.name, names, sizeof names);
  for (int i = 0; i < 5; ++i) {
    TRY(op_expect_rank(given[i], names[i], 3, 3));
    t[i] = permuted(given[i], i == CONV_WEIGHT || i == CONV_GRAD_WEIGHT ? tbc_weight : tbc_data);
    b.t[i] = &t[i];
  }
  b.t[CONV_GRAD_BIAS] = given[CONV_GRAD_BIAS];
  one_int room[2];
  const conv_arguments c = time_arguments(room, a->pad);
  return conv_prepare_gradients(e, &b, &c);
}
