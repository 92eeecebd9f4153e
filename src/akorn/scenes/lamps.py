"""The lamps: three squares that face the origin, and a sun. Shared with the kernel.

A point of a square with radiance L and area A gives a surface at distance d the irradiance E = L A cos(lamp)
cos(surface) / d². The sun gives 0.45 cos(surface), from a disc of 0.0997 rad around its direction.
"""

from __future__ import annotations

from akorn.scenes.layout import LAMPS
from akorn.scenes.ops import Value, Vector, cos, maximum, sin, sqrt, where
from akorn.scenes.vectors import PI, along, dot, minus, scaled, unit
from akorn.scenes.walk import lamp

SUN = 0.45
SUN_X = 0.41450
SUN_Y = -0.19458
SUN_Z = 0.88901
SUN_TAN = 0.1  # tangent of half its angular diameter, 0.09967 rad
SUN_COS = 0.99504
SUN_RADIANCE = 14.468  # 0.45 / (π sin²)


def towards_lamp(scene: Value, k: Value, p: Vector, u: Value, v: Value) -> tuple[Vector, Value, Value]:
    """(direction, distance, E / cos(surface) for a lamp of radiance 1) of the lamp's point (u, v) as seen from p."""
    side = lamp(scene, k, 15)
    right = (lamp(scene, k, 3), lamp(scene, k, 4), lamp(scene, k, 5))
    up = (lamp(scene, k, 6), lamp(scene, k, 7), lamp(scene, k, 8))
    middle = (lamp(scene, k, 0), lamp(scene, k, 1), lamp(scene, k, 2))
    shines = (lamp(scene, k, 9), lamp(scene, k, 10), lamp(scene, k, 11))
    a, b = (u - 0.5) * side, (v - 0.5) * side
    point = along(along(middle, right, a), up, b)
    way = minus(point, p)
    square = maximum(dot(way, way), 1e-6)
    far = sqrt(square)
    direction = scaled(way, 1.0 / far)
    lit = maximum(-dot(direction, shines), 0.0)
    return direction, far, lit * side * side / square


def lamp_colour(scene: Value, k: Value) -> Vector:
    """The radiance of a lamp's face."""
    return (lamp(scene, k, 12), lamp(scene, k, 13), lamp(scene, k, 14))


def towards_sun(u: Value, v: Value) -> Vector:
    """The direction to a point of the sun's disc."""
    r = SUN_TAN * sqrt(u)
    a = 2.0 * PI * v
    x, y = r * cos(a), r * sin(a)
    # two unit vectors orthogonal to the sun's direction
    return unit(
        (
            SUN_X + 0.9063301 * x + 0.0822272 * y,
            SUN_Y + 0.9808904 * y,
            SUN_Z - 0.4225778 * x + 0.1763537 * y,
        )
    )


def lamps_seen(scene: Value, o: Vector, d: Vector, reach: Value) -> Vector:
    """The radiance of the lamps that a mirrored ray meets before `reach`; of the sun if it meets nothing."""
    r, g, b = 0.0 * reach, 0.0 * reach, 0.0 * reach
    for k in range(LAMPS):
        side = lamp(scene, k, 15)
        middle = (lamp(scene, k, 0), lamp(scene, k, 1), lamp(scene, k, 2))
        shines = (lamp(scene, k, 9), lamp(scene, k, 10), lamp(scene, k, 11))
        against = dot(d, shines)
        way = minus(middle, o)
        t = dot(way, shines) / where(against < -1e-6, against, -1.0 + 0.0 * against)
        off = minus(along(o, d, t), middle)
        x = dot(off, (lamp(scene, k, 3), lamp(scene, k, 4), lamp(scene, k, 5)))
        y = dot(off, (lamp(scene, k, 6), lamp(scene, k, 7), lamp(scene, k, 8)))
        half = 0.5 * side
        on = (against < -1e-6) & (t > 0.0) & (t < reach) & (x * x < half * half) & (y * y < half * half)
        r = r + where(on, lamp(scene, k, 12) + 0.0 * t, 0.0 * t)
        g = g + where(on, lamp(scene, k, 13) + 0.0 * t, 0.0 * t)
        b = b + where(on, lamp(scene, k, 14) + 0.0 * t, 0.0 * t)
    sunny = (d[0] * SUN_X + d[1] * SUN_Y + d[2] * SUN_Z > SUN_COS) & (reach > 1e8)
    s = where(sunny, SUN_RADIANCE + 0.0 * reach, 0.0 * reach)
    return (r + s, g + s, b + s)
