"""The renderer of scenes: how close it comes to the original, how fast it is, and what it costs in training.

python benchmarks/scenes.py compare --data FOLDER --page PAGE [--samples 64] [--record results]
python benchmarks/scenes.py truth --data FOLDER --out FILE.npz [--ours]
python benchmarks/scenes.py speed [--kind clevr] [--count 1024] [--samples 16] [--record results]
python benchmarks/scenes.py step [RECIPE …] [--batch 256] [--record results]
python benchmarks/scenes.py picture FILE [--samples 32]

"compare" takes a folder with `true-renders.npz` (`images` [N, 240, 320, 3] and `masks` [N, 240, 320], bytes) and
`scenes.json` (their descriptions), renders the same scenes, and writes PAGE/index.html with both side by side. The
folder's pictures are copied nowhere else. "truth" cuts the same true renders to the benchmark's crop, for
`akorn eval MODEL --data FILE.npz`, or renders their scenes itself in that crop (--ours). "speed" times whole scenes
after that crop: choosing them at random, the check that every object is visible, colours and masks. "step" times a
training step of `akorn train` with stored pictures, with pictures that are rendered on the fly, and rendering alone.
"picture" shows the first five test scenes of each kind and their masks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
import torch

from akorn.errors import AkornError
from akorn.ledger import write_record
from akorn.objects.data.device import DeviceData
from akorn.objects.data.endless import EndlessScenes
from akorn.scenes import (
    FAMILIES,
    Studio,
    arrays,
    colours,
    cropped_view,
    family_of,
    labels,
    scene_of,
    to_levels,
    whole_view,
)
from akorn.scenes.render import SAMPLES


def compare(words: argparse.Namespace, device: torch.device) -> tuple[dict[str, float], dict[str, object], str]:
    """Differences from true renders, in grey levels, and the overlap of masks; the page is written on the way."""
    from PIL import Image

    data = (words.data / "true-renders.npz").read_bytes()
    with np.load(words.data / "true-renders.npz") as archive:
        truth, masks = archive["images"], archive["masks"]
    described = json.loads((words.data / "scenes.json").read_text(encoding="utf-8"))
    words.page.mkdir(parents=True, exist_ok=True)
    rows, html = [], []
    for number, (image, mask, words_of_scene) in enumerate(zip(truth, masks, described, strict=True)):
        scenes = arrays([scene_of(words_of_scene)], device)
        ours = to_levels(colours(scenes, whole_view(), words.samples))[0].permute(1, 2, 0).cpu().numpy()
        found = labels(scenes, whole_view())[0].cpu().numpy()
        off = np.abs(ours.astype(int) - image.astype(int)).mean(2)
        present = [k for k in range(1, len(words_of_scene["objects"]) + 1) if (mask == k).any()]
        overlap = [((found == k) & (mask == k)).sum() / ((found == k) | (mask == k)).sum() for k in present]
        row = {"ground": off[mask == 0].mean(), "objects": off[mask > 0].mean(), "iou": float(np.mean(overlap))}
        rows.append({key: float(value) for key, value in row.items()})
        apart = np.clip(128 + 4 * (ours.astype(int) - image.astype(int)), 0, 255).astype(np.uint8)
        for name, picture in (("original", image), ("ours", ours), ("difference", apart)):
            Image.fromarray(picture).save(words.page / f"{number:02}-{name}.png")
        shown = "".join(f'<img src="{number:02}-{name}.png">' for name in ("original", "ours", "difference"))
        told = f"ground {row['ground']:.2f}, objects {row['objects']:.2f}, masks {row['iou']:.4f}"
        html.append(f"<p>{shown}<br>scene {number}: {told}</p>")
        print(f"scene {number}: {told}")
    metrics = {
        "ground": float(np.mean([row["ground"] for row in rows])),
        "objects": float(np.mean([row["objects"] for row in rows])),
        "worst_ground": max(row["ground"] for row in rows),
        "worst_objects": max(row["objects"] for row in rows),
        "median_iou": float(np.median([row["iou"] for row in rows])),
    }
    title = ", ".join(f"{key} {value:.3f}" for key, value in metrics.items())
    (words.page / "index.html").write_text(
        f'<meta charset="utf-8"><title>Scenes beside the original</title><h1>The original, ours, and 4 × the difference'
        f"</h1><p>{title} ({words.samples} samples; grey levels, intersection over union)</p>" + "".join(html),
        encoding="utf-8",
    )
    print(f"{title}\nwrote {words.page / 'index.html'}")
    return metrics, {"samples": words.samples, "scenes": rows}, hashlib.sha256(data).hexdigest()


def truth(words: argparse.Namespace, device: torch.device) -> tuple[dict[str, float], dict[str, object], str]:
    """True renders in the benchmark's crop, or ours of their scenes, with masks, as a file that `akorn eval` reads."""
    from akorn.objects.data.npz import NpzParts, write_npz
    from akorn.objects.data.picture_sets import Pictures

    if words.ours:
        described = json.loads((words.data / "scenes.json").read_text(encoding="utf-8"))
        made = {"scenes": "clevr", "split": "test", "described": "scenes.json", "samples": SAMPLES, "size": 128}
        with NpzParts(words.out, len(described), 11, "clevr", made) as parts:
            for one in described:
                scene = arrays([scene_of(one)], device)
                image, mask = to_levels(colours(scene, cropped_view(128), SAMPLES)), labels(scene, cropped_view(128))
                parts.add({"images": image.cpu().numpy(), "labels": mask.cpu().numpy().astype(np.int8)})
        print(f"wrote {words.out} ({len(described)} pictures of ours)")
        return {}, {}, "none"
    with np.load(words.data / "true-renders.npz") as archive:
        images, masks = archive["images"], archive["masks"]
    view = cropped_view(128)
    rows, columns = (np.floor(np.array(places)).astype(int) for places in (view.rows, view.columns))
    cut = np.ascontiguousarray(images[:, rows[:, None], columns].transpose(0, 3, 1, 2))
    labels_there = masks[:, rows[:, None], columns].astype(np.int16)
    write_npz(words.out, Pictures(cut, labels_there, None, 11, "clevr"))
    print(f"wrote {words.out} ({len(cut)} pictures)")
    return {}, {}, "none"


