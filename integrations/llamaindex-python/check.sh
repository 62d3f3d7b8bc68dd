#!/usr/bin/env bash
here=$(dirname "$0")
exec "$here/../../scripts/check-python.sh" "$here" "$here/../../clients/python"
