#!/usr/bin/env bash
# Installs missing Debian packages for the checks of the console and the Python packages: Chromium's headless shell, and
# Python with virtual environments. It does so only as root on Debian. Checks that still lack a program report that they
# are skipped.
set -uo pipefail

missing=()
command -v chromium-headless-shell > /dev/null || missing+=(chromium-headless-shell)
python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3 python3-venv)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
  echo "not installed: ${missing[*]} (installing them needs root and apt-get)"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
timeout 300 apt-get update -qq > /dev/null 2>&1
timeout 600 apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null 2>&1 ||
  echo "apt-get could not install: ${missing[*]}"
exit 0
