#!/usr/bin/env bash
exec "$(dirname "$0")/../../scripts/check-python.sh" "$(dirname "$0")"
