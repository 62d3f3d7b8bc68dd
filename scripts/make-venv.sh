#!/usr/bin/env bash
# Creates the virtual environment .venv of a directory from a file of pinned requirements, unless it is up to date.
#
#   scripts/make-venv.sh DIRECTORY REQUIREMENTS
set -euo pipefail
cd "$1"
requirements=$2
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore
python=${PYTHON:-python3}

"$python" -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed: set PYTHON"'
wanted=$(cat "$requirements" <("$python" -c 'import sys; print(sys.prefix, sys.version)') | sha256sum)
if [ "$(cat .venv/made-of 2>/dev/null || true)" != "$wanted" ]; then
  rm -rf .venv
  "$python" -m venv .venv
  .venv/bin/pip install --no-deps -r "$requirements"
  echo "$wanted" > .venv/made-of
fi
