#!/bin/sh
# Makes the virtual environment $1 from requirements.lock and installs this checkout in it.
# With --browser: only sees to it that there is a browser to test the dashboard with; it is large, and not for the demo.
set -eu
venv=$1
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo "$@"; else
    say "please run as root: $*"; return 1
  fi
}

apt_install() {
  command -v apt-get >/dev/null 2>&1 || { say "$* is missing; install it with your system's package manager, then run make again"; exit 2; }
  say "installing $* with apt-get"
  as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}

if [ "$venv" = --browser ]; then
  command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 \
    || ( apt_install --no-install-recommends chromium ) \
    || say "Chromium is missing: the tests of the dashboard in a browser will be skipped"
  exit 0
fi

command -v "$python" >/dev/null 2>&1 || apt_install python3 python3-venv
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "Python 3.11 or newer is needed, '$python' is $("$python" --version 2>&1); point PYTHON at a newer one"; exit 2; }
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || apt_install python3-venv

command -v java >/dev/null 2>&1 || ( apt_install default-jre-headless ) || say "Java is missing: everything works but the Spark pipeline"

# For the tests of mqtt:// only; they are skipped without it. No broker of the system's is to run because of us.
have_mosquitto() { command -v mosquitto >/dev/null 2>&1 || [ -x /usr/sbin/mosquitto ]; }
if ! have_mosquitto && command -v apt-get >/dev/null 2>&1; then
  ( apt_install mosquitto && { as_root systemctl disable --now mosquitto >/dev/null 2>&1 || :; } ) \
    || say "Mosquitto is missing: the tests of mqtt:// will be skipped"
fi

say "making $venv (a minute or two the first time)"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
say "ready: $venv/bin/unisono"
