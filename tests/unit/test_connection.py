"""The way to a cluster: what is told where there is none, in one line and at once."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from idlewin.adapters.api import ApiError, connect
from idlewin.cli.app import main
from idlewin.cli.connection import a_url, in_short, in_sight
from idlewin.errors import UnreachableError, UsageError
from tests.unit.test_rulefile import good

DEAD = """\
apiVersion: v1
kind: Config
current-context: home
contexts: [{name: home, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
"""


@pytest.fixture
def noon(tmp_path):
    """A kubeconfig of a server that has one answer, and whose clock stands."""

    class Answer(BaseHTTPRequestHandler):
        status = 200

        def do_GET(self):
            self.send_response_only(self.status)
            self.send_header("Date", "Mon, 02 Mar 2026 12:00:00 GMT")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_told):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    path = tmp_path / "kubeconfig"
    path.write_text(DEAD.replace("https://127.0.0.1:1", f"http://127.0.0.1:{server.server_port}"))
    yield path, Answer
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_answer_tells_the_time_but_one_that_a_proxy_may_have_given(noon):
    path, answer = noon
    api = connect(path)
    answer.status = 503
    with pytest.raises(ApiError):
        api.get("/version")
    assert api.clock.doubt()

    answer.status = 200
    api.get("/version")

    assert api.clock.doubt() == ""
    since = api.clock.now() - datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert timedelta() <= since < timedelta(minutes=1)
    assert api.rehearsing().clock is api.clock


def test_status_where_there_is_no_crd_says_what_to_apply(noon, capsys):
    path, answer = noon
    answer.status = 404

    code, err = ended(capsys, "status", "--kubeconfig", path)

    files = "-f deploy/base/namespace.yaml -f deploy/base/crd.yaml"
    assert (code, f"kubectl apply {files}\n" in err) == (4, True)


@pytest.fixture
def dead(tmp_path):
    """A kubeconfig of a server that is not there."""
    path = tmp_path / "kubeconfig"
    path.write_text(DEAD)
    return path


def ended(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    return end.value.code, capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"there is no kubeconfig .*/no\.yaml; name one with"):
        connect(tmp_path / "no.yaml")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(UsageError, match=r"there is no kubeconfig ~/\.kube/config"):
        connect()


def test_a_context_that_is_not_there_is_named_with_those_that_are(dead):
    with pytest.raises(UsageError, match=r"kubeconfig .* has no context 'away'; it has home"):
        connect(dead, "away")


@pytest.mark.parametrize("text", ["a: [", "text", "[]", "", "kind: Config"])
def test_a_kubeconfig_that_cannot_be_read_is_one_line_with_its_path(dead, text):
    dead.write_text(text)

    with pytest.raises(UsageError, match=r"kubeconfig .*/kubeconfig cannot be used: ") as error:
        connect(dead)

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("extra", [(), ("--rules", "RULES")])
def test_explain_of_a_cluster_that_is_not_there_is_one_line(dead, tmp_path, capsys, extra):
    (tmp_path / "rules.yaml").write_text(good("a"))
    extra = [tmp_path / "rules.yaml" if one == "RULES" else one for one in extra]

    code, err = ended(
        capsys, "explain", "a", "--prometheus", "http://127.0.0.1:1", "--kubeconfig", dead, *extra
    )

    assert (code, err.count("\n")) == (3, 1)
    assert "Connection refused" in err


@pytest.mark.parametrize(
    "verb",
    [
        "status",
        "status a",
        "pause a",
        "resume a",
        "resume --all",
        "adopt q --rule a",
        "give-back a",
        "wake a",
    ],
)
def test_each_verb_says_the_same_of_a_server_that_does_not_answer(dead, capsys, verb):
    code, err = ended(capsys, *verb.split(), "--kubeconfig", dead)

    assert code == 3
    assert ": the API server did not answer: 127.0.0.1:1: Failed to establish" in err
    assert "cannot be read" not in err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("resume", "error: name one rule, or write --all\n"),
        ("resume a --all", "error: name one rule, or write --all; not both\n"),
    ],
)
def test_whom_to_resume_is_asked_before_the_cluster_is(dead, capsys, asked, said):
    assert ended(capsys, *asked.split(), "--kubeconfig", dead) == (2, said)


def test_a_rule_that_the_files_do_not_have_is_told_with_those_that_they_have(
    dead, tmp_path, capsys
):
    (tmp_path / "rules.yaml").write_text(good("a"))
    where = ("--prometheus", "http://127.0.0.1:1", "--kubeconfig", dead)

    code, err = ended(capsys, "explain", "b", "--rules", tmp_path / "rules.yaml", *where)

    assert code == 2
    assert "rules.yaml has no rule b; it has a\n" in err


@pytest.mark.parametrize(
    "text", ["localhost:9090", "prometheus", "ftp://a", "http://", "http://a:x"]
)
def test_a_prometheus_that_is_no_url_is_told_before_anything_is_asked(
    dead, capsys, monkeypatch, text
):
    # ``run`` would leave a handler behind that writes where this test's output goes.
    monkeypatch.setattr("idlewin.cli.run.set_up", lambda _: None)
    for verb in (("run",), ("explain", "a")):
        code, err = ended(capsys, *verb, "--prometheus", text, "--kubeconfig", dead)

        assert (code, f"--prometheus {text!r} is no URL; write http://HOST" in err) == (2, True)


@pytest.mark.parametrize("text", ["", "http://a", "https://a.b:9090/prefix", "http://[::1]:9090"])
def test_a_prometheus_that_can_be_a_url_is_let_through(text):
    assert a_url(text) == text


class Watching:
    """A cluster some of whose kinds are never listed."""

    def __init__(self, *trouble, answers=True):
        self._trouble, self._answers = trouble, answers
        self.waited = self.stopped = 0

    def ask(self):
        if not self._answers:
            raise ApiError(0, "connection refused")

    def start(self):
        pass

    def wait_synced(self, _timeout):
        self.waited += 1
        return not self._trouble

    def trouble(self):
        return self._trouble

    def stop(self):
        self.stopped += 1


def test_what_is_refused_twice_is_not_waited_for_and_the_watches_are_ended():
    kubernetes = Watching("/api/v1/pods: GET /api/v1/pods?limit=500: 403 pods is forbidden")

    with pytest.raises(UnreachableError, match="in sight: 403 pods is forbidden; look at"):
        in_sight(kubernetes).__enter__()

    assert (kubernetes.waited, kubernetes.stopped) == (2, 1)
    assert logging.getLogger("idlewin.adapters.reflector").level == logging.NOTSET


def test_what_only_takes_long_is_waited_for():
    kubernetes = Watching("/api/v1/pods: not listed yet")

    with pytest.raises(UnreachableError, match="in sight: not listed yet"):
        in_sight(kubernetes).__enter__()

    assert kubernetes.waited == 12


def test_a_server_that_does_not_answer_is_not_watched():
    kubernetes = Watching(answers=False)

    with pytest.raises(UnreachableError, match="the API server did not answer"):
        in_sight(kubernetes).__enter__()

    assert kubernetes.waited == 0


def test_each_reason_is_told_once_and_a_few_are_enough():
    same = [f"/api/v1/{kind}: GET /api/v1/{kind}?limit=500: no answer: refused" for kind in "abcde"]
    more = [f"/api/v1/{kind}: GET /api/v1/{kind}: 403 {kind} is forbidden" for kind in "fghi"]

    assert in_short(same) == "no answer: refused"
    assert (
        in_short(more) == "403 f is forbidden; 403 g is forbidden; 403 h is forbidden (and 1 more)"
    )
