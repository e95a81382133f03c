#!/bin/sh
# idlewin and all that it needs, as uv.lock has it, into one folder. The Containerfile's build stage
# is this script; it needs python3 and uv, and runs without a container, too.
set -eu
into=$1
cd "$(dirname "$0")/.."
python3 -m venv --without-pip "$into"
UV_PROJECT_ENVIRONMENT=$into UV_PYTHON=$into/bin/python UV_LINK_MODE=copy \
    uv sync --locked --no-dev --no-editable --extra boosting --compile-bytecode
"$into/bin/idlewin" --version
