#!/usr/bin/env bash
# Creates a virtual environment from files of pinned requirements, unless it is up to date.
#
#   scripts/make-venv.sh ENVIRONMENT REQUIREMENTS...
set -euo pipefail
environment=$1
shift
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore
python=${PYTHON:-python3}

"$python" -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed: set PYTHON"'
wanted=$(cat "$@" <("$python" -c 'import sys; print(sys.prefix, sys.version)') | sha256sum)
if [ "$(cat "$environment/made-of" 2>/dev/null || true)" != "$wanted" ]; then
  rm -rf "$environment"
  "$python" -m venv "$environment"
  # Modules are compiled when they are first imported, which most never are.
  "$environment/bin/pip" install --no-deps --no-compile $(printf -- '-r %s ' "$@")
  echo "$wanted" > "$environment/made-of"
fi
