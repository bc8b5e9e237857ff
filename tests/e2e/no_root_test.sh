#!/usr/bin/env bash
# Without root, ./run says which command installs what is missing, and stops.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

# A machine on which no package is installed and sudo wants a password.
mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' | tee "$work/bin/dpkg-query" "$work/bin/sudo" >/dev/null
chmod +x "$work/bin/dpkg-query" "$work/bin/sudo"

run_as_nobody() {
  if [[ $EUID == 0 ]]; then
    chown -R 65534 "$copy"
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
  else
    "$@"
  fi
}

expect_failure "sudo apt-get install -y --no-install-recommends libyaml-cpp-dev" \
  run_as_nobody env PATH="$work/bin:$PATH" "$copy/run" build
grep -qF "DPO_DEPS=DIR ./run build" "$work/output" || fail "no word about the way without root"
[[ ! -e $copy/build && ! -e $copy/.deps/venv ]] || fail "it went on after that"
expect_failure "is not a folder made by ./run deps" env DPO_DEPS=/nowhere "$copy/run" build
expect_failure "has no lib/libtorch_cpu.so" env LIBTORCH=/nowhere "$copy/run" build
