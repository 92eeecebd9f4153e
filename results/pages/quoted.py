"""Other methods' figures, quoted from the paper: rows that no record of ours fills. Torch-free.

Where the paper has a figure twice and they differ, the appendix counts and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from akorn.ledger.records import Record
from akorn.ledger.tables import Cell, Row

SAID = "quoted from the paper"

SUDOKU = {
    "SAT-Net": ("98.3", "3.2"),
    "Diffusion": ("66.1", "10.3"),
    "IREM": ("93.5", "24.6"),
    "RRN": ("99.8", "28.6"),
    "R-Transformer": ("100.0", "30.3"),
    "IRED": ("99.4", "62.1"),
}
"""Tables 3 and 19: ID, OOD."""

SYNTH = {
    "CAE (synchrony)": ("78 ± 7", "–", "51 ± 8", "–", "27 ± 13", "–"),
    "CtCAE (synchrony)": ("84 ± 9", "–", "56 ± 11", "–", "54 ± 2", "–"),
    "SynCx (synchrony)": ("89 ± 1", "–", "82 ± 1", "–", "59 ± 3", "–"),
    "Rotating Features (synchrony)": ("42 ± 9", "–", "88.8 ± 1.5", "86.3 ± 1.1", "66.4 ± 1.3", "60.8 ± 1.7"),
    "Slot Attention (slots)": ("99.5 ± 0.2", "–", "91.3 ± 0.3", "–", "98.8 ± 0.3", "–"),
}
"""Table 14: FG-ARI and MBO on Tetrominoes, dSprites and CLEVR."""

_NO = ("–", "–")
CLEVRTEX = {
    "MONet": ("19.8 ± 1.0", "–", "37.3 ± 1.0", "–", "31.5 ± 0.9", "–"),
    "SLATE, encoder pre-trained on OpenImages": ("44.2", "50.9", *_NO, *_NO),
    "Slot Attention": ("62.4 ± 2.3", "–", "58.5 ± 1.9", "–", "57.5 ± 1.0", "–"),
    "SlotDiffusion": ("69.7", "61.9", *_NO, *_NO),
    "SLATE+, encoder pre-trained on OpenImages": ("70.7", "54.9", *_NO, *_NO),
    "LSD, encoder pre-trained on OpenImages": ("76.4", "72.4", *_NO, *_NO),
    "SlotDiffusion + BO": ("78.5", "68.7", *_NO, *_NO),
    "DTI": ("79.9 ± 1.4", "–", "73.7 ± 1.0", "–", "72.9 ± 1.9", "–"),
    "I-SA": ("79.0 ± 3.9", "–", "83.7 ± 0.9", "–", "57.2 ± 13.3", "–"),
    "BO-SA": ("80.5 ± 2.5", "–", "86.5 ± 0.2", "–", "63.7 ± 6.1", "–"),
    "NSI, on DINO": ("89.9 ± 0.0", "46.6 ± 0.0", *_NO, *_NO),
    "ISA-TS": ("92.9 ± 0.4", "–", "84.4 ± 0.8", "–", "86.2 ± 0.8", "–"),
    "Jung et al. 2024, encoder pre-trained on OpenImages": ("93.1", "75.4", *_NO, *_NO),
    "Sauvalle et al. 2023, pre-trained on ImageNet": ("94.8 ± 0.5", "–", "83.1 ± 0.8", "–", "87.3 ± 3.8", "–"),
}
"""Table 17: FG-ARI and MBO on CLEVRTex, OOD and CAMO."""

NATURAL = {
    "Slot Attention": ("22.2", "23.7", "24.6", "24.9"),
    "SLATE": ("35.9", "41.5", "29.1", "33.6"),
    "Rotating Features, on DINO": ("40.7", "46.0", "–", "–"),
    "NSI, on DINO": ("–", "–", "28.1", "32.1"),
    "DINOSAUR, on DINO": ("44.0", "51.2", "31.6", "39.7"),
    "SlotDiffusion, on DINO": ("50.4", "55.3", "31.0", "35.0"),
    "SPOT, on DINO": ("48.3", "55.6", "35.0", "44.7"),
    "MAE": ("33.8", "37.7", "22.9", "28.3"),
    "MAE, up-tiling ×4": ("34.0", "38.3", "23.1", "28.5"),
    "DINO": ("44.3", "50.0", "28.8", "35.8"),
    "DINO, up-tiling ×4": ("47.2", "53.5", "29.4", "37.0"),
    "MoCoV3": ("47.3", "53.0", "28.7", "36.0"),
    "MoCoV3, up-tiling ×4": ("44.6", "50.5", "29.0", "35.9"),
}
"""Table 18: MBO of instances and classes on PascalVOC, then on COCO."""

ROBUSTNESS = {
    "Gowal et al. 2020": ("85.29", "57.14", "69.1", "13.2"),
    "Gowal et al. 2021": ("88.74", "66.10", "70.7", "5.6"),
    "Bartoldson et al. 2024": ("93.68", "73.71", "75.9", "20.5"),
    "Kireev et al. 2022": ("94.75", "0.00", "83.9", "9.0"),
    "Diffenderfer et al. 2021": ("96.56", "0.00", "89.2", "4.8"),
}
"""Table 20: clean, AutoAttack, corrupted, ECE on corrupted. The first three are trained adversarially."""


def rows(figures: Mapping[str, tuple[str, ...]]) -> tuple[Row, ...]:
    """Rows of others' figures, each label with where it comes from."""
    return tuple(
        Row(f"{label}, {SAID}", tuple(Cell("none", _never, value) for value in values))
        for label, values in figures.items()
    )


def _never(record: Record) -> bool:
    return False
