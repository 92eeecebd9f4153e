"""Generated pictures keep their rules to the pixel, and each is determined only by set, split, seed and number."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.objects.data import Pictures, dsprites, generated, load, shapes, tetrominoes, write_npz
from akorn.objects.data.generated import BLOCK, generate
from akorn.objects.data.sets import GENERATED, SETS

# Drawn by hand from the corners in the rules.
TRIANGLE = """
........#.........
.......###........
......##.##.......
.....##...##......
....##.....##.....
...##.......##....
..#############...
.###############..
"""
CIRCLE = """
.....#######......
....#########.....
...###.....###....
..###.......###...
..##.........##...
..##.........##...
..##.........##...
..##.........##...
..##.........##...
..###.......###...
...###.....###....
....#########.....
.....#######......
"""
DIAMOND = """
........#.........
.......###........
......##.##.......
.....##...##......
....##.....##.....
...##.......##....
..##.........##...
...##.......##....
....##.....##.....
.....##...##......
......##.##.......
.......###........
........#.........
"""


def drawn(text: str, first_row: int) -> np.ndarray:
    stamp = np.zeros((18, 18), dtype=bool)
    for row, line in enumerate(text.split(), first_row):
        stamp[row] = [letter == "#" for letter in line]
    return stamp


def test_outlines_are_those_of_the_rules() -> None:
    triangle, square, circle, diamond = shapes.outlines()
    assert np.array_equal(triangle, drawn(TRIANGLE, 4))
    assert np.array_equal(circle, drawn(CIRCLE, 2))
    assert np.array_equal(diamond, drawn(DIAMOND, 2))
    wanted = np.zeros((18, 18), dtype=bool)
    wanted[3:13, 3:13] = True
    wanted[5:11, 5:11] = False
    assert np.array_equal(square, wanted)


def test_shapes_pictures_are_stamps_on_a_plain_background() -> None:
    pictures = generate("shapes", "test", 400)
    assert pictures.images.shape == (400, 1, 40, 40)
    stamps = shapes.outlines()
    greys = []
    for picture, labels in zip(pictures.images[:, 0], pictures.labels, strict=True):
        assert np.array_equal(picture == 255, labels != 0)  # lit where labelled, ignored pixels too
        background = np.unique(picture[labels == 0])
        assert len(background) == 1
        greys.append(int(background[0]))
        for label in range(1, labels.max() + 1):
            # what is seen of an object fits one outline, and what is missing of that is covered by another
            mine, shared = labels == label, labels == -1
            fits = [
                (corner, stamp)
                for stamp in stamps
                for corner in np.ndindex(23, 23)
                if not (mine & ~placed(stamp, corner)).any() and not (placed(stamp, corner) & ~(mine | shared)).any()
            ][:1]
            assert fits, f"label {label}"
        if len(greys) == 12:  # the search is slow; the cheap properties below hold for all
            break
    greys = np.array([np.bincount(one.ravel()[one.ravel() < 255]).argmax() for one in pictures.images[:, 0]])
    assert greys.min() >= 25
    assert greys.max() <= 153
    assert greys.std() > 30  # of a uniform spread 37
    counts = Counter(int(labels.max()) for labels in pictures.labels)
    assert set(counts) == {2, 3, 4}
    assert min(counts.values()) > 90  # 133 expected, standard deviation 9
    assert 0 < (pictures.labels == -1).mean() < 0.05


def placed(stamp: np.ndarray, corner: tuple[int, ...]) -> np.ndarray:
    canvas = np.zeros((40, 40), dtype=bool)
    canvas[corner[0] : corner[0] + 18, corner[1] : corner[1] + 18] = stamp
    return canvas


def test_tetrominoes_have_seventeen_forms_of_four_squares() -> None:
    pieces = tetrominoes.orientations()
    assert pieces.shape == (17, 15, 15)
    assert (pieces.sum((1, 2)) == 4 * 25).all()
    assert len(np.unique(pieces.reshape(17, -1), axis=0)) == 17
    for piece in pieces:
        squares = piece[::5, ::5]
        assert np.array_equal(np.kron(squares, np.ones((5, 5), dtype=bool)), piece)
        assert squares[0].any()  # in the corner of its window
        assert squares[:, 0].any()


def test_tetrominoes_are_three_whole_pieces_of_six_colours() -> None:
    pictures = generate("tetrominoes", "test", 320)
    assert pictures.images.shape == (320, 3, 32, 32)
    assert pictures.labels is not None
    colours = set()
    for picture, labels in zip(pictures.images, pictures.labels, strict=True):
        assert set(np.unique(labels)) == {0, 1, 2, 3}
        assert not picture[:, labels == 0].any()
        for label in (1, 2, 3):
            inside = picture[:, labels == label]
            assert (inside == inside[:, :1]).all()
            colours.add(tuple(inside[:, 0].tolist()))
            rows, columns = np.nonzero(labels == label)
            if rows.min() > 0 and columns.min() > 0 and rows.max() < 31 and columns.max() < 31:
                assert len(rows) == 100  # one that the crop does not touch is whole: nothing lies over it
    assert colours == {tuple(colour) for colour in tetrominoes.COLOURS.tolist()}


def test_dsprites_are_seen_sprites_in_one_colour_each() -> None:
    pictures = generate("dsprites", "test", 320)
    assert pictures.images.shape == (320, 3, 64, 64)
    assert pictures.labels is not None
    counts: Counter[int] = Counter()
    for picture, labels in zip(pictures.images, pictures.labels, strict=True):
        objects = int(labels.max())
        counts[objects] += 1
        assert set(np.unique(labels)) == set(range(objects + 1))  # none is wholly hidden
        assert not labels[[0, -1]].any()  # none leaves the picture
        assert not labels[:, [0, -1]].any()
        for label in range(objects + 1):
            inside = picture[:, labels == label]
            assert (inside == inside[:, :1]).all()
            spread = int(inside[:, 0].max()) - int(inside[:, 0].min())
            assert spread == 0 if label == 0 else spread >= 62  # grey, and colours: saturation · value ≥ ¼
    assert set(counts) == {2, 3, 4, 5}
    assert min(counts.values()) > 45  # 80 expected, somewhat fewer of five: those hide each other more often


def test_sprites_have_their_forms() -> None:
    v, u = (axis.astype(np.float32) for axis in np.mgrid[-20:21, -20:21])
    oval, heart, square = (sprite(u, v) for sprite in dsprites.SPRITES)
    for form in (oval, heart, square):
        assert np.array_equal(form, form[:, ::-1])
        assert np.hypot(u, v)[form].max() <= dsprites.REACH
        assert form.sum() > 250
    assert (oval.any(1).sum(), oval.any(0).sum()) == (27, 17)
    assert (square.any(1).sum(), square.any(0).sum(), square.sum()) == (21, 21, 441)
    rows = np.flatnonzero(heart.any(1))
    first, last = heart[rows[0]], heart[rows[-1]]
    assert not first[20]  # the notch between two humps
    assert first[:20].any()
    assert np.flatnonzero(last).tolist() == [20]  # and a point below
    assert abs(rows[0] + rows[-1] - 40) <= 1  # its middle is where it turns


def test_colours_agree_with_the_standard_library() -> None:
    import colorsys

    hsv = np.random.default_rng(0).random((200, 3))
    wanted = [[round(255 * part) for part in colorsys.hsv_to_rgb(*one)] for one in hsv.tolist()]
    assert abs(dsprites.colours(hsv).astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("name", [name for name in GENERATED if SETS[name].draw is not None])
def test_pictures_do_not_depend_on_how_they_are_cut(name: str) -> None:
    whole = generate(name, "valid", 2 * BLOCK + 9, seed=3)
    for start, count in ((0, 5), (BLOCK - 2, 4), (BLOCK + 1, BLOCK + 8)):
        part = generate(name, "valid", count, seed=3, start=start)
        assert np.array_equal(part.images, whole.images[start : start + count])
        assert np.array_equal(part.labels, whole.labels[start : start + count])
    assert generate(name, "valid", 7, seed=3, labels=False).labels is None
    assert whole.clusters == SETS[name].clusters


@pytest.mark.parametrize("name", [name for name in GENERATED if SETS[name].draw is not None])
def test_seeds_and_splits_share_nothing(name: str) -> None:
    parts = [generate(name, split, 60, seed).images for split in ("train", "valid", "test") for seed in (0, 1)]
    together = np.concatenate(parts).reshape(360, -1)
    assert len(np.unique(together, axis=0)) == 360


def test_progress_and_fingerprint() -> None:
    calls: list[tuple[int, int]] = []
    one = generate("shapes", "train", BLOCK + 4, start=10, progress=lambda done, count: calls.append((done, count)))
    assert calls == [(BLOCK - 10, BLOCK + 4), (BLOCK + 4, BLOCK + 4)]
    same = generate("shapes", "train", BLOCK + 4, start=10)
    assert one.fingerprint() == same.fingerprint() != generate("shapes", "train", BLOCK + 4).fingerprint()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "voc"}, "'voc' cannot be generated"),
        ({"split": "all"}, "split is 'all'"),
        ({"count": 0}, "at least 1"),
        ({"start": -1}, "at least 0"),
    ],
)
def test_what_cannot_be_made_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(AkornError, match=said):
        generate(**{"name": "shapes", "count": 1, **options})


# Of the paper's test pictures, as records of evaluations have them.
TEST_PICTURES = {
    "shapes": (1000, "9bd47ddaf63917713aab6e29aaf59f6bcfd5c591fd265ba32f5b290c708b1a00"),
    "tetrominoes": (320, "4ed39837b42d10212ab55be83d780eed0a088fe48403b5925a5ce4669097b72b"),
    "dsprites": (320, "48e2efa56be9ea9222871d64c28556d386d10dc2c167de422a66403d0d04b702"),
}


@pytest.mark.parametrize("name", TEST_PICTURES)
def test_a_limit_takes_the_first_pictures_of_a_set_without_end(name: str) -> None:
    papers, digest = TEST_PICTURES[name]
    assert load(name, "test").fingerprint() == digest
    more = load(name, "test", limit=papers + 70)
    assert len(more) == papers + 70
    assert more.load(range(papers)).fingerprint() == digest
    fewer = load(name, "test", limit=3)
    assert fewer.fingerprint() == more.load(range(3)).fingerprint()
    assert len(load(name, "test", size=16, limit=papers + 1)) == papers + 1


def test_a_limit_of_a_file_is_the_most(tmp_path: Path) -> None:
    write_npz(tmp_path / "test.npz", generate("shapes", "test", 4))
    assert [len(load(tmp_path, "test", limit=limit)) for limit in (3, 4, 5)] == [3, 4, 4]


def test_what_does_not_fit_the_memory_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AkornError, match=r"^1,000,000,000,000 pictures of shapes need 4,800,000 GB, more than"):
        load("shapes", "test", limit=10**12)
    monkeypatch.setattr(generated, "machine_memory", lambda: 1e6)
    picture = 40 * 40 * 3  # bytes, of the picture and of its mask
    most = int(0.75e6) // picture
    assert len(generate("shapes", count=most)) == most
    with pytest.raises(AkornError, match=rf"{most + 1} pictures of shapes need 0 GB, .*: ask for fewer"):
        generate("shapes", count=most + 1)
    assert len(generate("shapes", count=2 * most, labels=False)) == 2 * most
    assert isinstance(load("shapes", size=40, limit=most), Pictures)
    with pytest.raises(AkornError, match="ask for fewer"):
        load("shapes", size=80, limit=most // 4)  # fits, but not with its copies of four times the size
    monkeypatch.setattr(generated, "machine_memory", lambda: float("inf"))  # where the system does not say
    for count in (10**16, 10**400):
        with pytest.raises(AkornError, match="do not fit into memory"):
            generate("shapes", count=count)


def test_memory_is_known() -> None:
    assert generated.machine_memory() > 2**28