def speed(words: argparse.Namespace, device: torch.device) -> tuple[dict[str, float], dict[str, object], str]:
    """Scenes per second, from the scenes' numbers to bytes on the device."""
    studio = Studio(family_of(words.kind), "bench", 0, device, 128, words.samples)
    studio.shots(range(studio.at_once))  # compiles
    batches = np.arange(words.count, dtype=np.uint64)
    parts = np.split(batches, range(studio.at_once, words.count, studio.at_once))
    wait(device)
    started = time.perf_counter()
    for part in parts:
        studio.drafts(part)
    wait(device)
    alone = time.perf_counter() - started
    started, worked = time.perf_counter(), time.process_time()
    for part in parts:
        studio.shots(part)
    wait(device)
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
    rate = words.count / seconds
    print(f"{words.kind} on {device}: {rate:,.1f} scenes per second ({alone / seconds:.0%} of the time to choose them)")
    metrics = {"scenes_per_second": rate, "seconds": seconds, "cpu_seconds": worked, "drawing_seconds": alone}
    threads = torch.get_num_threads() if device.type == "cpu" else 0
    config = {"kind": words.kind, "count": words.count, "samples": words.samples, "size": 128, "threads": threads}
    return metrics, config, "none"


def step(words: argparse.Namespace, device: torch.device) -> tuple[dict[str, float], dict[str, object], str]:
    """Milliseconds per training step, with stored pictures and with pictures rendered on the fly."""
    from akorn.bench.measure import measure
    from akorn.engine.accelerator import start
    from akorn.engine.loop import train_step
    from akorn.engine.state import TrainState
    from akorn.objects.recipes import RECIPES
    from akorn.objects.task import TrainingPictures, make_task
    from akorn.runtime.precision import numerics

    metrics: dict[str, float] = {}
    turns = [torch.randperm(words.epoch)[: words.batch] for _ in range(words.repeats + 3)]
    for name in words.recipes:
        recipe = RECIPES.find(name)()
        data = replace(recipe.data, count=words.epoch, endless=True)
        recipe = replace(recipe, data=data, valid=replace(recipe.valid, count=1))
        config = replace(recipe.train, batch_size=words.batch, device=device.type, tensorboard=False)
        task = make_task(recipe)
        endless = task.build_data(device)
        assert isinstance(endless, EndlessScenes)
        with numerics(config.precision, search=True):
            state = TrainState(task, config, start(config), 10**6)
            stored = TrainingPictures(DeviceData(endless.batch(turns[0])[0], device))
            same = torch.arange(words.batch, device=device)
            ahead, alone = cycle(pairwise(turns)), cycle(turns)

            def with_stored() -> None:
                train_step(state, stored.batch(same, state.generator), 1e-3)  # noqa: B023

            def with_rendered() -> None:
                now, later = next(ahead)  # noqa: B023
                batch = endless.batch(now)  # noqa: B023
                endless.expect(later)  # noqa: B023
                train_step(state, batch, 1e-3)  # noqa: B023

            def only_rendered() -> None:
                endless.batch(next(alone))  # noqa: B023

            # One after the other: what one reads ahead is not for the next.
            timed = {}
            for kind, work in (("stored", with_stored), ("rendered", with_rendered), ("rendering", only_rendered)):
                timed |= measure({kind: work}, device, words.repeats, memory=False)
        for key, found in timed.items():
            metrics[f"{name}_{key}_ms"] = 1000 * found.seconds
        print(f"{name}: " + ", ".join(f"{key} {1000 * found.seconds:.1f} ms" for key, found in timed.items()))
    return metrics, {"recipes": words.recipes, "batch": words.batch, "samples": 16, "size": 128}, "none"


