"""Just enough of a Kubernetes client to set a test up and look at it; idlewin has its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

HOST = "127.0.0.1"
PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
}
T = TypeVar("T")


class ApiError(RuntimeError):
    """The API server refused a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """The API server as one user; a connection a request, so that a restart goes unnoticed."""

    def __init__(self, port: int, ca_file: Path, token: str) -> None:
        self._port = port
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca_file))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
    ) -> Any:
        """The answer's JSON, or its text. Raises ApiError."""
        connection = http.client.HTTPSConnection(HOST, self._port, context=self._tls, timeout=30)
        with contextlib.closing(connection):
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={
                    "Authorization": f"Bearer {self._token}",
                    "Content-Type": content_type,
                    "Accept": "application/json",
                    "User-Agent": "kubelab",
                },
            )
            response = connection.getresponse()
            text = response.read().decode()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise _refusal(response, text)
        return json.loads(text) if text.startswith(("{", "[")) else text

    @contextlib.contextmanager
    def stream(self, path: str, timeout: float = 30) -> Iterator[Iterator[Any]]:
        """The events of a watch, as they come; the connection is closed at the end of the block."""
        connection = http.client.HTTPSConnection(
            HOST, self._port, context=self._tls, timeout=timeout
        )
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            yield (json.loads(line) for line in connection.getresponse())

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def find(self, path: str) -> Any:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def post(self, path: str, body: object) -> Any:
        return self.request("POST", path, body)

    def delete(self, path: str, propagation: str = "Background") -> Any:
        return self.request("DELETE", path, {"propagationPolicy": propagation})

    def patch(self, path: str, body: object, kind: str = "merge") -> Any:
        return self.request("PATCH", path, body, PATCH_TYPES[kind])

    def apply(self, thing: dict[str, Any]) -> Any:
        """Server-side apply of one object of any kind, found by the API server's discovery."""
        path = f"{self._collection(thing)}/{thing['metadata']['name']}"
        return self.patch(
            f"{path}?fieldManager=kubelab&force=true&fieldValidation=Strict", thing, "apply"
        )

    def list(self, path: str, **selectors: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode(selectors)
        return self.get(f"{path}?{query}" if query else path)["items"]

    def _collection(self, thing: dict[str, Any]) -> str:
        version = thing["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for resource in self.get(root)["resources"]:
            if resource["kind"] == thing["kind"] and "/" not in resource["name"]:
                inside = ""
                if resource["namespaced"]:
                    inside = f"/namespaces/{thing['metadata'].get('namespace', 'default')}"
                return f"{root}{inside}/{resource['name']}"
        raise ApiError(http.HTTPStatus.NOT_FOUND, "NotFound", f"no kind {thing['kind']} in {root}")


def _refusal(response: http.client.HTTPResponse, text: str) -> ApiError:
    try:
        status = json.loads(text)
        return ApiError(response.status, status.get("reason", ""), status["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ApiError(response.status, response.reason, text)


def wait_for(what: str, check: Callable[[], T], timeout: float = 60, every: float = 0.1) -> T:
    """What check returns, as soon as that is true; seconds. Raises TimeoutError.

    An ApiError, a refused connection and a broken answer count as not yet.
    """
    deadline = time.monotonic() + timeout
    last: Exception | None = None
    while True:
        try:
            if got := check():
                return got
            last = None
        except (ApiError, OSError, http.client.HTTPException) as error:
            last = error
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} in {timeout:.0f} s" + (f": {last}" if last else ""))
        time.sleep(every)
