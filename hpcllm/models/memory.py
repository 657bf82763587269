"""Memory arithmetic: what a model takes to serve and to train, and what fits.

Role: behind ``hpcllm models plan``. Pure arithmetic over the catalog's numbers of the network; no
model is loaded. Gigabytes are 10^9 bytes, GPU sizes are given in GiB (2^30).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ModelError

if TYPE_CHECKING:
    from hpcllm.models.catalog import Architecture, ModelEntry

GIGABYTE = 1e9
GIBIBYTE = float(1 << 30)

BITS = {"F16": 16.0, "Q8_0": 8.5, "Q4_K_M": 4.85, "Q4_1": 5.0, "Q4_0": 4.5}
"""Bits a weight by type, scales included."""
NF4_BITS = 4.13
"""Bits a weight in NF4 with double quantisation, as measured with bitsandbytes."""
CACHE_BYTES = 2
"""Bytes of one number of the key-value cache (16-bit)."""
SERVING_SPARE_GB = 0.6
"""Engine and work space when serving on a GPU."""
TRAINING_SPARE_GB = 1.5
"""CUDA context and work space when training."""
ADAPTER_BYTES = {"bf16": 8, "fp32": 16}
"""Bytes a trained parameter: weight, gradient and two moments of Adam."""

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(GiB|GB|MiB|MB)?\s*$", re.IGNORECASE)
_UNITS = {"gib": 1.0, "gb": GIGABYTE / GIBIBYTE, "mib": 1 / 1024, "mb": 1e6 / GIBIBYTE}


@dataclass(frozen=True, slots=True)
class ServingPlan:
    """Memory to serve a model to some users at once.

    Attributes:
        weight_type: type of the weights.
        weights_gb: weights.
        cache_gb_per_user: key-value cache of one answer at full context.
        total_gb: for all users at full context, work space included.
        users_that_fit: answers at once that fit, at most; None without a limit.
        context_that_fits: context in tokens that fits for the users asked for; None without one.
    """

    weight_type: str
    weights_gb: float
    cache_gb_per_user: float
    total_gb: float
    users_that_fit: int | None
    context_that_fits: int | None


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Memory to train an adapter.

    Attributes:
        method: ``QLoRA`` (base in NF4) or ``LoRA`` (base in bfloat16).
        base_gb: the base; embeddings and head at 32 bits in NF4, as ``peft`` prepares them.
        adapter_parameters: number of trained parameters.
        adapter_gb: with gradients and optimiser.
        activations_gb: kept for the way back, with or without checkpointing.
        total_gb: all of it with work space.
        fits: whether it fits; None without a limit.
    """

    method: str
    base_gb: float
    adapter_parameters: int
    adapter_gb: float
    activations_gb: float
    total_gb: float
    fits: bool | None


def parse_size(text: str) -> float:
    """Return a size such as ``24GiB`` in GiB; a bare number is GiB.

    Raises:
        ModelError: it is no size.
    """
    match = _SIZE.match(text)
    if not match or float(match.group(1)) <= 0:
        raise ModelError(f"{text!r} is no size of memory: expected something like 24GiB or 80GB")
    return float(match.group(1)) * _UNITS[(match.group(2) or "GiB").lower()]


def plan_serving(
    entry: ModelEntry, *, weight_type: str, context: int, users: int, gpu_gib: float | None = None
) -> ServingPlan:
    """Return the memory to serve a model.

    Args:
        entry: the model, with its architecture.
        weight_type: one of :data:`BITS`.
        context: tokens of context of one answer.
        users: answers at once.
        gpu_gib: memory of the GPU, or None.

    Raises:
        ModelError: the catalog has no architecture of the model, or the type is unknown.
    """
    network = _network(entry)
    if weight_type not in BITS:
        raise ModelError(f"no weight type {weight_type!r}: known types are {', '.join(BITS)}")
    weights = entry.parameters * BITS[weight_type] / 8 / GIGABYTE
    per_token = cache_bytes_per_token(network)
    per_user = per_token * context / GIGABYTE
    users_fit = context_fits = None
    if gpu_gib is not None:
        room = gpu_gib * GIBIBYTE / GIGABYTE - weights - SERVING_SPARE_GB
        users_fit = max(0, int(room / per_user))
        context_fits = max(0, int(room * GIGABYTE / per_token / users))
    return ServingPlan(
        weight_type,
        weights,
        per_user,
        weights + per_user * users + SERVING_SPARE_GB,
        users_fit,
        min(context_fits, entry.context) if context_fits is not None else None,
    )


