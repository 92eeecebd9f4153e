"""Random scenes keep the original's rules, and belong to their numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from akorn.errors import AkornError
from akorn.scenes import FAMILIES, TEXTURES, Studio, arrays, family_of, labels, scene_of
from akorn.scenes import layout as at
from akorn.scenes.draws import key_of, uniform
from akorn.scenes.materials import PATTERNS, TRAINED, UNSEEN
from akorn.scenes.placing import Drafts, draw_scenes
from akorn.scenes.render import whole_view

LEFT, BEHIND = np.array([-0.65631, -0.75449]), np.array([-0.75449, 0.65631])


def all_seen(drafts: Drafts) -> np.ndarray:
    return np.full((len(drafts), at.MOST), 1000)


def drawn(name: str, count: int = 300, objects: tuple[int, int] | None = None) -> Drafts:
    return draw_scenes(family_of(name, objects), 7, np.arange(count, dtype=np.uint64), all_seen)


def test_objects_keep_their_distance() -> None:
    drafts = drawn("clevr")
    assert set(drafts.count.tolist()) == {3, 4, 5, 6}
    for b in range(len(drafts)):
        things = drafts.scene(b).things
        for i, one in enumerate(things):
            assert max(abs(one.x), abs(one.y)) <= 3
            for other in things[:i]:
                away = np.array([one.x - other.x, one.y - other.y])
                assert np.linalg.norm(away) - one.r - other.r >= 0.25 - 1e-9
                assert min(abs(away @ LEFT), abs(away @ BEHIND)) >= 0.4 - 1e-9


def test_every_choice_is_made_evenly() -> None:
    drafts = drawn("clevr", 1500)
    there = np.arange(at.MOST) < drafts.count[:, None]
    for choice, kinds in ((drafts.shapes, 3), (drafts.sizes, 2), (drafts.looks, 16)):
        share = np.bincount(choice[there], minlength=kinds) / there.sum()
        assert len(share) == kinds
        assert np.abs(share * kinds - 1).max() < 0.25
    camera = drafts.camera - [7.48113, -6.50764, 5.34367]
    assert 0.45 < np.abs(camera).max() <= 0.5
    assert np.abs(camera.mean(0)).max() < 0.03
    assert 0.5 < np.abs(drafts.theta).max() / (2 * np.pi) <= 1


def test_every_object_shows_200_pixels() -> None:
    studio = Studio(family_of("clevr"), seed=3)
    drafts = studio.drafts(range(12))
    assert drafts.tries.max() > 1  # some were drawn again
    found = labels(studio.arrays(drafts), whole_view())
    for b in range(len(drafts)):
        shown = torch.bincount(found[b].flatten().int(), minlength=11)[1 : 1 + drafts.count[b]]
        assert shown.min() >= 200


def test_a_scene_belongs_to_its_number() -> None:
    one = Studio(family_of("clevr"), "train", 0)
    few, many = one.drafts([5]), one.drafts(range(8))
    assert few.described(0) == many.described(5)
    together = Studio(family_of("clevr"), "train", 0)
    together.together = 4  # as on a GPU
    assert together.drafts(range(8)).described(5) == few.described(0)
    assert together.drafts(range(8), together.begin(range(8))).described(5) == few.described(0)
    for other in (Studio(family_of("clevr"), "train", 1), Studio(family_of("clevr"), "test", 0)):
        assert other.drafts([5]).described(0) != few.described(0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_described_scene_can_be_rendered_again(family: str) -> None:
    studio = Studio(family_of(family), seed=1, size=24, samples=1)
    shots = studio.shots([2], with_geometry=True)
    described = json.loads(json.dumps(shots.drafts.described(0)))
    again = arrays([scene_of(described)])
    assert shots.labels is not None
    assert (labels(again, studio.view) == shots.labels).double().mean() > 0.99
    expected = studio.arrays(shots.drafts).objects[0]
    expected[expected[:, at.KIND] != at.TEXTURED, at.SHIFT : at.SHIFT + 3] = 0  # without a pattern it means nothing
    there = [*range(len(described["objects"])), at.GROUND]
    assert torch.allclose(again.objects[0, there], expected[there], atol=1e-4)  # places are rounded to five decimals
    assert shots.images.shape == (1, 3, 24, 24)
    assert shots.normals is not None
    assert shots.normals.shape == (1, 3, 24, 24)


def test_clevrs_own_words() -> None:
    """As in the dataset's scene files; places and sizes are the same as in ours."""
    theirs = {
        "image_index": 0, "split": "train", "directions": {}, "relationships": {},
        "objects": [
            {"color": "brown", "size": "large", "rotation": 178.9, "shape": "cylinder", "material": "rubber",
             "3d_coords": [-1.4, -0.7, 0.7], "pixel_coords": [119, 131, 10.8]},
        ],
    }  # fmt: skip
    ours = {"shape": "cylinder", "r": 0.7, "color": "brown", "x": -1.4, "y": -0.7, "theta": 178.9}
    assert torch.equal(arrays([scene_of(theirs)]).objects, arrays([scene_of({"objects": [ours]})]).objects)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ([], "a scene is list, expected a mapping with objects"),
        ({"objects": {"shape": "cube"}}, "objects or lights of the wrong kind"),
        ({"objects": [{"shape": "cube", "r": 0.7, "y": 1}]}, "object 0 of the scene has no 'x'"),
        ({"objects": [{"x": 0, "r": 0.7, "y": 1}]}, "object 0 of the scene has no 'shape'"),
        ({"objects": [{"shape": "cube", "x": 0, "y": 1}]}, "object 0 of the scene: unknown size ''"),
        ({"objects": [{"shape": "cube", "x": 0, "y": 1, "size": "larg"}]}, "unknown size 'larg': did you mean large"),
        ({"objects": [{"shape": "cube", "x": "left", "y": 1, "r": 1}]}, "object 0 of the scene has a wrong value"),
        ({"objects": [{"shape": "cub", "x": 0, "y": 1, "r": 1}]}, "unknown shape 'cub'"),
        ({"objects": [{"shape": "cube", "x": 0, "y": 1, "r": 1, "colour": "red"}]}, "'colour': did you mean 'color'"),
        ({"objects": [], "camra": [7, -6, 5]}, "a scene has the unknown key 'camra': did you mean 'camera'"),
        ({"objects": [], "lights": {"Lamp_key": [6, -2, 4]}}, "lights has the unknown key 'Lamp_key'"),
        ({"objects": [None]}, "object 0 of the scene has a wrong value"),
        ({"ground": "gras"}, "unknown material 'gras'"),
        ({"ground_shift": [1, 2]}, "ground_shift is .1, 2., expected three finite numbers"),
        ({"camera": 5}, "the camera is 5, expected three finite numbers"),
        ({"lights": {"Lamp_Key": [1, 2]}}, "the lamp Lamp_Key is .1, 2., expected three finite numbers"),
    ],
)
def test_wrong_descriptions_are_refused(described: Any, said: str) -> None:
    with pytest.raises(AkornError, match=said):
        scene_of(described)


