/* SPDX-License-Identifier: Apache-2.0 */
/* Direct convolution on words of two channels: sums over channels and kernel taps, and products over positions. Tests
 * the im2col buffer, packed weights, kernels and stores together, against sums in double. */
#include "kernel/conv/direct/direct_pairs.h"

#include <math.h>

#include "acl/acl_base.h"
#include "kernel/conv/pair_weights.h"
#include "tensor/dtype.h"
#include "unit.h"

enum { MOST_CHANNELS = 70, MOST_POSITIONS = 200, MOST_TAPS = 5 };

/* Values of a dtype, as floats and as stored. */
typedef struct {
  float *value;
  char *stored;
} numbers;

static numbers make(random_source *random, int dtype, int64_t n) {
  const size_t size = dtype == ACL_FLOAT ? sizeof(float) : sizeof(uint16_t);
  numbers x = {malloc((size_t)n * sizeof(float)), malloc((size_t)n * size)};
  for (int64_t i = 0; i < n; i++) {
    const float value = (float)(int32_t)random_next(random) / 0x1p30f;
    const uint16_t half = bf16_from_float(value);
    x.value[i] = dtype == ACL_FLOAT ? value : bf16_to_float(half);
    memcpy(x.stored + (size_t)i * size, dtype == ACL_FLOAT ? (const void *)&value : (const void *)&half, size);
  }
  return x;
}

static void drop(numbers x) { free(x.value), free(x.stored); }

static char *room(int64_t bytes) {
  char *at = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  memset(at, 0, (size_t)bytes);
  return at;
}

static void expect_near(float got, double want, double magnitude, int64_t terms) {
  /* one product of floats consists of six products of their bfloat16 parts */
  const double bound = 0x1p-24 * magnitude * (double)(6 * terms + 8);
  if (!(fabs((double)got - want) <= bound))
    print_error("%g, expected %g, %jd terms\n", (double)got, want, (intmax_t)terms);
  assert_true(fabs((double)got - want) <= bound);
}

/* Sums over channels and taps. Each channel has positions + taps elements; tap t of position p is element p + t. */
static void check_sums(random_source *random, const pair_kernel *kernel, int dtype) {
  const int64_t channels = 1 + random_below(random, MOST_CHANNELS), taps = 1 + random_below(random, MOST_TAPS);
  const int64_t n = 1 + random_below(random, MOST_POSITIONS), line = n + taps, steps = pair_steps(channels);
  const int rows = 1 + (int)random_below(random, PAIR_ROWS), parts = dtype == ACL_FLOAT ? PAIR_PARTS : 1;
  const int64_t size = dtype == ACL_FLOAT ? 4 : 2, w_bytes = pair_weights_bytes(1, rows, channels, taps);
  const int64_t x_step = (line + 32) * PAIR_BYTES;
  const numbers x = make(random, dtype, channels * line), w = make(random, dtype, rows * channels * taps);
  char *const image = room(parts * steps * x_step), *const packed = room(parts * w_bytes);
  float_exponents range = float_no_exponents;
  for (int64_t s = 0; s < steps; s++) {
    const int64_t left = channels - s * PAIR_CHANNELS;
    const pair_line l = {x.stored + s * PAIR_CHANNELS * line * size, line * size, size,
                         (int)(left < PAIR_CHANNELS ? left : PAIR_CHANNELS), dtype};
    pair_fill_line(image + s * x_step, steps * x_step, &l, line, &range);
  }
  const pair_weights weights = {.w = w.stored,
                                .part = parts > 1 ? w_bytes : 0,
                                .row_stride = channels * taps,
                                .channel_stride = taps,
                                .kernel = {1, 1, taps},
                                .axis = {taps, taps, 1},
                                .groups = 1,
                                .rows = rows,
                                .channels = channels,
                                .plain = true};
  pair_weights_pack(&weights, packed, 0, 0);
  int64_t numbered[MOST_TAPS], place[MOST_POSITIONS];
  for (int64_t t = 0; t < taps; t++) numbered[t] = t;
  int64_t wanted = 0;
  for (int64_t p = 0; p < n; p++)
    if (random_below(random, 8)) place[wanted++] = p;
  const pair_sums sums = {packed, image, x_step, steps * x_step, w_bytes, numbered, numbered, (channels + 1) / 2,
                          taps,   taps,  parts};
  _Alignas(64) float c[PAIR_SUMS * PAIR_ROWS], out[PAIR_ROWS * PAIR_SUMS];
  int32_t index[PAIR_SUMS + PAIR_STORE_AHEAD] = {0};
  if (kernel->begin) kernel->begin();
  for (int64_t i = 0, m; i < wanted; i += m) {
    m = kernel->sums(&sums, rows, place + i, wanted - i, c, index);
    const pair_outputs o = {(char *)out, PAIR_SUMS * sizeof *out, sizeof *out, ACL_FLOAT, rows, NULL};
    pair_store(&o, c, index, m);
    for (int64_t k = 0; k < m; k++)
      for (int r = 0; r < rows; r++) {
        double want = 0, magnitude = 0;
        for (int64_t t = 0; t < channels * taps; t++) {
          const double term =
              (double)x.value[t / taps * line + place[i + k] + t % taps] * (double)w.value[r * channels * taps + t];
          want += term;
          magnitude += fabs(term);
        }
        expect_near(out[r * PAIR_SUMS + k], want, magnitude, channels * taps);
      }
  }
  if (kernel->end) kernel->end();
  drop(x), drop(w), free(image), free(packed);
}

