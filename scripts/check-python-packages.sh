#!/usr/bin/env bash
# Checks the Python client and the integrations that use it, as CI does: all at once, in one development environment; see
# check-python.sh. The requirements of the packages are pinned to the same versions.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! python3 -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 11)' 2> /dev/null; then
  echo "skipped: the Python packages need Python 3.11 or later with its virtual environments (python3-venv)"
  exit 0
fi
packages=(clients/python integrations/langchain-python integrations/llamaindex-python)
export DEVELOPMENT_ENVIRONMENT=$PWD/node_modules/.cache/python-packages
scripts/make-venv.sh "$DEVELOPMENT_ENVIRONMENT" "${packages[@]/%//requirements-dev.txt}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WHEELS=$work/wheels
"$DEVELOPMENT_ENVIRONMENT/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$WHEELS" \
  "${packages[@]/#/./}"
for package in "${packages[@]}"; do
  "$package/check.sh" > "$work/${package//\//-}" 2>&1 &
  checks+=($!)
done
failed=0
for index in "${!packages[@]}"; do
  echo "${packages[index]}"
  wait "${checks[index]}" || failed=1
  cat "$work/${packages[index]//\//-}"
done
exit $failed
