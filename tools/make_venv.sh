#!/bin/sh
# Makes the virtual environment DIR with the first Python >= 3.11 that can, or keeps a DIR that works already.
# usage: tools/make_venv.sh DIR          (PYTHON=/path/to/python picks one by hand)
#
# Each candidate is run, not only looked up: version managers leave commands on PATH that do nothing but
# complain, and Debian ships a Python that can't make virtual environments until one more package is installed.
set -u
dir=${1:?usage: tools/make_venv.sh DIR}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
makes_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

if new_enough "$dir/bin/python" && "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
  if grep -qsF "$PWD/$dir/bin/python" "$dir/bin/pip"; then exit 0; fi
  echo "$dir was made in another place; making it anew."
fi

without_venv=
for python in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
  new_enough "$python" || continue
  if makes_venvs "$python"; then
    echo "Making $dir with $("$python" --version)"
    exec "$python" -m venv --clear "$dir"
  fi
  without_venv=${without_venv:-$python}
done

if [ -n "$without_venv" ]; then
  version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  echo "Python $version is here, but its venv module is not complete." >&2
  echo "On Debian and Ubuntu: sudo apt install python$version-venv      Then type the command again." >&2
elif [ -n "${PYTHON:-}" ]; then
  echo "PYTHON=$PYTHON is not a working Python >= 3.11." >&2
else
  echo "Tickwheel needs Python 3.11 or newer; none of python3.13, python3.12, python3.11, python3, python is." >&2
  echo "If yours has another name: make PYTHON=/path/to/python ..." >&2
fi
exit 1
