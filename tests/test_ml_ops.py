"""Linear models, support vectors, encoders and scalers of ai.onnx.ml against onnxruntime, as C
against the interpreter, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import node_cases
import numpy as np
import pytest
from ml_cases import ML, Case, agree, same_bytes
from onnx import numpy_helper

from sardonyx.errors import InvalidModel, RunError, UnsupportedModel

FEATURES, ROWS = 4, 11
RNG = np.random.default_rng(3)
X = RNG.normal(size=(ROWS, FEATURES)).astype(np.float32)
KINDS = (np.float32, np.float64, np.int64, np.int32)
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def numbers(*shape: int) -> list[float]:
    return [float(v) for v in RNG.normal(size=shape).astype(np.float32).reshape(-1)]


def linear(name: str, scores: int, labels: list[int], x: Any = X, **given: Any) -> Case:
    attributes = {
        "coefficients": numbers(scores, FEATURES),
        "intercepts": numbers(scores),
        "classlabels_ints": labels,
        **given,
    }
    return Case(name, "LinearClassifier", (x,), attributes, 1e-5, version=1, outputs=2)


def regressor(name: str, targets: int, **given: Any) -> Case:
    attributes = {"coefficients": numbers(targets, FEATURES), "targets": targets, **given}
    return Case(name, "LinearRegressor", (X,), attributes, 1e-5, version=1)


LINEAR = [
    *(linear(f"classes {p}", 3, [5, 6, 9], post_transform=p) for p in TRANSFORMS),
    *(linear(f"two scores {p}", 2, [5, 6], post_transform=p) for p in TRANSFORMS),
    *(linear(f"one score {p}", 1, [5, 6], post_transform=p) for p in ("NONE", "LOGISTIC")),
    *(linear(k.__name__, 3, [5, 6, 9], (X * 3).astype(k)) for k in KINDS),
    linear("a vector", 3, [5, 6, 9], X[0]),
    linear("scores that are NaN", 3, [5, 6, 9], np.array([[np.inf], [-np.inf], [np.nan], [2]], "f"),
           coefficients=[-1.0, 0.0, 1.0], intercepts=[0.0] * 3),
    regressor("one target", 1, intercepts=numbers(1)),
    regressor("targets", 3),
    *(regressor(p, 3, intercepts=numbers(3), post_transform=p) for p in TRANSFORMS),
]  # fmt: skip


def svm(name: str, counts: list[int], kind: str, proba: bool = False, **given: Any) -> Case:
    classes, total = len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    attributes = {
        "classlabels_ints": [3 * c + 1 for c in range(classes)],
        "coefficients": numbers(classes - 1, total),
        "kernel_params": [0.3, 0.5, 3.0],
        "kernel_type": kind,
        "rho": numbers(pairs),
        "support_vectors": numbers(total, FEATURES),
        "vectors_per_class": counts,
        **({"prob_a": [-1.2] * pairs, "prob_b": [0.1] * pairs} if proba else {}),
        **given,
    }
    x = attributes.pop("x", X)
    return Case(name, "SVMClassifier", (x,), attributes, 2e-5, version=1, outputs=2)


def svr(name: str, supports: int, kind: str, **given: Any) -> Case:
    attributes = {
        "coefficients": numbers(supports or FEATURES),
        "kernel_params": [0.3, 0.5, 2.5 if kind == "POLY" else 2.0],
        "kernel_type": kind,
        "n_supports": supports,
        "rho": numbers(1),
        "support_vectors": numbers(supports, FEATURES) or None,
        **given,
    }
    return Case(name, "SVMRegressor", (np.abs(X),), attributes, 2e-5, version=1)


SVM = [
    *(svm(f"two {k} {p}", [3, 2], k, p) for k in KERNELS for p in (0, 1)),
    *(svm(f"four {k} {p}", [3, 2, 1, 4], k, p) for k in ("LINEAR", "RBF") for p in (0, 1)),
    *(svm(f"three {p}", [3, 2, 2], "RBF", post_transform=p) for p in TRANSFORMS),
    *(svm(f"two {p}", [3, 2], "RBF", post_transform=p) for p in ("LOGISTIC", "SOFTMAX")),
    *(svm(f"proba {p}", [3, 2, 2], "RBF", True, post_transform=p) for p in ("LOGISTIC", "SOFTMAX")),
    svm("positive", [3, 2], "RBF", coefficients=[0.5, 1.0, 0.2, 0.3, 0.7]),
    *(svm(k.__name__, [3, 2], "RBF", x=(X * 2).astype(k)) for k in KINDS),
    Case(
        "linear machine",
        "SVMClassifier",
        (X,),
        {"classlabels_ints": [4, 7, 8], "coefficients": numbers(3, FEATURES), "rho": [0.25],
         "kernel_params": [0.0, 0.0, 0.0]},
        1e-5, 1, 2,
    ),
    svm("far", [1, 1, 1], "POLY", x=X[:1] * np.float32(1e20),
        support_vectors=[1.0] * 4 + [0.0] * 8, coefficients=[1.0, -2.0, 0.5] * 2),
    *(svr(k, 5, k) for k in ("LINEAR", "RBF", "SIGMOID")),
    svr("POLY", 5, "POLY", support_vectors=[abs(v) for v in numbers(5, FEATURES)]),
    svr("linear", 0, "LINEAR"),
    svr("one class", 5, "RBF", one_class=1),
]  # fmt: skip


def plain(name: str, op: str, *feeds: Any, tolerance: float | None = 0.0, **given: Any) -> Case:
    return Case(
        name,
        op,
        tuple(np.asarray(f) for f in feeds),
        given,
        tolerance,
        version=given.pop("version", 1),
    )


SOME = np.array([[1, 2, 3], [0, 0, 0], [-2, 5, 4]])
KEYS, VALUES = [5, -3, 9, 2**40], [1.5, 2.5, -1.0, 7.0]
OTHERS = [
    *(plain(f"binarizer {k.__name__}", "Binarizer", SOME.astype(k), threshold=1.5,
            tolerance=0.0 if k is np.float32 else None) for k in KINDS),
    *(plain(f"scaler {k.__name__}", "Scaler", SOME.astype(k), offset=[0.5, 1.0, 2.0],
            scale=[2.0, 0.5, 3.0]) for k in KINDS),
    plain("scaler of one", "Scaler", X, offset=[0.25], scale=[3.0]),
    *(plain(f"normalizer {n} {k.__name__}", "Normalizer", SOME.astype(k), norm=n, tolerance=1e-6)
      for n in ("MAX", "L1", "L2") for k in KINDS),
    plain("normalizer of a vector", "Normalizer", X[0], norm="L2", tolerance=1e-6),
    plain("imputer", "Imputer", np.where(X > 0.5, np.nan, X).astype(np.float32),
          imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan")),
    plain("imputer of one", "Imputer", SOME.astype(np.float32), imputed_value_floats=[9.0],
          replaced_value_float=0.0),
    plain("imputer int64", "Imputer", SOME, imputed_value_int64s=[7, 8, 9], replaced_value_int64=5),
    plain("imputer float64", "Imputer", SOME.astype(np.float64), imputed_value_floats=[9.0],
          replaced_value_float=5.0, tolerance=None),
    *(plain(f"extractor {k.__name__}", "ArrayFeatureExtractor", SOME.astype(k), np.array([2, 0, 2]))
      for k in KINDS),
    plain("extractor of a vector", "ArrayFeatureExtractor", X[0], np.array([[1], [3]])),
    plain("extractor of a cube", "ArrayFeatureExtractor", X[None], np.array([3])),
    *(plain(f"one-hot {k.__name__}", "OneHotEncoder", SOME.astype(k), cats_int64s=[2, 0, 5, -2],
            tolerance=None if k is np.int32 else 0.0) for k in KINDS),
    plain("one-hot twice", "OneHotEncoder", SOME, cats_int64s=[2, 0, 2]),
    plain("vectorizer", "FeatureVectorizer", X, X[:, :2] * 2, inputdimensions=[4, 2]),
    plain("vectorizer cuts and fills", "FeatureVectorizer", X, X[:, :2], inputdimensions=[3, 3]),
    plain("vectorizer of integers", "FeatureVectorizer", SOME, SOME + 1, inputdimensions=[3, 3]),
    plain("labels int64 to float", "LabelEncoder", np.array([5, 9, 1, 2**40, -3]), version=2,
          keys_int64s=KEYS, values_floats=VALUES, default_float=-4.5),
    plain("labels float to int64", "LabelEncoder", np.array([1.5, 7.0, 0.1, -1.0], np.float32),
          version=2, keys_floats=VALUES, values_int64s=KEYS, default_int64=-6),
    plain("labels int64 to int64", "LabelEncoder", np.arange(-5, 300), version=2,
          keys_int64s=list(range(0, 256, 3)), values_int64s=list(range(1000, 1086))),
    plain("labels float to float", "LabelEncoder", np.array([1.5, np.nan], np.float32), version=2,
          keys_floats=VALUES, values_floats=VALUES[::-1]),
    plain("labels with NaN", "LabelEncoder", np.array([1.5, np.nan, -np.nan, 3.0], np.float32),
          version=4, keys_floats=[1.5, float("nan")], values_floats=[9.0, 8.0], default_float=1.0),
    plain("labels float64", "LabelEncoder", np.array([0.1, 0.25, 3.0]), version=4,
          keys_tensor=numpy_helper.from_array(np.array([0.1, 3.0])),
          values_tensor=numpy_helper.from_array(np.array([7, 8], np.int64)),
          default_tensor=numpy_helper.from_array(np.array([-9], np.int64))),
    plain("labels int16", "LabelEncoder", np.array([3, 4], np.int16), version=4, tolerance=None,
          keys_tensor=numpy_helper.from_array(np.array([3], np.int16)),
          values_tensor=numpy_helper.from_array(np.array([1.5]))),
]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [c for c in (*LINEAR, *SVM, *OTHERS) if c.tolerance is not None],
    ids=lambda c: f"{c.op} {c.name}",
)
def test_operations_are_onnxruntime_s(case: Case) -> None:
    agree(case)


@pytest.mark.parametrize("group", [LINEAR, SVM, OTHERS], ids=["linear", "vectors", "others"])
def test_c_gives_the_interpreter_s_bytes(group: list[Case], tmp_path: Path) -> None:
    same_bytes(group, tmp_path)


ONNX = [
    c
    for c in node_cases.all_cases()
    if c.name.startswith("test_ai_onnx_ml_") and "string" not in c.name and "mapping" not in c.name
]


@pytest.mark.parametrize("case", ONNX, ids=lambda c: str(c.name))
def test_node_cases_of_numbers_give_their_vectors(case: Any) -> None:
    node_cases.check(case)


def test_an_index_out_of_range_is_a_run_time_error() -> None:
    for at in (3, -1):
        with pytest.raises(RunError):
            plain("", "ArrayFeatureExtractor", SOME, np.array([at])).run()


def test_an_unknown_category_is_a_run_time_error_where_zeros_is_0() -> None:
    case = plain("", "OneHotEncoder", SOME, cats_int64s=[0, 1, 2, 3, 4, 5], zeros=0)
    with pytest.raises(RunError):
        case.run()
    np.testing.assert_array_equal(replace(case, feeds=(SOME[:2],)).run()[0].sum(-1), 1)


def test_of_equal_keys_the_first_has_the_value() -> None:
    case = plain(
        "", "LabelEncoder", np.array([3]), version=2, keys_int64s=[3, 3], values_int64s=[7, 8]
    )
    assert case.run()[0] == [7]


REFUSED = {
    "coefficients that do not divide": linear("", 3, [5, 6, 9], coefficients=[1.0] * 5),
    "scores and labels of different numbers": linear("", 3, [5, 6]),
    "labels of both kinds": linear("", 3, [5, 6, 9], classlabels_strings=["a", "b", "c"]),
    "no labels": linear("", 3, None),
    "an unknown transform": linear("", 3, [5, 6, 9], post_transform="HARD"),
    "features of another number": linear("", 3, [5, 6, 9], X[:, :2]),
    "coefficients that are not of the vectors": svm("", [3, 2], "RBF", coefficients=[1.0]),
    "vectors of another number": svm("", [3, 2], "RBF", support_vectors=[1.0] * 7),
    "offsets that are missing": svm("", [3, 2, 2], "RBF", rho=[1.0]),
    "counts of another number": svm("", [3, 2], "RBF", vectors_per_class=[3, 1, 1]),
    "a negative count": svm("", [3, 2], "RBF", vectors_per_class=[6, -1]),
    "probabilities of another number": svm("", [3, 2, 2], "RBF", True, prob_a=[1.0]),
    "an unknown kernel": svm("", [3, 2], "GAUSS"),
    "kernel parameters of another number": svm("", [3, 2], "RBF", kernel_params=[1.0]),
    "regression coefficients": svr("", 5, "RBF", coefficients=[1.0]),
    "scales of another number": plain("", "Scaler", SOME, scale=[1.0, 2.0], offset=[1.0, 2.0]),
    "an unknown norm": plain("", "Normalizer", X, norm="L3"),
    "nothing to impute": plain("", "Imputer", X, imputed_value_int64s=[1]),
    "imputed values of another number": plain("", "Imputer", X, imputed_value_floats=[1.0, 2.0]),
    "no categories": plain("", "OneHotEncoder", SOME, zeros=1),
    "input dimensions of another number": plain("", "FeatureVectorizer", X, inputdimensions=[1, 2]),
    "keys without values": plain(
        "", "LabelEncoder", SOME, version=2, keys_int64s=[1, 2], values_int64s=[1]
    ),
    "keys of another type": plain(
        "", "LabelEncoder", SOME, version=2, keys_floats=[1.0], values_int64s=[1]
    ),
    "keys of two types": plain(
        "", "LabelEncoder", SOME, version=2, keys_floats=[1.0], keys_int64s=[1], values_int64s=[1]
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(case: Case) -> None:
    with pytest.raises(InvalidModel):
        case.kernel()


@pytest.mark.parametrize(
    "case",
    [
        linear("", 3, None, classlabels_strings=["a", "b", "c"]),
        plain("", "OneHotEncoder", SOME, cats_strings=["a"]),
        plain("", "LabelEncoder", SOME, version=2, keys_int64s=[1], values_strings=["a"]),
    ],
    ids=lambda c: c.op,
)
def test_kernels_leave_strings_to_the_host(case: Case) -> None:
    with pytest.raises(UnsupportedModel, match="strings"):
        case.kernel()


def test_a_table_may_hold_what_is_no_number(tmp_path: Path) -> None:
    """C takes constants alone where a table is written down."""
    wide, odd = np.zeros((2, 3)), [float("nan"), float("inf"), float("-inf")]
    same_bytes(
        [
            plain("scaler", "Scaler", wide, scale=odd, offset=odd[::-1]),
            plain("linear", "LinearRegressor", wide.astype(np.float32), coefficients=odd),
        ],
        tmp_path,
    )


def test_a_nan_of_a_model_keeps_its_payload(tmp_path: Path) -> None:
    """Moved from a table; what is one number of the text is the quiet NaN."""
    odd = float(np.uint32(0xFFC12345).view(np.float32))
    x, few = np.zeros((2, 3), np.float32), {"keys_int64s": [1, 2], "values_floats": [odd, 2.0]}
    cases = [
        Case("one", "Imputer", (x,), {"imputed_value_floats": [odd]}, version=1),
        Case("three", "Imputer", (x,), {"imputed_value_floats": [odd, 1.0, odd]}, version=1),
        Case("labels", "LabelEncoder", (np.arange(4),), {**few, "default_float": odd}, version=4),
    ]
    same_bytes(cases, tmp_path)
    found = np.asarray(cases[0].run()[0])
    assert set(found.view(np.uint32).flat) == {0xFFC12345}


def test_probabilities_of_a_row_sum_to_1() -> None:
    case = next(c for c in SVM if c.name == "four RBF 1")
    np.testing.assert_allclose(case.run()[1].sum(1), 1, atol=1e-6)


def test_every_operator_of_the_domain_on_numbers_has_a_kernel() -> None:
    from sardonyx.ops.registry import operators

    found = {o.name for o in operators() if o.domain == ML}
    assert found >= {c.op for c in (*LINEAR, *SVM, *OTHERS)} | {"TreeEnsemble"}
