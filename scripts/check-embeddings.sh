#!/usr/bin/env bash
# Tests text embedding with the real model of examples/embeddings-server, in its virtual environment.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! python3 -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 11)' 2> /dev/null; then
  echo "skipped: the embedding server needs Python 3.11 or later with its virtual environments (python3-venv)"
  exit 0
fi
scripts/make-venv.sh examples/embeddings-server/.venv examples/embeddings-server/requirements.txt
node_modules/.bin/node --test --test-reporter=spec test/product/embeddings-model.test.ts
node_modules/.bin/node --test --test-reporter=spec --test-name-pattern='docs/embeddings.md' test/product/docs.test.ts
