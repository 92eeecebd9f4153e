"""Does the data limit training? Pictures per second of a recipe's data alone, of its model alone, and of both together.

python benchmarks/loader.py [RECIPE …] [--batch 256] [--count 4096] [--precision tf32] [--compile] [--record results]

"data" takes pictures by index and makes two views of each; "model" is the loss on fixed views, its gradients and a
step of the optimiser; "both" is a step of training. The loader is no limit if data alone is many times as fast as
the model alone, and both together are hardly slower than the model.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch

from akorn.augment import two_views
from akorn.bench.measure import measure
from akorn.engine.contrastive import nt_xent
from akorn.ledger import write_record
from akorn.objects.recipes import RECIPES
from akorn.objects.task import make_task


def rates(name: str, words: argparse.Namespace, device: torch.device) -> dict[str, float]:
    recipe = RECIPES[name]()
    recipe = replace(recipe, data=replace(recipe.data, count=words.count, path=words.data))
    task = make_task(recipe)
    data = task.build_data(device)
    torch.manual_seed(0)
    model = task.build_model().to(device).train()
    if words.compile:
        task.compile(model)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=device.type == "cuda")
    generator = torch.Generator(device).manual_seed(0)
    indices = torch.randperm(len(data))[: words.batch].to(device)
    side = recipe.model.image_size
    fixed = two_views(data.batch(indices, generator)[0], recipe.data.augment, generator, size=(side, side))
    half = torch.autocast(device.type, torch.bfloat16, enabled=words.precision == "bf16")

    def step(loss: torch.Tensor) -> None:
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    def only_data() -> None:
        images = data.batch(indices, generator)[0]
        two_views(images, recipe.data.augment, generator, size=(side, side))

    def only_model() -> None:
        with half:
            loss = nt_xent(*model(fixed, None, generator).chunk(2), temperature=recipe.temperature)
        step(loss)

    def both() -> None:
        with half:
            loss, _ = task.loss(model, data.batch(indices, generator), generator, None)
        step(loss)

    timed = measure({"data": only_data, "model": only_model, "both": both}, device, words.repeats)
    return {key: words.batch / found.seconds for key, found in timed.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["tetrominoes_akorn", "dsprites_akorn", "shapes_akorn_l3"])
    parser.add_argument("--data", type=Path, help="a folder or file instead of generated pictures")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--count", type=int, default=4096, help="the number of pictures in the set")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"), default="tf32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    if words.precision != "float32":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    started = time.monotonic()
    for name in words.recipes:
        found = rates(name, words, device)
        print(f"{name}: pictures per second: " + ", ".join(f"{key} {rate:,.0f}" for key, rate in found.items()))
        if words.record is not None:
            config = {"recipe": name, "batch": words.batch, "precision": words.precision, "compile": words.compile}
            path = write_record(
                "bench", f"loader-{name}", {f"{key}_per_second": rate for key, rate in found.items()}, config=config,
                seed=0, data_fingerprint="none", wall_time=time.monotonic() - started, device=str(device),
                folder=words.record,
            )  # fmt: skip
            print(f"recorded in {path}")
