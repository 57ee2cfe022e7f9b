#!/bin/sh
# Runs this reproduction and compares it with its original:
#
#   ./run --on DIR              in an empty directory of a disk
#   ./run --on-device DEVICE    on an empty device; it is formatted where files are needed
#   ./run --help                everything else
#
# It makes what it needs there, and removes it again. All of it is in iowhy; what is run is in
# jobs/ (fio) and programs/ (Python), with the numbers of plan.json.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
exec "${IOWHY:-iowhy}" rerun "$here" "$@"
