"""The Kubernetes API as raw JSON over the official client. The one importer of ``kubernetes``.

The client gives configuration, credentials, their renewal, and connections. Its typed models are
left out: they drop fields that they do not know and cost ten times the objects. What an object
means does not belong here.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError, ReadTimeoutError

from idlewin import __version__
from idlewin.adapters.clock import ServerClock
from idlewin.core.pool import MANAGER
from idlewin.errors import UsageError, unreadable

Json = dict[str, Any]

CONNECT = timedelta(seconds=5)
CALL = timedelta(seconds=15)
#: Objects a page: what the API server itself advises.
PAGE = 500
#: One connection a watch, and a few for calls.
_CONNECTIONS = 32
#: How Python's connections begin what they say.
_CONNECTION = re.compile(r"^\w+\(host='([^']*)', port=(\d+)\): ")
_MERGE = "application/merge-patch+json"

# The client shouts about each answer that it dislikes; ours are told where they matter.
logging.getLogger("kubernetes.client.rest").setLevel(logging.WARNING)


class ApiError(Exception):
    """The API server said no, or did not answer (status 0)."""

    def __init__(self, status: int, message: str, *, answer: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.answer = answer or {}

    @property
    def reason(self) -> str:
        """Kubernetes' own word for it, such as NotFound."""
        return str(self.answer.get("reason", ""))

    @property
    def retry_after(self) -> timedelta | None:
        """How long the server asks us to wait."""
        seconds = (self.answer.get("details") or {}).get("retryAfterSeconds")
        return timedelta(seconds=seconds) if isinstance(seconds, int) else None

    @property
    def gone(self) -> bool:
        """The object is not there."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """The object is not as the write took it to be."""
        return self.status == 409


class SilenceError(ApiError):
    """Nothing came for longer than a living connection is silent."""


class Stream:
    """A running watch: its events as they come. Closing it from another thread ends it."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[Json]:
        left = b""
        try:
            for chunk in self._response.stream(65536):
                *lines, left = (left + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        except ReadTimeoutError:
            raise SilenceError(0, "the watch is silent; its connection may be dead") from None
        except (HTTPError, OSError, ValueError) as error:
            raise ApiError(0, f"the watch broke: {type(error).__name__}: {error}") from None

    def close(self) -> None:
        """End it: a reader that waits gets the end of the stream."""
        try:
            self._response.shutdown()
        except (RuntimeError, ValueError, OSError):
            self._response.close()


class Api:
    """Requests of the API server, each bounded in time. Raises ApiError."""

    def __init__(
        self,
        api_client: Any,
        *,
        clock: ServerClock | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """``clock``: hears the date of every answer; it may be that of other connections."""
        self._client = api_client
        self.clock = clock or ServerClock()
        self._extra = dict(extra or {})

    def rehearsing(self) -> Api:
        """The same API, asked by dry run: answers are real, nothing is stored."""
        return Api(self._client, clock=self.clock, extra={"dryRun": "All"})

    def get(self, path: str, **query: str) -> Json:
        """An object, or a list, as it is now."""
        try:
            return self._call("GET", path, query)
        except ApiError as error:
            if error.status:
                raise
        # Once more: the server may have closed a connection that we kept.
        return self._call("GET", path, query)

    def pages(self, path: str, **query: str) -> Iterator[tuple[list[Json], str]]:
        """All objects of a path, page by page, each page with the version of the whole list."""
        more = ""
        while True:
            page = self.get(path, limit=str(PAGE), **({"continue": more} if more else {}), **query)
            yield page.get("items") or [], page["metadata"]["resourceVersion"]
            more = page["metadata"].get("continue", "")
            if not more:
                return

    def listed(self, path: str, **query: str) -> tuple[list[Json], str]:
        """All objects of a path at once, and the version of the list."""
        pages = list(self.pages(path, **query))
        return [item for items, _ in pages for item in items], pages[-1][1]

    def merge(self, path: str, patch: Json) -> Json:
        """The object after a JSON merge patch."""
        return self._call("PATCH", path, {"fieldManager": MANAGER, **self._extra}, patch)

    def post(self, path: str, body: Json) -> Json:
        """What was created."""
        return self._call("POST", path, {"fieldManager": MANAGER, **self._extra}, body)

    def put(self, path: str, body: Json) -> Json:
        """The object after being replaced."""
        return self._call("PUT", path, {"fieldManager": MANAGER, **self._extra}, body)

    def delete(self, path: str, options: Json) -> Json:
        """The object, or a status, after deletion was asked for."""
        # Of the two places for options the API server takes the body alone.
        dry = {"dryRun": [self._extra["dryRun"]]} if "dryRun" in self._extra else {}
        return self._call("DELETE", path, self._extra, {**options, **dry})

    @contextmanager
    def watch(
        self, path: str, version: str, *, lasts: timedelta, silence: timedelta
    ) -> Iterator[Stream]:
        """Events after a version, for so long; a silence that is longer breaks it."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, int(lasts.total_seconds()))),
        }
        timeout = (CONNECT.total_seconds(), silence.total_seconds())
        response = self._send("GET", path, query, timeout=timeout).response
        stream = Stream(response)
        try:
            yield stream
        finally:
            # Never back to the pool: what is left of the stream would be the next answer.
            response.close()

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _call(self, method: str, path: str, query: Mapping[str, str], body: Any = None) -> Json:
        limit = (CONNECT.total_seconds(), CALL.total_seconds())
        answer = self._send(method, path, query, body=body, timeout=limit)
        return self._read(answer)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: Any = None,
        timeout: tuple[float, float],
    ) -> Any:
        kind = _MERGE if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": kind}
        target = f"{path}?{urlencode(query)}" if query else path
        began = self.clock.monotonic()
        try:
            sent = self._client.param_serialize(
                method, target, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            answer = self._client.call_api(*sent, _request_timeout=timeout)
        except (HTTPError, OSError, client.ApiException, ConfigException) as error:
            # A reason without words is of no use to whoever reads it.
            told = _CONNECTION.sub(r"\1:\2: ", str(error)) or type(error).__name__
            raise ApiError(0, f"{method} {path}: no answer: {told}") from None
        if answer.status < 500:  # what stands before the server speaks for itself in these
            self.clock.heard(answer.getheader("Date"), began)
        if answer.status >= 400:
            raise self._refusal(f"{method} {path}", answer)
        return answer

    @staticmethod
    def _read(answer: Any) -> Json:
        try:
            read: Json = json.loads(answer.read())
        except (HTTPError, OSError, ValueError) as error:
            raise ApiError(0, f"the answer broke off: {type(error).__name__}: {error}") from None
        return read

    @staticmethod
    def _refusal(call: str, answer: Any) -> ApiError:
        try:
            text = answer.read().decode(errors="replace")
        except (HTTPError, OSError) as error:
            text = str(error)
        try:
            status = json.loads(text)
            message = str(status["message"])
        except (ValueError, KeyError, TypeError):
            status, message = {}, text.strip()[:500] or str(answer.reason)
        wait = (answer.getheader("Retry-After") or "").strip()
        if wait.isdigit():
            status.setdefault("details", {})["retryAfterSeconds"] = int(wait)
        return ApiError(answer.status, f"{call}: {answer.status} {message}", answer=status)


def connect(
    kubeconfig: Path | None = None, context: str | None = None, clock: ServerClock | None = None
) -> Api:
    """The API of a kubeconfig, else of the pod's service account, else of the user's own config.

    ``clock``: that of another connection. Raises UsageError where there is no way, or no such
    context.
    """
    settings = client.Configuration()
    settings.retries = False
    settings.keep_alive = True
    settings.connection_pool_maxsize = _CONNECTIONS
    try:
        if kubeconfig is None:
            _load_own(settings, context)
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                str(kubeconfig), context, client_configuration=settings, persist_config=False
            )
    except Exception as error:  # noqa: BLE001 - of a broken file the client raises many kinds
        raise UsageError(_no_way(kubeconfig, context, error)) from None
    api_client = client.ApiClient(settings)
    api_client.user_agent = f"{MANAGER}/{__version__}"
    return Api(api_client, clock=clock)


def _no_way(kubeconfig: Path | None, context: str | None, error: Exception) -> str:
    """Why there is no way to a cluster, in a line that names the file and the context."""
    own = os.environ.get("KUBECONFIG") or "~/.kube/config"
    files = [str(kubeconfig)] if kubeconfig else own.split(os.pathsep)
    where = " and ".join(files)
    if not any(Path(file).expanduser().exists() for file in files):
        return f"there is no kubeconfig {where}; name one with --kubeconfig"
    try:
        known = config.list_kube_config_contexts(str(kubeconfig) if kubeconfig else None)  # type: ignore[no-untyped-call]
        names = sorted(str(one["name"]) for one in known[0])
    except Exception:  # noqa: BLE001 - the file is broken, which is what is to be told
        names = []
    if context is not None and names and context not in names:
        return f"kubeconfig {where} has no context {context!r}; it has {', '.join(names)}"
    told = unreadable(error)
    return f"kubeconfig {where} cannot be used: {told}; name another with --kubeconfig"


def _load_own(settings: Any, context: str | None) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except ConfigException:
        config.load_kube_config(  # type: ignore[no-untyped-call]
            context=context, client_configuration=settings, persist_config=False
        )
