"""Every option that takes a file, given what is none: one line that says what to name instead."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from idlewin import traces
from idlewin.cli.app import main

RULE = Path(__file__).parents[2] / "rules/b580.yaml"
CLUSTER = """\
apiVersion: v1
kind: Config
clusters: [{name: home, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {}}]
contexts: [{name: home, context: {cluster: home, user: me}}]
current-context: home
"""
#: FILE is where the odd file goes.
OPTIONS = {
    "replay rule": "replay FILE --trace TRACE",
    "replay trace": "replay RULE --trace FILE",
    "tune rule": "tune FILE --trace TRACE --card one",
    "tune trace": "tune RULE --trace FILE",
    "backtest trace": "backtest --trace FILE",
    "backtest meta": "backtest --trace TRACE --meta FILE",
    "run rules": "run --rules FILE --dry-run --prometheus http://127.0.0.1:1 --kubeconfig CLUSTER",
    "run token": "run --token-file FILE --prometheus http://127.0.0.1:1 --kubeconfig CLUSTER",
    "prometheus token": "sources probe --prometheus-token-file FILE --prometheus http://localhost:1",
    "explain rules": "explain x --rules FILE --prometheus http://127.0.0.1:1 --kubeconfig CLUSTER",
    "status kubeconfig": "status --kubeconfig FILE",
    "check kubeconfig": "check RULE --kubeconfig FILE",
}
ODD = {
    "missing": None,
    "empty": b"",
    "binary": b"\xd6\x8d\x00\xdc" * 99,
    "gzipped binary": gzip.compress(b"\xd6\x8d\x00\xdc" * 99),
    "gzipped nothing": gzip.compress(b""),
}


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A command, with the files that it names."""
    monkeypatch.chdir(tmp_path)
    # ``run`` would leave a handler behind that writes where this test's output goes.
    monkeypatch.setattr("idlewin.cli.run.set_up", lambda _: None)
    (tmp_path / "cluster").write_text(CLUSTER)
    files = {"RULE": RULE, "TRACE": traces.sample(), "CLUSTER": tmp_path / "cluster"}

    def command(option, file):
        known = {**files, "FILE": file}
        return [str(known.get(word, word)) for word in OPTIONS[option].split()]

    return command


def told(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert "error: " in err
    # No words of Python's.
    assert not [word for word in ("Errno", "codec", "Error", "Traceback") if word in err], err
    return err


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_odd_file_is_told_by_its_name(option, kind, named, tmp_path, capsys):
    path = tmp_path / "odd"
    if (content := ODD[kind]) is not None:
        path.write_bytes(content)

    assert str(path) in told(named(option, path), capsys)


@pytest.mark.parametrize("folder", ["folder", "."])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_directory_is_no_file(option, folder, named, tmp_path, capsys):
    (tmp_path / "folder").mkdir()

    err = told(named(option, folder), capsys)

    # Rules may come from a directory where a cluster's are replaced.
    assert ("directory" in err) or (f"{folder} holds no rule" in err)


def test_a_journal_is_no_directory(named, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    command = [*named("run rules", RULE), "--journal", "folder"]

    assert "--journal folder is a directory; name a file in it" in told(command, capsys)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_file_that_cannot_be_opened_says_why(option, named, tmp_path, capsys):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    assert "loop" in told(named(option, tmp_path / "loop"), capsys)


def test_a_trace_that_is_too_short_to_learn_from_is_told(named, tmp_path, capsys):
    path = tmp_path / "short.csv.gz"
    path.write_bytes(gzip.compress(b"card,start,end,demand\none,1,120,3\n"))

    assert "short.csv.gz: 2h of demand; 2d is the least" in told(
        named("replay trace", path), capsys
    )
