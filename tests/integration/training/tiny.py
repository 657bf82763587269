"""A tiny random model with the architecture of Llama 3.1: its rope scaling, grouped-query attention
and chat tokens. As torch weights, as a GGUF file, and as an entry of a workspace's catalog."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.unit.training.helpers import JOBS, STORAGE

MODEL_ID = "tiny-llama"
LAYERS, HIDDEN, FORWARD, HEADS, KV_HEADS, HEAD = 2, 64, 128, 4, 2, 16
ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SPECIAL = [
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|finetune_right_pad_id|>",
]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}"
    "<|end_header_id|>\n\n{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
KINDS = (
    "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm",
    "ffn_norm",
)  # fmt: skip
MERGES = ["t h", "th e", "Ġ the", "a n", "i n", "e r", "o n", "Ġ a", "Ġ s", "r e", "q u", "qu o"]
WORKSPACE = '[site]\nname = "tiny"\n'


@dataclass(frozen=True)
class Tiny:
    workspace: Path
    models_dir: Path
    gguf: Path
    data: Path


def make_tiny(root: Path, *, rows: int = 60, frequencies: bool = True) -> Tiny:
    """Write the model, its catalog entry and a data set into a new workspace."""
    workspace, models_dir = root / "workspace", root / "home" / "models"
    folder = models_dir / MODEL_ID
    (workspace / "training" / "data").mkdir(parents=True)
    (workspace / "corpus").mkdir()
    (workspace / "hpcllm.toml").write_text(WORKSPACE, encoding="utf-8")
    model = _save_torch(folder)
    path = folder / "tiny.gguf"
    _save_gguf(path, model, frequencies=frequencies)
    _save_catalog(workspace / "training" / "models.toml", folder)
    data = workspace / "training" / "data" / "tiny.jsonl"
    write_data(data, rows)
    return Tiny(workspace, models_dir, path, data)


def vocabulary() -> dict[str, int]:
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = [*sorted(ByteLevel.alphabet()), *(m.replace(" ", "") for m in MERGES), *SPECIAL]
    return {token: number for number, token in enumerate(tokens)}


def _tokenizer() -> Any:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from hpcllm.training.tokens import SPLITS

    pairs = [tuple(merge.split(" ")) for merge in MERGES]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary(), merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLITS["llama-bpe"]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[3],
        pad_token=SPECIAL[4],
        chat_template=TEMPLATE,
    )


def _save_torch(folder: Path) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    words = vocabulary()
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=HIDDEN,
        intermediate_size=FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        rope_parameters=ROPE,
        tie_word_embeddings=False,
        bos_token_id=words[SPECIAL[0]],
        eos_token_id=words[SPECIAL[3]],
        pad_token_id=words[SPECIAL[4]],
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:  # larger than the usual start, so that greedy answers are no ties
            torch.nn.init.normal_(parameter, std=0.15)
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return model


def _frequencies() -> np.ndarray:
    """Llama 3.1's frequency factors, computed as its rope scaling defines them."""
    factors = []
    for i in range(HEAD // 2):
        wavelength = 2 * np.pi * ROPE["rope_theta"] ** (2 * i / HEAD)
        old, low, high = 8192, ROPE["low_freq_factor"], ROPE["high_freq_factor"]
        if wavelength < old / high:
            factors.append(1.0)
        elif wavelength > old / low:
            factors.append(ROPE["factor"])
        else:
            smooth = (old / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / ROPE["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def _save_gguf(path: Path, model: Any, *, frequencies: bool) -> None:
    from hpcllm.models.adapters import permute_rows
    from hpcllm.training.gguf_files import checkpoint_name

    words = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(131072)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(ROPE["rope_theta"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words))
    writer.add_file_type(0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(list(words))
    writer.add_token_types([3 if token in SPECIAL else 1 for token in words])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(words[SPECIAL[0]])
    writer.add_eos_token_id(words[SPECIAL[3]])
    writer.add_pad_token_id(words[SPECIAL[4]])
    writer.add_add_bos_token(True)
    writer.add_chat_template(TEMPLATE)
    state = {name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()}
    names = ["token_embd.weight", "output_norm.weight", "output.weight"]
    names += [f"blk.{layer}.{kind}.weight" for layer in range(LAYERS) for kind in KINDS]
    for name in names:
        found = checkpoint_name(name)
        assert found is not None
        values = state[found]
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        writer.add_tensor(
            name, np.ascontiguousarray(permute_rows(values, heads) if heads else values)
        )
    if frequencies:
        writer.add_tensor("rope_freqs.weight", _frequencies())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _save_catalog(path: Path, folder: Path) -> None:
    roles = {".json": "config", ".jinja": "config", ".gguf": "source", ".safetensors": "weights"}
    entry = {
        "id": f'"{MODEL_ID}"',
        "kind": '"generator"',
        "family": '"llama"',
        "parameters": 1_000_000,
        "context": 131072,
        "engine_context": 1024,
        "licence": '"none"',
        "passages": 2,
        "prompt_tokens": 3000,
        "answer_tokens": 24,
    }
    lines = ["[[models]]", *(f"{key} = {value}" for key, value in entry.items())]
    order = [".safetensors", ".json", ".jinja", ".gguf"]
    for file in sorted(folder.iterdir(), key=lambda f: order.index(f.suffix)):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        lines += [
            "[[models.files]]",
            f'name = "{file.name}"',
            f'role = "{roles[file.suffix]}"',
            f"size = {file.stat().st_size}",
            f'sha256 = "{digest}"',
            f'places = [{{ kind = "path", path = "{file}" }}]',
        ]
    path.write_text("\n".join(lines), encoding="utf-8")


def write_data(path: Path, rows: int, *, long: int = 0) -> None:
    """Write examples whose answer is copied from the prompt; ``long`` of them are very long."""
    lines = []
    for number in range(rows):
        filler = "word " * (4000 if number < long else 2)
        row = {
            "id": f"e{number}",
            "kind": "test",
            "source": "docs",
            "question": f"quota of area {number}?",
            "messages": [
                {"role": "system", "content": "Answer from the passage."},
                {
                    "role": "user",
                    "content": f"[1] area {number}: {number + 10} GB {filler}\nQuota?",
                },
            ],
            "completion": f"{number + 10} GB [1]",
            "passages": [["a"]],
        }
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


RECIPE = """\
[base]
model = "tiny-llama"
four_bit = {four_bit}
precision = "{precision}"
[data]
file = "data/tiny.jsonl"
evaluation_share = 0.1
max_tokens = 256
[adapter]
id = "hpc-tiny"
rank = 4
alpha = 8
[training]
max_steps = {steps}
batch = 2
accumulate = 2
learning_rate = 5e-3
evaluate_every = 4
keep_checkpoints = 3
bf16 = {bf16}
threads = 1
device = "cpu"
[slurm]
cpus = 1
memory_gb = 4
minutes = 10
"""


def write_recipe(
    tiny: Tiny, *, steps: int = 8, four_bit: bool = False, bf16: bool = False, name: str = "tiny"
) -> Path:
    folder = tiny.workspace / "training" / "recipes"
    folder.mkdir(exist_ok=True)
    text = RECIPE.format(
        four_bit=str(four_bit).lower(),
        precision="bf16" if bf16 else "fp32",
        steps=steps,
        bf16=str(bf16).lower(),
    )
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder / f"{name}.toml"


def hpcllm(tiny: Tiny, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in the tiny model's workspace, on one thread."""
    environment = {**os.environ, "HPCLLM_HOME": str(tiny.models_dir.parent), "HPCLLM_THREADS": "1"}
    command = [sys.executable, "-m", "hpcllm", *arguments, "--workspace", str(tiny.workspace)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def write_site(tiny: Tiny, *, minimum_evidence: float | None = None) -> None:
    """Give the workspace settings, a source and two pages."""
    settings = f'[site]\nname = "tiny"\n[index]\nembedder = "hashing"\n[model]\nid = "{MODEL_ID}"\n'
    if minimum_evidence is not None:
        settings += f"[retrieval]\nminimum_evidence = {minimum_evidence}\n"
    sources = '[[source]]\nname = "docs"\nkind = "folder"\npath = "pages"\n'
    (tiny.workspace / "hpcllm.toml").write_text(settings, encoding="utf-8")
    (tiny.workspace / "corpus" / "sources.toml").write_text(sources, encoding="utf-8")
    pages = tiny.workspace / "pages"
    pages.mkdir()
    (pages / "storage.md").write_text(STORAGE, encoding="utf-8")
    (pages / "jobs.md").write_text(JOBS, encoding="utf-8")
