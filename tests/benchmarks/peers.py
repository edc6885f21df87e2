"""List the public implementations that each mixer is compared with.

A peer takes the mixer's own parameters, and must give the same outputs and gradients before a speed
is printed. If it computes something else, its entry describes the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from torch import nn

from bakeoff.models.model_spec import Knob
from tests.benchmarks import (
    attention_peers,
    filter_peers,
    package_peers,
    sparse_peers,
    state_peers,
    torch_peers,
    vision_peers,
)
from tests.benchmarks.torch_peers import Adapter


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A public implementation of a mixer.

    Attributes:
        name: The name in tables.
        adapt: Builds the public module from a mixer of ours.
        package: The distribution that contains it.
        differs: The difference from what the mixer computes, if any.
        check: A context in which it computes what the mixer does, for the comparison of outputs, or
            None if there is none.
        is_float32_only: True if it fails in bfloat16, so that both are timed in float32.
    """

    name: str
    adapt: Adapter
    package: str = "torch"
    differs: str = ""
    check: Callable[[], AbstractContextManager[object]] | None = nullcontext
    is_float32_only: bool = False

    def installed(self) -> str:
        """Return the version of its package; empty if the package is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """A mixer of ours and the peers that run in turns with it.

    Attributes:
        mixer: The mixer's name in the registry.
        is_causal: True if a token may depend only on itself and earlier ones.
        peers: The peers, at least one.
        knobs: The knobs of the mixer, without `heads`.
        layer: The index of its layer in a stack, for mixers whose layers differ.
    """

    mixer: str
    is_causal: bool
    peers: tuple[Peer, ...]
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    layer: int = 0

    @property
    def title(self) -> str:
        """The name in tables and tests."""
        causal = ["causal"] if self.is_causal else []
        knobs = [f"{key}={value}" for key, value in self.knobs.items()]
        layer = [f"layer {self.layer}"] if self.layer else []
        return " ".join([self.mixer, *causal, *knobs, *layer])


# The reasons why a mixer has no pairing.
_NO_CODE = "no public code computes it on a CPU but a loop over tokens"
NOT_YET_TIMED: Mapping[str, str] = dict.fromkeys(
    ("gla", "rwkv7"), f"{_NO_CODE}: flash-linear-attention's chunks need Triton"
) | {"prefix_attention": "it is `attention` with a mask, and torch's kernels alone decide its time"}


def _both(mixer: str, *peers: Peer, layer: int = 0, **knobs: Knob) -> tuple[Pairing, Pairing]:
    """Return the pairings of the non-causal and the causal form."""
    return (
        Pairing(mixer=mixer, is_causal=False, peers=peers, knobs=knobs, layer=layer),
        Pairing(mixer=mixer, is_causal=True, peers=peers, knobs=knobs, layer=layer),
    )


_MULTIHEAD = Peer(
    name="nn.MultiheadAttention", adapt=torch_peers.multihead_attention(needs_weights=False)
)
_WITH_WEIGHTS = Peer(
    name="nn.MultiheadAttention with weights",
    adapt=torch_peers.multihead_attention(needs_weights=True),
)
_BARE = Peer(
    name="scaled_dot_product_attention between nn.Linear", adapt=torch_peers.scaled_dot_product
)
_DOT = Peer(name="scaled_dot_product_attention", adapt=torch_peers.dot_product)
_WINDOW = Peer(
    name="local-attention, exact window",
    package="local-attention",
    adapt=package_peers.windowed_attention,
)
_BLOCKS = Peer(
    name="local-attention, as it comes",
    package="local-attention",
    adapt=package_peers.blockwise_attention,
    differs="a query sees whole blocks, up to 2 r - 1 tokens away",
    check=None,
)
_RNN = Peer(name="nn.RNN", adapt=torch_peers.recurrent(nn.RNN))
_GRU = Peer(name="nn.GRU", adapt=torch_peers.recurrent(nn.GRU))
_LSTM = Peer(name="nn.LSTM", adapt=torch_peers.recurrent(nn.LSTM))
_CONV = Peer(name="nn.Conv1d", adapt=torch_peers.convolution)
_SEPARABLE = Peer(name="two nn.Conv1d", adapt=torch_peers.separable_convolution)
_GRID = Peer(name="nn.Conv2d", adapt=torch_peers.grid_convolution)
_GATED = Peer(name="nn.Conv1d, nn.GLU", adapt=torch_peers.gated_convolution)
_LINFORMER = Peer(name="linformer", package="linformer", adapt=package_peers.linformer)
_PERFORMER = Peer(
    name="performer-pytorch",
    package="performer-pytorch",
    adapt=package_peers.performer,
    differs="compared without the epsilons that it adds",
    check=package_peers.without_epsilons,
)
_LINEAR = Peer(
    name="linear-attention-transformer",
    package="linear-attention-transformer",
    adapt=package_peers.linear_attention,
    check=None,
    differs="softmax for features, in place of elu + 1",
)
_TOKENS = Peer(
    name="mlp-mixer-pytorch", package="mlp-mixer-pytorch", adapt=package_peers.token_mixing
)
_FNET = Peer(
    name="transformers FNet",
    package="transformers",
    adapt=package_peers.fourier_transform,
    is_float32_only=True,
)
_GROUPED = Peer(
    name="scaled_dot_product_attention, enable_gqa, between nn.Linear",
    adapt=torch_peers.grouped_query,
)
_RETENTION = Peer(name="the parallel form, by torch", adapt=state_peers.retention)
_HALVES = Peer(
    name="four scaled_dot_product_attention, as the authors' code",
    adapt=attention_peers.differential,
)
_SAMPLED = Peer(
    name="gumbel_softmax between nn.Linear",
    adapt=attention_peers.sampled,
    check=attention_peers.same_noise,
    differs="compared with the same noise",
)
_SYNTHESIZED = Peer(name="by torch, between nn.Linear", adapt=attention_peers.synthesized)
_HASHED = Peer(
    name="transformers LSHSelfAttention",
    package="transformers",
    adapt=sparse_peers.hashed,
    check=sparse_peers.same_hashes,
    differs="compared with the same hashes",
)
_NYSTROM = Peer(
    name="transformers NystromformerSelfAttention",
    package="transformers",
    adapt=sparse_peers.nystromformer,
)
_MASKED = "scaled_dot_product_attention, masked, between nn.Linear"
_SHOWN = Peer(name=_MASKED, adapt=torch_peers.masked)
_STRIDED = Peer(name=_MASKED, adapt=sparse_peers.strided)
_SINKHORN = Peer(name="by torch, between nn.Linear", adapt=sparse_peers.sinkhorn)
_VANDERMONDE = Peer(
    name="the Vandermonde product and torch.fft",
    adapt=filter_peers.diagonal_states,
    is_float32_only=True,
)
_HYENA = Peer(name="torch.fft", adapt=filter_peers.hyena, is_float32_only=True)


def _transformers(name: str, adapt: Adapter) -> Peer:
    return Peer(
        name=f"transformers {name}",
        package="transformers",
        adapt=adapt,
        check=state_peers.in_double,
    )


_TALKING_BY_EINSUM = Peer(
    name="the paper's listing, by torch", adapt=vision_peers.CausalTalkingHeads
)


def _timm(name: str, adapt: Adapter) -> Peer:
    return Peer(name=f"timm {name}", package="timm", adapt=adapt)


PAIRINGS: tuple[Pairing, ...] = (
    *_both("attention", _MULTIHEAD, _BARE),
    *_both("attention", _WITH_WEIGHTS, kernel="materialised"),
    *_both("plain_attention", _DOT),
    *_both("local_attention", _WINDOW, _BLOCKS, window=64),
    *_both("rnn", _RNN),
    *_both("gru", _GRU),
    *_both("lstm", _LSTM),
    Pairing(mixer="lstm", is_causal=True, peers=(_LSTM,), knobs={"layers": 2}),
    *_both("conv", _CONV),
    *_both("dilated_conv", _CONV, layer=2),
    *_both("separable_conv", _SEPARABLE),
    *_both("gated_conv", _GATED),
    Pairing(mixer="grid_conv", is_causal=False, peers=(_GRID,)),
    Pairing(
        mixer="linformer", is_causal=False, peers=(_LINFORMER,), knobs={"projected_length": 256}
    ),
    *_both("performer", _PERFORMER, num_features=128),
    *_both("linear_transformer", _LINEAR),
    Pairing(mixer="mlp_mixer", is_causal=False, peers=(_TOKENS,)),
    Pairing(mixer="fnet", is_causal=False, peers=(_FNET,)),
    *_both("grouped_query", _GROUPED),
    *_both("sink_attention", _SHOWN),
    *_both("latent_attention", _transformers("DeepseekV2Attention", attention_peers.latent)),
    *_both("differential_attention", _HALVES),
    Pairing(
        mixer="talking_heads",
        is_causal=False,
        peers=(_timm("TalkingHeadAttn", vision_peers.talking_heads),),
        knobs={"bias": True},
    ),
    Pairing(
        mixer="talking_heads", is_causal=True, peers=(_TALKING_BY_EINSUM,), knobs={"bias": True}
    ),
    Pairing(
        mixer="outlook_attention",
        is_causal=False,
        peers=(_timm("OutlookAttention", vision_peers.outlook),),
    ),
    Pairing(
        mixer="window_attention",
        is_causal=False,
        peers=(_timm("WindowAttention", vision_peers.window),),
        knobs={"bias": True, "window": 8},
    ),
    *_both("hard_attention", _SAMPLED),
    *_both("synthesizer", _SYNTHESIZED),
    *_both("lsh_attention", _HASHED),
    *_both("strided_attention", _STRIDED),
    Pairing(mixer="nystromformer", is_causal=False, peers=(_NYSTROM,)),
    Pairing(mixer="bigbird", is_causal=False, peers=(_SHOWN,)),
    Pairing(mixer="sinkhorn", is_causal=False, peers=(_SINKHORN,)),
    *_both("s4d", _VANDERMONDE),
    *_both("hyena", _HYENA),
    *_both("retention", _RETENTION),
    *_both("mamba2", _transformers("Mamba2Mixer", state_peers.mamba2)),
    *_both("delta_net", _transformers("torch_chunk_gated_delta_rule", state_peers.delta_net)),
    *_both("gated_delta", _transformers("Qwen3NextGatedDeltaNet", state_peers.gated_delta)),
    *_both("kimi_delta", _transformers("KimiLinearDeltaAttention", state_peers.kimi_delta)),
)


def packages() -> Mapping[str, str]:
    """Return the version of every peer's package; empty if it is not installed."""
    peers = [peer for pairing in PAIRINGS for peer in pairing.peers]
    return {peer.package: peer.installed() for peer in peers}
