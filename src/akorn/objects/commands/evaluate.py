"""`akorn eval` for object discovery: FG-ARI and MBO of a model's clusters, also for frozen networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import LEDGER, CommonOptions, check_ledger, check_seed, print_json, say
from akorn.errors import AkornError
from akorn.objects.commands import EVALUATES
from akorn.runtime.files import make_folder

if TYPE_CHECKING:
    from akorn.objects.data.picture_sets import Pictures, PictureSet
    from akorn.objects.evaluate import Evaluation
    from akorn.objects.segmenter import Extractor, SegmentSettings

FROZEN, FLOOR, UNTRAINED = EVALUATES


@dataclass(frozen=True)
class Options(CommonOptions):
    """Score a model: FG-ARI and MBO of the clusters it finds in pictures with masks."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WEIGHTS|NAME")] = "shapes"
    """Shipped weights by name (akorn models), a model's folder, a frozen network (timm:dino, timm:mae, timm:NAME), or
    what any model must beat: floor:blocks, floor:colours, floor:colours-and-places, untrained:RECIPE."""
    data: str | None = None
    """A file (npz with `images` and `labels`, TFRecords), a data set's folder, or the name of a generated set
    (akorn data make --help lists them); by default the test pictures of the set that the model was trained on."""
    split: Literal["train", "valid", "test"] = "test"
    """Which part of the data, if it has several."""
    size: int | None = None
    """Resize pictures to this side first. By default pictures in npz files and TFRecords keep their size, and those in
    folders get the size in the paper's tables: 256, for CLEVRTex 128."""
    fit: Literal["crop", "stretch", "refuse"] = "crop"
    """How pictures of another size are resized: crop keeps the largest square in the middle, stretch the whole
    picture; refuse stops instead."""
    limit: int | None = None
    """Score at most this many pictures, the first ones; of a generated set exactly this many."""
    clusters: int | Literal["auto"] | None = None
    """Number of clusters; by default that of the paper's tables for the data, or for the model's training data
    if a file does not name its data set. auto: each picture's own tree of clusters says how many."""
    input: int | None = None
    """Shrink pictures to this side for the model; masks are scored at --size. By default models of photographs
    (photos_…) and floors see the size in training, other models the pictures as they are."""
    read: Literal["m", "x", "both"] = "m"
    """Cluster the readout m, as the paper does, the states x of the last block, or both."""
    least: float = 0.0
    """The smallest share of a picture's points that a cluster may have, with average linkage: outliers then stay with
    their neighbours. 0 is the published protocol."""
    auto_ratio: float = 0.75
    """With --clusters auto: merges higher than this share of the highest one are undone."""
    places: float = 0.0
    """How much the place of a patch counts beside its features, which have length 1: the picture's sides are this
    long. 0 is the published protocol, which does not look at places."""
    edges: float = 0.0
    """Let clusters end at the edges of the picture: how much neighbours of similar colours count, for example 3. 0 is
    the published protocol, which does not look at colours."""
    uptile: int = 1
    """Up-tiling by this factor, which must divide the patch size."""
    bilinear: int = 1
    """Bilinear enlargement of the features by this factor, for comparison with up-tiling."""
    method: Literal["average", "kmeans"] = "average"
    """Average linkage or k-means."""
    components: int = 128
    """Number of principal components that are clustered."""
    steps: int | None = None
    """Kuramoto steps T of each block; by default as in training."""
    batch: int | None = None
    """Number of pictures that run at once; by default chosen by their size."""
    weights: Path | None = None
    """For a frozen network: a file with its weights (safetensors or torch); by default timm downloads them."""
    plots: Path | None = None
    """A folder for plots: pictures, clusters and truth; principal components; scores against the number of clusters."""
    examples: int = 8
    """Number of pictures in the plots, the first ones."""
    against_clusters: tuple[int, ...] = ()
    """Other numbers of clusters to score as well; the record, --json and the last of these plots have them too. With
    --plots the default is from 2 to twice the number that is scored, but no more than there are patches."""
    results: Path | None = LEDGER
    """Folder for the record of the evaluation; None for no record."""