def picture(words: argparse.Namespace, device: torch.device) -> tuple[dict[str, float], dict[str, object], str]:
    """Write the picture that the documentation shows."""
    from PIL import Image

    from akorn.objects.colouring import colour_labels

    rows = []
    for kind in FAMILIES:
        shots = Studio(family_of(kind), "test", 0, device, 128, words.samples).shots(range(5))
        assert shots.labels is not None
        marked = [colour_labels(mask) for mask in shots.labels.short().cpu().numpy()]
        rows += [np.concatenate(list(shots.images.permute(0, 2, 3, 1).cpu().numpy()), 1), np.concatenate(marked, 1)]
    Image.fromarray(np.concatenate(rows)).save(words.file, optimize=True)
    print(f"wrote {words.file}")
    return {}, {}, "none"


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


COMMANDS = {"compare": compare, "speed": speed, "step": step, "picture": picture, "truth": truth}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("compare")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--page", type=Path, required=True)
    one.add_argument("--samples", type=int, default=64)
    five = commands.add_parser("truth")
    five.add_argument("--data", type=Path, required=True)
    five.add_argument("--out", type=Path, required=True)
    five.add_argument("--ours", action="store_true")
    two = commands.add_parser("speed")
    two.add_argument("--kind", default="clevr")
    two.add_argument("--count", type=int, default=1024)
    two.add_argument("--samples", type=int, default=16)
    three = commands.add_parser("step")
    three.add_argument("recipes", nargs="*", default=["clevr_akorn", "clevrtex_akorn_l2"])
    three.add_argument("--batch", type=int, default=256)
    three.add_argument("--epoch", type=int, default=60_000, help="scenes from which a batch is drawn")
    three.add_argument("--repeats", type=int, default=10)
    four = commands.add_parser("picture")
    four.add_argument("file", type=Path)
    four.add_argument("--samples", type=int, default=32)
    for each in (one, two, three, four, five):
        each.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for each in (one, two, three):
        each.add_argument("--record", type=Path)
    words = parser.parse_args()
    if min(getattr(words, "count", 1), getattr(words, "samples", 1), getattr(words, "batch", 2) - 1) < 1:
        parser.error("numbers must be at least 1, and a batch at least 2")
    device = torch.device(words.device)
    started = time.monotonic()
    try:
        metrics, config, digest = COMMANDS[words.command](words, device)
    except (AkornError, OSError) as error:
        parser.error(str(error))
    if getattr(words, "record", None) is not None:
        path = write_record(
            "bench", f"scenes-{words.command}", metrics, config=config, seed=0, data_fingerprint=digest,
            wall_time=time.monotonic() - started, device=str(device), folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")
