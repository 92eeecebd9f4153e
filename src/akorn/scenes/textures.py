"""Patterns of textured surfaces: how far from the first colour to the second a point is, and how high. Shared.

A pattern is a function of a place in the object's frame. Solid ones (noise, marble, wood) are cut from a block; flat
ones (bricks, weave, tiles) lie in the plane that the surface is most parallel to. Both values are in [0, 1].
"""

from __future__ import annotations

from akorn.scenes.ops import Value, Vector, absolute, cos, floor, maximum, minimum, sin, sqrt, where
from akorn.scenes.vectors import PI, dot, unit

NOISE = 0
MARBLE = 1
WOOD = 2
BRICKS = 3
CHECKS = 4
WEAVE = 5
STRIPES = 6
DOTS = 7
CELLULAR = 8
SCRATCHES = 9
PLANKS = 10
TILES = 11
WAVES = 12
SPOTS = 13
SPECKLE = 14
# never trained on
ZIGZAG = 15
CRACKS = 16
SHELLS = 17
DIAMONDS = 18
CAMOUFLAGE = 19
GYROID = 20

EPSILON = 0.004  # distance at which heights are compared
STEEPEST = 1.5


def fraction(x: Value) -> Value:
    """x − ⌊x⌋."""
    return x - floor(x)


def permuted(x: Value) -> Value:
    """A permutation of the whole numbers modulo 289: (34x + 1) x. All of its numbers are exact in float32."""
    # 0.0034602076 is 1/289, which is rounded; half a step more keeps the floor right
    r = x - 289.0 * floor((x + 0.5) * 0.0034602076)
    return (34.0 * r + 1.0) * r


def scatter(x: Value, y: Value, z: Value) -> Value:
    """A number in [0, 1) for a point of the integer lattice, the same in float32 and in float64."""
    s = permuted(permuted(permuted(z) + y) + x)
    return (s - 289.0 * floor((s + 0.5) * 0.0034602076)) / 289.0


def ease(x: Value) -> Value:
    """3x² − 2x³."""
    return x * x * (3.0 - 2.0 * x)


def step_up(x: Value, low: Value, high: Value) -> Value:
    """0 below `low`, 1 above `high`, smooth between."""
    return ease(minimum(maximum((x - low) / (high - low), 0.0), 1.0))


