#!/usr/bin/env bash
# Checks a Python package of this repository as CI does: lint, types, tests against the service of this checkout, and
# the wheel, installed into an empty environment. The development environment is reused until its requirements change.
#
#   scripts/check-python.sh DIRECTORY [DIRECTORY OF A REQUIRED PACKAGE OF THIS REPOSITORY]
set -euo pipefail
package=$(realpath "$1")
needed=${2:+$(realpath "$2")}
scripts=$(realpath "$(dirname "$0")")
cd "$package"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore
python=${PYTHON:-python3}

"$scripts/make-venv.sh" . requirements-dev.txt

.venv/bin/ruff check --quiet .
.venv/bin/ruff format --quiet --check .
.venv/bin/mypy --no-error-summary
.venv/bin/pytest

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/pip wheel --no-deps --no-build-isolation --wheel-dir "$work" "$package" ${needed:+"$needed"}
"$python" -m venv "$work/empty"
"$work/empty/bin/pip" install --constraint requirements-dev.txt "$work"/*.whl
"$work/empty/bin/python" tests/use_installed.py
