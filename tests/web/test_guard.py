"""Who may look at the dashboard, and what everybody else is told."""

import http.client
import socket

import pytest
from thousand import NOBODY, busy
from web_kit import ask, port_of, served, until

from unisono.model.errors import ConfigError, ServerError
from unisono.web.guard import host_of
from unisono.web.serving import is_loopback
from unisono.web.watching import without_secrets


@pytest.fixture(scope="module")
def page():
    with served() as dashboard:
        yield dashboard


def test_on_loopback_whoever_is_on_this_machine_may_look(page):
    status, headers, about = ask(page, "/api/about")
    assert (status, about["place"]) == (200, None)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "#token" not in page.url


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]:80"]
)
def test_a_name_that_is_not_ours_is_refused(page, host):
    status, _, told = ask(page, "/api/about", headers={"Host": host})
    assert status == 421
    assert "not known by that name" in told["error"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9999", "[::1]:80", "LOCALHOST:1"])
def test_our_own_names_are_known(page, host):
    assert ask(page, "/api/about", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_look_through_a_browser(page, site):
    assert ask(page, "/api/about", headers={"Sec-Fetch-Site": site})[0] == 403
    assert ask(page, "/", headers={"Sec-Fetch-Site": site})[0] == 200  # a link may lead here


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_for_looking_only(page, method):
    status, _, told = ask(page, "/api/about", method=method, body=b"x")
    assert (status, told["error"]) == (405, "this is for looking only: GET")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", 404, "Not Found"),
        ("/static/../../app.py", 404, "Not Found"),
        ("/static/..%2f..%2fapp.py", 404, "Not Found"),
        ("/static/none.js", 404, "there is no 'none.js'"),
        ("/api/overlaps/9", 404, "no such group"),
        ("/api/overlaps/99999999999999999999999", 404, "no such group"),
        ("/api/overlaps/x", 404, "Not Found"),
        ("/api/play?events=1e9", 400, "cannot be played"),
        ("/api/play?loss=nan", 400, "cannot be played"),
        ("/api/play?guarantee=all", 400, "cannot be played"),
        ("/api/play?knob=1", 400, "cannot be played"),
        ("/api/play?seed=-1", 400, "cannot be played"),
        ("/api/event?id=x", 404, "reads no journal"),
        ("/api/events", 404, "reads no journal"),
        ("/api/live", 404, "watches no system"),
        ("/api/tap?topic=orders", 409, "no system is connected"),
        ("/api/reached?topic=orders&number=x", 400, "a number is asked for"),
        ("/api/reports/7", 404, "no such report"),
        ("/" + "x" * 3000, 414, "over 2048"),
    ],
)
def test_nonsense_is_answered_with_one_clear_error(page, path, status, words):
    found, _, told = ask(page, path)
    assert (found, list(told)) == (status, ["error"])
    assert words in told["error"]


def test_bytes_that_are_no_request_do_no_harm(page):
    with socket.create_connection(("127.0.0.1", port_of(page)), timeout=5) as connection:
        connection.sendall(b"\x00\xff nonsense\r\n\r\n" * 50)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert ask(page, "/healthz")[0] == 200


def test_elsewhere_a_token_is_asked_for():
    with served(host="127.0.0.1", token="let-me-look") as page:
        assert page.url.endswith("/#token=let-me-look")
        for headers in ({}, {"Authorization": "Bearer no"}, {"Cookie": "unisono_dashboard=é"}):
            status, _, told = ask(page, "/api/about", headers=headers)
            assert status == 401
            assert "let-me-look" not in told["error"]
        assert ask(page, "/")[0] == 200, "the page itself knows nothing"
        assert ask(page, "/api/about", headers={"Authorization": "Bearer let-me-look"})[0] == 200
        assert ask(page, "/login", method="POST", body=b'{"token": "no"}')[0] == 401
        assert ask(page, "/login", method="POST", body=b"{")[0] == 400
        assert ask(page, "/login", method="POST", body=b"x" * 5000)[0] == 413
        status, headers, _ = ask(page, "/login", method="POST", body=b'{"token": "let-me-look"}')
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "let-me-look" not in cookie
        assert ask(page, "/api/about", headers={"Cookie": cookie.split(";")[0]})[0] == 200


def test_beyond_loopback_a_token_is_made_up():
    with served(host="0.0.0.0") as page:
        token = page.url.partition("#token=")[2]
        assert len(token) >= 32
        assert ask(page, "/api/about")[0] == 401
        assert ask(page, "/api/about", headers={"Authorization": f"Bearer {token}"})[0] == 200


def test_a_port_that_is_taken_is_said_so(page):
    with pytest.raises(ServerError, match="give another port"), served(port=port_of(page)):
        pass


def test_a_journal_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match="no such folder"), served(journal=tmp_path / "none"):
        pass


def test_pages_beyond_the_limit_are_refused_and_those_that_go_make_room():
    url = "nats://127.0.0.1:1"  # nobody is there; the page says so
    with served(url=url) as page:
        page._pages._pages_max = 2
        some = [http.client.HTTPConnection("127.0.0.1", port_of(page), timeout=10) for _ in range(2)]
        for one in some:
            one.request("GET", "/api/live")
            assert one.getresponse().status == 200
        status, _, told = ask(page, "/api/live")
        assert (status, "too many pages" in told["error"]) == (503, True)
        for one in some:
            one.close()
        until(lambda: not page._pages.is_looked_at)


def test_a_page_that_takes_nothing_is_served_no_longer(monkeypatch):
    monkeypatch.setattr("unisono.web.guard.SEND_S", 0.3)
    with served(url=NOBODY, meanwhile=busy) as page, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        page._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that it is noticed soon
        stuck.connect(("127.0.0.1", port_of(page)))
        stuck.sendall(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: page._pages.is_looked_at)
        until(lambda: not page._pages.is_looked_at, within_s=60)
        assert ask(page, "/healthz")[0] == 200, "nobody else has noticed"


def test_names_and_secrets():
    assert host_of("a.b:80") == "a.b"
    assert host_of("[::1]:80") == "::1"
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.1.7")
    assert without_secrets("nats://anna:geheim@127.0.0.1:4222?tls_ca=x") == "nats://127.0.0.1:4222"
