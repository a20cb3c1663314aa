"""The text encoders of tiny-flux: the real classes, set by hand instead of trained.

A sentence of a closed language needs no understanding, only a code that tells its words and their order apart. T5
gets one layer whose heads look at fixed distances (its queries are zero, so position alone decides): each token carries
itself and its neighbours, each neighbour in its own random directions. CLIP gets one layer that averages, so its
summary is the bag of words.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor, nn

from worker.libraries import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast
from worker.playground.language import PROMPT_TOKENS, WORDS
from worker.playground.networks import TEXT_WIDTH

CLIP_TOKENS = 77
T5_TOKENS = 512
LOOKS_AT = (-2, -1, 1, 2)
"""The distance, in tokens, at which each head of T5 looks."""
SEED = 3

_BEGIN, _END = "<|startoftext|>", "<|endoftext|>"
_BUCKETS = 32
_CERTAIN = 30.0


def clip_tokenizer(known: Sequence[str] = WORDS) -> CLIPTokenizer:
    """Byte-level BPE that knows these words whole and spells everything else."""
    letters = sorted(ByteLevel.alphabet())
    vocabulary = dict.fromkeys([_BEGIN, _END, *letters, *(letter + "</w>" for letter in letters)])
    merges: dict[tuple[str, str], None] = {}
    for word in known:
        pieces = [*word[:-1], word[-1] + "</w>"]
        whole = pieces[0]
        for piece in pieces[1:]:
            merges[(whole, piece)] = None
            whole += piece
            vocabulary[whole] = None
    numbered = {token: number for number, token in enumerate(vocabulary)}
    return CLIPTokenizer(vocab=numbered, merges=list(merges), model_max_length=CLIP_TOKENS)


def t5_tokenizer() -> T5TokenizerFast:
    """``WORDS`` whole, and one unknown piece for every other word."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [("▁" + word, -2.0) for word in WORDS]
    tokenizer = T5TokenizerFast(vocab=pieces, extra_ids=0, model_max_length=T5_TOKENS)
    tokenizer.backend_tokenizer.normalizer = Lowercase()
    return tokenizer


def t5_encoder(vocabulary: int) -> T5EncoderModel:
    """Token codes (n, tokens, 96): the word itself, and what stands one and two tokens before and after."""
    width = TEXT_WIDTH // len(LOOKS_AT)
    config = T5Config(
        vocab_size=vocabulary,
        d_model=TEXT_WIDTH,
        d_kv=width,
        d_ff=8,
        num_layers=1,
        num_heads=len(LOOKS_AT),
        relative_attention_num_buckets=_BUCKETS,
        feed_forward_proj="gated-gelu",
        pad_token_id=0,
        eos_token_id=1,
        use_cache=False,
    )
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        model = T5EncoderModel(config)
        model.shared.weight.copy_(_apart(vocabulary, TEXT_WIDTH, generator))
        look, _ = model.encoder.block[0].layer
        look.SelfAttention.q.weight.zero_()
        look.SelfAttention.k.weight.zero_()
        look.SelfAttention.v.weight.copy_(_apart(TEXT_WIDTH, TEXT_WIDTH, generator))
        look.SelfAttention.o.weight.copy_(_apart(TEXT_WIDTH, TEXT_WIDTH, generator))
        bias = look.SelfAttention.relative_attention_bias.weight.zero_()
        for head, distance in enumerate(LOOKS_AT):
            bias[_bucket(distance), head] = _CERTAIN
        for part in model.encoder.block[0].layer[1].parameters():
            part.zero_()
    return _frozen(model)


def clip_encoder(vocabulary: int) -> CLIPTextModel:
    """A summary (n, 96) of the words of a sentence, whatever their order."""
    config = CLIPTextConfig(
        vocab_size=vocabulary,
        hidden_size=TEXT_WIDTH,
        intermediate_size=8,
        projection_dim=TEXT_WIDTH,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=CLIP_TOKENS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    generator = torch.Generator().manual_seed(SEED + 1)
    model = CLIPTextModel(config)
    with torch.no_grad():
        for part in model.parameters():
            part.zero_()
        for name, part in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                part.fill_(1.0)
            elif name.endswith("token_embedding.weight"):
                part.copy_(_apart(vocabulary, TEXT_WIDTH, generator))
                part[1] *= 0.01
            elif name.endswith(("v_proj.weight", "out_proj.weight")):
                part.copy_(torch.eye(TEXT_WIDTH))
    return _frozen(model)


class Text:
    """Both encoders with their tokenizers."""

    def __init__(self) -> None:
        self.words, self.pieces = clip_tokenizer(), t5_tokenizer()
        self.clip, self.t5 = clip_encoder(len(self.words)), t5_encoder(len(self.pieces))

    @torch.no_grad()
    def __call__(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What the pipeline makes of them: token codes (n, 10, 96) and summaries (n, 96)."""
        pieces = self.pieces(
            list(captions), padding="max_length", truncation=True, max_length=PROMPT_TOKENS, return_tensors="pt"
        )
        words = self.words(
            list(captions), padding="max_length", truncation=True, max_length=CLIP_TOKENS, return_tensors="pt"
        )
        return self.t5(pieces.input_ids)[0], self.clip(words.input_ids).pooler_output


def _bucket(distance: int) -> int:
    # T5 numbers small distances as they are, those ahead after those behind (Raffel et al. 2020, their code).
    return -distance if distance < 0 else _BUCKETS // 2 + distance


def _apart(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A matrix whose first ``columns`` rows stand at right angles, each row of length sqrt(columns)."""
    square, _ = torch.linalg.qr(torch.randn(columns, columns, generator=generator))
    more = torch.randn(max(rows - columns, 0), columns, generator=generator)
    more = more / more.norm(dim=1, keepdim=True)
    scale = columns**0.5 if rows != columns else 1.0
    return torch.cat([square, more])[:rows] * scale


def _frozen(model: nn.Module) -> nn.Module:
    return model.requires_grad_(False).eval()
