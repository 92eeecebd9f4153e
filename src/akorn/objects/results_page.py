"""A page of segmented pictures: one HTML file that needs no other, with each picture beside its clusters."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from akorn.objects.colouring import Pixels
from akorn.runtime.files import replacing

_SIDE = 360  # pixels of a shown picture's longer side

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2330; background: #f6f7f9; margin: 2rem auto; max-width: 1180px;
  padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 0 .2rem } p { margin: 0 0 1.2rem; color: #5a6473 }
ul { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(360px, 1fr));
  gap: 1rem }
li { background: #fff; border: 1px solid #dfe3e8; border-radius: 8px; padding: .7rem }
figure { margin: 0; display: flex; gap: .4rem; align-items: flex-start } img { width: calc(50% - .2rem); height: auto }
b { overflow-wrap: anywhere } small { color: #5a6473; display: block; margin-top: .4rem }
.wrong { color: #a3341f }
"""


@dataclass(frozen=True)
class Shown:
    """What the page says about one picture."""

    name: str
    picture: str = ""
    """The picture and its overlay as data for the page."""
    overlay: str = ""
    words: str = ""
    wrong: bool = False


def shown_picture(name: str, picture: Pixels, overlay: Pixels, words: str) -> Shown:
    """A picture [H, W, 3] beside its overlay, both reduced in size."""
    return Shown(name, _data(picture), _data(overlay), words)


def write_results(path: Path, pictures: Sequence[Shown], about: str) -> Path:
    """Write the page; `about` says which model made it, and how."""
    rows = []
    for one in pictures:
        images = "".join(
            f'<img src="{source}" alt="{html.escape(alt)}">'
            for source, alt in ((one.picture, one.name), (one.overlay, f"{one.name} with its clusters"))
            if source
        )
        kind = ' class="wrong"' if one.wrong else ""
        figure = f"<figure>{images}</figure>" if images else ""
        rows.append(f"<li><b>{html.escape(one.name)}</b>{figure}<small{kind}>{html.escape(one.words)}</small></li>")
    text = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Objects in pictures</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n<h1>Objects in {len(pictures):,} pictures</h1>\n<p>{html.escape(about)}</p>\n"
        f"<ul>\n{chr(10).join(rows)}\n</ul>\n</html>\n"
    )
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
    return path


def _data(pixels: Pixels) -> str:
    image = Image.fromarray(pixels)
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
