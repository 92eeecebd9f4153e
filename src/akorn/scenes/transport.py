"""How light travels: what reaches a point from the lamps, where a path continues, and what it brings. Shared with the
kernel.

A path starts at the eye. At its first surface all four lamps are sampled, each at a random point, with a shadow ray.
Then it continues in a direction drawn from the surface's reflection; later surfaces sample one lamp, drawn in
proportion to its unshadowed light. A path ends where it meets the ground, since the light that the ground receives from
itself is known over all bounces (`akorn.scenes.radiosity`). If the first surface is the ground, its known light is
corrected for what objects hide and what they reflect instead.
"""

from __future__ import annotations

from akorn.scenes.ground import hit_ground, width_of
from akorn.scenes.lamps import SUN, lamp_colour, lamps_seen, towards_lamp, towards_sun
from akorn.scenes.layout import GROUND, KIND, LAMPS, METAL, NOBODY, RED, RUBBER, TEXTURED
from akorn.scenes.ops import Value, Vector, maximum, minimum, where
from akorn.scenes.reflection import beckmann, fresnel, ggx, ggx_direction, velvet
from akorn.scenes.shapes import FAR
from akorn.scenes.vectors import (
    PI,
    along,
    choose,
    clear_of,
    cosine_direction,
    dot,
    facing,
    luminance,
    plus,
    scaled,
    times,
    unit,
)
from akorn.scenes.walk import attribute, background, blocked, draw, from_ground, look, nearest, normal_at

FIRST = 11  # numbers that the first surface draws
LATER = 6  # numbers that each later one draws
ROUNDS = 3  # rounds after which the numbers of another cell are used,
AGAIN = 7919  # this far from the first
GLOSS_X = 0.15  # the soft lobe of metal: α = 0.2, anisotropy 0.25
GLOSS_Y = 0.2666667
MIRROR_X = 0.0075  # its near mirror: α = 0.01
MIRROR_Y = 0.0133333
BLURRED = 0.4  # least roughness of metal for scattered light: sharp reflections of it would give fireflies


def edge_of(cosine: Value) -> Value:
    """Schlick's (1 − cos)⁵: how far reflectance has risen towards 1 at grazing angles."""
    c = minimum(maximum(1.0 - cosine, 0.0), 1.0)
    return c * c * c * c * c


def polish(colour: Vector, metallic: Value, cosine: Value) -> Vector:
    """The share that the face of a textured surface reflects: 0.04, or a metal's colour, and more at grazing angles."""
    edge = edge_of(cosine)
    base = 0.04 * (1.0 - metallic) + edge * (1.0 - 0.04 * (1.0 - metallic))
    tint = metallic * (1.0 - edge)
    return (base + tint * colour[0], base + tint * colour[1], base + tint * colour[2])


def shine_of(metallic: Value, alpha: Value, cosine: Value) -> Value:
    """About the same share of a white surface, seen at this cosine; the body of a surface receives only the rest.

    A rough face sends less back at grazing angles than its Fresnel term says. (1 − α)² (1 + α) is fitted to the
    integral of its lobe, from above, so that face and body together reflect no more than they receive.
    """
    smooth = (1.0 - alpha) * (1.0 - alpha) * (1.0 + alpha)
    return 1.0 - 0.955 * (1.0 - metallic) * (1.0 - smooth * edge_of(cosine))


def lobes(group: int, n: Vector, v: Vector, to: Vector, colour: Vector, alpha: Value, metallic: Value) -> Vector:
    """f cos(to) of a surface for light from a lamp; for metal only the soft lobe, since its mirror sees the lamps."""
    facet = maximum(dot(n, to), 0.0) / PI
    out = scaled(colour, facet)
    if group == RUBBER:
        outer, inner = fresnel(dot(n, v), 1.2), fresnel(dot(n, v), 1.4)
        body = (1.0 - outer) * ((1.0 - inner) * facet + inner * velvet(n, v, to))
        shine = 0.8 * outer * beckmann(n, v, to, 0.35)
        out = (colour[0] * body + shine, colour[1] * body + shine, colour[2] * body + shine)
    elif group == METAL:
        out = scaled(colour, 0.4 * ggx(n, v, to, GLOSS_X, GLOSS_Y))
    elif group == TEXTURED:
        spot = ggx(n, v, to, alpha, alpha)
        f = polish(colour, metallic, dot(v, unit(plus(v, to))))
        flat = facet * (1.0 - shine_of(metallic, alpha, dot(n, v)))
        out = (colour[0] * flat + spot * f[0], colour[1] * flat + spot * f[1], colour[2] * flat + spot * f[2])
    return out


