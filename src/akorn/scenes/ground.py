"""The ground: a floor that curves up into a wall, and where a ray meets it. Shared with the kernel.

In the plane of depth s and height z it is the curve of t in [0, 1]

    s(t) = −9.5458 + 92.5150 t − 126.9605 t² + 79.4637 t³ − 17.3811 t⁴,    z(t) = 23.2152 t⁴,

stretched along the wall, w in [−29.9, 26.6]. The space in front of it is convex, so a ray leaves it only once. With the
ray (s₀ + λ s′, z₀ + λ z′) that is a root of f(t) = (s(t) − s₀) z′ − (z(t) − z₀) s′, found by Newton's method from the
point where the ray would meet a flat floor, or from the top of the wall.
"""

from __future__ import annotations

from akorn.scenes.ops import Value, Vector, absolute, maximum, minimum, sqrt, where
from akorn.scenes.shapes import FAR

DEPTH_X = -0.9032062
DEPTH_Y = 0.4292020
WALL_LOW = -29.905
WALL_HIGH = 26.580
S0 = -9.5458
S1 = 92.5150
S2 = -126.9605
S3 = 79.4637
S4 = -17.3811
Z4 = 23.2152
START = 5
ALBEDO = 0.8


def depth_at(t: Value) -> Value:
    """s(t)."""
    return S0 + t * (S1 + t * (S2 + t * (S3 + t * S4)))


def depth_slope(t: Value) -> Value:
    """ds/dt."""
    return S1 + t * (2.0 * S2 + t * (3.0 * S3 + t * (4.0 * S4)))


def parameter_near(s: Value) -> Value:
    """t with s(t) ≈ s, to start from: the floor's slope flattens like a square root towards the wall."""
    x = maximum(minimum((s - S0) * 0.0362, 1.0), 0.0)  # 0 at the near edge, 1 at the top of the wall
    return x * (0.30 + x * (0.10 + x * (0.6 * x)))


def depth_of(p: Vector) -> Value:
    """The depth s of a point."""
    return DEPTH_X * p[0] + DEPTH_Y * p[1]


def width_of(p: Vector) -> Value:
    """The place w of a point along the wall."""
    return -DEPTH_Y * p[0] + DEPTH_X * p[1]


def hit_ground(o: Vector, d: Vector) -> tuple[Value, Value]:
    """(λ, t): where a ray meets the ground, and the curve's parameter there; λ is FAR if it misses."""
    s0, ds = depth_of(o), depth_of(d)
    z0, dz = o[2], d[2]
    falls = dz < -1e-6
    floor_s = s0 - ds * z0 / where(falls, dz, -1.0 + 0.0 * dz)
    t = where(falls, parameter_near(floor_s), 1.0 + 0.0 * dz)
    sign = where(ds > 0.0, 1.0 + 0.0 * ds, -1.0 + 0.0 * ds)
    for _ in range(START):
        t2 = t * t
        f = (Z4 * t2 * t2 - z0) * ds - (depth_at(t) - s0) * dz
        slope = 4.0 * Z4 * t2 * t * ds - depth_slope(t) * dz
        safe = where(absolute(slope) < 1e-7, 1e-7 * sign, slope)
        t = minimum(maximum(t - f / safe, -0.05), 1.05)
    t2 = t * t
    s, z = depth_at(t), Z4 * t2 * t2
    gone = ((s - s0) * ds + (z - z0) * dz) / maximum(ds * ds + dz * dz, 1e-12)
    off = absolute((z - z0) * ds - (s - s0) * dz)
    w = width_of(o) + gone * width_of(d)
    good = (t >= 0.0) & (t <= 1.0) & (gone > 1e-4) & (w > WALL_LOW) & (w < WALL_HIGH) & (off < 1e-2)
    return where(good, gone, FAR + 0.0 * gone), t


def ground_normal(t: Value) -> Vector:
    """The unit normal (−z′, s′) at parameter t, pointing to the free side."""
    a, b = 4.0 * Z4 * t * t * t, depth_slope(t)
    by = 1.0 / sqrt(a * a + b * b)
    return (-a * by * DEPTH_X, -a * by * DEPTH_Y, b * by)
