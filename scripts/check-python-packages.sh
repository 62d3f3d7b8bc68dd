#!/usr/bin/env bash
# Checks the Python client and the integrations that use it, as CI does; see check-python.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! python3 -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 11)' 2> /dev/null; then
  echo "skipped: the Python packages need Python 3.11 or later with its virtual environments (python3-venv)"
  exit 0
fi
for package in clients/python integrations/langchain-python integrations/llamaindex-python; do
  echo "$package"
  "$package/check.sh"
done
