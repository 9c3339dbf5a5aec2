"""One route's trouble is no other route's."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.drop import Drop
from gateway.service.board import RouteState, RouteView
from gateway.service.service import Service
from gateway.settings import load
from tests.service.test_fanout import Running, after, folder, route, running, send, wait_until
from transports.errors import NotFound


def view(run: Running, title: str) -> RouteView:
    return next(view for view in run.board.picture().routes if view.title == title)


def test_a_route_that_needs_a_person_is_shown_and_the_others_go_on(tmp_path: Path) -> None:
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    send(Drop.at(str(source)), tmp_path, "a")
    end = ("one", Drop.at(str(one)))
    broken = replace(route(tmp_path, Drop.at(str(tmp_path / "nowhere")), end), title="broken")
    with running(broken, route(tmp_path, Drop.at(str(source)), end)) as run:
        wait_until(lambda: after(source), "the after image")
        wait_until(lambda: view(run, "broken").state is RouteState.FAILED, "the failure")
        assert "is not there" in view(run, "broken").trouble
        assert view(run, "the route").state is RouteState.RUNNING
        assert run.daemon.failures() == [], "as long as one route runs"


def test_a_source_whose_folder_goes_away_is_waited_for(tmp_path: Path) -> None:
    """A disk that is unmounted, and mounted again."""
    source, one = folder(tmp_path, "source"), folder(tmp_path, "one")
    with running(route(tmp_path, Drop.at(str(source)), ("one", Drop.at(str(one))))) as run:
        wait_until(lambda: view(run, "the route").state is RouteState.RUNNING, "the start")
        source.rename(tmp_path / "elsewhere")
        wait_until(lambda: view(run, "the route").state is RouteState.AWAY, "the trouble")
        (tmp_path / "elsewhere").rename(source)
        send(Drop.at(str(source)), tmp_path, "a")
        wait_until(lambda: after(source), "the after image")
        assert view(run, "the route").trouble == ""


def test_where_no_route_can_run_and_nobody_could_see_it_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = tmp_path / "dropgate.toml"
    config.write_text('[drop.a]\nurl = "nowhere"\ngroups = ["g_"]\n[drop.b]\nurl = "b"\n[[route]]\nfrom = "a"\nto = "b"\n')
    with pytest.raises(NotFound, match="make the folder, or mount its disk"):
        Service(config, load(config), threading.Event()).run()
