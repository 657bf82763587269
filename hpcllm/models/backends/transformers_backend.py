"""Generate in this process with torch, so that an adapter can be tried before it is exported.

Role: an engine for those who train. It reads the weights that training reads, with an adapter
beside them or merged in, optionally in four bits; llama.cpp serves what has been exported.
One answer is generated at a time.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import GenerationError, ModelError, import_extra
from hpcllm.models.backends.base import GenerationResult, TextStream
from hpcllm.models.backends.places import Places
from hpcllm.models.backends.pump import pump
from hpcllm.models.torch_weights import EXTRA, nf4_settings, quiet_libraries
from hpcllm.records import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpcllm.models.backends.base import Finish, GenerationSettings, Message
    from hpcllm.models.backends.pump import Emit, Stop

logger = logging.getLogger(__name__)

PENALISED_TOKENS = 64
"""Tokens back that the repeat penalty looks, as in llama.cpp: passages are not penalised."""
SAMPLED_FROM = {"top_k": 40, "top_p": 0.95}
"""What llama.cpp samples from above temperature 0."""
BF16_INSTRUCTIONS = ("amx_bf16", "avx512_bf16", "bf16")
"""Of x86 and of ARM, as torch calls them: a product of two bfloat16 matrices in hardware."""
UNFINISHED = "\ufffd"
"""What a character decodes to while some of its bytes are still to come."""


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """How to run a model with torch.

    Attributes:
        adapter: folder that ``peft`` wrote, or None.
        merged: add the adapter to the weights, as an export does, instead of beside them.
        four_bit: keep the base in NF4 with double quantisation.
        context_tokens: most tokens of prompt and answer.
        threads: threads of one step of computing; 0 leaves them to torch.
        bf16: compute in bfloat16; None does where the processor has instructions for it, which
            takes half the memory and reads a prompt several times as fast.
        waiting: answers that may wait for their turn; one more is refused with BusyError.
    """

    adapter: Path | None = None
    merged: bool = False
    four_bit: bool = False
    context_tokens: int = 2048
    threads: int = 0
    bf16: bool | None = None
    waiting: int = 32


class TransformersBackend:
    """A loaded model.

    Args:
        model: causal language model of transformers, with or without an adapter of peft.
        tokenizer: its tokenizer, with a chat template.
        id: name of the model, for results and messages.
        options: what it was loaded with.
    """

    def __init__(self, model: Any, tokenizer: Any, *, id: str, options: TorchOptions) -> None:
        self.id = id
        self.context_tokens = options.context_tokens
        self._options = options
        self._model = model
        self._tokenizer = tokenizer
        self._places = Places(id, parallel=1, waiting=options.waiting)

    @classmethod
    def load(
        cls, folder: Path, *, id: str, options: TorchOptions | None = None
    ) -> TransformersBackend:
        """Load a model: in bfloat16 where the processor computes in it, else in 32-bit floats.

        Args:
            folder: weights and tokenizer in the form of transformers.
            id: catalog id of the base; an adapter's name is added to it.
            options: how to run it.

        Raises:
            MissingExtraError: torch, transformers, peft or bitsandbytes is not installed.
            ModelError: the weights or the adapter cannot be read, the adapter belongs to another
                base, or memory is short.
        """
        options = options or TorchOptions()
        needed = ["torch", "transformers", *(["peft"] if options.adapter else [])]
        for name in needed:
            import_extra(name, EXTRA)
        if options.merged and options.four_bit:
            raise ModelError(
                "an adapter cannot be merged into a base in four bits without rounding it: try it "
                "unmerged (leave out 'merged'), or in full precision (leave out '4bit')"
            )
        if options.four_bit and options.bf16 is False:
            raise ModelError(
                "a base in four bits is computed in bfloat16: leave out 'fp32', or '4bit' for "
                "weights in full precision"
            )
        quiet_libraries()
        started = time.perf_counter()
        tokenizer, model = load_torch(folder, id, options)
        logger.info("loaded %s in %.2f s", folder, time.perf_counter() - started)
        name = f"{id}+{options.adapter.name}" if options.adapter else id
        return cls(model, tokenizer, id=name, options=options)

    def generate(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings,
        *,
        cancel: threading.Event | None = None,
    ) -> TextStream:
        """Start an answer; see :class:`~hpcllm.models.backends.base.Backend`.

        Reading the prompt cannot be interrupted; generating ends with the token that is computed.
        """
        given = tuple(messages)
        return TextStream(
            pump(
                lambda emit, stop: self._run(given, settings, emit, stop),
                cancel,
                name="transformers",
            )
        )

    def _run(
        self,
        messages: tuple[Message, ...],
        settings: GenerationSettings,
        emit: Emit,
        stop: Stop,
    ) -> GenerationResult:
        writing = Writing(self._tokenizer, settings.stop, emit, stop)
        with self._places.place(stop) as is_given:
            if not is_given:
                return writing.result("cancelled", 0)
            return self._answer(messages, settings, writing)

    def _answer(
        self, messages: tuple[Message, ...], settings: GenerationSettings, writing: Writing
    ) -> GenerationResult:
        ids = self._prompt(messages)
        length = ids.shape[1]
        room = self.context_tokens - length
        if room < 1:
            raise GenerationError(
                f"the prompt has {length} tokens and {self.id} has room for "
                f"{self.context_tokens}: ask a shorter question, pass fewer passages, or raise "
                "engine_context of the model's catalog entry"
            )
        try:
            generate(self._model, ids, settings, min(settings.answer_tokens, room), writing)
        except RuntimeError as exc:  # torch raises it for short memory too
            raise GenerationError(f"{self.id} failed: {exc}. Ask a shorter question") from exc
        return writing.finished(length, _ends(self._model))

    def _prompt(self, messages: tuple[Message, ...]) -> Any:
        """Return the tokens of the prompt, (1, tokens), on the model's device."""
        from jinja2 import TemplateError

        try:
            ids = self._tokenizer.apply_chat_template(
                [message.to_json() for message in messages],
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=False,
            )
        except (TemplateError, ValueError) as exc:
            raise GenerationError(f"{self.id} refused the request: {exc}") from exc
        return ids.to(self._model.device)

    def count_tokens(self, text: str) -> int:
        """Return the length of ``text`` in the model's tokens, special ones not counted."""
        return len(self._tokenizer.encode(text, add_special_tokens=False)) if text else 0

    def close(self) -> None:
        """Wait for the running answer to end, then free the model."""
        self._places.close()
        self._model = None


