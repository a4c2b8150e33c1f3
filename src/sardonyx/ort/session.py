"""InferenceSession: onnxruntime's Python API over Sardonyx's engines."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.errors import InvalidModel, SardonyxError
from sardonyx.graph import Graph
from sardonyx.kept import find
from sardonyx.keys import digest_of, key_of
from sardonyx.opened import Opened
from sardonyx.ort.binding import IOBinding
from sardonyx.ort.capi.onnxruntime_pybind11_state import Fail, status
from sardonyx.ort.environment import (
    PROVIDER,
    Provider,
    check_providers,
    current_seed,
    get_available_providers,
)
from sardonyx.ort.events import nodes
from sardonyx.ort.failures import binding, loading, running
from sardonyx.ort.feeds import check_supported, converted, wanted
from sardonyx.ort.metadata import ModelMetadata, NodeArg, model_metadata, node_arg
from sardonyx.ort.options import RunOptions, SessionOptions, check_written
from sardonyx.ort.profile import Profile
from sardonyx.ort.values import OrtValue
from sardonyx.settings import (
    VARIABLE,
    Kind,
    Numerics,
    Reading,
    Tuning,
    engine_kind,
    numerics_named,
    reading_named,
)
from sardonyx.types import Array, Value

if TYPE_CHECKING:  # a session that was made before needs neither onnx nor the compiler
    from onnx import ModelProto

    from sardonyx.engines import Engine

ENGINE_ENTRY, QDQ_ENTRY = "sardonyx.engine", "sardonyx.qdq"
NUMERICS_ENTRY = "sardonyx.numerics"
TUNE_ENTRY, SCHEDULE_ENTRY = "sardonyx.tune", "sardonyx.schedule"


class Session:
    """A model made ready to run; `InferenceSession` makes it."""

    _graph: Graph
    _model_path: str | None = None
    _model_bytes: bytes | None = None
    _sess: Engine
    _quick: Callable[[Mapping[str, Array]], list[Array] | None] | None = None
    _sess_options: SessionOptions
    _opened: Opened
    _seed: int
    _digest: str | None
    _profile: Profile | None
    _providers: list[str]
    _provider_options: dict[str, dict[str, str]]
    _enable_fallback: bool

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Array]:
        """The outputs named, all of them for None and [].

        Raises what onnxruntime raises: ValueError for a missing input, InvalidArgument for a wrong
        name, type or shape, and RuntimeError for what is no array; they are FeedErrors too. A trap
        of an operator is an InvalidArgument that is a RunError.
        """
        if self._quick is not None and run_options is None and isinstance(input_feed, dict):
            outputs = self._quick(input_feed)
            if outputs is not None:
                return outputs if not output_names else self._chosen(outputs, output_names)
        if run_options is not None and not isinstance(run_options, RunOptions):
            raise TypeError(f"run_options is {run_options!r}; it takes RunOptions or None")
        if not isinstance(input_feed, Mapping):
            raise TypeError(
                f"input_feed is a {type(input_feed).__name__}; "
                "it takes a dict of arrays by input name"
            )
        feeds = converted(self._graph, input_feed)
        names = wanted(self._graph, output_names)
        if run_options is not None and run_options.terminate:
            raise status(Fail, "Exiting due to terminate flag being set to true.")
        found = self._performed(feeds)
        return [found[name] for name in names]

    def _performed(self, feeds: Mapping[str, Value]) -> Mapping[str, Value]:
        """The outputs of a run, which a profile hears of."""
        profile = self._profile
        if profile is None:
            with running():
                return self._sess.run(feeds)
        from sardonyx.timed import TimedEngine

        assert isinstance(self._sess, TimedEngine)
        with running():
            run = self._sess.prepared(feeds)
            with profile.event("model_run"):
                found, timings = run()
        profile.add(nodes(timings, profile.start_ns))
        return found

    def _chosen(self, outputs: list[Array], names: Sequence[str]) -> list[Array]:
        """Those of all outputs that are asked for."""
        places = self._graph.outputs
        return [outputs[places.index(name)] for name in wanted(self._graph, names)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Any,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs in another thread, then calls callback(results, user_data, error)."""
        if not callable(callback):
            raise TypeError(f"callback is {callback!r}; it takes a function of three arguments")

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as problem:
                results, error = [], str(problem)
            callback(results, user_data, error)

        threading.Thread(target=work).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As `run`, from and to OrtValues."""
        return [OrtValue(x) for x in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """A new binding for run_with_iobinding."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Runs on what is bound. Whatever is wrong is a RuntimeError, as in onnxruntime."""
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        with binding():
            names, inputs = iobinding.asked()
            iobinding.take(dict(zip(names, self.run(names, inputs, run_options), strict=True)))

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be fed."""
        return [node_arg(self._graph, name) for name in self._graph.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [node_arg(self._graph, name) for name in self._graph.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initializers that may be fed."""
        return [node_arg(self._graph, name) for name in self._graph.overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model's file says of itself."""
        return model_metadata(self._opened.metadata)

    def get_session_options(self) -> SessionOptions:
        """The options of this session."""
        return copy(self._sess_options)

    def get_providers(self) -> list[str]:
        """["CPUExecutionProvider"]."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return self._provider_options

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
    ) -> None:
        """Checks the names; there is one provider."""
        check_providers(providers, provider_options)
        self._providers = get_available_providers()
        self._provider_options = {PROVIDER: {}}

    def disable_fallback(self) -> None:
        """Kept: there is nothing to fall back to."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Kept: there is nothing to fall back to."""
        self._enable_fallback = True

    def end_profiling(self) -> str:
        """Writes the profile, if profiling is enabled; the file's name, or ""."""
        profile, self._profile = self._profile, None
        return "" if profile is None else profile.write()

    def get_profiling_start_time_ns(self) -> int:
        """When profiling started, as time.monotonic_ns(); 0 if it did not."""
        return 0 if self._profile is None else self._profile.start_ns

    def _event(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._profile is None else self._profile.event(name)


class InferenceSession(Session):
    """A model made ready to run: a path, bytes or a ModelProto.

    sess_options: see SessionOptions; its config entry "sardonyx.engine" picks the engine,
    "sardonyx.qdq" (integer, float) says how QDQ islands are read, "sardonyx.numerics" (default,
    winograd) how 3 x 3 convolutions are defined; with "sardonyx.tune" = "1" schedules are measured,
    and "sardonyx.schedule" names a file of them, to be read, and written where they are measured.
    providers: checked, there is only the CPU. Other keywords are ignored. Raises NoSuchFile,
    InvalidProtobuf, InvalidGraph, NotImplemented (the model is valid, Sardonyx lacks an operator),
    InvalidArgument or Fail; they are ModelErrors too.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | ModelProto,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        match path_or_bytes:
            case str() | os.PathLike():
                self._model_path = os.fspath(path_or_bytes)
            case bytes():
                self._model_bytes = path_or_bytes
            case _:
                self._model_bytes = _serialized(path_or_bytes)
        if not isinstance(sess_options, SessionOptions | None):
            raise TypeError(f"sess_options is {sess_options!r}; it takes SessionOptions or None")
        self._sess_options = copy(sess_options or SessionOptions())  # later changes do not count
        self._enable_fallback = int(kwargs.get("enable_fallback", 1)) == 1
        self.set_providers(providers, provider_options)
        self._open()

    def _open(self) -> None:
        """Reads the model and makes the engine."""
        options = self._sess_options
        check_written(options)
        self._profile = Profile(options.profile_file_prefix) if options.enable_profiling else None
        source = self._model_bytes if self._model_path is None else self._model_path
        assert source is not None
        self._seed = current_seed()
        with loading(source):
            key = self._key(source)
            again = source if isinstance(source, bytes) else os.path.abspath(source)
            kept = find(key, lambda: self._full(again, key), options.intra_op_num_threads)
            if kept is not None:
                self._opened, self._sess = kept
                self._graph = self._opened.graph
            else:
                self._make(source, key)
        if self._profile is None:
            self._quick = getattr(self._sess, "quick", None)

    def _key(self, source: str | bytes) -> str | None:
        """What the session is kept under; None where it is not."""
        options = self._sess_options
        engine = _engine(options)
        if self._profile is not None or "machine" in (engine, os.environ.get(VARIABLE)):
            return None
        asked = sorted(options._by_name.items()), sorted(options._by_denotation.items())
        read, tuning = (_reading(options), _numerics(options)), _tuning(options)
        if tuning.measure and tuning.file is not None:
            return None
        self._digest = digest_of(source)
        return key_of(self._digest, (asked, engine, self._seed, read, tuning.key))

    def _read(self, source: str | bytes) -> Opened:
        from sardonyx.loading import open_model

        options = self._sess_options
        return open_model(
            source,
            dims=options._by_name,
            denotations=options._by_denotation,
            strict=False,
            seed=self._seed,
            qdq=_reading(options),
            numerics=_numerics(options),
        )

    def _make(self, source: str | bytes, key: str | None) -> None:
        """The long way: from the model's text to the engine."""
        with self._event("model_loading_array" if self._model_bytes else "model_loading_uri"):
            self._opened = self._read(source)
        self._graph = self._opened.graph
        check_supported(self._graph)
        if self._profile is None:
            self._sess = self._engine(self._graph)
            self._keep(source, key, self._opened, self._sess)
            return
        from sardonyx.timed import TimedEngine

        options = self._sess_options
        about = _engine(options), options.intra_op_num_threads, _tuning(options)
        with self._profile.event("session_initialization"):
            self._sess = TimedEngine(self._graph, *about)

    def _full(self, source: str | bytes, key: str | None) -> Engine:
        """The engine for what an image cannot do. InvalidModel where the model is another now."""
        opened = self._read(source)
        engine = self._engine(opened.graph)
        if not self._is_same(source):
            raise InvalidModel(f"{source!s} has changed since the session was made of it")
        self._keep(source, key, opened, engine)
        return engine

    def _is_same(self, source: str | bytes) -> bool:
        """Whether the model is still what the session was found by."""
        return isinstance(source, bytes) or digest_of(source) == self._digest

    def _keep(self, source: str | bytes, key: str | None, opened: Opened, engine: Engine) -> None:
        from sardonyx.imaging import keep

        if not opened.doubt:  # what is kept would not warn again
            keep(key, opened, engine, lambda: self._is_same(source))

    def _engine(self, graph: Graph) -> Engine:
        from sardonyx.engines import make_engine

        options = self._sess_options
        threads, tuning = options.intra_op_num_threads, _tuning(options)
        return make_engine(graph, _engine(options), threads=threads, tuning=tuning)

    def __getstate__(self) -> dict[str, Any]:
        """What a session is made from, and the attributes of a subclass; not the engine."""
        state = dict(self.__dict__)
        for name in ("_graph", "_sess", "_quick", "_opened", "_profile"):
            state.pop(name, None)
        if self._model_path is not None:
            state["_model_path"] = str(Path(self._model_path).absolute())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _serialized(proto: object) -> bytes:
    from onnx import ModelProto

    from sardonyx.model.load import serialized

    if not isinstance(proto, ModelProto):
        raise TypeError(f"Unable to load from type '{type(proto)}'")
    return serialized(proto)


def _engine(options: SessionOptions) -> Kind:
    return engine_kind(options._entries.get(ENGINE_ENTRY, "auto"), ENGINE_ENTRY)


def _reading(options: SessionOptions) -> Reading:
    return reading_named(options._entries.get(QDQ_ENTRY, "integer"), QDQ_ENTRY)


def _numerics(options: SessionOptions) -> Numerics:
    return numerics_named(options._entries.get(NUMERICS_ENTRY, "default"), NUMERICS_ENTRY)


def _tuning(options: SessionOptions) -> Tuning:
    measure, file = (options._entries.get(key, "") for key in (TUNE_ENTRY, SCHEDULE_ENTRY))
    if measure not in ("", "0", "1"):
        raise SardonyxError(f"{TUNE_ENTRY} is '{measure}'; it can be 0 or 1")
    return Tuning(measure == "1", Path(file) if file else None)
