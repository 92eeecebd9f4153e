"""Where the numbers of a scene are in its arrays. Imports no torch.

`objects` is [scenes, ROWS, COLUMNS]: one row for each object, and one for the ground. `lamps` is [scenes, 3, LAMP]:
place, two unit vectors along the sides, the direction of the light, radiance, side. `camera` is [scenes, 12]: place,
right, up, backwards. `grid` is [scenes, 6, GRID_T · GRID_W]: light that reaches the ground from other ground
(irradiance), and light that leaves it (radiosity), each in red, green and blue.
"""

MOST_SIDE = 4096  # of a picture, in pixels
MOST_RAYS = 65_536  # per pixel

MOST = 10
ROWS = 11
GROUND = 10
COLUMNS = 32

SHAPE = 0
X = 1
Y = 2
Z = 3
SIZE = 4
COS = 5
SIN = 6
BOUND = 7
KIND = 8
RED = 9  # green and blue follow
SECOND = 12  # a texture's second colour
PATTERN = 15
SCALE = 16
DETAIL = 17
BUMP = 18
ROUGH = 19
METALLIC = 20
SHIFT = 21  # where a solid texture is cut from, three numbers

LAMP = 16
LAMPS = 3

GRID_T = 28
GRID_W = 20
CELLS = 560

NOBODY = -1

# kinds of surface
LAMBERT = 0
RUBBER = 1
METAL = 2
TEXTURED = 3
