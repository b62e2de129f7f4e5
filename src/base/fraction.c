/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fraction.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

/* Extends the continued fraction that all numbers between the neighbouring floats share, until an integer lies between
 * its remainders. */
double fraction_meant(double x) {
  const float f = (float)x;
  if (!(x >= FLT_MIN && x < FLT_MAX) || (double)f != x) return x;
  double low = (x + (double)nextafterf(f, 0)) / 2, high = (x + (double)nextafterf(f, INFINITY)) / 2;
  double p = 1, p_before = 0, q = 0, q_before = 1; /* the last two convergents */
  for (;;) {
    const double whole = floor(low);
    const bool is_last = whole == low || whole + 1 <= high;
    const double term = is_last && whole != low ? whole + 1 : whole;
    const double p_next = term * p + p_before, q_next = term * q + q_before;
    if (is_last) return (float)(p_next / q_next) == f ? p_next / q_next : x;
    p_before = p;
    p = p_next;
    q_before = q;
    q = q_next;
    const double rest = 1 / (high - whole);
    high = 1 / (low - whole);
    low = rest;
  }
}