def direct(
    scene: Value,
    dice: Value,
    group: int,
    p: Vector,
    n: Vector,
    v: Vector,
    colour: Vector,
    alpha: Value,
    metallic: Value,
) -> Vector:
    """The light of all lamps that a first surface sends to the eye."""
    q = clear_of(p, n)
    total = (0.0 * p[0], 0.0 * p[0], 0.0 * p[0])
    for k in range(LAMPS):
        to, far, e = towards_lamp(scene, k, p, draw(dice, 2 * k), draw(dice, 2 * k + 1))
        dark = (dot(n, to) <= 0.0) | blocked(scene, q, to, far)
        lit = where(dark, 0.0 * e, e)
        f = times(lobes(group, n, v, to, colour, alpha, metallic), lamp_colour(scene, k))
        total = along(total, f, lit)
    s = towards_sun(draw(dice, 6), draw(dice, 7))
    dark = (dot(n, s) <= 0.0) | blocked(scene, q, s, FAR + 0.0 * p[0])
    lit = where(dark, 0.0 * p[0], SUN + 0.0 * p[0])
    return along(total, lobes(group, n, v, s, colour, alpha, metallic), lit)


def bounce(
    group: int, n: Vector, v: Vector, colour: Vector, alpha: Value, metallic: Value, pick: Value, u1: Value, u2: Value
) -> tuple[Vector, Vector, Value]:
    """(direction, weight, mirror): where a path continues from a first surface; a mirror still sees the lamps."""
    to = cosine_direction(n, u1, u2)
    weight = colour
    mirror = pick < -1.0
    if group == RUBBER:
        outer, inner = fresnel(dot(n, v), 1.2), fresnel(dot(n, v), 1.4)
        shiny, g = ggx_direction(n, v, 0.35, 0.35, u1, u2)
        body = (1.0 - inner) + inner * PI * velvet(n, v, to) / maximum(dot(n, to), 0.05)
        glossy = pick < outer
        weight = choose(glossy, (0.8 * g, 0.8 * g, 0.8 * g), scaled(colour, body))
        to = choose(glossy, shiny, to)
    elif group == METAL:
        mirror = pick < 0.6
        ax = where(mirror, MIRROR_X + 0.0 * pick, GLOSS_X + 0.0 * pick)
        ay = where(mirror, MIRROR_Y + 0.0 * pick, GLOSS_Y + 0.0 * pick)
        to, g = ggx_direction(n, v, ax, ay, u1, u2)
        weight = scaled(colour, g)
    elif group == TEXTURED:
        shiny, g = ggx_direction(n, v, alpha, alpha, u1, u2)
        share = shine_of(metallic, alpha, dot(n, v))
        glossy = pick < share
        f = polish(colour, metallic, dot(v, unit(plus(v, shiny))))
        weight = choose(glossy, scaled(f, g / share), colour)
        to = choose(glossy, shiny, to)
    return to, weight, mirror


def ground_light(scene: Value, p: Vector, t: Value, colour: Vector) -> Vector:
    """The part that the ground at p reflects of the light that it receives from the rest of the ground."""
    return times(scaled(colour, 1.0 / PI), from_ground(scene, t, width_of(p), 0))


def hidden_ground(scene: Value, o: Vector, d: Vector) -> Vector:
    """The light of the ground in a direction, as if no object stood there."""
    gone, t = hit_ground(o, d)
    out = scaled(from_ground(scene, t, width_of(along(o, d, gone)), 1), 1.0 / PI)
    return choose(gone < FAR, out, scaled(out, 0.0))


