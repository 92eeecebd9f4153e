"""Clusters that end at the edges of the picture: the random field, and what `Segmenter` makes of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from seen import Seen
from torch import Tensor

from akorn.errors import AkornError
from akorn.objects.edges import affinities, at_edges, mean_field
from akorn.objects.features import as_masks
from akorn.objects.metrics import mbo
from akorn.objects.segmenter import Segmenter, SegmentSettings

GRID, SIZE = (16, 16), (128, 128)


def disc(red: float = 0.9) -> tuple[Tensor, Tensor, Tensor]:
    """A picture of a disc [1, 3, 128, 128], its true mask, and features [1, 8, 16, 16] that say how much of it each
    patch shows.
    """
    line = torch.arange(128.0)
    inside = (line[:, None] - 59).square() + (line - 70).square() < 37**2
    colours = torch.tensor([[red, 0.2, 0.1], [0.1, 0.3, 0.8]])
    picture = torch.where(inside, colours[0, :, None, None], colours[1, :, None, None])[None]
    share = F.avg_pool2d(inside[None, None].float(), 8)  # [1, 1, 16, 16]
    kinds = F.normalize(torch.randn(2, 8, 1, 1, generator=torch.Generator().manual_seed(0)), dim=1)
    return picture, inside[None].long(), share * kinds[:1] + (1 - share) * kinds[1:]


def test_clusters_end_where_the_colours_change() -> None:
    picture, truth, features = disc()
    labels = (F.avg_pool2d(truth[None].float(), 8) > 0.5).long().flatten(1)
    before = mbo(as_masks(labels, GRID, SIZE), truth)
    after = mbo(at_edges(labels, features, picture, 3.0, SIZE), truth)
    assert float(before) < 0.92
    assert float(after) > 0.97


def test_without_neighbours_features_decide_alone() -> None:
    unary = torch.randn(3, 9, 7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(mean_field(unary, torch.rand(3, 9, 7), 0.0), unary.softmax(0))


def test_probabilities_sum_to_one() -> None:
    generator = torch.Generator().manual_seed(2)
    q = mean_field(torch.randn(4, 6, 8, generator=generator), torch.rand(3, 6, 8, generator=generator), 5.0)
    assert q.shape == (4, 6, 8)
    torch.testing.assert_close(q.sum(0), torch.ones(6, 8))


def test_a_pixel_joins_those_of_its_colour() -> None:
    """Its own features are undecided. To its left there are more pixels of its colour than on the other side."""
    picture = torch.zeros(1, 1, 8)
    picture[:, :, 5:] = 1.0
    unary = torch.tensor([[2.0, 2, 2, 2, 0, 0, 0, 0], [0.0, 0, 0, 0, 0, 2, 2, 2]])[:, None]
    assert mean_field(unary, picture, 3.0).argmax(0)[0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    picture[:, :, 4] = 1.0
    assert mean_field(unary, picture, 3.0).argmax(0)[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_affinities_are_gaussians_of_colours_and_places() -> None:
    picture = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    rows, columns = torch.meshgrid((torch.arange(4) + 0.5) / 4, (torch.arange(5) + 0.5) / 5, indexing="ij")
    colour, place = picture.flatten(1).mT, torch.stack((rows, columns), 2).flatten(0, 1).double()
    expected = torch.exp(-50 * (torch.cdist(colour, colour).square() + torch.cdist(place, place).square()))
    found = affinities(picture)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, found.mT)


def test_a_cluster_that_vanishes_leaves_no_gap_in_the_numbers() -> None:
    picture, _, features = disc()
    labels = torch.ones(1, 256, dtype=torch.long)
    labels[0, 0], labels[0, 128:] = 0, 2  # of one patch, which looks as those around it
    found = at_edges(labels, features, torch.full_like(picture, 0.5), 3.0, SIZE)
    assert sorted(found.unique().tolist()) == list(range(int(found.max()) + 1))


def test_pictures_do_not_depend_on_others_of_their_batch() -> None:
    first, second = disc(), disc(red=0.4)
    labels = torch.cat([(F.avg_pool2d(one[1][None].float(), 8) > 0.5).long().flatten(1) for one in (first, second)])
    pictures, features = torch.cat((first[0], second[0])), torch.cat((first[2], second[2]))
    together = at_edges(labels, features, pictures, 3.0, SIZE)
    assert torch.equal(together[1:], at_edges(labels[1:], features[1:], pictures[1:], 3.0, SIZE))


def test_the_published_protocol_does_not_look_at_colours() -> None:
    picture, _, features = disc()
    plain = Segmenter(Seen())
    assert torch.equal(plain.masks(features, SIZE, picture)(4), plain.masks(features, SIZE)(4))
    assert torch.equal(plain.masks(features, SIZE, 1 - picture)(4), plain.masks(features, SIZE)(4))
    at = Segmenter(Seen(), SegmentSettings(edges=3.0))
    assert not torch.equal(at.masks(features, SIZE, picture)(4), plain.masks(features, SIZE)(4))
    with pytest.raises(ValueError, match="need the pictures"):
        at.masks(features, SIZE)


def test_bytes_and_floats_have_the_same_edges() -> None:
    picture, _, features = disc()
    as_bytes = (255 * picture).round().to(torch.uint8)
    at = Segmenter(Seen(), SegmentSettings(edges=3.0))
    assert torch.equal(at.masks(features, SIZE, as_bytes)(2), at.masks(features, SIZE, as_bytes / 255)(2))


@pytest.mark.parametrize(("weight", "shown"), [(-1.0, "-1"), (float("nan"), "nan"), (float("inf"), "inf")])
def test_an_impossible_weight_of_edges(weight: float, shown: str) -> None:
    with pytest.raises(AkornError, match=f"^the weight of edges is {shown}, expected 0 or more$"):
        Segmenter(Seen(), SegmentSettings(edges=weight))
