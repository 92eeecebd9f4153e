"""Models outside Python: as one ONNX file, or as a program of `torch.export` (.pt2).

    program.py    a room's description of its model: inputs, outputs, and the parts that run one after the other
    facts.py      what a file says about itself: card, config, licence, interface
    onnx_file.py  the program as ONNX: each part is traced once, repeated steps share their weights
    packages.py   the error if packages are missing
    write.py      `export_model`: the formats by name, and a file that appears whole or not at all

A room describes its models in `akorn/ROOM/export.py`, by `program(model, steps)`. Noise is always an input.
"""

from akorn.export.write import export_model

__all__ = ["export_model"]