def noise(p: Vector) -> Value:
    """Value noise: random numbers at the lattice, smoothly interpolated."""
    i, j, k = floor(p[0]), floor(p[1]), floor(p[2])
    u, v, w = ease(p[0] - i), ease(p[1] - j), ease(p[2] - k)
    total = 0.0 * u
    for q in range(8):  # the corners of a cell
        x, y, z = q % 2, (q // 2) % 2, q // 4
        weight = (x * u + (1 - x) * (1.0 - u)) * (y * v + (1 - y) * (1.0 - v)) * (z * w + (1 - z) * (1.0 - w))
        total = total + weight * scatter(i + x, j + y, k + z)
    return total


def clouds(p: Vector) -> Value:
    """Noise at three scales."""
    total = 0.0 * p[0]
    size = 4.0 + 0.0 * p[0]
    q = p
    for _ in range(3):
        total = total + size * noise(q)
        size = 0.5 * size
        q = (2.03 * q[0] + 7.1, 2.03 * q[1] + 3.7, 2.03 * q[2] + 1.9)
    return total / 7.0


def in_plane(p: Vector, n: Vector) -> tuple[Value, Value]:
    """The two coordinates of p in the plane that the surface is most parallel to."""
    x, y, z = absolute(n[0]), absolute(n[1]), absolute(n[2])
    upright = (z >= 0.98 * x) & (z >= 0.98 * y)  # on an octahedron all three are alike: rounding must not decide
    sideways = x >= 0.99 * y
    u = where(upright, p[0], where(sideways, p[1], p[0]))
    v = where(upright, p[1], p[2])
    return u, v


def nearest_seed(p: Vector) -> tuple[Value, Value]:
    """The distances of the nearest and second nearest of the random points, one in each cell of a plane lattice.

    p: two coordinates, and a whole number that chooses the points.
    """
    i, j = floor(p[0]), floor(p[1])
    first, second = 9.0 + 0.0 * i, 9.0 + 0.0 * i
    for k in range(9):
        a, b = i + (k % 3) - 1.0, j + (k // 3) - 1.0
        x, y = a + scatter(a, b, p[2]) - p[0], b + scatter(a, b, p[2] + 17.0) - p[1]
        d = x * x + y * y
        second = minimum(second, maximum(first, d))
        first = minimum(first, d)
    return sqrt(first), sqrt(second)


def courses(u: Value, v: Value, length: Value) -> tuple[Value, Value, Value]:
    """Rows of blocks, every other row shifted by half a block: (distance from the joint, and a block's two numbers)."""
    row = floor(v)
    x = u / length + 0.5 * fraction(0.5 * row) * 2.0
    a, b = fraction(x), v - row
    joint = minimum(minimum(a, 1.0 - a) * length, minimum(b, 1.0 - b))
    return joint, floor(x), row


def pattern(kind: Value, p: Vector, n: Vector, detail: Value) -> tuple[Value, Value]:
    """(colour, height) of a pattern at p, scaled so that its features have size 1; detail: a number of its own."""
    u, v = in_plane(p, n)
    a, h = 0.0 * u, 0.0 * u
    if kind == NOISE:
        c = clouds(p)
        a = step_up(c, 0.5 - 0.5 * detail, 0.5 + 0.5 * detail)
        h = c
    elif kind == MARBLE:
        s = sin(2.0 * PI * (0.5 * p[0] + 0.3 * p[2] + 2.0 * detail * clouds(p)))
        a = 1.0 - sqrt(absolute(s))
        h = 0.2 * a
    elif kind == WOOD:
        r = sqrt(p[0] * p[0] + p[2] * p[2] * 1.3 + 0.01)
        f = fraction(2.0 * r + detail * noise((p[0], 0.25 * p[1], p[2])))
        a = f * f * (0.7 + 0.3 * noise((9.0 * p[0], 0.9 * p[1], 9.0 * p[2])))
        h = 0.6 * a
    elif kind == BRICKS:
        joint, x, y = courses(u, v, 2.2)
        full = step_up(joint, 0.05, 0.12)
        a = 1.0 - full * (1.0 - detail * scatter(x, y, 3.0 + 0.0 * x))
        h = full
    elif kind == CHECKS:
        even = fraction(0.5 * (floor(u) + floor(v)))
        a = where(even > 0.25, 1.0 + 0.0 * u, 0.0 * u)
        h = detail * a
    elif kind == WEAVE:
        x, y = sin(PI * u), sin(PI * v)
        over = fraction(0.5 * (floor(u) + floor(v))) > 0.25
        h = where(
            over, absolute(x) * (0.6 + 0.4 * absolute(cos(PI * v))), absolute(y) * (0.6 + 0.4 * absolute(cos(PI * u)))
        )
        a = where(over, 1.0 - 0.5 * h, 0.5 * h * detail)
    elif kind == STRIPES:
        a = step_up(absolute(fraction(u) - 0.5), 0.5 * detail - 0.04, 0.5 * detail + 0.04)
        h = a
    elif kind == DOTS:
        x, y = fraction(u) - 0.5, fraction(v) - 0.5
        a = 1.0 - step_up(sqrt(x * x + y * y), 0.5 * detail - 0.04, 0.5 * detail + 0.04)
        h = a
    elif kind == CELLULAR:
        near, _ = nearest_seed((u, v, floor(7.0 * detail + 0.5 + 0.0 * u)))
        a = minimum(near, 1.0)
        h = 1.0 - a
    elif kind == SCRATCHES:
        s = noise((0.4 * u, 14.0 * v, p[2] * 0.5)) * noise((3.0 * u, 23.0 * v, 5.0 + 0.0 * u))
        a = step_up(s, 0.45 - 0.3 * detail, 0.6)
        h = 1.0 - a
    elif kind == PLANKS:
        joint, x, y = courses(u, v, 5.0)
        grain = noise((0.8 * u + 31.0 * y, 9.0 * v, x))
        a = minimum(0.6 * grain + detail * scatter(x, y, 5.0 + 0.0 * x), 1.0)
        h = step_up(joint, 0.01, 0.05) * (0.8 + 0.2 * grain)
    elif kind == TILES:
        x, y = fraction(u), fraction(v)
        joint = minimum(minimum(x, 1.0 - x), minimum(y, 1.0 - y))
        full = step_up(joint, 0.03, 0.07)
        a = 1.0 - full * (1.0 - detail * scatter(floor(u), floor(v), 11.0 + 0.0 * x))
        h = full
    elif kind == WAVES:
        s = sin(2.0 * PI * (u + detail * sin(PI * v)))
        a = 0.5 + 0.5 * s
        h = a
    elif kind == SPOTS:
        c = noise(p)
        a = step_up(c, detail - 0.03, detail + 0.03)
        h = a
    elif kind == SPECKLE:
        c = scatter(floor(3.0 * p[0]), floor(3.0 * p[1]), floor(3.0 * p[2]))
        a = where(c < detail, 1.0 + 0.0 * c, 0.0 * c)
        h = noise(p)
    elif kind == ZIGZAG:
        s = fraction(v + absolute(fraction(u) - 0.5))
        a = where(s < detail, 1.0 + 0.0 * s, 0.0 * s)
        h = a
    elif kind == CRACKS:
        near, next_near = nearest_seed((u, v, 3.0 + 0.0 * u))
        a = 1.0 - step_up(next_near - near, 0.02, 0.02 + 0.2 * detail)
        h = 1.0 - a
    elif kind == SHELLS:
        r = sqrt(dot(p, p) + 1e-6)
        a = step_up(absolute(fraction(r) - 0.5), 0.5 * detail - 0.05, 0.5 * detail + 0.05)
        h = a
    elif kind == DIAMONDS:
        even = fraction(0.5 * (floor(u + v) + floor(u - v)))
        a = where(even > 0.25, 1.0 + 0.0 * u, 0.0 * u)
        h = detail * a
    elif kind == CAMOUFLAGE:
        c = noise(p)
        a = where(c > 0.62, 1.0 + 0.0 * c, where(c > 0.42, detail + 0.0 * c, 0.0 * c))
        h = a
    else:  # gyroid
        x, y, z = 2.0 * PI * p[0], 2.0 * PI * p[1], 2.0 * PI * p[2]
        s = sin(x) * cos(y) + sin(y) * cos(z) + sin(z) * cos(x)
        a = step_up(s, -detail, detail)
        h = a
    return a, h


def textured(kind: Value, p: Vector, n: Vector, detail: Value, bump: Value) -> tuple[Value, Vector]:
    """(colour, normal): the pattern at p, and n tilted by its slope, n − bump (∇h − n (n·∇h)), normalised.

    The slope is the difference of heights nearby. One loop goes over the four places, so that the kernel contains the
    patterns only once.
    """
    a, h, hx, hy, hz = 0.0 * p[0], 0.0 * p[0], 0.0 * p[0], 0.0 * p[0], 0.0 * p[0]
    for q in range(4):
        here = (1 - q) * (2 - q) * (3 - q) * 0.1666666667  # 1 for q = 0, otherwise 0; likewise for the three below
        in_x, in_y, in_z = (
            q * (2 - q) * (3 - q) * 0.5,
            q * (q - 1) * (3 - q) * 0.5,
            q * (q - 1) * (q - 2) * 0.1666666667,
        )
        place = (p[0] + EPSILON * in_x, p[1] + EPSILON * in_y, p[2] + EPSILON * in_z)
        colour, height = pattern(kind, place, n, detail)
        a, h = a + here * colour, h + here * height
        hx, hy, hz = hx + in_x * height, hy + in_y * height, hz + in_z * height
    by = bump / EPSILON
    s = (
        minimum(maximum((hx - h) * by, -STEEPEST), STEEPEST),
        minimum(maximum((hy - h) * by, -STEEPEST), STEEPEST),
        minimum(maximum((hz - h) * by, -STEEPEST), STEEPEST),
    )
    k = dot(n, s)
    return a, unit((n[0] - s[0] + k * n[0], n[1] - s[1] + k * n[1], n[2] - s[2] + k * n[2]))
