#!/usr/bin/env bash
# Checks that need not wait for `npm test`, and run beside it in CI: types, lint, known vulnerabilities, the integrations, the
# TypeScript client in other runtimes, the example in Go, the packages for Python, and embeddings with a real model. They
# leave alone what tests read. Whatever fails, the rest runs too.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()
for check in \
  'npm run check' \
  'npm run audit' \
  'npm run check:integrations' \
  'npm run check:runtimes' \
  'npm run check:go' \
  'scripts/check-python-packages.sh' \
  'scripts/check-embeddings.sh'; do
  $check || failed+=("$check")
done
[ ${#failed[@]} -eq 0 ] && exit 0
printf 'failed: %s\n' "${failed[@]}"
exit 1
