from __future__ import annotations

import pytest

from hpcllm.errors import ModelError
from hpcllm.models.catalog import load_catalog
from hpcllm.models.memory import (
    adapter_parameters,
    cache_bytes_per_token,
    linear_parameters,
    parse_size,
    plan_serving,
    plan_training,
)

LLAMA = load_catalog().get("llama-3.1-8b-instruct")
SMOL = load_catalog().get("smollm2-135m-instruct")


def test_counts_of_llama_8b_are_the_published_ones() -> None:
    network = LLAMA.architecture
    assert network is not None
    linear = linear_parameters(network)
    assert linear == 6_979_321_856
    # Two tables, and two norms a layer plus one at the end.
    norms = (2 * 32 + 1) * 4096
    assert linear + 2 * 128_256 * 4096 + norms == LLAMA.parameters
    assert cache_bytes_per_token(network) == 131_072  # 2 x 32 layers x 8 heads x 128 x 2 bytes
    assert adapter_parameters(network, 16) == 41_943_040


def test_counts_of_smollm2_agree_with_its_file() -> None:
    network = SMOL.architecture
    assert network is not None
    norms = (2 * 30 + 1) * 576
    assert linear_parameters(network) + 49_152 * 576 + norms == SMOL.parameters
    # What peft reported for rank 16 on all linear layers.
    assert adapter_parameters(network, 16) == 4_884_480


def test_an_answer_of_8192_tokens_takes_one_gibibyte_of_cache() -> None:
    plan = plan_serving(LLAMA, weight_type="F16", context=8192, users=1, gpu_gib=24)
    assert plan.cache_gb_per_user == pytest.approx(2**30 / 1e9)
    assert plan.weights_gb == pytest.approx(16.06, abs=0.01)
    # (25.77 - 16.06 - 0.6) / 1.074
    assert plan.users_that_fit == 8
    assert plan_serving(LLAMA, weight_type="F16", context=8192, users=1).users_that_fit is None


def test_a_model_that_does_not_fit_serves_nobody() -> None:
    plan = plan_serving(LLAMA, weight_type="F16", context=8192, users=4, gpu_gib=12)
    assert (plan.users_that_fit, plan.context_that_fits) == (0, 0)


def test_qlora_of_8b_fits_24_gib_and_lora_needs_more_when_nothing_is_computed_anew() -> None:
    small = plan_training(LLAMA, four_bit=True, gpu_gib=24)
    assert small.base_gb == pytest.approx(3.60 + 4.20, abs=0.02)
    assert small.adapter_gb == pytest.approx(0.336, abs=0.01)
    assert small.fits and 10 < small.total_gb < 12
    large = plan_training(LLAMA, four_bit=False, checkpointing=False, gpu_gib=24)
    assert large.fits is False


def test_the_cpu_recipe_is_reckoned_near_what_was_measured() -> None:
    """Measured: 3.9 GB at one example of about 700 tokens, all activations kept."""
    plan = plan_training(SMOL, four_bit=False, tokens=720, checkpointing=False)
    assert 1.9 < plan.total_gb < 5.9


@pytest.mark.parametrize(
    ("text", "gib"), [("24GiB", 24), ("80 GB", 74.5058), ("16", 16), ("512MiB", 0.5)]
)
def test_sizes_are_read_with_their_unit(text: str, gib: float) -> None:
    assert parse_size(text) == pytest.approx(gib, abs=1e-3)


@pytest.mark.parametrize("text", ["", "-3GB", "0", "24 parsecs"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is no size of memory: expected something like 24GiB"):
        parse_size(text)


def test_an_unknown_network_names_what_is_missing() -> None:
    entry = LLAMA.model_copy(update={"architecture": None})
    with pytest.raises(ModelError, match="add its architecture"):
        plan_training(entry, four_bit=True)