def run(options: Options) -> int:
    """Evaluate, and print the scores."""
    _check(options)
    from akorn.models import training_of
    from akorn.objects.evaluate import evaluate_counts
    from akorn.objects.segmenter import Segmenter
    from akorn.runtime.devices import pick_device
    from akorn.runtime.processes import is_main

    settings = _settings(options)
    device = pick_device(options.device)
    model: Any = _load(options).to(device)
    settings = replace(settings, input=_input(options, model.config))
    segmenter = Segmenter(model, settings)  # what the model cannot do is refused before data are read or generated
    training_of(options.model)  # goes into the record; a damaged file should fail before any work
    source = _source(options)
    data, first = _read(options, source)
    if first.labels is None:
        raise AkornError(f"{source}: its pictures have no masks, so there is nothing to score against")
    if settings.input is None:
        _check_patches(model.config, *first.images.shape[2:])
    if options.plots is not None:
        make_folder(options.plots)
    options = replace(options, results=check_ledger(options.results))
    count = _clusters(options, source, data)
    if options.model.startswith(FLOOR) and isinstance(count, int):
        model.clusters = count  # the number of blocks of a grid
    counts: list[int | Literal["auto"]] = [count, *options.against_clusters]
    if options.plots is not None and not options.against_clusters:
        rows, columns = segmenter.grid(*first.images.shape[2:])
        most = 2 * count if isinstance(count, int) else 2 * data.clusters
        counts += range(2, min(most, rows * columns) + 1)
    channels = first.images.shape[1]
    if channels != model.config.image_channels:
        say(f"the pictures have {channels} channels and the model expects {model.config.image_channels}; converted")
    try:
        curve = evaluate_counts(model, data, counts, settings, batch=options.batch, progress=True)
    except AkornError:
        raise
    except ValueError as error:
        raise AkornError(str(error)) from error
    found = curve[count]
    if is_main():  # one of several processes prints and writes
        if options.results is not None:
            say(f"recorded in {_record(options, curve, found, source, data, str(device))}")
        if options.plots is not None:
            _plot(options, model, curve, data, found)
        if options.json:
            print_json({**found.as_json(), "data": data.name, **_against(curve)})
        else:
            _print(found, data.name, [curve[other] for other in dict.fromkeys(options.against_clusters)])
    return 0


def _check(options: Options) -> None:
    """AkornError for impossible options, before torch is imported."""
    check_seed(options.seed)
    for name in (
        "limit",
        "clusters",
        "uptile",
        "bilinear",
        "components",
        "steps",
        "batch",
        "size",
        "input",
        "examples",
    ):
        value = getattr(options, name)
        if isinstance(value, int) and value < 1:
            raise AkornError(f"--{name} must be at least 1, got {value}")
    if any(count < 1 for count in options.against_clusters):
        raise AkornError(f"--against-clusters must be at least 1, got {min(options.against_clusters)}")
    if options.clusters == "auto" and options.method != "average":
        raise AkornError(f"--clusters auto needs average linkage, got --method {options.method}")
    frozen = options.model.startswith(FROZEN)
    if options.weights is not None and not frozen:
        raise AkornError(f"--weights is for frozen networks (timm:NAME), but the model is {options.model}")
    if options.steps is not None and frozen:
        raise AkornError(f"--steps is for models with Kuramoto steps, but {options.model} is a frozen network")


def _settings(options: Options) -> SegmentSettings:
    """How features become masks; AkornError for values or combinations that are impossible with any model."""
    from akorn.objects.segmenter import SegmentSettings

    # All settings have the names of their options, but one.
    same = {field.name: getattr(options, field.name) for field in fields(SegmentSettings) if field.name != "ratio"}
    return SegmentSettings(**same, ratio=options.auto_ratio)


def _check_patches(config: Any, height: int, width: int) -> None:
    """AkornError unless patches fit into pictures of that size."""
    if height % config.patch or width % config.patch:
        raise AkornError(
            f"pictures of {height} × {width} pixels cannot be cut into patches of {config.patch} × {config.patch}:"
            f" resize them, for example with --size {config.image_size}, the size in training"
        )


