"""Passes keep the bits of every output, and kernels stay legal: by the interpreter alone."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_not
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Net

from sardonyx import types as t
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Buffer, Load, Where, where
from sardonyx.kernel.interpret import extents, interpret
from sardonyx.kernel.ir import Kernel, expressions, statements
from sardonyx.kernel.verify import verify as verify_kernel
from sardonyx.kernel.walk import walk
from sardonyx.passes.fuse import fuse
from sardonyx.passes.known import compute_known
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import steps
from sardonyx.passes.program import Launch, Program, verify
from sardonyx.types import Array, TensorType

UNARY = ("Relu", "Neg", "Exp", "Sigmoid", "Abs", "Identity", "Sqrt", "Softmax", "LogSoftmax")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
PAYLOADS = np.array([0x7FC00000, 0xFFC00001, 0x7FA5A5A5, 0xFF812345], np.uint32).view(np.float32)
ODD = np.concatenate([PAYLOADS, np.float32([np.inf, -np.inf, 0.0, -0.0, 1e-40])])


Done = dict[tuple[object, ...], tuple[list[Array | None], list[Array]]]


def outputs(program: Program, feeds: Mapping[str, Array], done: Done | None = None) -> list[bytes]:
    """The bytes of the program's outputs, launch by launch. done: what kernels gave for what they
    read, which the same statements give again for the same arrays."""
    env, done = {**program.weights, **feeds}, {} if done is None else done
    for launch in program.launches:
        kernel, reads = launch.kernel, [n and env[n] for n in launch.reads]
        key = (kernel.inputs, kernel.outputs, kernel.temporaries, kernel.body)
        given, made = done.get(key, (None, []))
        if given is None or any(map(is_not, given, reads)):
            made = evaluated(kernel, reads, [env.get(n) for n in launch.writes])
            if program.joined.isdisjoint(launch.writes):
                done[key] = reads, made
        env.update(zip(launch.writes, made, strict=True))
    return [env[n].tobytes() for n in program.outputs]


def evaluated(kernel: Kernel, reads: list[Array | None], there: list[Array | None]) -> list[Array]:
    """What a kernel writes: of a tensor that is there already, its own elements."""
    known = {b: x for b, x in zip(kernel.inputs, reads, strict=True) if b is not None}
    own = {b: np.zeros(extents(b), b.dtype.numpy) for b in kernel.temporaries}
    made = [
        np.zeros(extents(b), b.dtype.numpy) if x is None else x
        for b, x in zip(kernel.outputs, there, strict=True)
    ]
    arrays = {**known, **own, **dict(zip(kernel.outputs, made, strict=True))}
    interpret(kernel, {b: x for b, x in arrays.items() if x is not None})
    return made


def check(net: Net) -> Program:
    """Asserts of each pass in turn that it keeps the bits; the program after all of them."""
    program, done, legal = lower(net.graph()), Done(), set[Kernel]()
    expected = outputs(program, net.feeds, done)
    for step in steps():
        program = step(program)
        verify(program)
        for kernel in {launch.kernel for launch in program.launches} - legal:
            verify_kernel(kernel)
            legal.add(kernel)
        assert outputs(program, net.feeds, done) == expected, step
    return program


def values(seed: int, *shape: int) -> Array:
    """Numbers of many sizes, and what arithmetic treats apart: NaNs with payloads among them."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))).astype(np.float32)
    odd = rng.random(shape) < 0.1
    x.view(np.uint32)[odd] = rng.choice(ODD.view(np.uint32), int(odd.sum()))
    return x


def step(net: Net, data: st.DataObject, x: str, shape: list[int], seed: int) -> tuple[str, Any]:
    """One more operation on x, and the shape of what it gives."""
    kind = data.draw(st.sampled_from(["unary", "binary", "where", "transpose", "reshape", "slice",
                                      "pad", "concat", "matmul", "norm", "reduce"]))  # fmt: skip
    axis = data.draw(st.integers(0, len(shape) - 1))
    match kind:
        case "binary":
            other = net.feed(f"x{len(net.feeds)}", values(seed, *shape))
            return net.op(data.draw(st.sampled_from(BINARY)), x, other), shape
        case "where":
            other = net.feed(f"x{len(net.feeds)}", values(seed, *shape))
            return net.op("Where", net.op("IsNaN", other), x, other), shape
        case "transpose":
            order = data.draw(st.permutations(range(len(shape))))
            return net.op("Transpose", x, perm=order), [shape[i] for i in order]
        case "reshape":
            return net.op("Reshape", x, np.array([shape[0], -1])), [shape[0], _count(shape[1:])]
        case "slice":
            ends = np.array([shape[axis]]), np.array([axis]), np.array([-1])
            return net.op("Slice", x, np.array([-1]), np.array([-9999]), *ends[1:]), shape
        case "pad":
            pads = np.zeros(2 * len(shape), np.int64)
            pads[axis], grown = 2, list(shape)
            grown[axis] += 2
            return net.op("Pad", x, pads, PAYLOADS[1:2].reshape(())), grown
        case "concat":
            grown = list(shape)
            grown[axis] *= 2
            return net.op("Concat", x, net.op("Neg", x), axis=axis), grown
        case "matmul":
            n = data.draw(st.sampled_from([3, 16, 19]))
            return net.op("MatMul", x, values(seed, shape[-1], n)), [*shape[:-1], n]
        case "norm":
            scale = values(seed, shape[-1])
            return net.op("LayerNormalization", x, scale, scale), shape
        case "reduce":
            return net.op("ReduceSum", x, np.array([axis])), [
                1 if i == axis else n for i, n in enumerate(shape)
            ]
    return net.op(data.draw(st.sampled_from(UNARY)), x), shape


