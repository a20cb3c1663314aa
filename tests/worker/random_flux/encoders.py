"""Text encoders of random weights, of any small width."""

from __future__ import annotations

from typing import Any

from worker.libraries import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel
from worker.playground.text import CLIP_TOKENS


def clip_encoder(vocabulary: int, width: int, kind: Any = CLIPTextModel) -> Any:
    return kind(
        CLIPTextConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=2 * width,
            projection_dim=width,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=CLIP_TOKENS,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    )


def t5_encoder(vocabulary: int, width: int, layers: int, heads: int) -> T5EncoderModel:
    return T5EncoderModel(
        T5Config(
            vocab_size=vocabulary,
            d_model=width,
            d_kv=8,
            d_ff=2 * width,
            num_layers=layers,
            num_heads=heads,
            feed_forward_proj="gated-gelu",
            pad_token_id=0,
            eos_token_id=1,
            use_cache=False,
        )
    )