def _input(options: Options, config: Any) -> int | None:
    """The side to which pictures are shrunk for the model; None if it sees them as they are."""
    from akorn.objects.segmenter import data_set_of

    name = options.model.removeprefix(UNTRAINED)
    if options.input is not None or (options.size is not None and options.size <= config.image_size):
        return options.input
    by_itself = name.startswith(FLOOR) or data_set_of(name) == "photos"
    return int(config.image_size) if by_itself else None


def _load(options: Options) -> Any:
    """The model to score."""
    if options.model.startswith(FLOOR):
        from akorn.objects.floors import Floor

        return Floor(options.model.removeprefix(FLOOR))
    if options.model.startswith(UNTRAINED):
        return _untrained(options.model.removeprefix(UNTRAINED), options.seed)
    if options.model.startswith(FROZEN):
        from akorn.objects.frozen import FrozenFeatures

        return FrozenFeatures.from_timm(options.model.removeprefix(FROZEN), weights=options.weights)
    from akorn.models import load_model
    from akorn.objects.net import ObjectsNet

    model = load_model(options.model)
    if not isinstance(model, ObjectsNet):
        raise AkornError(f"{options.model}: this is not a model for object discovery but one for {model.task}")
    return model


def _untrained(recipe: str, seed: int) -> Any:
    """The model of a recipe, as it is initialised."""
    from akorn.models import create_model
    from akorn.objects.net import ObjectsNet

    model = create_model(recipe, seed=seed)
    if not isinstance(model, ObjectsNet):
        raise AkornError(f"{recipe}: this is not a recipe for object discovery but one for {model.task}")
    return model.eval()


def _source(options: Options) -> str:
    """The data to score on."""
    if options.data is not None:
        return options.data
    from akorn.objects.data.sets import GENERATED
    from akorn.objects.segmenter import data_set_of

    name = data_set_of(options.model)
    if name is None or name not in GENERATED:
        raise AkornError(
            f"--data is missing: a file or folder with pictures and masks, or one of {', '.join(GENERATED)}"
        )
    return name


def _read(options: Options, source: str) -> tuple[PictureSet, Pictures]:
    """The data, and its first picture; without --data the set is generated, even if the disk has a file of its name."""
    from akorn.objects.data.layouts import load, load_generated
    from akorn.objects.data.picture_files import looked_at
    from akorn.runtime.processes import is_main
    from akorn.runtime.progress import progress_bar

    read = load_generated if options.data is None else load
    try:
        with progress_bar("reading pictures", wanted=is_main()) as report:
            data = read(
                source, options.split, options.size, options.limit, fit=options.fit, progress=report,
                device=options.device,
            )  # fmt: skip
        return data, looked_at(data).load([0])
    except AkornError:
        raise
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        MemoryError,
    ) as error:  # mistakes that readers overlook
        reason = " ".join(str(error).split()) or "no reason given"
        raise AkornError(f"{source} cannot be read ({type(error).__name__}: {reason})") from error


def _clusters(options: Options, source: str, data: PictureSet) -> int | Literal["auto"]:
    """How many clusters are scored."""
    from akorn.objects.data.npz import tells_clusters
    from akorn.objects.data.sets import SETS
    from akorn.objects.segmenter import data_set_of

    if options.clusters is not None:
        return options.clusters
    trained_on = data_set_of(options.model)
    if data.name in SETS or trained_on is None or tells_clusters(Path(source)):
        return data.clusters
    return max(data.clusters, SETS[trained_on].clusters)


def _origin(options: Options, source: str, data: PictureSet) -> dict[str, Any]:
    """Where the pictures come from, and which part of the data set they are, if that is known."""
    from akorn.objects.data.sets import ALIASES, GENERATED

    path = Path(source)
    if source in GENERATED and (options.data is None or not path.exists()):
        return {"source": "generated", "split": options.split}
    split: str | None = getattr(data, "split", options.split)  # a pack knows its own
    if path.is_file() and path.suffix.lower() == ".npz":
        last = path.stem.replace("-", "_").rpartition("_")[2]
        split = next((part for part, names in ALIASES.items() if last in names), None)
    made = getattr(data, "made", None)
    if made:
        return {"source": path.name, "split": made.get("split", split), "made": made}
    return {"source": path.name, "split": split}