def generate(
    model: Any, ids: Any, settings: GenerationSettings, answer_tokens: int, writing: Writing
) -> None:
    """Generate after a prompt; what comes is put into ``writing``, which also ends it.

    Args:
        model: causal language model of transformers.
        ids: the prompt, (1, tokens).
        settings: how to generate.
        answer_tokens: most tokens to generate.
        writing: takes the tokens.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    options: dict[str, Any] = {"do_sample": False}
    if settings.temperature > 0:
        options = {"do_sample": True, "temperature": settings.temperature, **SAMPLED_FROM}
        torch.manual_seed(settings.seed)
    processors = LogitsProcessorList()
    if settings.repeat_penalty != 1.0:
        processors.append(_penalty(settings.repeat_penalty, ids.shape[1]))
    with torch.inference_mode():
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=answer_tokens,
            use_cache=True,
            streamer=writing,
            logits_processor=processors,
            stopping_criteria=StoppingCriteriaList([_criterion(writing)]),
            **options,
        )


class Writing:
    """Turns tokens into pieces of text as they come; a stop text and what may be one are held.

    It has the methods of a streamer of transformers: ``put`` and ``end``.

    Args:
        tokenizer: decodes tokens.
        stops: texts that end the answer.
        emit: takes pieces of text.
        stop: set where nobody reads any more.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str], emit: Emit, stop: Stop) -> None:
        self._tokenizer = tokenizer
        self._stops = tuple(text for text in stops if text)
        self._emit = emit
        self._stop = stop
        self._tokens: list[int] = []
        self._sent = 0
        self._is_prompt = True
        self._is_stopped = False
        self._started = time.perf_counter()
        self._first_ms = 0.0

    def put(self, value: Any) -> None:
        """Take tokens; the first call brings the prompt."""
        if self._is_prompt:
            self._is_prompt = False
            return
        if not self._is_stopped:
            self._tokens += value.flatten().tolist()
            self._pass_on(is_end=False)

    def end(self) -> None:
        """Pass on what was held back."""
        if not self._is_stopped:
            self._pass_on(is_end=True)

    def _pass_on(self, *, is_end: bool) -> None:
        text = self._tokenizer.decode(self._tokens, skip_special_tokens=True)
        found = [place for word in self._stops if (place := text.find(word)) >= 0]
        if found:
            self._is_stopped = True
            until = min(found)
        else:
            until = len(text) if is_end else len(text) - self._held(text)
        piece = text[self._sent : until]
        if piece and not self._stop.is_set():
            self._first_ms = self._first_ms or self._elapsed_ms()
            self._sent = until
            self._emit(piece)

    def _held(self, text: str) -> int:
        """Return how many characters at the end may still change or begin a stop text."""
        if text.endswith(UNFINISHED):
            return len(text) - len(text.rstrip(UNFINISHED))
        sizes = (n for word in self._stops for n in range(1, len(word)) if text.endswith(word[:n]))
        return max(sizes, default=0)

    def is_over(self) -> bool:
        """Whether generating should end: a stop text came, or nobody reads any more."""
        return self._is_stopped or self._stop.is_set()

    def finished(self, prompt_tokens: int, ends: Sequence[int]) -> GenerationResult:
        """Return the result of a generation that has ended.

        Args:
            prompt_tokens: length of the prompt.
            ends: tokens that end an answer.
        """
        if self._is_stopped or (self._tokens and self._tokens[-1] in ends):
            return self.result("stop", prompt_tokens)
        return self.result("cancelled" if self._stop.is_set() else "length", prompt_tokens)

    def result(self, finish: Finish, prompt_tokens: int) -> GenerationResult:
        """Return a result with what was counted and timed so far."""
        return GenerationResult(
            finish,
            Usage(prompt_tokens, len(self._tokens)),
            first_token_ms=self._first_ms,
            total_ms=self._elapsed_ms(),
        )

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000


