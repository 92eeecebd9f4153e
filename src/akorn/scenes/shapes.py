"""Solids of half size 1 around the origin: where a ray enters them, and their normals. Shared with the kernel.

A rounded solid is {p: G(p) ≤ 0} for a convex G. Along a ray G is convex, so Newton's method from a point in front of
the solid rises to the first root and never passes it. It starts where the ray enters the sharp solid around it.

    cube      G = Σ_i u_i³ − 1,   u_i = max(|p_i| − 0.75, 0) / 0.25
    cylinder  G = u⁴ + v⁴ − 1,    u = max(√(x² + y²) − 0.91, 0) / 0.09,   v = max(|z| − 0.9, 0) / 0.1

The profiles of the original meshes are fitted by exponents 3 and 3.8; 4 differs from 3.8 by at most 0.0008 of the
radius. Capsule, torus, cone and octahedron are found by stepping along the ray, each time by a lower bound of the
distance.
"""

from __future__ import annotations

from akorn.scenes.ops import Value, Vector, absolute, maximum, minimum, sqrt, where
from akorn.scenes.vectors import along, choose, dot, unit

SPHERE = 0
CUBE = 1
CYLINDER = 2
CAPSULE = 3
CONE = 4
TORUS = 5
OCTAHEDRON = 6

FAR = 1e9
BALL = 0.9992  # the mean radius of the mesh
NEWTON = 6
STEPS = 40
TUBE = 0.32  # radius of the torus' tube


def part(d: Value) -> Value:
    """A direction's component, away from zero, to divide by."""
    return where(absolute(d) < 1e-9, 1e-9 + 0.0 * d, d)


def hit_ball(o: Vector, d: Vector, r: Value) -> Value:
    """Where a ray enters a ball of radius r; FAR if it misses, or if the ball lies behind or around its start."""
    a, b, c = dot(d, d), dot(o, d), dot(o, o) - r * r
    root = b * b - a * c
    t = (-b - sqrt(maximum(root, 0.0))) / a
    return where((root > 0.0) & (t > 0.0), t, FAR + 0.0 * t)


def hit_cube(o: Vector, d: Vector) -> Value:
    """Where a ray enters the rounded cube; FAR if it misses."""
    ix, iy, iz = 1.0 / part(d[0]), 1.0 / part(d[1]), 1.0 / part(d[2])
    near = maximum(
        maximum(-o[0] * ix - absolute(ix), -o[1] * iy - absolute(iy)), maximum(-o[2] * iz - absolute(iz), 0.0)
    )
    far = minimum(minimum(-o[0] * ix + absolute(ix), -o[1] * iy + absolute(iy)), -o[2] * iz + absolute(iz))
    t = near
    g = 0.0 * t
    for _ in range(NEWTON):
        p = along(o, d, t)
        u = maximum(4.0 * absolute(p[0]) - 3.0, 0.0)
        v = maximum(4.0 * absolute(p[1]) - 3.0, 0.0)
        w = maximum(4.0 * absolute(p[2]) - 3.0, 0.0)
        g = u * u * u + v * v * v + w * w * w - 1.0
        slope = 12.0 * (
            u * u * where(p[0] < 0.0, -d[0], d[0])
            + v * v * where(p[1] < 0.0, -d[1], d[1])
            + w * w * where(p[2] < 0.0, -d[2], d[2])
        )
        t = t - g / minimum(slope, -1e-4)
    return where((near < far) & (t < far) & (t > 0.0) & (absolute(g) < 0.02), t, FAR + 0.0 * t)


def hit_cylinder(o: Vector, d: Vector) -> Value:
    """Where a ray enters the cylinder with rounded rims; FAR if it misses."""
    iz = 1.0 / part(d[2])
    a = maximum(d[0] * d[0] + d[1] * d[1], 1e-12)
    b = o[0] * d[0] + o[1] * d[1]
    root = b * b - a * (o[0] * o[0] + o[1] * o[1] - 1.0)
    half = sqrt(maximum(root, 0.0)) / a
    middle = -b / a
    near = maximum(maximum(middle - half, -o[2] * iz - absolute(iz)), 0.0)
    far = minimum(middle + half, -o[2] * iz + absolute(iz))
    t = near
    g = 0.0 * t
    for _ in range(NEWTON):
        p = along(o, d, t)
        rho = sqrt(maximum(p[0] * p[0] + p[1] * p[1], 1e-12))
        u = maximum((rho - 0.91) * 11.1111111, 0.0)
        v = maximum(10.0 * absolute(p[2]) - 9.0, 0.0)
        u3, v3 = u * u * u, v * v * v
        g = u3 * u + v3 * v - 1.0
        outwards = (p[0] * d[0] + p[1] * d[1]) / rho
        slope = 44.4444444 * u3 * outwards + 40.0 * v3 * where(p[2] < 0.0, -d[2], d[2])
        t = t - g / minimum(slope, -1e-4)
    return where((root > 0.0) & (near < far) & (t < far) & (t > 0.0) & (absolute(g) < 0.03), t, FAR + 0.0 * t)


