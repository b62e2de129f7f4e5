#!/usr/bin/env python3
"""Makes src/kernel/engine/vmath_pieces.h (on standard output): polynomials by pieces of the functions at the end of this file.
Needs mpmath and NumPy; not part of the build."""
import mpmath as mp
from numpy import float32

mp.mp.dps = 40
PIECES, DEGREE, COLUMNS = 32, 6, 120
INTRODUCTION = """\
/* Polynomials by pieces for vmath_16.h, made by scripts/fit_pieces.py. Piece i is around a place `centre[i]` near i * width
 * where the function is nearly a float, which is the first coefficient (or where it is 0); the others are least squares of
 * the relative error at Chebyshev's points, each rounded to float before the next is fitted. */
#ifndef CANNON_KERNEL_VMATH_PIECES_H
#define CANNON_KERNEL_VMATH_PIECES_H

enum { PIECES = 32, PIECE_DEGREE = 6 };

typedef struct {
  float width;
  float centre[PIECES];
  float c[PIECE_DEGREE + 1][PIECES]; /* lowest power first */
} pieces;

/* clang-format off */
"""


def exact(x):
    return mp.mpf(float(x))


def ulps_from_float(v):
    units = v / mp.mpf(2) ** (int(mp.floor(mp.log(abs(v), 2))) - 23)
    return abs(units - mp.nint(units))


def find_centre(f, low, high):
    """Of 300 floats in the middle quarter, the one where f is nearest to a float."""
    best = (9, None)
    for s in range(300):
        place = float32(float((low + high) / 2 + (high - low) / 8 * (s - 150) / 150))
        distance = ulps_from_float(f(exact(place)))
        if distance < best[0] - 1e-3:
            best = (distance, place)
    return best[1]


def next_coefficient(f, centre, low, high, known):
    n, unknown, half = 2 * DEGREE + 4, DEGREE + 1 - len(known), (high - low) / 2
    a, b = mp.matrix(n, unknown), mp.matrix(n, 1)
    for j in range(n):
        x = (low + high) / 2 + half * mp.cos(mp.pi * (2 * j + 1) / (2 * n))
        d, truth = x - centre, f(x)
        b[j] = (truth - sum(exact(c) * d ** i for i, c in enumerate(known))) / truth
        for q in range(unknown):
            a[j, q] = (d / half) ** (q + len(known)) / truth
    return mp.qr_solve(a, b)[0][0] / half ** len(known)


def fit(f, width, zero):
    """Centres and coefficients of all pieces; zero: where f is 0, or None."""
    centres, rows = [], []
    for i in range(PIECES):
        low, high = mp.mpf(max(0, (i - 0.5) * width)), mp.mpf((i + 0.5) * width)
        if zero is not None and low <= zero < high:
            centre = float32(float(zero))
        else:
            centre = find_centre(f, low, high)
        at, known = exact(centre), [float32(float(f(exact(centre))))]
        low = low or width * mp.mpf("1e-6")  # the relative error at 0 has no meaning
        while len(known) <= DEGREE:
            known.append(float32(float(next_coefficient(f, at, low, high, known))))
        centres.append(centre)
        rows.append(known)
    return centres, list(zip(*rows))


def literal(v):
    if v == 0:
        return "0"
    mantissa, exponent = float(v).hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + f"p{int(exponent)}f"


def braced(values, lead, end):
    line, lines = lead + "{", []
    for i, v in enumerate(values):
        text = literal(v) + ("," if i < len(values) - 1 else end)
        if len(line) + len(text) + 1 > COLUMNS:
            lines.append(line)
            line = " " * (len(lead) + 1) + text
        else:
            line += ("" if line.endswith("{") else " ") + text
    return "\n".join(lines + [line])


def table(name, what, f, width, zero=None):
    centres, rows = fit(f, width, zero)
    out = [f"/* {what} */", f"static const pieces {name} = {{{width}f,", braced(centres, "  ", "},")]
    for k, row in enumerate(rows):
        out.append(braced(row, "  {" if k == 0 else "   ", "}}};" if k == DEGREE else "},"))
    return "\n".join(out)


def tail(t):
    """sigmoid(-t)"""
    return 1 / (1 + mp.exp(t))


def gelu_slope_tail(t):
    return mp.erfc(t / mp.sqrt(2)) / 2 - t * mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)


def tanh_y(t):
    return 2 * mp.sqrt(2 / mp.pi) * (t + mp.mpf("0.044715") * t ** 3)


def tanh_slope_tail(t):
    y_slope = 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * t * t)
    return tail(tanh_y(t)) * (1 - t * (1 - tail(tanh_y(t))) * y_slope)


def silu_slope_tail(t):
    return tail(t) * (1 - t * (1 - tail(t)))


TABLES = (
    ("TANH", "tanh(t), t to 9.05", mp.tanh, 0.2875, 0),
    ("ERF", "erf(t), t to 3.93", mp.erf, 0.125, 0),
    ("GELU_TAIL", "t Phi(-t), t to 4.92", lambda t: t * mp.erfc(t / mp.sqrt(2)) / 2, 0.15625, 0),
    ("GELU_SLOPE_TAIL", "Phi(-t) - t phi(t), t to 4.92", gelu_slope_tail, 0.15625, mp.findroot(gelu_slope_tail, 0.75)),
    ("GELU_TANH_TAIL", "t sigmoid(-y(t)) of vgelu_tanh_f32, t to 3.93", lambda t: t * tail(tanh_y(t)), 0.125, 0),
    ("GELU_TANH_SLOPE_TAIL", "its slope, that of x sigmoid(y(x)) at -t, t to 3.93", tanh_slope_tail, 0.125,
     mp.findroot(tanh_slope_tail, 0.75)),
    ("SIGMOID_TAIL", "sigmoid(-t), t to 15.7", tail, 0.5),
    ("SILU_TAIL", "t sigmoid(-t), t to 15.7", lambda t: t * tail(t), 0.5, 0),
    ("SILU_SLOPE_TAIL", "the slope of x sigmoid(x) at -t, t to 13.3; its zero is well within a piece", silu_slope_tail, 0.425,
     mp.findroot(silu_slope_tail, 1.27)),
)

if __name__ == "__main__":
    print(INTRODUCTION + "\n\n".join(table(*t) for t in TABLES) + "\n\n#endif")