def _criterion(writing: Writing) -> Any:
    import torch
    from transformers import StoppingCriteria

    class Over(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            return torch.full((input_ids.shape[0],), writing.is_over(), device=input_ids.device)

    return Over()


def _penalty(factor: float, prompt_tokens: int) -> Any:
    from transformers import LogitsProcessor, RepetitionPenaltyLogitsProcessor

    penalise = RepetitionPenaltyLogitsProcessor(penalty=factor)

    class Recent(LogitsProcessor):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            recent = input_ids[:, prompt_tokens:][:, -PENALISED_TOKENS:]
            return penalise(recent, scores) if recent.shape[1] else scores

    return Recent()


def _ends(model: Any) -> tuple[int, ...]:
    ends = model.generation_config.eos_token_id
    return tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,)


def load_torch(folder: Path, id: str, options: TorchOptions) -> tuple[Any, Any]:
    """Return tokenizer and model; see :meth:`TransformersBackend.load`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if options.threads:
        torch.set_num_threads(options.threads)
    on_gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if options.four_bit or _takes_bf16(options) else torch.float32
    more: dict[str, Any] = {"quantization_config": nf4_settings(dtype)} if options.four_bit else {}
    if on_gpu:
        more["device_map"] = {"": 0}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", **more
        )
    except (OSError, ValueError, RuntimeError) as exc:
        raise ModelError(
            f"torch cannot load the weights of {id} in {folder}: {exc}. Fetch the model again "
            f"with: hpcllm models pull {id}"
        ) from exc
    if options.adapter:
        model = _adapted(model, options.adapter, id, merged=options.merged)
    model.generation_config = _plain_generation(model, tokenizer)
    model.get_output_embeddings().register_forward_pre_hook(_with_own_strides)
    return tokenizer, model.eval()


def _with_own_strides(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the last token's state out of those of the prompt.

    In bfloat16 torch 2.13 multiplies a slice with a transposed copy of the vocabulary's matrix,
    which takes a second and more.
    """
    import torch

    return tuple(value.clone(memory_format=torch.contiguous_format) for value in inputs)


def _takes_bf16(options: TorchOptions) -> bool:
    """Tell whether to compute in bfloat16."""
    import torch

    if options.bf16 is not None:
        return options.bf16
    known = torch.cpu.get_capabilities()
    return torch.cuda.is_available() or any(known.get(name) for name in BF16_INSTRUCTIONS)


def _plain_generation(model: Any, tokenizer: Any) -> Any:
    """Return what ends an answer, without the sampling that a model's own settings may ask for."""
    from transformers import GenerationConfig

    ends = {*_ends(model), *([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id])}
    padding = tokenizer.pad_token_id
    return GenerationConfig(
        eos_token_id=sorted(ends), pad_token_id=min(ends, default=0) if padding is None else padding
    )


def _adapted(model: Any, adapter: Path, id: str, *, merged: bool) -> Any:
    """Return the model with an adapter.

    Raises:
        ModelError: the adapter cannot be read or does not fit the model.
    """
    from peft import PeftConfig, get_peft_model, set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from hpcllm.models.adapters import CONFIG_FILE, WEIGHTS_FILE

    if not (adapter / CONFIG_FILE).is_file():
        raise ModelError(
            f"{adapter} holds no adapter: expected a folder with {CONFIG_FILE} and {WEIGHTS_FILE}, "
            "as hpcllm train writes to RUN/adapter"
        )
    try:
        config = PeftConfig.from_pretrained(str(adapter))
        weights = load_file(adapter / WEIGHTS_FILE)
    except (OSError, ValueError, TypeError, SafetensorError) as exc:
        raise ModelError(
            f"the adapter in {adapter} cannot be read: {exc}. Put its files there again"
        ) from exc
    _check_base(config.base_model_name_or_path, adapter, id)
    config.inference_mode = True
    try:
        whole = get_peft_model(model, config)
        outcome = set_peft_model_state_dict(whole, weights)
    except (RuntimeError, ValueError) as exc:
        raise ModelError(f"{_misfit(adapter, id)}: {exc}") from exc
    if outcome.unexpected_keys:
        raise ModelError(f"{_misfit(adapter, id)}: {id} has no {outcome.unexpected_keys[0]}")
    return whole.merge_and_unload() if merged else whole


def _check_base(base: str | None, adapter: Path, id: str) -> None:
    """Refuse an adapter that names another model of the catalog as its base."""
    if base and base != id and "/" not in base:
        raise ModelError(
            f"the adapter in {adapter} was trained on {base}, not on {id}: use it as "
            f"transformers:{base}+{adapter}"
        )


def _misfit(adapter: Path, id: str) -> str:
    return f"the adapter in {adapter} does not fit {id}, it was trained on another model"
