#!/bin/sh
# Installs the peers that come from the system's packages; `unisono bench peers` skips those that are not there.
set -eu
packages="corosync libcpg-dev gcc libc6-dev libjgroups-java default-jdk-headless"

command -v apt-get >/dev/null 2>&1 || {
  echo "peers-setup: no apt-get here; install with your system's package manager what Debian calls: $packages" >&2; exit 2; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
as_root apt-get update -qq
# shellcheck disable=SC2086 (words)
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages >/dev/null
as_root systemctl disable --now corosync >/dev/null 2>&1 || :   # ours is started by the benchmark, and only then
echo "peers-setup: ready" >&2