/* Products over positions: each channel's row, from element `tap` on, times each row of the other operand. */
static void check_products(random_source *random, const pair_kernel *kernel, int dtype) {
  const int64_t n = 1 + random_below(random, MOST_POSITIONS), tap = random_below(random, MOST_TAPS);
  const int64_t steps = (n + PAIR_CHANNELS - 1) / PAIR_CHANNELS, line = steps * PAIR_CHANNELS + MOST_TAPS;
  const int channels = 1 + (int)random_below(random, PAIR_ROWS), rows = 1 + (int)random_below(random, PAIR_ROWS);
  const int parts = dtype == ACL_FLOAT ? PAIR_PARTS : 1;
  const int64_t size = dtype == ACL_FLOAT ? 4 : 2, part = PAIR_ROWS * line * 2, y_tile = steps * PAIR_TILE_BYTES;
  const numbers x = make(random, dtype, channels * line), y = make(random, dtype, rows * n);
  char *const lines[2] = {room(parts * part + PAIR_BYTES), room(parts * part)}, *const tiles = room(2 * parts * y_tile);
  float_exponents range = float_no_exponents;
  for (int side = 0; side < 2; side++) {
    const int64_t elements = side ? n : line;
    const pair_lines l = {.to = (uint16_t *)(void *)lines[side],
                          .from = (side ? y : x).stored,
                          .part = part,
                          .line = elements * size,
                          .step = size,
                          .n = side ? rows : channels,
                          .pitch = line,
                          .high = elements,
                          .dtype = dtype};
    pair_copy_lines(&l, &range);
  }
  for (int p = 0; p < parts; p++)
    for (int tile = 0; tile < 2; tile++)
      pair_transpose(tiles + (p * 2 + tile) * y_tile,
                     (const uint16_t *)(const void *)(lines[1] + p * part) + tile * PAIR_TILE_ROWS * line, line * 2,
                     steps);
  const pair_products p = {lines[0] + tap * 2, tiles, line * 2, y_tile, part, 2 * y_tile, parts};
  _Alignas(64) float c[PAIR_ROWS * PAIR_ROWS];
  if (kernel->begin) kernel->begin();
  kernel->products(&p, channels, rows, steps, c, false);
  kernel->products(&p, channels, rows, steps, c, true);
  if (kernel->end) kernel->end();
  for (int i = 0; i < channels; i++)
    for (int r = 0; r < rows; r++) {
      double want = 0, magnitude = 0;
      for (int64_t k = 0; k < n; k++) {
        const double term = 2 * (double)x.value[i * line + tap + k] * (double)y.value[r * n + k];
        want += term;
        magnitude += fabs(term);
      }
      expect_near(c[i * PAIR_ROWS + r], want, magnitude, 2 * n);
    }
  drop(x), drop(y), free(lines[0]), free(lines[1]), free(tiles);
}

static void kernels_compute_sums_and_products(void **state) {
  (void)state;
  const pair_kernel *const kernel = direct_pairs();
  if (!kernel) skip();
  random_source random = {1};
  for (int i = 0; i < ROUNDS(200); i++) {
    const int dtype = kernel->parts == PAIR_PARTS && i % 2 ? ACL_FLOAT : ACL_BF16;
    check_sums(&random, kernel, dtype);
    if (kernel->products) check_products(&random, kernel, dtype);
  }
}

static void exponents_decide_whether_float_parts_suffice(void **state) {
  (void)state;
  const float_exponents ones = {127, 127}, small = {127 - 60, 127}, tiny = {127 - 101, 127};
  const float_exponents large = {127, 127 + 60}, infinite = {127, 255}, empty = float_no_exponents;
  assert_true(float_parts_suffice(ones, ones));
  assert_true(float_parts_suffice(ones, small));
  assert_true(float_parts_suffice(ones, large));
  assert_true(float_parts_suffice(ones, empty));
  assert_false(float_parts_suffice(small, small)); /* the last bits of the products would be denormal */
  assert_false(float_parts_suffice(tiny, ones));
  assert_false(float_parts_suffice(large, large)); /* sums may overflow */
  assert_false(float_parts_suffice(infinite, empty));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_compute_sums_and_products),
                                     cmocka_unit_test(exponents_decide_whether_float_parts_suffice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
