# shellcheck shell=bash
# Helpers of tests of ./run. Each test works in a clean copy of the source tree, in a folder with a space.
set -euo pipefail
unset DPO_DEPS LIBTORCH  # those of the user who runs the tests

skip() { echo "not run: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
copy="$work/a clean copy"
mkdir "$copy"
git -C "$DPO_SOURCE_DIR" ls-files -z --cached --others --exclude-standard |
  tar -C "$DPO_SOURCE_DIR" --ignore-failed-read --null -T - -c 2>/dev/null | tar -C "$copy" --no-same-owner -x

# expect_failure MESSAGE COMMAND... checks that the command exits with 1 and prints MESSAGE.
expect_failure() {
  local message=$1 status=0
  shift
  "$@" >"$work/output" 2>&1 </dev/null || status=$?
  [[ $status == 1 ]] || { cat "$work/output"; fail "exit status $status instead of 1: $*"; }
  grep -qF -- "$message" "$work/output" || { cat "$work/output"; fail "did not say '$message': $*"; }
}
