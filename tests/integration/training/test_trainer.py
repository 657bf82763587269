"""The loss and gradients of a run, with and without a limited reach, against trl and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.training.tiny import MODEL_ID, Tiny, make_tiny, write_recipe

torch = pytest.importorskip("torch", reason="needs hpcllm[train]")
pytest.importorskip("trl", reason="needs hpcllm[train]")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning"),
    pytest.mark.timeout(600),
]
ALONE = ("training.batch=1", "training.accumulate=2")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("tiny"))


def trainer_of(tiny: Tiny, folder: Path, gradient_tokens: int, *, bf16: bool = False) -> Any:
    from hpcllm.models.catalog import load_catalog
    from hpcllm.training import run as running
    from hpcllm.training.recipe import load_recipe

    changes = [*ALONE, f"training.gradient_tokens={gradient_tokens}"]
    recipe = load_recipe(write_recipe(tiny, bf16=bf16), changes).recipe
    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    torch.manual_seed(1)
    tokenizer, model = running._load_model(recipe, entry, tiny.models_dir)
    prepared = running._prepare(recipe, tokenizer, tiny.data)
    record = running.LossRecord(folder)
    trainer = running._trainer(recipe, model, tokenizer, prepared, folder, record)
    for name, parameter in trainer.model.named_parameters():
        if "lora_B" in name:  # zero at the start, which would leave lora_A without gradients
            torch.nn.init.normal_(parameter, std=0.05)
    return trainer


def step(trainer: Any, *, training: bool = True) -> tuple[float, dict[str, Any]]:
    """The loss of one example and the gradients of the adapter."""
    model = trainer.model.train(training)
    model.zero_grad()
    batch = trainer.data_collator([trainer.train_dataset[0]])
    with trainer.compute_loss_context_manager():
        loss = trainer.compute_loss(model, batch)
    loss.backward()
    return loss.item(), {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(("bf16", "tolerance"), [(False, 1e-4), (True, 1e-2)])
@pytest.mark.parametrize("gradient_tokens", [1, 5])
def test_the_loss_is_that_of_the_whole_prompt(
    tiny: Tiny, tmp_path: Path, gradient_tokens: int, bf16: bool, tolerance: float
) -> None:
    whole, _ = step(trainer_of(tiny, tmp_path, 0, bf16=bf16))
    limited, gradients = step(trainer_of(tiny, tmp_path, gradient_tokens, bf16=bf16))
    assert limited == pytest.approx(whole, rel=tolerance)
    assert all(gradient.abs().max() > 0 for gradient in gradients.values())
    assert len(gradients) == 2 * 7 * 2  # two matrices, seven layers' kinds, two blocks


def test_the_gradient_is_that_of_a_prompt_whose_start_is_a_constant(
    tiny: Tiny, tmp_path: Path
) -> None:
    """The same step by hand: keys and values of the start detached, layer by layer."""
    trainer = trainer_of(tiny, tmp_path, 5)
    _, limited = step(trainer)
    _, whole = step(trainer, training=False)
    model = trainer.model
    batch = trainer.data_collator([trainer.train_dataset[0]])
    cut = int((batch["labels"][0] != -100).nonzero()[0, 0]) - 5
    handles = [
        layer.self_attn.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, out: torch.cat([out[:, :cut].detach(), out[:, cut:]], dim=1)
        )
        for layer in model.get_base_model().model.layers
        for name in ("k_proj", "v_proj")
    ]
    _, expected = step(trainer, training=False)
    for handle in handles:
        handle.remove()
    for name, gradient in limited.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-6)
    assert any(not torch.allclose(limited[n], whole[n], rtol=0.1) for n in limited)


def test_merged_weights_are_those_of_peft_and_leave_the_base_alone(
    tiny: Tiny, tmp_path: Path
) -> None:
    from hpcllm.training.reach import MergedWeights

    model = trainer_of(tiny, tmp_path, 5).model.eval()
    ids = torch.arange(40)[None]
    with torch.no_grad():
        beside = model(input_ids=ids).logits
        with model.disable_adapter():
            bare = model(input_ids=ids).logits
        merged = MergedWeights.of(model)
        assert merged is not None
        merged.refresh()
        with merged.in_place():
            inside = model(input_ids=ids).logits
        torch.testing.assert_close(inside, beside, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model(input_ids=ids).logits, beside, rtol=0, atol=0)
        with model.disable_adapter():
            torch.testing.assert_close(model(input_ids=ids).logits, bare, rtol=0, atol=0)
    assert not torch.allclose(beside, bare, rtol=1e-2)
    assert any(parameter.requires_grad for parameter in model.parameters())


def test_weights_are_merged_anew_after_each_step(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, 5)
    before, _ = step(trainer)
    with torch.no_grad():
        for name, parameter in trainer.model.named_parameters():
            if "lora_B" in name:
                parameter.mul_(3)
    trainer.state.global_step += 1
    after, _ = step(trainer)
    whole = trainer_of(tiny, tmp_path, 0)
    whole.model.load_state_dict(trainer.model.state_dict())
    expected, _ = step(whole)
    assert after == pytest.approx(expected, rel=1e-4)
    assert abs(after - before) > 1e-3


def test_a_prompt_within_the_reach_is_trained_whole(tiny: Tiny, tmp_path: Path) -> None:
    loss, whole = step(trainer_of(tiny, tmp_path, 0))
    same, limited = step(trainer_of(tiny, tmp_path, 10_000))
    assert same == loss
    for name, gradient in limited.items():
        torch.testing.assert_close(gradient, whole[name], rtol=0, atol=0)


def test_the_evaluation_counts_every_token_and_keeps_no_cache(tiny: Tiny, tmp_path: Path) -> None:
    whole = trainer_of(tiny, tmp_path, 0).evaluate()
    assert trainer_of(tiny, tmp_path, 3).evaluate()["eval_loss"] == whole["eval_loss"]


def test_a_run_with_a_limited_reach_learns_and_counts_all_tokens(
    tiny: Tiny, tmp_path: Path
) -> None:
    from hpcllm.models.catalog import load_catalog
    from hpcllm.training.recipe import load_recipe
    from hpcllm.training.run import RunPaths, train

    entry = load_catalog(tiny.workspace / "training" / "models.toml").get(MODEL_ID)
    path = write_recipe(tiny, steps=12)
    reports = [
        train(
            load_recipe(path, [*ALONE, f"training.gradient_tokens={reach}"]),
            entry,
            RunPaths(tiny.data, tmp_path / str(reach), tiny.models_dir),
        )
        for reach in (0, 8)
    ]
    assert reports[1].tokens == reports[0].tokens
    assert reports[1].evaluation_loss == pytest.approx(reports[0].evaluation_loss, rel=0.25)


def test_the_loss_is_that_of_trl(tiny: Tiny, tmp_path: Path) -> None:
    """trl scores all tokens in tiles, we the learned ones at once: loss and gradients agree."""
    from trl import SFTTrainer

    trainer = trainer_of(tiny, tmp_path, 0)
    ours, gradients = step(trainer)
    model = trainer.model
    model.zero_grad()
    batch = trainer.data_collator([trainer.train_dataset[0]])
    theirs = SFTTrainer.compute_loss(trainer, model, batch)
    theirs.backward()
    own, its = trainer._metrics["train"]["mean_token_accuracy"]
    assert own == pytest.approx(its)
    assert ours == pytest.approx(theirs.item(), rel=1e-5)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-3, atol=1e-6)


def test_the_learned_tokens_of_all_examples_weigh_alike(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, 0)
    model = trainer.model.eval()
    rows = [trainer.data_collator([trainer.train_dataset[n]]) for n in (0, 1)]
    both = trainer.data_collator([trainer.train_dataset[n] for n in (0, 1)])
    count = int((both["labels"] != -100).sum())
    with torch.no_grad():
        together = trainer.compute_loss(model, both)
        apart = sum(trainer.compute_loss(model, row, num_items_in_batch=count) for row in rows)
    assert together.item() == pytest.approx(apart.item(), rel=1e-4)
