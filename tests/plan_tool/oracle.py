# SPDX-License-Identifier: Apache-2.0
"""What a rank holds and sends, by the formulas of the guide's page recipes; padding aside."""
import json

from support import MODELS

# Per recipe: which axes shard weights, gradients, optimizer state: all of them, the innermost one, or none.
SHARDED = {"no_shard": ("none", "none", "none"), "zero_1": ("none", "none", "all"), "zero_2": ("none", "all", "all"),
           "zero_3": ("all", "all", "all"), "hsdp": ("inner", "inner", "inner"), "hfsdp": ("inner", "inner", "all"),
           "zero_1_zero_2": ("none", "inner", "all")}
SIZE = {"f64": 8, "f32": 4, "bf16": 2}
MOMENTS = {"adamw": 2, "sgd_momentum": 1, "sgd": 0, "none": 0}


def units_of(name):
    return json.loads((MODELS / f"{name}.json").read_text())["units"]


def numel(shape):
    product = 1
    for extent in shape:
        product *= extent
    return product


def elements(units):
    return sum(unit.get("count", 1) * sum(numel(shape) for _, shape in unit["tensors"]) for unit in units)


def padding(units, parts):
    """At most: 16 bytes per segment and 64 bytes per tensor of each module, in bytes of the smallest type."""
    return sum(unit.get("count", 1) * (16 * parts + 64 * (len(unit["tensors"]) + 1)) for unit in units)


def parts(mesh, how):
    product = 1
    for size in {"none": [], "inner": mesh[-1:], "all": mesh}[how]:
        product *= size
    return product


def held(units, mesh, recipe, storage="bf16", optimizer="adamw"):
    """{kind: bytes} of a rank at rest where no memory is shared."""
    count, size = elements(units), SIZE[storage]
    main = 8 if storage == "f64" else 4
    weights, gradients, state = (parts(mesh, how) for how in SHARDED[recipe])
    return {"model_weights": count * size / weights, "main_weights": 0 if size == main else count * main / state,
            "main_gradients": count * main / gradients, "moments": count * main * MOMENTS[optimizer] / state}


def sent(units, mesh, recipe, micro_batches, storage="bf16"):
    """Bytes on the wire of a step in rings, for recipes over one axis."""
    ranks, = mesh
    count, size, main = elements(units), SIZE[storage], 8 if storage == "f64" else 4
    once = {"no_shard": 2 * main, "zero_1": main + size, "zero_2": size, "zero_3": 0}[recipe]
    each = {"no_shard": 0, "zero_1": 0, "zero_2": main, "zero_3": 2 * size + main}[recipe]
    return count * (ranks - 1) / ranks * (once + micro_batches * each)


def collectives(units, recipe, micro_batches):
    """{kind: number} of a step over one axis, spec 3.9."""
    modules = sum(unit.get("count", 1) for unit in units)
    return {"no_shard": {"allreduce": modules}, "zero_1": {"allgather": modules, "reduce_scatter": modules},
            "zero_2": {"allgather": modules, "reduce_scatter": micro_batches * modules},
            "zero_3": {"allgather": 2 * micro_batches * modules, "reduce_scatter": micro_batches * modules}}[recipe]
