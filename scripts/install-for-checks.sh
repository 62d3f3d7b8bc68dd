#!/usr/bin/env bash
# Installs from Debian what the checks of the console and of the Python packages need, where it is missing and where that is
# allowed: Chromium, and Python with its virtual environments. What is still missing then is skipped by the checks, which
# say so.
set -uo pipefail

missing=()
command -v chromium > /dev/null || missing+=(chromium)
python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3 python3-venv)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
  echo "not installed, and this is not for root on Debian to do: ${missing[*]}"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
timeout 300 apt-get update -qq > /dev/null 2>&1
timeout 600 apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null 2>&1 ||
  echo "apt-get could not install: ${missing[*]}"
exit 0