def one_lamp(
    scene: Value, p: Vector, n: Vector, pick: Value, u1: Value, u2: Value
) -> tuple[Vector, Vector, Value, Value]:
    """(direction, irradiance with the surface's cosine over the lamp's probability, distance, cosine) of a random lamp.

    A lamp is drawn with probability e_k / Σ e, where e_k is its light without shadows.
    """
    s = towards_sun(u1, u2)
    c = maximum(dot(n, s), 0.0)
    total = SUN * c
    far = FAR + 0.0 * c
    colour = (1.0 + 0.0 * c, 1.0 + 0.0 * c, 1.0 + 0.0 * c)
    u = pick
    for k in range(LAMPS):
        to, away, e = towards_lamp(scene, k, p, u1, u2)
        shine = lamp_colour(scene, k)
        grey = luminance(shine)
        slant = maximum(dot(n, to), 0.0)
        gives = grey * slant * e
        total = total + gives
        share = gives / maximum(total, 1e-9)
        take = u < share
        u = where(take, u / maximum(share, 1e-9), (u - share) / maximum(1.0 - share, 1e-9))
        s = choose(take, to, s)
        far = where(take, away, far)
        c = where(take, slant, c)
        colour = (
            where(take, shine[0] / grey + 0.0 * c, colour[0]),
            where(take, shine[1] / grey + 0.0 * c, colour[1]),
            where(take, shine[2] / grey + 0.0 * c, colour[2]),
        )
    return s, scaled(colour, total), far, c


def vertex(
    scene: Value, dice: Value, j: Value, o: Vector, d: Vector, mirror: Value
) -> tuple[Vector, Vector, Vector, Vector, Value, Value]:
    """The next surface of a path: (light, next start, next direction, weight, mirror, whether the path goes on).

    j: the first of its random numbers. mirror: whether only mirrors lie between the eye and here.
    """
    t, who, tg = nearest(scene, o, d)
    nobody = who == NOBODY
    p = along(o, d, where(nobody, 0.0 * t, t))
    n = facing(normal_at(scene, who, p, tg), d)
    v = scaled(d, -1.0)
    kind = attribute(scene, who, KIND)
    plain = (attribute(scene, who, RED), attribute(scene, who, RED + 1), attribute(scene, who, RED + 2))
    colour, alpha, metallic = look(scene, who, p, n, plain)
    metal = (kind == METAL) | (metallic > 0.5)
    floor = who == GROUND
    to, e, far, c = one_lamp(scene, p, n, draw(dice, j), draw(dice, j + 1), draw(dice, j + 2))
    dark = nobody | (c <= 0.0) | blocked(scene, clear_of(p, n), to, far)
    sharp = mirror & (kind == METAL)
    lx = where(sharp, GLOSS_X + 0.0 * t, maximum(alpha, BLURRED))
    ly = where(sharp, GLOSS_Y + 0.0 * t, maximum(alpha, BLURRED))
    spot = where(sharp, 0.4 + 0.0 * t, 1.0 + 0.0 * t) * ggx(n, v, to, lx, ly) / maximum(c, 0.02)
    f = scaled(colour, where(metal, spot, 1.0 / PI + 0.0 * t))
    light = choose(dark, scaled(e, 0.0), times(f, e))
    around = ground_light(scene, p, tg, colour)
    light = choose(floor, plus(light, around), light)
    lamps = lamps_seen(scene, o, d, where(nobody, FAR + 0.0 * t, t))
    light = choose(mirror, plus(light, lamps), light)
    behind = background(scene) + 0.0 * t
    light = choose(nobody, plus(light, (behind, behind, behind)), light)
    # where the path continues
    pick, u1, u2 = draw(dice, j + 3), draw(dice, j + 4), draw(dice, j + 5)
    mirrors = sharp & (pick < 0.6)
    ax = where(mirrors, MIRROR_X + 0.0 * t, lx)
    ay = where(mirrors, MIRROR_Y + 0.0 * t, ly)
    shiny, g = ggx_direction(n, v, ax, ay, u1, u2)
    weight = scaled(colour, where(metal, g, 1.0 + 0.0 * g))
    way = choose(metal, shiny, cosine_direction(n, u1, u2))
    return light, clear_of(p, n), way, weight, mirrors, (floor == 0) & (nobody == 0)
