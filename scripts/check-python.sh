#!/usr/bin/env bash
# Checks a Python package of this repository as CI does: lint, types, tests against the service of this checkout, and
# the wheel, installed into an empty environment. The development environment is reused until its requirements change;
# DEVELOPMENT_ENVIRONMENT names one that has them, and WHEELS a directory with the wheels of this repository.
#
#   scripts/check-python.sh DIRECTORY [DIRECTORY OF A REQUIRED PACKAGE OF THIS REPOSITORY]
set -euo pipefail
package=$(realpath "$1")
needed=${2:+$(realpath "$2")}
scripts=$(realpath "$(dirname "$0")")
cd "$package"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore
python=${PYTHON:-python3}

environment=${DEVELOPMENT_ENVIRONMENT:-$package/.venv}
[ -n "${DEVELOPMENT_ENVIRONMENT:-}" ] || "$scripts/make-venv.sh" "$environment" requirements-dev.txt
bin=$environment/bin

"$bin/ruff" check --quiet .
"$bin/ruff" format --quiet --check .
"$bin/mypy" --no-error-summary
"$bin/pytest"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheels=${WHEELS:-$work}
[ -n "${WHEELS:-}" ] ||
  "$bin/pip" wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "$package" ${needed:+"$needed"}
wheel_of() {
  local name
  name=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$1/pyproject.toml")
  echo "$wheels/${name//-/_}"-[0-9]*.whl
}
# Without a pip of its own and without compiling all modules, an empty environment is ready in half the time.
"$python" -m venv --without-pip "$work/empty"
"$bin/pip" --python "$work/empty/bin/python" install --no-compile --constraint requirements-dev.txt \
  "$(wheel_of "$package")" ${needed:+"$(wheel_of "$needed")"}
"$work/empty/bin/python" tests/use_installed.py
