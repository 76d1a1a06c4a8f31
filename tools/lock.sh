#!/bin/sh
# Resolves the dependencies of pyproject.toml into three hash-pinned lists that name no package host.
# usage: tools/lock.sh VENV
#
#   requirements.lock        what Tickwheel needs to run
#   requirements-build.lock  what builds the package
#   requirements-dev.lock    both, and what tests and checks need
#
# One list serves every Python >= 3.11 and every system. `uv` resolves; it is installed apart from the project.
set -eu
cd "$(dirname "$0")/.."
venv=${1:?usage: tools/lock.sh VENV}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$venv/bin/python" -m venv "$scratch"
"$scratch/bin/python" -m pip --quiet --disable-pip-version-check install uv

resolve() {
  output=$1
  shift
  "$scratch/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --output-file "$output" "$@"
  echo "$output: $(grep -c '^[a-z]' "$output") packages"
}
resolve requirements.lock pyproject.toml --extra postgresql --extra redis
resolve requirements-build.lock --group build --constraints requirements.lock
resolve requirements-dev.lock pyproject.toml --extra postgresql --extra redis --extra history --group build --group dev \
  --constraints requirements.lock --constraints requirements-build.lock