_Curve = dict[int | Literal["auto"], "Evaluation"]
"""Scores by the number of clusters."""


def _against(curve: _Curve) -> dict[str, dict[str, dict[str, float]]]:
    """Scores by the number of clusters, if there are several."""
    order = sorted(curve, key=lambda count: (count == "auto", count))
    several = {str(count): {**curve[count].scores, **curve[count].errors} for count in order}
    return {"against_clusters": several} if len(several) > 1 else {}


def _record(options: Options, curve: _Curve, found: Evaluation, source: str, data: PictureSet, device: str) -> Path:
    """Write one record, under the model's name and, where its folder has it, the seed of its training."""
    from akorn.ledger import record_evaluation
    from akorn.models import training_of

    assert options.results is not None
    facts = found.as_json()
    seconds = float(facts.pop("seconds"))
    config = {
        "data": data.name, **_origin(options, source, data), "size": options.size, "fit": options.fit,
        "start_seed": facts.pop("seed"),
        **{key: value for key, value in facts.items() if key not in {**found.scores, **found.errors}},
    }  # fmt: skip
    return record_evaluation(
        options.model, {**found.scores, **found.errors, "seconds": seconds}, training=training_of(options.model),
        config=config, data_fingerprint=data.fingerprint(), wall_time=seconds, device=device, folder=options.results,
        extra=_against(curve),
    )  # fmt: skip


def _plot(
    options: Options,
    model: Extractor,
    curve: _Curve,
    data: PictureSet,
    found: Evaluation,
) -> None:
    from akorn.ledger import model_name
    from akorn.models import training_of
    from akorn.objects import plots
    from akorn.objects.segmenter import Segmenter

    assert options.plots is not None
    segmenter = Segmenter(model, found.settings)
    few = data.load(list(range(min(options.examples, len(data)))))
    label = model_name(options.model, training_of(options.model))
    numbered = {count: found for count, found in curve.items() if isinstance(count, int)}
    marked = found.clusters if isinstance(found.clusters, int) else None
    for path in (
        plots.plot_examples(segmenter, few, found.clusters, options.plots / "examples.png"),
        plots.plot_components(segmenter, few, options.plots / "components.png"),
        plots.plot_against_clusters({label: numbered}, options.plots / "clusters.png", marked=marked),
    ):
        say(f"wrote {path}")


def _protocol(settings: SegmentSettings) -> str:
    """The differences from the plain protocol, in words."""
    words = f", seen at {settings.input} × {settings.input}" if settings.input is not None else ""
    words += {"m": "", "x": ", the states clustered", "both": ", readout and states clustered"}[settings.read]
    return words + (f", clusters of at least {100 * settings.least:g} %" if settings.least else "")


def _scores(found: Evaluation) -> str:
    """All scores in one line, each with its standard error if it has one."""
    words = {"fg_ari": "FG-ARI", "mbo": "MBO", "mbo_i": "MBO_i", "mbo_c": "MBO_c"}
    errors = {key: f" ± {found.errors[f'{key}_error']:.1f}" for key in words if f"{key}_error" in found.errors}
    return "  ".join(f"{words[key]} {value:.1f}{errors.get(key, '')}" for key, value in found.scores.items())


def _print(found: Evaluation, name: str, others: Sequence[Evaluation]) -> None:
    """Print the scores, what they are of, and those of other numbers of clusters."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_scores(found))
    settings = found.settings
    console.print(
        f"{name}: {len(found.per_picture['mbo'])} pictures, {found.clusters} clusters ({settings.method}),"
        f" up-tiling ×{settings.uptile}, T = {settings.steps}{_protocol(settings)}; {found.seconds:.1f} s"
    )
    for other in others:
        console.print(f"{other.clusters} clusters: {_scores(other)}")
    if found.errors:  # the ± in RESULTS.md is another one, over seeds
        console.print("± standard error of the mean over these pictures")
