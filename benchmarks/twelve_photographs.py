"""The picture of docs/photos.md: twelve photographs and the clusters that `akorn segment --edges 0` finds in them.

    pip install matplotlib scikit-image scikit-learn
    python benchmarks/twelve_photographs.py docs/images/photos.webp

Data sets of photographs may not be copied into this repository, so these twelve come with other Python packages. They
were not selected: they are all photographs of things in these packages, without textures and microscopy, that are under
a Creative Commons licence, in the public domain or without known restrictions.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

FOLDERS = {
    "matplotlib": "mpl-data/sample_data",
    "skimage": "data",
    "sklearn": "datasets/images",
}
PHOTOGRAPHS = (
    "astronaut.png", "camera.png", "chelsea.png", "china.jpg", "clock_motion.png", "coffee.png", "coins.png",
    "flower.jpg", "grace_hopper.jpg", "hubble_deep_field.jpg", "retina.jpg", "rocket.jpg",
)  # fmt: skip
SIDE, GAP, ACROSS = 150, 8, 4  # pixels of a picture's side and between pictures; pairs side by side


def found() -> list[Path]:
    """The twelve photographs, wherever their packages are installed."""
    folders = []
    for package, inside in FOLDERS.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            sys.exit(f"{package} is not installed: pip install matplotlib scikit-image scikit-learn")
        folders.append(Path(spec.origin).parent / inside)
    places = [next((path for one in folders if (path := one / name).exists()), Path(name)) for name in PHOTOGRAPHS]
    missing = [path.name for path in places if not path.exists()]
    if missing:
        sys.exit(f"not found in these packages: {', '.join(missing)}")
    return places


def square(image: Image.Image) -> Image.Image:
    """The whole picture, on a white square."""
    image = image.convert("RGB")
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    page = Image.new("RGB", (SIDE, SIDE), "white")
    page.paste(image, ((SIDE - image.width) // 2, (SIDE - image.height) // 2))
    return page


def main(target: Path, model: str = "photos") -> None:
    """Segment the photographs with `akorn segment`, and put each beside its clusters on one sheet."""
    photographs = found()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "akorn", "segment", *map(str, photographs)]
        subprocess.run([*command, "--model", model, "--edges", "0", "--format", "overlay", "--out", folder], check=True)
        overlays = [next(Path(folder).glob(f"{path.stem}-overlay.*")) for path in photographs]
        pairs = [
            (square(Image.open(one)), square(Image.open(two))) for one, two in zip(photographs, overlays, strict=True)
        ]
    rows = -(-len(pairs) // ACROSS)
    wide, high = 2 * SIDE + 3 * GAP, SIDE + 2 * GAP
    sheet = Image.new("RGB", (ACROSS * wide, rows * high), "white")
    for place, (photograph, overlay) in enumerate(pairs):
        left, top = place % ACROSS * wide + GAP, place // ACROSS * high + GAP
        sheet.paste(photograph, (left, top))
        sheet.paste(overlay, (left + SIDE + GAP // 2, top))
    sheet.save(target, quality=92, method=6)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: twelve_photographs.py FILE.webp [MODEL]")
    main(Path(sys.argv[1]), *sys.argv[2:])
