/* SPDX-License-Identifier: Apache-2.0 */
/* Rfft1D and Stft. The accepted arguments are those of CANN's documentation and public sources. */
#include <math.h>

#include "kernel/families.h"
#include "kernel/fourier/spectrum.h"

enum { RFFT_LONGEST = 262144, RFFT_RANK = 7 };

enum { NORM_BACKWARD = 1, NORM_FORWARD, NORM_ORTHO };

static double fourier_factor(int64_t norm, int64_t n) {
  return norm == NORM_FORWARD ? 1 / (double)n : norm == NORM_ORTHO ? 1 / sqrt((double)n) : 1;
}

/* Rfft1D(self, n, dim, norm, out): out has self's shape with n / 2 + 1 frequencies at dim, and a last dimension of 2
 * for real and imaginary part. */
status prepare_rfft(executor *e, const rfft_args *a) {
  const tensor *self = a->self, *out = a->out;
  const int64_t norm = a->norm;
  int64_t n = a->n, dims[MAX_RANK];
  int dim;
  TRY(op_expect_dtype(self, "self", DTYPE_BIT(ACL_FLOAT)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(ACL_FLOAT)));
  EXPECT(self->rank >= 1 && self->rank <= RFFT_RANK, "self has %d dimensions, expected 1 to %d", self->rank, RFFT_RANK);
  TRY(op_expect_dim(a->dim, "dim", self->rank, &dim));
  EXPECT((n >= 1 && n <= RFFT_LONGEST) || n == -1, "n is %jd, expected 1 to %d, or -1 for all", (intmax_t)n,
         RFFT_LONGEST);
  EXPECT(norm >= NORM_BACKWARD && norm <= NORM_ORTHO,
         "norm is %jd, expected 1 (backward: no factor), 2 (forward: 1/n) or 3 (ortho: 1/sqrt(n))", (intmax_t)norm);
  if (n == -1) n = self->dims[dim];
  EXPECT(n >= 1 && n <= RFFT_LONGEST, "self has %jd elements along dim, expected 1 to %d where n is -1", (intmax_t)n,
         RFFT_LONGEST);
  for (int d = 0; d < self->rank; ++d) dims[d] = d == dim ? n / 2 + 1 : self->dims[d];
  dims[self->rank] = 2;
  TRY(op_expect_shape(out, "out", dims, self->rank + 1));
  view from = view_of(self), to = view_of(out);
  *PLAN(e, spectrum) = (spectrum){.out = number_access_of(ACL_FLOAT, to.strides[dim]),
                                  .self = number_access_of(ACL_FLOAT, from.strides[dim]),
                                  .n = n,
                                  .count = i64_min(n, self->dims[dim]),
                                  .n_out = n / 2 + 1,
                                  .factor = fourier_factor(norm, n)};
  PLAN(e, spectrum)->out.part = to.strides[self->rank];
  from.dims[dim] = to.dims[dim] = 1;
  return spectrum_plan(e, &to, &from, self->rank);
}

typedef struct {
  const tensor *self, *window, *out;
  int64_t n, hop, window_length;
  /* complex: the result has a complex type; otherwise real and imaginary part are a last dimension */
  bool normalized, onesided, complex;
} stft_call;

static status stft_check(const stft_call *a, bool self_is_complex, int64_t frames, int64_t frequencies) {
  const int rank = a->self->rank;
  const bool wide = a->self->dtype == ACL_DOUBLE || a->self->dtype == ACL_COMPLEX128;
  const int real = wide ? ACL_DOUBLE : ACL_FLOAT, complex = wide ? ACL_COMPLEX128 : ACL_COMPLEX64;
  int64_t dims[4] = {a->self->dims[0]};
  EXPECT(!self_is_complex || !a->onesided, "onesided is true, expected false as self is complex");
  if (a->window) {
    TRY(op_expect_dtype(a->window, "windowOptional", DTYPE_BIT(a->self->dtype)));
    TRY(op_expect_shape(a->window, "windowOptional", &a->window_length, 1));
  }
  TRY(op_expect_dtype(a->out, "out", DTYPE_BIT(a->complex ? complex : real)));
  dims[rank - 1] = frequencies;
  dims[rank] = frames;
  dims[rank + 1] = 2;
  return op_expect_shape(a->out, "out", dims, a->complex ? rank + 1 : rank + 2);
}

/* The rows are frames of n elements, `hop` apart. A window shorter than a frame is centred in it. */
static status stft_plan(executor *e, const stft_call *a, int64_t frames, int64_t frequencies) {
  const view self = view_of(a->self), out = view_of(a->out);
  const int last = a->self->rank - 1;
  const int64_t along = self.strides[last];
  view from = {.rank = 2, .dtype = self.dtype, .dims = {1, frames}, .strides = {0, along * a->hop}};
  view to = {.rank = 2, .dtype = out.dtype, .dims = {1, frames}, .strides = {0, out.strides[last + 1]}};
  spectrum *p = PLAN(e, spectrum);
  *p = (spectrum){.out = number_access_of(out.dtype, out.strides[last]),
                  .self = number_access_of(self.dtype, along),
                  .n = a->n,
                  .first = (a->n - a->window_length) / 2,
                  .count = a->window_length,
                  .n_out = frequencies,
                  .factor = fourier_factor(a->normalized ? NORM_ORTHO : NORM_BACKWARD, a->n)};
  if (!a->complex) p->out.part = out.strides[last + 2];
  p->windowed = a->window;
  if (a->window) p->window = number_access_of(self.dtype, view_of(a->window).strides[0]);
  if (last) {
    from.dims[0] = to.dims[0] = self.dims[0];
    from.strides[0] = self.strides[0];
    to.strides[0] = out.strides[0];
  }
  return spectrum_plan(e, &to, &from, 2);
}

/* Stft(self, windowOptional, out, nFft, hopLength, winLength, normalized, onesided, returnComplex):
 * self is [L] or [B, L] and has been padded by the caller. out is [frequencies, frames], with B before
 * it and 2 after it where they apply. */
status prepare_stft(executor *e, const stft_args *v) {
  const stft_call a = {v->self,       v->window,     v->out,      v->n_fft,         v->hop_length,
                       v->win_length, v->normalized, v->onesided, v->return_complex};
  TRY(op_expect_dtype(a.self, "self",
                      DTYPE_BIT(ACL_FLOAT) | DTYPE_BIT(ACL_DOUBLE) | DTYPE_BIT(ACL_COMPLEX64) |
                          DTYPE_BIT(ACL_COMPLEX128)));
  EXPECT(a.self->rank == 1 || a.self->rank == 2, "self has %d dimensions, expected 1 or 2", a.self->rank);
  const int64_t length = a.self->dims[a.self->rank - 1];
  EXPECT(a.n >= 1 && a.n <= length, "nFft is %jd, expected 1 to %jd, the length of self", (intmax_t)a.n,
         (intmax_t)length);
  EXPECT(a.hop >= 1, "hopLength is %jd, expected 1 or more", (intmax_t)a.hop);
  EXPECT(a.window_length >= 1 && a.window_length <= a.n, "winLength is %jd, expected 1 to nFft, %jd",
         (intmax_t)a.window_length, (intmax_t)a.n);
  const int64_t frames = (length - a.n) / a.hop + 1, frequencies = a.onesided ? a.n / 2 + 1 : a.n;
  TRY(stft_check(&a, dtype_is_complex(a.self->dtype), frames, frequencies));
  return stft_plan(e, &a, frames, frequencies);
}
