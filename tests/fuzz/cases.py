"""The inputs: a seeded mixture of bad options, damaged files and standard inputs for every command."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

from .commands import BASES, options_of
from .harness import Case
from .mutate import ESCAPE, LONG, WORDS, damage, damage_json
from .seeds import CIFAR, OBJECTS, PUZZLE, SOLUTION, SUDOKU
from .seeds_sets import COCO, PICTURES, RECORDS, SCENES, TINY, VOC, example, framed

# which command reads a file, by the file's name
_READ_BY: dict[str, tuple[str, ...]] = {
    "boards.csv": ("solve-file", "eval-sudoku", "train"),
    "satnet/features.pt": ("eval-satnet", "train-satnet"),
    "satnet/labels.pt": ("eval-satnet",),
    "picture.png": ("segment", "classify"),
    "photos/one.png": ("train-photos",),
    "squares.npz": ("eval-objects",),
    "cifar/test_batch": ("eval-cifar", "make-cifar10-c"),
    "corrupted/fog.npy": ("eval-cifar",),
    "corrupted/labels.npy": ("eval-cifar",),
    f"{SUDOKU}/model.safetensors": ("solve", "eval-sudoku"),
    f"{OBJECTS}/model.safetensors": ("segment",),
    f"{CIFAR}/model.safetensors": ("train-cifar",),
    "cifar/data_batch_1": ("train-cifar",),
    RECORDS: ("eval-tfrecords",),
    COCO: ("eval-coco",),
    "coco/val2017/000001.jpg": ("eval-coco",),
    f"{VOC}/SegmentationObject/one.png": ("eval-voc",),
    f"{VOC}/ImageSets/Segmentation/val.txt": ("eval-voc",),
    f"{SCENES}/CLEVRTEX_full_000000_flat.png": ("eval-clevrtex",),
    f"{TINY}/val/val_annotations.txt": ("train-tiny",),
    f"{TINY}/train/n1/images/a.png": ("train-tiny",),
    "run/checkpoints/step-00000001/model-00001.safetensors": ("export", "resume"),
    "run/scalars.jsonl": ("resume",),
}
_JSON_READ_BY: dict[str, tuple[str, ...]] = {
    "corrupted/README.json": ("eval-cifar",),
    f"{SUDOKU}/config.json": ("solve", "eval-sudoku"),
    f"{OBJECTS}/config.json": ("segment", "eval-objects"),
    f"{CIFAR}/config.json": ("classify", "eval-cifar"),
    f"{SUDOKU}/training.json": ("eval-sudoku",),
    f"{OBJECTS}/training.json": ("segment", "eval-objects"),
    "records/record-0.json": ("results",),
    COCO: ("eval-coco", "eval-coco", "eval-coco"),
}
_MANIFEST = "run/checkpoints/step-00000001/manifest.json"
_PICTURES = ("picture.png", "picture.jpg", "picture.gif", "picture.tif")


class Generator:
    """Draws cases; the same seed draws the same ones."""

    def __init__(self, seeds: Path, seed: int) -> None:
        self.seeds, self.seed, self.random = seeds, seed, Random(seed)
        self.options = {base: options_of(base) for base in BASES}
        self.makers: list[Callable[[], Case]] = [
            *([self.option] * 4), *([self.file] * 4), *([self.json] * 2), self.record, self.manifest, self.weights,
            self.tfrecord, self.picture, self.stdin, self.board, self.words,
        ]  # fmt: skip

    def __iter__(self) -> Iterator[Case]:
        yield from self.plain()
        yield from self.known()
        for number in count():
            self.random = Random(f"{self.seed} {number}")  # so that a case does not depend on those before it
            yield self.random.choice(self.makers)()

    def plain(self) -> Iterator[Case]:
        """Every command as it should be, and its help."""
        for base, words in BASES.items():
            yield Case(f"plain {base}", words, good=True)
            yield Case(
                f"help {base}", (*words[: {"data": 3, "train": 2, "eval": 2}.get(words[0], 1)], "--help"), good=True
            )

    def option(self) -> Case:
        """A bad value for any option of any command, sometimes for two of them."""
        base = self.random.choice(list(BASES))
        words = list(BASES[base])
        for _ in range(self.random.choice((1, 1, 1, 2))):
            words += [self.random.choice(self.options[base]), self.random.choice(WORDS)]
        # a training that went wrong after its first step has told of it, and so has the resizing of pictures
        return Case(f"option {base}", tuple(words), lines=2 if words[0] in ("train", "eval") else 1)

    def file(self) -> Case:
        """A file with damaged bytes, for a command that reads it."""
        name = self.random.choice(list(_READ_BY))
        content = damage(self._seed(name), self.random)
        # a file of boards may have several bad lines, and the summary below them
        return Case(f"file {name}", BASES[self.random.choice(_READ_BY[name])], {name: content}, lines=200)

    def json(self) -> Case:
        """A JSON file with a wrong value, or with damaged bytes."""
        name = self.random.choice(list(_JSON_READ_BY))
        harm = self.random.choice((damage, damage_json, damage_json))
        base = self.random.choice(_JSON_READ_BY[name])
        return Case(f"json {name}", BASES[base], {name: harm(self._seed(name), self.random)}, lines=2)

    def record(self) -> Case:
        """A wrong record among good ones; as tables and as JSON."""
        name = "records/record-1.json"
        words = (*BASES["results"], *self.random.choice(((), ("--json",), ("--out", "page.md"))))
        return Case("record", words, {name: damage_json(self._seed(name), self.random)})

    def manifest(self) -> Case:
        """A checkpoint's manifest with wrong fields and the right digest."""
        while True:
            try:
                body = json.loads(damage_json(self._seed(_MANIFEST), self.random))
                break
            except RecursionError:
                continue
        if isinstance(body, dict):
            body.pop("sha256", None)
            digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
            body = {"sha256": digest, **body}
        content = (json.dumps(body, indent=1) + "\n").encode()
        return Case("manifest", BASES[self.random.choice(("export", "resume"))], {_MANIFEST: content})

    def weights(self) -> Case:
        """Damaged weights beside a config that has their digest."""
        folder, base = self.random.choice(((SUDOKU, "solve"), (OBJECTS, "segment"), (CIFAR, "classify")))
        weights = damage(self._seed(f"{folder}/model.safetensors"), self.random)
        config = json.loads(self._seed(f"{folder}/config.json"))
        config["sha256"] = hashlib.sha256(weights).hexdigest()
        files = {f"{folder}/model.safetensors": weights, f"{folder}/config.json": json.dumps(config).encode()}
        return Case("weights", BASES[base], files, lines=3)

    def tfrecord(self) -> Case:
        """A damaged message in a TFRecord file whose checksums are right."""
        content = framed([*[example()] * (PICTURES - 1), damage(example(), self.random)])
        return Case("tfrecord", BASES["eval-tfrecords"], {RECORDS: content})

    def picture(self) -> Case:
        """A damaged picture of any kind, under any name."""
        name = self.random.choice(_PICTURES)
        content = damage(self._seed(name), self.random)
        base = self.random.choice(("segment", "classify"))
        shown = self.random.choice((name, name, f"{ESCAPE}.png", "a\nb.png", "☃.png", f"{'b' * 250}.png"))
        return Case(f"picture {base}", (base, shown, *BASES[base][2:]), {shown: content}, lines=4)

    def stdin(self) -> Case:
        """Boards from standard input."""
        content = damage(f"{PUZZLE}\n{PUZZLE},{SOLUTION}\n".encode(), self.random)
        return Case("stdin", ("solve", "-", *BASES["solve"][2:]), stdin=content, lines=200)

    def board(self) -> Case:
        """A board as an argument."""
        text = damage(PUZZLE.encode(), self.random).decode("latin-1").replace("\0", "?")
        # each board that cannot be read gets its line, and there is the count of them
        return Case("board", ("solve", text[:5000], *BASES["solve"][2:]), lines=len(text.splitlines()) + 2)

    def words(self) -> Case:
        """Words of a command swapped, lost or replaced."""
        words = list(BASES[self.random.choice(list(BASES))])
        what, place = self.random.randrange(3), self.random.randrange(len(words))
        if what == 0:
            del words[place]
        elif what == 1:
            words[place] = self.random.choice(WORDS)
        else:
            words.insert(place, self.random.choice(WORDS))
        return Case("words", tuple(words), lines=3 if words else 40)  # without words there is the usage

    def _seed(self, name: str) -> bytes:
        return (self.seeds / name).read_bytes()

    def known(self) -> Iterator[Case]:
        """What once broke it."""
        for base, option in (("solve", "--votes"), ("solve", "--steps"), ("classify", "--starts"), ("bench", "--batch"),
                             ("simulate", "--steps"), ("make-shapes", "--count"), ("segment", "--size")):  # fmt: skip
            for value in (10**14, 10**20):
                yield Case("absurd number", (*BASES[base], option, str(value)))
        yield Case("absurd number", (*BASES["train"], "--train.shard-mb", "inf"))
        yield Case("out of memory", (*BASES["simulate"], "--size", "1000000"))
        yield Case("out of memory", (*BASES["bench"], "--batch", "900000000"))
        for words in (("solve", LONG), ("eval", LONG), ("export", LONG), ("segment", f"{LONG}.png"), ("train", LONG),
                      ("results", "--folder", LONG), ("solve", "--model", LONG), ("eval", SUDOKU, "--data", LONG),
                      ("solve", "--gif", f"{LONG}.gif"), ("simulate", "--out", f"{LONG}.gif")):  # fmt: skip
            yield Case("long name", words)
        for words in (("solve", ESCAPE), (ESCAPE,), ("eval", ESCAPE), ("export", ESCAPE), ("train", ESCAPE), ("segment",
                      ESCAPE), ("results", "--folder", ESCAPE), ("bench", "--couplings", ESCAPE)):  # fmt: skip
            yield Case("escape codes in a name", words)
        for name, content in self._archives():
            yield Case(f"npz {name}", BASES["eval-objects"], {"squares.npz": content})
        for name, content in _tensors():
            yield Case(f"pt {name}", BASES["eval-satnet"], {"satnet/features.pt": content})

    def _archives(self) -> Iterator[tuple[str, bytes]]:
        """npz files with the flag of encryption, and damaged in each way of compression."""
        content = bytearray(self._seed("squares.npz"))
        for header, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            start = content.find(header)
            while start >= 0:
                content[start + place] |= 1
                start = content.find(header, start + 4)
        yield "encrypted", bytes(content)
        with zipfile.ZipFile(io.BytesIO(self._seed("squares.npz"))) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
            written = io.BytesIO()
            with zipfile.ZipFile(written, "w", method) as archive:
                for name, member in members.items():
                    archive.writestr(name, member)
            for place in (50, 60, 120):
                damaged = bytearray(written.getvalue())
                damaged[place : place + 8] = b"\xff" * 8
                yield f"damaged, method {method}", bytes(damaged)


def _tensors() -> Iterator[tuple[str, bytes]]:
    import torch

    zeros = torch.zeros(2, 9, 9, 9)
    kinds = {
        "sparse": zeros.to_sparse(),
        "meta": zeros.to("meta"),
        "complex": zeros.to(torch.complex64),
        "nan": zeros * float("nan"),
        "words": ["x"],
    }
    for name, value in kinds.items():
        stream = io.BytesIO()
        torch.save(value, stream)
        yield name, stream.getvalue()
