"""TFRecord files as other people's code writes them, checksums, the benchmark's crops and splits, and damage."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorboard.summary.writer.record_writer import RecordWriter

from akorn.errors import AkornError
from akorn.objects.data import Pictures, load
from akorn.objects.data.multiobject import read_multiobject
from akorn.objects.data.tfrecord import Example, checksum, records

RNG = np.random.default_rng(8)


def example_class() -> Callable[[], object]:
    """`tf.train.Example` for Google's own protocol buffers, from its published description."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="test", syntax="proto3")
    for name, kind in (
        ("BytesList", field.TYPE_BYTES),
        ("FloatList", field.TYPE_FLOAT),
        ("Int64List", field.TYPE_INT64),
    ):
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, type=kind, label=field.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), 1):
        kind = f".test.{name.title().replace('_', '')}"
        feature.field.add(
            name=name, number=number, type=field.TYPE_MESSAGE, type_name=kind, label=field.LABEL_OPTIONAL, oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(
        name="value", number=2, type=field.TYPE_MESSAGE, type_name=".test.Feature", label=field.LABEL_OPTIONAL
    )
    features.field.add(
        name="feature",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".test.Features.FeatureEntry",
        label=field.LABEL_REPEATED,
    )
    example = file.message_type.add(name="Example")
    example.field.add(
        name="features", number=1, type=field.TYPE_MESSAGE, type_name=".test.Features", label=field.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Example"))


EXAMPLE = example_class()


def encode(image: np.ndarray, masks: np.ndarray, visible: int, joined: bool = False) -> bytes:
    """A record as in the benchmark: a string of one byte for each value; or one string for all."""
    example = EXAMPLE()
    for name, values in (("image", image), ("mask", masks)):
        data = values.astype(np.uint8).tobytes()
        strings = [data] if joined else [data[i : i + 1] for i in range(len(data))]
        example.features.feature[name].bytes_list.value.extend(strings)
    entities = min(masks.shape[0], masks.shape[-1]) if masks.ndim == 3 else 0
    example.features.feature["visibility"].float_list.value.extend(
        [1.0] * (visible + 1) + [0.0] * (entities - visible - 1)
    )
    example.features.feature["shape"].int64_list.value.extend([3, -1, 2**40])
    return example.SerializeToString()


def write(path: Path, messages: list[bytes], compressed: bool = True) -> Path:
    """By TensorBoard, whose checksums are its own."""
    with (gzip.open if compressed else open)(path, "wb") as file:
        writer = RecordWriter(file)
        for message in messages:
            writer.write(message)
    return path


def write_quickly(path: Path, messages: list[bytes]) -> Path:
    """With the checksums that we read with: TensorBoard takes a second per megabyte."""
    with path.open("wb") as file:
        for message in messages:
            length = len(message).to_bytes(8, "little")
            file.write(length + checksum(length) + message + checksum(message))
    return path


def tetromino(number: int) -> tuple[np.ndarray, np.ndarray]:
    image = RNG.integers(256, size=(35, 35, 3))
    image[0, 0, 0] = number % 256
    labels = RNG.integers(4, size=(35, 35))
    return image, np.stack([255 * (labels == label) for label in range(4)])


def test_checksums_are_those_of_the_standard() -> None:
    # RFC 3720, B.4, and the usual check value
    for message, wanted in (
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ):
        stored = int.from_bytes(checksum(message), "little") - 0xA282EAD8
        assert stored % 2**32 == wanted >> 15 | wanted << 17 & 0xFFFFFFFF  # turned right by 15 bits


@pytest.mark.parametrize("compressed", [True, False])
def test_records_come_in_order_whatever_their_lengths(tmp_path: Path, compressed: bool) -> None:
    messages = [bytes([number]) * length for number, length in enumerate((5, 5, 9, 0, 70_000, 5))]
    one = write(tmp_path / "a.tfrecords", messages[:4], compressed)
    two = write(tmp_path / "b.tfrecords", messages[4:], compressed)
    assert list(records([one, two])) == messages


def test_examples_decode_to_what_was_encoded() -> None:
    image, masks = tetromino(0)
    for joined in (True, False):
        example = Example(encode(image, masks, 3, joined), "here")
        assert set(example.names) == {"image", "mask", "visibility", "shape"}
        assert np.array_equal(example.bytes("image"), image.ravel())
        assert example.integers_or_floats("visibility").tolist() == [1, 1, 1, 1]
        assert example.integers_or_floats("shape").tolist() == [3, -1, 2**40]
    with pytest.raises(AkornError, match=r"here has the features .*, expected 'colour'"):
        example.bytes("colour")
    with pytest.raises(AkornError, match="'shape' holds int64 numbers, expected bytes"):
        example.bytes("shape")
    with pytest.raises(AkornError, match=r"here is not a tf\.train\.Example"):
        Example(b"\x0a\xff\x01", "here")


def test_tetrominoes_are_cropped_and_split(tmp_path: Path) -> None:
    scenes = [tetromino(number) for number in range(70)]
    messages = [encode(image, masks, 3) for image, masks in scenes]
    path = write_quickly(tmp_path / "tetrominoes_train.tfrecords", messages)
    for source in (path, tmp_path):
        pictures = load(source, "test")
        assert isinstance(pictures, Pictures)
        assert (pictures.name, pictures.clusters) == ("tetrominoes", 4)
        assert pictures.images.shape == (6, 3, 32, 32)  # the first 64 are set aside
        for at, (image, masks) in enumerate(scenes[64:]):
            assert np.array_equal(pictures.images[at], image[1:33, 1:33].transpose(2, 0, 1))
            assert np.array_equal(pictures.labels[at], masks.argmax(0)[1:33, 1:33])
    assert len(load(path, "test", limit=2)) == 2
    with pytest.raises(AkornError, match=r"no split 'valid': it has 70 usable pictures.* after 384"):
        load(path, "valid")
    some = read_multiobject([path], "train", labels=False, stretches={"train": (10, 30)})
    assert some.labels is None
    assert np.array_equal(some.images[29], scenes[39][0][1:33, 1:33].transpose(2, 0, 1))
    assert len(some) == 30


def test_dsprites_have_their_masks_last(tmp_path: Path) -> None:
    image = RNG.integers(256, size=(64, 64, 3))
    labels = RNG.integers(6, size=(64, 64))
    masks = 255 * (labels[..., None] == np.arange(6))
    path = write(tmp_path / "multi_dsprites_colored_on_grayscale.tfrecords", [encode(image, masks, 5)], False)
    pictures = read_multiobject([path], "test", stretches={"test": (0, 320)})
    assert (pictures.name, pictures.clusters) == ("dsprites", 7)
    assert np.array_equal(pictures.images[0], image.transpose(2, 0, 1))
    assert np.array_equal(pictures.labels[0], labels)


def test_clevr_leaves_out_crowded_scenes_and_takes_the_nearest_pixel(tmp_path: Path) -> None:
    image = RNG.integers(256, size=(240, 320, 3))
    labels = RNG.integers(11, size=(240, 320))
    masks = np.stack([255 * (labels == label) for label in range(11)])
    messages = [encode(image + shift, masks, objects, True) for shift, objects in ((0, 7), (1, 6), (2, 10), (3, 3))]
    path = write_quickly(tmp_path / "clevr_with_masks_train.tfrecords", messages)
    pictures = read_multiobject([path], "train", stretches={"train": (0, 9)})
    assert (len(pictures), pictures.clusters, pictures.images.shape[1:]) == (2, 11, (3, 128, 128))
    cropped, rows = (image + 1).astype(np.uint8)[29:221, 64:256], [0, 2, 3, 5]  # middles at 0.75, 2.25, 3.75, 5.25
    assert np.array_equal(pictures.images[0, :, :4, :4], cropped[np.ix_(rows, rows)].transpose(2, 0, 1))
    assert np.array_equal(pictures.labels[1, :4, :4], labels[29:221, 64:256][np.ix_(rows, rows)])


def test_unknown_records_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecords", [encode(np.zeros((4, 4, 3)), np.zeros((2, 4, 4)), 1)])
    with pytest.raises(AkornError, match="a picture of 48 bytes with masks of 32: this is neither Tetrominoes"):
        load(path)
    for name in ("a.tfrecords-00001-of-00002", "b.tfrecord"):
        write(tmp_path / name, [])
    with pytest.raises(AkornError, match=r"several sets \(a, b\)"):
        load(tmp_path)
    with pytest.raises(AkornError, match="it has 0 usable pictures"):
        load(tmp_path / "b.tfrecord")


@pytest.mark.parametrize("compressed", [True, False])
def test_truncated_and_damaged_files_are_refused(tmp_path: Path, compressed: bool) -> None:
    whole = write(tmp_path / "a.tfrecords", [bytes([1]) * 999, bytes([2]) * 999], compressed).read_bytes()
    path = tmp_path / "b.tfrecords"
    for size in (len(whole) - 3, len(whole) // 2 + 7, 14):
        path.write_bytes(whole[:size])
        with pytest.raises(AkornError, match=r"b.tfrecords is truncated"):
            list(records([path]))


@pytest.mark.parametrize(
    ("place", "said"), [(500, "record 0 is damaged"), (1500, "record 1"), (9, "record 0"), (6, "not a TFRecord")]
)
def test_a_changed_byte_is_noticed(tmp_path: Path, place: int, said: str) -> None:
    path = write(tmp_path / "a.tfrecords", [bytes(999), bytes(999)], compressed=False)
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    with pytest.raises(AkornError, match=said):
        list(records([path]))