def _count(shape: list[int]) -> int:
    return int(np.prod(shape))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_operand_of_a_concat_gets_its_own_loop(axis: int) -> None:
    net = Net()
    shapes = [[4 if i == axis else 5 for i in range(3)], [2 if i == axis else 5 for i in range(3)]]
    x, y = (net.feed(f"x{i}", values(i, *shape)) for i, shape in enumerate(shapes))
    net.give(net.op("Relu", net.op("Concat", x, y, x, axis=axis)))
    (launch,) = check(net).launches
    found = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
    assert len(launch.kernel.body) == 3
    assert not any(isinstance(e, Where) for e in found)
    assert all(e.mode == "proven" for e in found if isinstance(e, Load))


@settings(max_examples=12, derandomize=True)
@given(st.data())
def test_random_chains_keep_their_bits(data: st.DataObject) -> None:
    net, seed = Net(), data.draw(st.integers(0, 1 << 16))
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 16]), min_size=2, max_size=3))
    x = net.feed("x0", values(seed, *shape))
    for i in range(data.draw(st.integers(1, 6))):
        x, shape = step(net, data, x, shape, seed + i)
        if data.draw(st.booleans()):
            net.give(x)
    if x not in net.outputs:
        net.give(x)
    check(net)


@settings(max_examples=3, derandomize=True)
@given(st.data())
def test_random_convolutional_networks_keep_their_bits(data: st.DataObject) -> None:
    net, seed, channels = (
        Net(),
        data.draw(st.integers(0, 1 << 16)),
        st.sampled_from([3, 16, 17, 32]),
    )
    c, x = data.draw(channels), "x"
    net.feed(x, values(seed, 1, c, 5, 6))
    for i in range(data.draw(st.integers(1, 3))):
        out, before = data.draw(channels), (x, c)
        x = net.op("Conv", x, values(seed + i, out, c, 3, 3), values(seed, out), pads=[1] * 4)
        c = out
        if data.draw(st.booleans()):
            some = [values(seed + j, c) for j in range(4)]
            x = net.op("Relu", net.op("BatchNormalization", x, *some))
        if data.draw(st.booleans()):
            x = net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        if before[1] == c:
            x = net.op("Add", x, before[0])
        elif data.draw(st.booleans()):
            x, c = net.op("Concat", x, before[0], axis=1), c + before[1]
    net.give(x)
    check(net)


def not_canonical(net: Net) -> tuple[str, str]:
    """inf - inf, which the interpreter's host gives a sign, and a condition that holds by turns."""
    x = net.feed("x", np.full(4, np.inf, np.float32))
    y = net.feed("y", np.full(4, np.inf, np.float32))
    return net.op("Sub", x, y), net.feed("c", np.arange(4) % 2 == 0)


def test_arithmetic_is_not_put_under_a_selection_of_bits() -> None:
    """Else Where would no longer move bits, and the payloads of its other NaNs would be lost."""
    net = Net()
    nan, c = not_canonical(net)
    net.give(net.op("Where", c, nan, net.feed("z", PAYLOADS)))
    assert len(check(net).launches) == 2


def test_arithmetic_is_not_put_under_a_view_of_bits() -> None:
    """BitCast shows which NaN it is given, also where it is one loop with what follows."""
    net = Net()
    nan, _ = not_canonical(net)
    shown = net.op("BitCast", nan, to=onnx.TensorProto.INT32)
    net.give(net.op("Add", shown, np.array([1], np.int32)))
    assert len(check(net).launches) == 2


def test_arithmetic_goes_into_a_permutation_of_it() -> None:
    """A bare load moves no bits once it is arithmetic: its NaNs are canonical where it stores."""
    net = Net()
    nan, _ = not_canonical(net)
    net.give(net.op("Slice", nan, np.array([-1]), np.array([-9]), np.array([0]), np.array([-1])))
    assert len(check(net).launches) == 1


@pytest.mark.parametrize("op", ["Relu", "Exp", "Sign", "IsNaN", "Atan", "Round"])
def test_nans_inside_a_fused_kernel_do_not_show(op: str) -> None:
    net = Net()
    nan, _ = not_canonical(net)
    net.give(net.op(op, nan))
    assert len(check(net).launches) == 1


def test_constants_are_computed_once() -> None:
    net = Net()
    x = net.feed("x", values(1, 3))
    net.give(net.op("Add", x, net.op("Exp", values(2, 3))))
    assert len(check(net).launches) == 1


