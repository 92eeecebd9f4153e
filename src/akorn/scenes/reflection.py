"""How surfaces reflect: Fresnel's law, the lobes of Beckmann, GGX and velvet, and directions drawn from GGX. Shared.

n is the normal, v the direction to the eye, `to` the direction to the light, and h their half vector. The lobes here
are f · cos(to) for reflectance 1; the half-vector densities are those of Cook and Torrance's model, D G / (4 n·v), G
after Smith.
"""

from __future__ import annotations

from akorn.scenes.ops import Value, Vector, absolute, cos, exp, maximum, minimum, sin, sqrt, where
from akorn.scenes.vectors import PI, along, cross, dot, plus, scaled, tangent_around, unit

VELVET = 2.7777778  # 1 / σ², σ = 0.6


def fresnel(cosine: Value, index: Value) -> Value:
    """The share of unpolarised light at this cosine that a dielectric of this index reflects."""
    c = minimum(absolute(cosine), 1.0)
    g = sqrt(index * index - 1.0 + c * c)
    a = (g - c) / (g + c)
    b = (c * (g + c) - 1.0) / (c * (g - c) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


def beckmann(n: Vector, v: Vector, to: Vector, alpha: Value) -> Value:
    """f cos(to) of Beckmann's distribution, with the usual rational fit of Smith's G."""
    h = unit(plus(v, to))
    nv, nl, nh = dot(n, v), dot(n, to), maximum(dot(n, h), 1e-4)
    good = (nv > 1e-4) & (nl > 1e-4)
    c2 = nh * nh
    a2 = alpha * alpha
    d = exp((c2 - 1.0) / (a2 * c2)) / (PI * a2 * c2 * c2)
    g = smith_beckmann(nv, alpha) * smith_beckmann(nl, alpha)
    return where(good, d * g / (4.0 * maximum(nv, 1e-4)), 0.0 * nv)


def smith_beckmann(c: Value, alpha: Value) -> Value:
    """How much of a rough surface is seen at this cosine."""
    c1 = minimum(maximum(c, 1e-4), 0.99999)
    a = c1 / (alpha * sqrt(1.0 - c1 * c1))
    g = (3.535 * a + 2.181 * a * a) / (1.0 + 2.276 * a + 2.577 * a * a)
    return where(a < 1.6, g, 1.0 + 0.0 * a)


def velvet(n: Vector, v: Vector, to: Vector) -> Value:
    """f cos(to) of Ashikhmin's velvet, σ = 0.6: an inverted Gaussian of the half vector, bright at grazing angles."""
    h = unit(plus(v, to))
    nv, nl, nh = dot(n, v), dot(n, to), dot(n, h)
    hv = maximum(absolute(dot(v, h)), 1e-4)
    good = (nv > 1e-4) & (nl > 1e-4) & (nh < 0.99999)
    s2 = maximum(1.0 - nh * nh, 1e-5)
    d = exp(-nh * nh / s2 * VELVET) * VELVET / (PI * s2 * s2)
    ratio = 2.0 * maximum(nh, 1e-5) / hv
    g = minimum(minimum(ratio * nv, ratio * nl), 1.0)
    return where(good, 0.25 * d * g / maximum(nv, 1e-3), 0.0 * nv)


def ggx(n: Vector, v: Vector, to: Vector, ax: Value, ay: Value) -> Value:
    """f cos(to) of the anisotropic GGX distribution; ax along the direction around the vertical axis, ay across it."""
    x = tangent_around(n)
    y = cross(n, x)
    h = unit(plus(v, to))
    nv, nl, nh = dot(n, v), dot(n, to), dot(n, h)
    good = (nv > 1e-4) & (nl > 1e-4)
    hx, hy = dot(h, x) / ax, dot(h, y) / ay
    k = hx * hx + hy * hy + nh * nh
    d = 1.0 / (PI * ax * ay * k * k)
    vx, vy = ax * dot(v, x), ay * dot(v, y)
    lx, ly = ax * dot(to, x), ay * dot(to, y)
    g1 = 2.0 * nv / (nv + sqrt(vx * vx + vy * vy + nv * nv))
    g2 = 2.0 * nl / (nl + sqrt(lx * lx + ly * ly + nl * nl))
    return where(good, d * g1 * g2 / (4.0 * maximum(nv, 1e-4)), 0.0 * nv)


def ggx_direction(n: Vector, v: Vector, ax: Value, ay: Value, u1: Value, u2: Value) -> tuple[Vector, Value]:
    """(to, weight): a direction drawn from the GGX normals that v sees, and f cos(to) over its density, G₂/G₁ ≤ 1.

    The visible normals are drawn as Heitz (2018) does: stretch v, draw a point of the disc that it sees, unstretch.
    """
    x = tangent_around(n)
    y = cross(n, x)
    a, b, c = dot(v, x), dot(v, y), maximum(dot(v, n), 1e-4)
    s = unit((ax * a, ay * b, c))
    flat = maximum(s[0] * s[0] + s[1] * s[1], 1e-12)
    by = 1.0 / sqrt(flat)
    t1 = (-s[1] * by, s[0] * by, 0.0 * by)
    t2 = cross(s, t1)
    r = sqrt(u1)
    p1, q = r * cos(2.0 * PI * u2), r * sin(2.0 * PI * u2)
    m = 0.5 * (1.0 + s[2])
    p2 = (1.0 - m) * sqrt(maximum(1.0 - p1 * p1, 0.0)) + m * q
    p3 = sqrt(maximum(1.0 - p1 * p1 - p2 * p2, 0.0))
    w = plus(plus(scaled(t1, p1), scaled(t2, p2)), scaled(s, p3))
    h = unit((ax * w[0], ay * w[1], maximum(w[2], 1e-6)))
    world = plus(plus(scaled(x, h[0]), scaled(y, h[1])), scaled(n, h[2]))
    vh = dot(v, world)
    to = along(scaled(v, -1.0), world, 2.0 * vh)
    nl = dot(to, n)
    lx, ly = ax * dot(to, x), ay * dot(to, y)
    g2 = 2.0 * nl / (nl + sqrt(lx * lx + ly * ly + nl * nl))
    return unit(to), where(nl > 1e-4, g2, 0.0 * nl)
