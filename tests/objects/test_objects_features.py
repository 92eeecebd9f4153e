"""Features as they are clustered: unit length, principal components, up-tiling."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.errors import AkornError
from akorn.objects.cluster import average_linkage
from akorn.objects.features import as_masks, as_points, enlarge, principal_components, uptile, with_places


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("points", "channels"), [(40, 12), (12, 40)])
def test_principal_components_are_those_of_the_svd(points: int, channels: int) -> None:
    y = random(3, points, channels)
    found = principal_components(y, 5)
    centred = y - y.mean(1, keepdim=True)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    torch.testing.assert_close(found.abs(), (u * s[:, None])[:, :, :5].abs())
    most = found.gather(1, found.abs().argmax(1, keepdim=True))
    assert bool((most > 0).all())  # signs are fixed


def test_more_components_than_directions_are_zero() -> None:
    found = principal_components(random(1, 4, 3), 6)
    assert found.shape == (1, 4, 6)
    assert bool((found[:, :, 3:] == 0).all())
    with pytest.raises(ValueError, match="at least 1"):
        principal_components(random(1, 4, 3), 0)


@pytest.mark.parametrize("components", [7, 100])
def test_points_have_the_distances_of_reduced_unit_vectors(components: int) -> None:
    features = random(2, 20, 6, 5)
    points = as_points(features, components)
    unit = (features / features.norm(dim=1, keepdim=True)).flatten(2).mT
    reduced = principal_components(unit, components)
    torch.testing.assert_close(torch.cdist(points, points), torch.cdist(reduced, reduced), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(as_points(3.0 * features, components), points)  # lengths do not matter


def plain_uptile(images: Tensor, patch: int, factor: int) -> Tensor:
    """The paper's listing, written out."""
    height, width = images.shape[2:]
    stride = patch // factor
    larger = F.interpolate(images, (height + patch - stride, width + patch - stride), mode="bilinear")
    result = torch.zeros(len(images), 3, height // patch * factor, width // patch * factor, dtype=images.dtype)
    for r in range(factor):
        for s in range(factor):
            window = larger[:, :, r * stride : r * stride + height, s * stride : s * stride + width]
            result[:, :, r::factor, s::factor] = F.avg_pool2d(window, patch)
    return result


@pytest.mark.parametrize("factor", [1, 2, 3, 6])
def test_up_tiling_is_the_papers_loop(factor: int) -> None:
    images = random(2, 3, 12, 18)
    found = uptile(lambda windows: F.avg_pool2d(windows, 6), images, 6, factor)
    expected = plain_uptile(images, 6, factor)
    torch.testing.assert_close(found, expected)
    assert found.shape == (2, 3, 2 * factor, 3 * factor)


@pytest.mark.parametrize("factor", [0, 4, 5, 12])
def test_up_tiling_by_what_does_not_divide_the_patch(factor: int) -> None:
    with pytest.raises(AkornError, match=f"up-tiling by {factor} .* patch size, 6"):
        uptile(lambda windows: F.avg_pool2d(windows, 6), random(1, 3, 12, 12), 6, factor)


def test_enlargement_keeps_a_slope_and_refuses_nothing() -> None:
    slope = torch.arange(4.0).view(1, 1, 1, 4).expand(1, 2, 3, 4)
    larger = enlarge(slope, 2)
    assert larger.shape == (1, 2, 6, 8)
    torch.testing.assert_close(larger[0, 0, 0, 1:-1], torch.arange(6) * 0.5 + 0.25)
    assert enlarge(slope, 1) is slope
    with pytest.raises(AkornError, match="at least 1"):
        enlarge(slope, 0)


def test_masks_are_the_labels_of_the_nearest_patches() -> None:
    labels = torch.tensor([[0, 1, 2, 3]])
    assert as_masks(labels, (2, 2), (4, 4))[0].tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]]
    assert as_masks(labels[:, :3], (1, 3), (1, 5))[0].tolist() == [[0, 0, 1, 2, 2]]


def test_places_are_two_more_coordinates() -> None:
    points = torch.randn(2, 12, 5, generator=torch.Generator().manual_seed(0)).double()
    more = with_places(points, (3, 4), 0.5)
    assert torch.equal(more[:, :, :5], points)
    assert more[0, -1, 5:].tolist() == [0.5, 0.5]  # the last patch is as far down and to the right as there is
    near = (more[:, 1] - more[:, 0])[:, 5:].norm(dim=1)
    torch.testing.assert_close(near, torch.full((2,), 0.5 / 3, dtype=torch.float64))


def test_places_tell_alike_things_apart() -> None:
    """Two things look the same. Only their places separate them, and only if places count."""
    looks = torch.zeros(1, 1, 1, 9, dtype=torch.float64)
    looks[..., 3:6] = 1  # thing, other, thing
    features = torch.cat((looks, 1 - looks), 1)
    apart = average_linkage(with_places(as_points(features), (1, 9), 2.0)).cut(3)[0].tolist()
    assert apart == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    together = average_linkage(as_points(features)).cut(2)[0].tolist()
    assert together == [0, 0, 0, 1, 1, 1, 0, 0, 0]