def test_fusion_shares_what_it_merges() -> None:
    """A diamond: the producer is evaluated once per element, not once per path."""
    net = Net()
    e = net.op("Exp", net.feed("x", values(1, 8)))
    net.give(net.op("Mul", e, e))
    program = fuse(lower(net.graph()))
    (launch,) = program.launches
    nodes = list(walk(*(e for s in statements(launch.kernel.body) for e in expressions(s))))
    exps = fuse(lower(_alone().graph())).launches[0]
    alone = list(walk(*(e for s in statements(exps.kernel.body) for e in expressions(s))))
    assert len(nodes) <= len(alone) + 2


def _alone() -> Net:
    net = Net()
    net.give(net.op("Exp", net.feed("x", values(1, 8))))
    return net


def test_loops_stay_apart_where_the_place_of_a_store_needs_one_of_them() -> None:
    """TensorScatter writes at write_indices[batch]: batch and head are not one axis."""
    net = Net()
    cache, new = net.feed("cache", values(1, 2, 2, 5, 3)), net.feed("new", values(2, 2, 2, 1, 3))
    net.give(net.op("TensorScatter", cache, new, np.array([1, 3])))
    check(net)


@pytest.mark.parametrize(
    "taken", ["MatMulInteger0_0.t1.0", "MatMulInteger0_0.t1.0.int8", "MatMulInteger0_0.t1.0.sums"]
)
def test_a_model_may_have_chosen_the_name_of_a_tensor_that_a_pass_makes(taken: str) -> None:
    net = Net()
    x = net.feed("x", np.arange(128, dtype=np.uint8).reshape(8, 16))
    weights = np.arange(-60, 60, dtype=np.int8).repeat(5)[:512].reshape(16, 32)
    net.give(net.op("MatMulInteger", x, weights, np.array(3, np.uint8)))
    net.give(net.op("Neg", net.feed(taken, np.arange(512, dtype=np.int32).reshape(16, 32))))
    check(net)


@pytest.mark.parametrize("taken", ["Relu0_0.blocked", "Conv1_0.blocked", "Conv2_0.last"])
def test_a_model_may_have_chosen_the_name_of_a_layout(taken: str) -> None:
    net = Net()
    x = net.op("Relu", net.feed("x", values(3, 1, 32, 6, 6)))
    y = net.op("Conv", net.op("Conv", x, values(4, 32, 32, 3, 3)), values(5, 20, 32, 1, 1))
    net.give(net.op("Neg", net.feed(taken, values(6, 1, 2, 32, 6, 6))), y)
    check(net)


def test_what_weights_decide_makes_no_move_of_arithmetic() -> None:
    """c ? x : w * 2 stores NaN as the canonical one; c ? x : known would move its bits."""
    x, w, c = (
        Tensor(Buffer(n, k, (4,))) for n, k in (("x", t.float32), ("w", t.float32), ("c", t.bool_))
    )
    k = Builder(0)
    y = k.compute((4,), lambda i: where(c[i], x[i], w[i] * 2.0))
    launch = Launch(k.kernel("choice", (c, x, w), (y,)), ("c", "x", "w"), ("y",), ())
    tensors = {n: TensorType(b.dtype, (4,)) for n, b in zip("cxwy", (c, x, w, y), strict=True)}
    program = Program(("c", "x"), ("y",), tensors, {"w": np.ones(4, np.float32)}, (launch,))
    feeds = {"c": np.ones(4, bool), "x": PAYLOADS}
    assert outputs(compute_known(program), feeds) == outputs(program, feeds)


@pytest.mark.parametrize(("groups", "name"), [(1, "Conv0_0.blocked"), (2, "Conv0_0.last")])
def test_a_convolution_writes_blocks_unless_one_by_groups_reads_it(groups: int, name: str) -> None:
    """Its input has 24 channels, which are last."""
    net = Net()
    y = net.op("Conv", net.feed("x", values(1, 1, 24, 6, 6)), values(2, 48, 24, 1, 1))
    net.give(net.op("Conv", y, values(3, 40, 48 // groups, 3, 3), group=groups))
    assert name in check(net).tensors


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize("divisor", [0, 1, 7, -1, -7])
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_divisors_that_are_known_are_constants(op: str, divisor: int, dtype: type) -> None:
    """A divisor that is a weight of one element is no load, whatever its shape."""
    lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
    net, x = Net(), np.array([lowest, lowest + 1, 0, 1, 2, 6, 8, 100, highest], dtype)
    net.give(net.op(op, net.feed("x", x), np.array([divisor]).astype(dtype)))
    (launch,) = check(net).launches
    assert len(launch.reads) == 1


def test_a_residual_is_read_in_the_layout_that_it_is_added_in() -> None:
    net = Net()
    x = net.feed("x", values(1, 1, 32, 9, 9))
    y = net.op("Relu", net.op("Conv", x, values(2, 32, 32, 1, 1)))
    net.give(net.op("Add", x, net.op("Conv", y, values(3, 32, 32, 1, 1))))
    assert sum("x" in launch.reads for launch in check(net).launches) == 1