def cache_bytes_per_token(network: Architecture) -> int:
    """Return bytes of keys and values that one token of context takes over all layers."""
    return 2 * network.layers * network.kv_heads * network.head_width * CACHE_BYTES


def linear_parameters(network: Architecture) -> int:
    """Return the weights of all projections of all layers."""
    return network.layers * sum(rows * columns for rows, columns in projections(network))


def projections(network: Architecture) -> list[tuple[int, int]]:
    """Return outputs and inputs of the seven projections of a layer."""
    hidden, forward = network.hidden, network.feed_forward
    keys = network.kv_heads * network.head_width
    attention = [(hidden, hidden), (keys, hidden), (keys, hidden), (hidden, hidden)]
    return [*attention, (forward, hidden), (forward, hidden), (hidden, forward)]


def adapter_parameters(network: Architecture, rank: int) -> int:
    """Return the trained numbers of an adapter of all projections."""
    return network.layers * rank * sum(rows + columns for rows, columns in projections(network))


def plan_training(
    entry: ModelEntry,
    *,
    four_bit: bool,
    rank: int = 16,
    batch: int = 1,
    tokens: int = 2048,
    checkpointing: bool = True,
    gpu_gib: float | None = None,
) -> TrainingPlan:
    """Return the memory to train an adapter of all linear layers.

    The loss is taken in chunks, so that logits of a whole batch are never held.

    Args:
        entry: the base, with its architecture.
        four_bit: base in NF4 with double quantisation, else in bfloat16.
        rank: rank of the adapter.
        batch: examples at once.
        tokens: tokens of an example.
        checkpointing: keep the input of each layer only, and compute one layer anew at a time.
        gpu_gib: memory of the GPU, or None.

    Raises:
        ModelError: the catalog has no architecture of the model.
    """
    network = _network(entry)
    linear = linear_parameters(network)
    tables = network.vocabulary * network.hidden * (1 if network.tied_embeddings else 2)
    base = (linear * NF4_BITS / 8 + tables * 4) if four_bit else (linear + tables) * 2
    trained = adapter_parameters(network, rank)
    adapter = trained * ADAPTER_BYTES["bf16" if four_bit else "fp32"]
    # One layer holds about twelve vectors of its width and six of its feed-forward width.
    layer = batch * tokens * (12 * network.hidden + 6 * network.feed_forward) * 2
    inputs = network.layers * batch * tokens * network.hidden * 2
    activations = inputs + layer if checkpointing else network.layers * layer
    total = (base + adapter + activations) / GIGABYTE + TRAINING_SPARE_GB
    limit = None if gpu_gib is None else gpu_gib * GIBIBYTE / GIGABYTE
    return TrainingPlan(
        "QLoRA" if four_bit else "LoRA",
        base / GIGABYTE,
        trained,
        adapter / GIGABYTE,
        activations / GIGABYTE,
        total,
        None if limit is None else total <= limit,
    )


def _network(entry: ModelEntry) -> Architecture:
    if entry.architecture is None:
        raise ModelError(
            f"the catalog does not know the network of {entry.id}: add its architecture to the "
            "entry (layers, hidden, feed_forward, heads, kv_heads, vocabulary)"
        )
    return entry.architecture


def plan_json(
    entry: ModelEntry, *, gpu_gib: float | None, context: int, users: int, tokens: int, batch: int
) -> dict[str, Any]:
    """Return serving plans by weight type and training plans by method as plain values."""
    from dataclasses import asdict

    serving = [
        plan_serving(entry, weight_type=kind, context=context, users=users, gpu_gib=gpu_gib)
        for kind in BITS
    ]
    training = [
        plan_training(
            entry,
            four_bit=four_bit,
            tokens=tokens,
            batch=batch,
            checkpointing=checkpointing,
            gpu_gib=gpu_gib,
        )
        for four_bit in (True, False)
        for checkpointing in (True, False)
    ]
    return {
        "model": entry.id,
        "serving": [asdict(plan) for plan in serving],
        "training": [
            {**asdict(plan), "checkpointing": checkpointing}
            for plan, checkpointing in zip(training, (True, False, True, False), strict=True)
        ],
    }
