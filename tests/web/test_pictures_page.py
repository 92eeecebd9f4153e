"""The page's classifier in a real browser."""

from __future__ import annotations

import pytest

from akorn.robustness.config import CLASSES

from .chromium import Chromium

pytestmark = pytest.mark.slow

VERDICT = "document.querySelector('#picture-verdict').textContent"
GIVE = """
(async () => {
  const canvas = new OffscreenCanvas(60, 40);
  const pen = canvas.getContext('2d');
  pen.fillStyle = '#4080ff'; pen.fillRect(0, 0, 60, 40);
  pen.fillStyle = '#ff0000'; pen.fillRect(0, 0, 10, 40); pen.fillRect(50, 0, 10, 40);
  const files = new DataTransfer();
  files.items.add(new File([%s], 'x.png'));
  document.querySelector('#file').files = files.files;
  document.querySelector('#file').dispatchEvent(new Event('change'));
})()"""


@pytest.fixture
def pictures(page: Chromium) -> Chromium:
    page.click("#tab-pictures")
    page.wait_for("document.querySelectorAll('#classes li').length === 10")
    page.evaluate("document.querySelector('#picture-starts').value = '1'")
    return page


@pytest.mark.usefixtures("_onnx")
def test_a_picture_gets_one_of_ten_classes(pictures: Chromium) -> None:
    pictures.evaluate(GIVE % "await canvas.convertToBlob()")
    pictures.wait_for(f"{VERDICT}.startsWith('Of its ten classes')", 240)
    rows = "[...document.querySelectorAll('#classes li')]"
    shown = pictures.evaluate(
        f"{rows}.map(({{ children: [name,, value] }}) => [name.textContent, parseFloat(value.textContent)])"
    )
    assert [name for name, _ in shown] == list(CLASSES)
    assert sum(chance for _, chance in shown) == pytest.approx(100, abs=1)
    assert max(shown, key=lambda row: row[1])[0] in pictures.evaluate(VERDICT)
    # The middle of the picture alone: its red sides are cut off.
    corner = "[...document.querySelector('#picture').getContext('2d').getImageData(0, 0, 1, 1).data]"
    assert pictures.evaluate(corner) == [0x40, 0x80, 0xFF, 0xFF]
    assert pictures.complaints() == []


def test_a_file_that_is_no_picture_is_refused_in_words(pictures: Chromium) -> None:
    pictures.evaluate(GIVE % "'not a picture'")
    pictures.wait_for(f"{VERDICT} === 'x.png: this browser cannot read it as a picture.'")
