"""The models of robustness's tables: what they are called, and the paper's figures for them. Torch-free."""

from __future__ import annotations

LABELS = {
    "cifar10_akorn_conv": "AKOrN-conv, N = 2",
    "cifar10_akorn_conv_falling_rate": "AKOrN-conv, then a falling rate",
    "cifar10_akorn_conv_last_step": "AKOrN-conv, last step",
    "cifar10_resnet18": "ResNet-18",
    "cifar10_resnet18_fast": "ResNet-18, fast",
    "cifar10_resnet18_crop_last": "ResNet-18, crop last",
    "cifar10_resnet18_crop_last_falling_rate": "ResNet-18, crop last, then a falling rate",
    "cifar10_resnet18_crop_last_high_rate": "ResNet-18, crop last, a higher rate",
    "cifar10_resnet18_noise02": "ResNet-18, σ = 0.2",
    "cifar10_resnet18_noise02_fast": "ResNet-18, σ = 0.2, fast",
    "cifar10_resnet18_noise02_augmix_last": "ResNet-18, σ = 0.2, AugMix last",
    "cifar10_resnet18_always_noise02": "ResNet-18, σ = 0.2 in tests too",
    "cifar10_resnet18_noise0225": "ResNet-18, σ = 0.225",
    "cifar10_resnet18_noise0225_fast": "ResNet-18, σ = 0.225, fast",
    "cifar10_resnet18_noise0225_augmix_last": "ResNet-18, σ = 0.225, AugMix last",
    "cifar10_resnet18_always_noise0225": "ResNet-18, σ = 0.225 in tests too",
    "cifar10_itrconv": "ItrConv",
    "cifar10_itrconv_fast": "ItrConv, fast",
    "cifar10_itrconv_crop_last": "ItrConv, crop last",
    "cifar10_vit": "ViT",
    "cifar10_akorn_conv_no_proj": "AKOrN-conv without Proj",
    "cifar10_akorn_conv_no_m": "AKOrN-conv without m",
    "cifar10_akorn_conv_stacked": "stacked Kuramoto layers",
    "cifar10_akorn_conv_no_omega": "AKOrN-conv without Ω",
    "cifar10_akorn_conv_no_c": "AKOrN-conv without C",
    "cifar10_akorn_conv_no_norm": "AKOrN-conv without Π",
    "cifar10_akorn_mix_n2": "AKOrN-mix, N = 2",
    "cifar10_akorn_mix_n4": "AKOrN-mix, N = 4",
}
"""Recipe → what it is called, in the tables' order."""

SCRATCH_FIGURES = {
    "cifar10_akorn_conv": ("84.6", "64.9", "78.3", "1.8"),
    "cifar10_resnet18": ("94.1", "0.0", "81.5", "8.9"),
    "cifar10_resnet18_noise02": ("85.2", "22.3", "75.1", "2.3"),
    "cifar10_resnet18_noise0225": ("83.9", "25.5", "73.6", "2.6"),
    "cifar10_itrconv": ("93.5", "0.0", "83.6", "5.9"),
    "cifar10_vit": ("91.4", "0.0", "81.0", "9.6"),
    "cifar10_akorn_conv_no_proj": ("89.9", "0.1", "82.4", "4.5"),
    "cifar10_akorn_conv_no_m": ("77.8", "–", "–", "–"),
    "cifar10_akorn_conv_stacked": ("62.9", "–", "–", "–"),
}
PRETRAINED_FIGURES = {
    "cifar10_akorn_conv": ("88.9", "58.9", "83.0", "1.3"),
    "cifar10_akorn_mix_n2": ("91.2", "51.6", "86.4", "1.4"),
    "cifar10_akorn_mix_n4": ("93.5", "0.0", "84.0", "6.4"),
    "cifar10_resnet18": ("94.4", "0.0", "81.5", "8.9"),
}
"""Recipe → the paper's figures, clean, under AutoAttack, on corrupted pictures, and the calibration error there."""

MORE_STARTS = {
    "cifar10_akorn_conv": (4,),
    "cifar10_akorn_conv_falling_rate": (4, 16),
    "cifar10_akorn_conv_last_step": (4,),
    "cifar10_resnet18_always_noise02": (4, 16),
    "cifar10_resnet18_always_noise0225": (4, 16),
}
"""Random model → the numbers of starts of its other rows, besides one."""
SAID = {1: "", 4: ", four starts", 16: ", sixteen starts"}
"""Starts → what a row's label says about them."""

WORDS = {False: "without pre-training", True: "after pre-training on Tiny-ImageNet"}
"""Whether pre-trained → in words."""

TITLES = {
    "cifar10_akorn_conv": "AKOrN-conv",
    "cifar10_akorn_conv_falling_rate": "AKOrN-conv, then a falling rate",
    "cifar10_akorn_conv_last_step": "AKOrN-conv, last step",
    "cifar10_resnet18_always_noise02": "ResNet-18 with noise of 0.2 in tests too",
    "cifar10_resnet18_always_noise0225": "ResNet-18 with noise of 0.225 in tests too",
}
"""Random model → what headings call it, in letters that make a link."""
