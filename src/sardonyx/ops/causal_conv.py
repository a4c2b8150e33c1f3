"""CausalConvWithState: a depthwise convolution of a sequence that goes on from step to step."""

from __future__ import annotations

from sardonyx.kernel.build import Builder, Tensor
from sardonyx.ops.activation import swish
from sardonyx.ops.common import one_of
from sardonyx.ops.conv import conv
from sardonyx.ops.movement import concat
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, numbers


@operator("CausalConvWithState", 27, accuracy="approximate")
def causal_conv_with_state(
    k: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
) -> tuple[Tensor, Tensor]:
    """The convolution of (batch, channels, length) with (channels, 1, size) over past_state, of
    (batch, channels, size - 1), and the input behind it; the last size - 1 places of both are the
    next state. Without past_state these are zeros."""
    one_of(activation, ("none", "silu", "swish"), "activation")
    agree(input.rank, 3, "the rank of input and that of a sequence of channels")
    agree(weight.rank, 3, "the rank of weight and that of a depthwise kernel")
    channels, _, size = numbers(weight.shape, "the shape of weight")
    k.need_shape(weight, (channels, 1, size), "weight")
    state = (*input.shape[:2], size - 1)
    k.need_shape(past_state, state, "past_state")
    if past_state is None:
        y = conv(k, input, weight, bias, group=channels, pads=[size - 1, 0])
        seen, before = input, size - 1
    else:
        seen, before = concat(k, past_state, input, axis=2), 0
        y = conv(k, seen, weight, bias, group=channels)
    places = input.shape[2] - before
    present = k.compute(state, lambda n, c, i: seen.guard((n, c, i + places)), input.dtype)
    return y if activation == "none" else swish(k, y), present
