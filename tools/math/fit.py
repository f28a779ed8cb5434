#!/usr/bin/env python3
"""Fits the polynomials of kernels/math/vector_math.h. Needs nothing but Python.

Each function is fitted in relative error by Lawson's iteration: weighted linear least squares (Householder QR in double
precision on a scaled variable) whose weights are multiplied by the error of the last round until the error levels out,
which is the minimax fit. Coefficients are then rounded to float one after the other, the smallest contribution last
rounded first, and the free ones fitted again after each rounding, so that rounding costs almost nothing.

  exp   p(r) = 1 + r + r^2 (c2 + c3 r + ...)       on |r| <= ln(2)/2 and a little beyond
  erf   x P(x^2) / Q(x^2), P(0) / Q(0) given       on [0, clamp], beyond which the float nearest to erf is 1

usage: fit.py [exp DEG | erf DEGP DEGQ CLAMP]     without arguments: what the header uses
"""
import math
import struct
import sys

POINTS = 400
ROUNDS = 60


def to_f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def least_squares(rows, rhs):
    """Solves min |rows c - rhs| by Householder QR."""
    a = [r[:] + [b] for r, b in zip(rows, rhs)]
    m, n = len(a), len(rows[0])
    for j in range(n):
        norm = math.sqrt(sum(a[i][j] ** 2 for i in range(j, m)))
        alpha = -norm if a[j][j] > 0 else norm
        v = [a[i][j] for i in range(j, m)]
        v[0] -= alpha
        vv = sum(x * x for x in v)
        if vv == 0:
            continue
        for c in range(j, n + 1):
            s = 2 * sum(v[i] * a[j + i][c] for i in range(m - j)) / vv
            for i in range(m - j):
                a[j + i][c] -= s * v[i]
    sol = [0.0] * n
    for j in reversed(range(n)):
        sol[j] = (a[j][n] - sum(a[j][c] * sol[c] for c in range(j + 1, n))) / a[j][j]
    return sol


def lawson(points, basis, target, error, fixed, size):
    """basis(x) -> size values, target(x): sum(c * basis) ~ target. error(c) -> list of relative errors, one a point."""
    free = [i for i in range(size) if i not in fixed]
    weight = [1.0] * len(points)
    scale = [1.0] * len(points)
    best, best_err = None, float("inf")
    for _ in range(ROUNDS):
        rows, rhs = [], []
        for x, w, s in zip(points, weight, scale):
            b, g = basis(x), math.sqrt(w) * s
            rows.append([b[i] * g for i in free])
            rhs.append((target(x) - sum(b[i] * fixed[i] for i in fixed)) * g)
        sol = least_squares(rows, rhs) if free else []
        coef = [0.0] * size
        for i, v in fixed.items():
            coef[i] = v
        for i, v in zip(free, sol):
            coef[i] = v
        errs, scale = error(coef)
        worst = max(abs(e) for e in errs)
        if worst < best_err:
            best, best_err = coef, worst
        if not free:
            break
        weight = [w * (abs(e) / worst + 1e-3) for w, e in zip(weight, errs)]
        top = max(weight)
        weight = [w / top for w in weight]
    return best, best_err


def chebyshev(lo, hi):
    return [(lo + hi) / 2 - (hi - lo) / 2 * math.cos(math.pi * (i + 0.5) / POINTS) for i in range(POINTS)]


def fit_exp(degree):
    half = math.log(2) / 2 * 1.0005
    xs = chebyshev(-half, half)
    size = degree - 1  # c2..c_degree

    def basis(x):
        return [x**i for i in range(2, degree + 1)]

    def error(c):
        scale = [1 / math.exp(x) for x in xs]
        return [((1 + x + sum(ci * b for ci, b in zip(c, basis(x)))) / math.exp(x) - 1) for x in xs], scale

    fixed, err = {}, 0
    for i in range(size):
        c, err = lawson(xs, basis, lambda x: math.expm1(x) - x, error, fixed, size)
        fixed[i] = to_f32(c[i])
    c, err = lawson(xs, basis, lambda x: math.expm1(x) - x, error, fixed, size)
    return [("c%d" % (i + 2), v) for i, v in enumerate(c)], err


def fit_odd(f, deg_p, deg_q, clamp, p0, q0):
    """x P(x^2) / Q(x^2) ~ f(x). Unknowns p1.., q1.. in t = (x / clamp)^2; p0 and q0 are given."""
    xs = chebyshev(clamp * 1e-4, clamp)
    size = deg_p + deg_q
    fx = {x: f(x) for x in xs}

    def powers(x):
        t = (x / clamp) ** 2
        return [t**i for i in range(1, max(deg_p, deg_q) + 1)]

    pw = {x: powers(x) for x in xs}

    def basis(x):  # x P - f Q = 0, divided by f
        r = x / fx[x]
        return [r * t for t in pw[x][:deg_p]] + [-t for t in pw[x][:deg_q]]

    def error(c):
        errs, scale = [], []
        for x in xs:
            p = p0 + sum(ci * t for ci, t in zip(c[:deg_p], pw[x]))
            q = q0 + sum(ci * t for ci, t in zip(c[deg_p:], pw[x]))
            errs.append(x * p / q / fx[x] - 1)
            scale.append(1 / q)
        return errs, scale

    def target(x):
        return q0 - p0 * x / fx[x]

    order = [i for d in range(max(deg_p, deg_q)) for i in ([d] if d < deg_p else []) + ([deg_p + d] if d < deg_q else [])]
    fixed = {}
    first = None
    for i in order:
        c, err = lawson(xs, basis, target, error, fixed, size)
        first = first or err
        power = i % deg_p + 1 if i < deg_p else i - deg_p + 1
        fixed[i] = to_f32(c[i] / clamp ** (2 * power)) * clamp ** (2 * power)
    c, err = lawson(xs, basis, target, error, fixed, size)
    names = [("p0", p0), ("q0", q0)] + [("p%d" % (i + 1), c[i] / clamp ** (2 * i + 2)) for i in range(deg_p)]
    names += [("q%d" % (i + 1), c[deg_p + i] / clamp ** (2 * i + 2)) for i in range(deg_q)]
    print("before rounding: 2^%.2f" % math.log2(first))
    return names, err


def quotient(target):
    """Two floats whose quotient is `target` to about 2^-40: a single float would leave an error of up to 2^-24 at 0."""
    best = min(range(1 << 12), key=lambda i: abs(to_f32((1 + i / 4096) * target) / ((1 + i / 4096) * target) - 1))
    q0 = 1 + best / 4096
    return to_f32(q0 * target), q0


def show(title, result):
    coefs, err = result
    print("%s: relative error of the fit 2^%.2f" % (title, math.log2(err)))
    for name, v in coefs:
        print("  %s = %sf  // %.9g" % (name, to_f32(v).hex(), v))


def main(args):
    if not args or args[0] == "exp":
        show("exp", fit_exp(int(args[1]) if args else 6))
    if not args or args[0] == "erf":
        p, q, clamp = (int(args[1]), int(args[2]), float(args[3])) if args else (5, 5, 3.93)
        show("erf", fit_odd(math.erf, p, q, clamp, *quotient(2 / math.sqrt(math.pi))))


if __name__ == "__main__":
    main(sys.argv[1:])
