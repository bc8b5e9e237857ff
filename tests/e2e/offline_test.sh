#!/usr/bin/env bash
# Builds a clean copy without network access, with the folder that ./run deps makes.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

[[ ${CI:-} == true ]] || skip "it builds the project once more; CI=true runs it"
unshare -n true 2>/dev/null || skip "unshare -n is not allowed here"

deps="$work/some deps"
"$copy/run" deps --into "$deps" || skip "./run deps did not work; is there a network?"
megabytes=$(du -sm "$deps" | cut -f1)
((megabytes < 40)) || fail "the folder has $megabytes MB"

offline() { unshare -n env PIP_RETRIES=0 PATH="$PATH" "$@"; }

if ! python3 -c 'import torch' 2>/dev/null; then
  expect_failure "Is the network reachable? LIBTORCH=DIR uses a LibTorch that is already installed." \
    offline "$copy/run" build
fi
rm -rf "$copy/.deps"

LIBTORCH=$("$DPO_PROGRAM" doctor --json | sed -nE 's/^ *"folder": "(.*torch)",?$/\1/p')
export LIBTORCH
[[ -n $LIBTORCH ]] || fail "doctor names no LibTorch"
# The build only has to find everything. Without optimization and with more files at once it takes a third of the time.
printf '#!/bin/sh\nexec "$@" -O0 -w\n' >"$work/fast"
chmod +x "$work/fast"
sed -i -E 's/(UNITY_BUILD_BATCH_SIZE) [0-9]+/\1 64/' "$copy/CMakeLists.txt"
offline env DPO_DEPS="$deps" CMAKE_CXX_COMPILER_LAUNCHER="$work/fast" "$copy/run" build || fail "the build"
[[ ! -e $copy/.deps/venv ]] || fail "pip was used"
# MPI belongs to the machine, since its mpirun starts the ranks.
if grep -E '^[^#]*_INCLUDE:PATH=' "$copy/build/CMakeCache.txt" | grep -v '^DPO_MPI_' | grep -vF "=$deps/include"; then
  fail "a library of the system was used, and not the one of the folder"
fi
# The program runs as a user would start it, without build settings in the environment.
"$copy/build/dpo" --version
"$copy/build/dpo" doctor >/dev/null || fail "doctor finds something missing"
DPO_DEPS="$deps" offline "$copy/run" config model=pythia28 'datasets=[hh]' loss=sft exp_name=offline >/dev/null || fail "dpo config"