def distance_to(shape: Value, p: Vector) -> Value:
    """A lower bound of the distance from p to the capsule, cone, torus or octahedron; it is negative inside."""
    rho = sqrt(maximum(p[0] * p[0] + p[1] * p[1], 1e-12))
    distance = rho
    if shape == CAPSULE:  # upright, radius 0.6
        z = p[2] - maximum(minimum(p[2], 0.4), -0.4)
        distance = sqrt(rho * rho + z * z) - 0.6
    elif shape == CONE:  # base of radius 1 at −1, tip at 1, rounded by 0.05; the slant's normal is (2, 1)/√5
        distance = maximum((2.0 * rho + p[2] - 0.87) * 0.4472136, -0.95 - p[2]) - 0.05
    elif shape == TORUS:  # lying; the tube's middle has radius 1 − TUBE
        q = rho - (1.0 - TUBE)
        distance = sqrt(q * q + p[2] * p[2]) - TUBE
    else:  # octahedron |x| + |y| + |z| ≤ 1, rounded by 0.05
        distance = (absolute(p[0]) + absolute(p[1]) + absolute(p[2]) - 0.9134) * 0.5773503 - 0.05
    return distance


def hit_marching(shape: Value, o: Vector, d: Vector) -> Value:
    """Where a ray enters one of the other solids, by steps of the distance; FAR if it misses."""
    per = 1.0 / sqrt(dot(d, d))
    inner = dot(o, d) * per * per
    t = maximum(-inner - 1.8 * per, 0.0)  # the solid lies within 1.8 of its middle
    end = -inner + 1.8 * per
    near = 0.0 * t
    for _ in range(STEPS):
        near = distance_to(shape, along(o, d, t))
        t = t + maximum(near, 0.0) * per
    return where((near < 2e-3) & (t < end) & (t > 0.0), t, FAR + 0.0 * t)


def hit_solid(shape: Value, o: Vector, d: Vector) -> Value:
    """The parameter t > 0 of the first point o + t d on the solid; FAR if there is none."""
    t = 0.0 * d[0]
    if shape == SPHERE:
        t = hit_ball(o, d, BALL)
    elif shape == CUBE:
        t = hit_cube(o, d)
    elif shape == CYLINDER:
        t = hit_cylinder(o, d)
    else:
        t = hit_marching(shape, o, d)
    return t


def signed(a: Value, like: Value) -> Value:
    """a with the sign of another number."""
    return where(like < 0.0, -a, a)


def gradient(shape: Value, p: Vector) -> Vector:
    """A multiple of the gradient of `distance_to`."""
    rho = sqrt(maximum(p[0] * p[0] + p[1] * p[1], 1e-12))
    one = 1.0 + 0.0 * rho
    x, y, z = p[0], p[1], p[2]
    if shape == CAPSULE:
        z = p[2] - maximum(minimum(p[2], 0.4), -0.4)
    elif shape == CONE:
        slant = (2.0 * rho + p[2] - 0.87) * 0.4472136 > -0.95 - p[2]
        x, y = where(slant, 2.0 * p[0] / rho, 0.0 * rho), where(slant, 2.0 * p[1] / rho, 0.0 * rho)
        z = where(slant, one, -one)
    elif shape == TORUS:
        q = 1.0 - (1.0 - TUBE) / rho
        x, y = q * p[0], q * p[1]
    else:
        x, y, z = signed(one, p[0]), signed(one, p[1]), signed(one, p[2])
    return (x, y, z)


def normal_of(shape: Value, p: Vector) -> Vector:
    """The outward unit normal at a point of the solid: ∇G / ‖∇G‖."""
    n = p
    if shape == CUBE:
        u = maximum(4.0 * absolute(p[0]) - 3.0, 0.0)
        v = maximum(4.0 * absolute(p[1]) - 3.0, 0.0)
        w = maximum(4.0 * absolute(p[2]) - 3.0, 0.0)
        n = (signed(u * u, p[0]), signed(v * v, p[1]), signed(w * w, p[2]))
    elif shape == CYLINDER:
        rho = sqrt(maximum(p[0] * p[0] + p[1] * p[1], 1e-12))
        u = maximum((rho - 0.91) * 11.1111111, 0.0)
        v = maximum(10.0 * absolute(p[2]) - 9.0, 0.0)
        side = 11.1111111 * u * u * u / rho
        n = (side * p[0], side * p[1], signed(10.0 * v * v * v, p[2]))
    elif shape > CYLINDER:
        n = gradient(shape, p)
    flat = dot(n, n) < 1e-20
    return unit(choose(flat, p, n))
