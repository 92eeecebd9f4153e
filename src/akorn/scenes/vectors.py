"""Vectors as tuples of three: products, frames, directions. Shared with the kernel (see `ops`)."""

from __future__ import annotations

from akorn.scenes.ops import Value, Vector, absolute, cos, maximum, sin, sqrt, where

PI = 3.141592653589793


def dot(a: Vector, b: Vector) -> Value:
    """a · b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(o: Vector, d: Vector, t: Value) -> Vector:
    """o + t d."""
    return (o[0] + t * d[0], o[1] + t * d[1], o[2] + t * d[2])


def scaled(a: Vector, s: Value) -> Vector:
    """s a."""
    return (a[0] * s, a[1] * s, a[2] * s)


def plus(a: Vector, b: Vector) -> Vector:
    """a + b."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Vector, b: Vector) -> Vector:
    """a − b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def times(a: Vector, b: Vector) -> Vector:
    """The componentwise product, for colours."""
    return (a[0] * b[0], a[1] * b[1], a[2] * b[2])


def cross(a: Vector, b: Vector) -> Vector:
    """a × b."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def unit(a: Vector) -> Vector:
    """a / ‖a‖."""
    return scaled(a, 1.0 / sqrt(maximum(dot(a, a), 1e-20)))


def choose(mask: Value, a: Vector, b: Vector) -> Vector:
    """a where the mask is true, b elsewhere."""
    return (where(mask, a[0], b[0]), where(mask, a[1], b[1]), where(mask, a[2], b[2]))


def tangent_around(n: Vector) -> Vector:
    """The unit vector around the vertical axis, orthogonal to n: z × n; x where n is vertical."""
    length = sqrt(n[0] * n[0] + n[1] * n[1])
    flat = length < 1e-4
    by = 1.0 / maximum(length, 1e-4)
    return (where(flat, n[0] * 0.0 + 1.0, -n[1] * by), where(flat, n[0] * 0.0, n[0] * by), n[0] * 0.0)


def cosine_direction(n: Vector, u: Value, v: Value) -> Vector:
    """A direction around n with density cos θ / π: n plus a point of the unit sphere."""
    z = 1.0 - 2.0 * u
    r = sqrt(maximum(1.0 - z * z, 0.0))
    a = 2.0 * PI * v
    return unit((n[0] * 1.0001 + r * cos(a), n[1] * 1.0001 + r * sin(a), n[2] * 1.0001 + z))


def luminance(a: Vector) -> Value:
    """The mean of the three colours, to compare lamps by."""
    return (a[0] + a[1] + a[2]) * 0.3333333333 + 1e-12  # not 0 for a lamp that is off, which is never drawn


def facing(n: Vector, d: Vector) -> Vector:
    """n, turned to the side from which d comes."""
    sign = where(dot(n, d) > 0.0, -1.0 + 0.0 * n[0], 1.0 + 0.0 * n[0])
    return scaled(n, sign)


def clear_of(p: Vector, n: Vector) -> Vector:
    """A point a little off the surface, where the next ray starts."""
    return along(p, n, 1e-3 + 1e-5 * absolute(p[0]))


def into_turned(a: Vector, c: Value, s: Value) -> Vector:
    """A vector in a frame that is turned about the vertical axis, by cosine c and sine s."""
    return (c * a[0] + s * a[1], c * a[1] - s * a[0], a[2])


def out_of_turned(a: Vector, c: Value, s: Value) -> Vector:
    """A vector of a turned frame in the world."""
    return (c * a[0] - s * a[1], s * a[0] + c * a[1], a[2])