@pytest.mark.parametrize("numbers", [[-1], np.array([3, -2]), [0.5], [2**64], []])
def test_scenes_have_whole_numbers(numbers: Any) -> None:
    with pytest.raises(AkornError, match=r"expected a whole number from 0|no scene to render"):
        Studio(family_of("clevr"), size=8, samples=1).shots(numbers)


def test_more_objects_than_fit_are_refused_with_the_number_of_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akorn.scenes.placing.ATTEMPTS", 12)
    crowd = replace(family_of("clevr", (10, 10)), sizes={"huge": 2.0})
    with pytest.raises(
        AkornError, match="2 of 2 scenes of clevr with up to 10 objects were not found in 12 tries each"
    ):
        draw_scenes(crowd, 0, np.arange(2, dtype=np.uint64), all_seen)
    for objects in ((3, 12), (5, 4), (-1, 3), (0, 0)):
        with pytest.raises(AkornError, match="expected from 0 to 10"):
            family_of("clevr", objects)
    with pytest.raises(AkornError, match="unknown kind of scene 'clever': did you mean clevr"):
        family_of("clever")


def test_textured_families() -> None:
    assert len(TRAINED) >= 60
    assert len(UNSEEN) == 25
    assert not set(TRAINED) & set(UNSEEN)
    assert not {m.pattern for m in TRAINED.values()} & {m.pattern for m in UNSEEN.values()}
    assert {m.pattern for m in TEXTURES.values()} == set(PATTERNS)
    assert not set(FAMILIES["clevrtex"].shapes) & set(FAMILIES["clevrtex-ood"].shapes)
    drafts = drawn("clevrtex", 200)
    assert set(drafts.count.tolist()) == set(range(3, 11))
    camouflaged = drawn("clevrtex-camo", 20)
    whole = camouflaged.rows()
    for b in range(20):
        look = slice(at.KIND, at.COLUMNS)  # all numbers of a material, with its scale
        assert (whole[b, : camouflaged.count[b], look] == whole[b, at.GROUND, look]).all()
        scene = camouflaged.scene(b)
        assert {thing.material for thing in scene.things} == {scene.ground}
        ood = drawn("clevrtex-ood", 20).scene(b)
        assert {thing.material for thing in ood.things} | {ood.ground} <= set(UNSEEN)


@pytest.mark.parametrize("name", ["clevrtex", "clevrtex-ood", "clevrtex-camo"])
def test_textured_scenes_are_rendered(name: str) -> None:
    shots = Studio(family_of(name), size=32, samples=1).shots([0, 1])
    assert shots.labels is not None
    assert shots.images.float().std() > 5
    assert 3 <= shots.labels[0].unique().numel() <= 11


def test_numbers_are_even_and_differ() -> None:
    u = uniform(key_of("a", 1), np.arange(20000, dtype=np.uint64), 3)
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(u.std() - 12**-0.5) < 0.01
    v = uniform(key_of("a", 1), np.arange(20000, dtype=np.uint64), 4)
    assert abs(np.corrcoef(u, v)[0, 1]) < 0.03
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.03
    assert not (u == uniform(key_of("a", 2), np.arange(20000, dtype=np.uint64), 3)).any()
