"""How close the results of kernels must be to the expected ones."""

import torch


def close(found, expected, tolerance, terms=1):
    """Equal shapes, no NaN, and values within the tolerance of the largest one.

    A single value such as γ's gradient is a sum of `terms` terms of about size 1, which may cancel: it is compared with
    √terms, about the size it would have without cancellation.
    """
    for result, wanted in zip(found, expected, strict=True):
        assert result.shape == wanted.shape
        assert not result.isnan().any()
        scale = max(1.0, float(wanted.detach().abs().max())) if wanted.numel() else 1.0
        if wanted.numel() == 1:
            scale = max(scale, terms**0.5)
        torch.testing.assert_close(result.double(), wanted.double(), rtol=tolerance, atol=tolerance * scale)
