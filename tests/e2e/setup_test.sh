#!/usr/bin/env bash
# Checks that ./run prints advice and changes nothing on machines without root, apt-get or libraries.
# shellcheck source=tests/e2e/common.sh
source "$(dirname "$0")/common.sh"

run_as_nobody() {
  if [[ $EUID == 0 ]]; then
    chown -R 65534 "$copy"
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
  else
    "$@"
  fi
}

# script NAME LINE... writes a program to the folder of stand-ins.
mkdir "$work/bin"
script() {
  printf '%s\n' '#!/bin/sh' "${@:2}" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# These stand-ins say that no package is installed and that sudo needs a password.
script dpkg-query 'exit 1'
script sudo 'exit 1'
script apt-get 'exit 1'
expect_failure "sudo apt-get install -y --no-install-recommends libyaml-cpp-dev" \
  run_as_nobody env PATH="$work/bin:$PATH" "$copy/run" build
grep -qF "DPO_DEPS=DIR ./run build" "$work/output" || fail "the message does not say what to do without root"
[[ ! -e $copy/build && ! -e $copy/.deps/venv ]] || fail "it went on after that"
expect_failure "is not a folder made by ./run deps" env DPO_DEPS=/nowhere "$copy/run" build
expect_failure "has no lib/libtorch_cpu.so" env LIBTORCH=/nowhere "$copy/run" build

# Every package is installed, but Python lacks a module. sudo is not asked before that is known. Python never starts in
# the user's folder, from which it would import.
script dpkg-query 'echo installed'
script sudo "touch '$work/scratch/asked'; exit 1"
script python3 "[ \"\$1\" = --version ] || [ \"\$PWD\" = / ] || touch '$work/scratch/in-folder'" \
  "[ ! -e '$work/scratch/asked' ] || touch '$work/scratch/asked-early'" 'exit 1'
mkdir -m 777 "$work/scratch"
expect_failure "sudo apt-get install -y --no-install-recommends python3-venv" \
  run_as_nobody env PATH="$work/bin:$PATH" "$copy/run" build
[[ ! -e $work/scratch/asked-early ]] || fail "sudo was asked when nothing was missing"
[[ ! -e $work/scratch/in-folder ]] || fail "python3 was started in the user's folder"

# On a system without apt-get, missing parts are named by their own names, not by Debian packages.
rm -r "${work:?}/bin"
mkdir "$work/bin"
for program in /usr/local/bin/* /usr/bin/* /bin/*; do
  case ${program##*/} in
    apt-get | dpkg-query | ninja | sudo) ;;
    *) if [[ -x $program ]]; then programs+=("$program"); fi ;;
  esac
done
ln -sf "${programs[@]}" "$work/bin"
ln -sf "$(command -v python3)" "$work/bin/python3"
expect_failure "not found: ninja." env PATH="$work/bin" "$copy/run" build
grep -qF "this system's package manager" "$work/output" || fail "the message does not say what to do"

# With a GPU but no nvcc, the CUDA part is still built. The programs there are links, so they are never written through.
rm -f "$work"/bin/{cmake,nvcc,python3,nvidia-smi}
script ninja 'exit 1'
script nvidia-smi 'exit 0'
script python3 'echo 1.0 /nowhere'
script cmake 'echo "$@"; exit 1'
mkdir -p "$work/torch/lib"
touch "$work"/torch/lib/libtorch_{cpu,cuda}.so
sed -i '/^PATH+=/d' "$copy/run"
expect_failure "-DDPO_CUDA=ON" env PATH="$work/bin" LIBTORCH="$work/torch" "$copy/run" build
! grep -qF CUDA_COMPILER "$work/output" || fail "it found an nvcc"
# A package has a kernel for each compute capability that nvcc knows, and no MPI.
expect_failure "a package for GPUs needs nvcc" env PATH="$work/bin" LIBTORCH="$work/torch" "$copy/run" package
expect_failure "-DDPO_MPI=OFF" env PATH="$work/bin" LIBTORCH="$work/torch" "$copy/run" package cpu
! grep -qF DPO_CUDA=ON "$work/output" || fail "the package for CPUs has a part for GPUs"
# If there is an nvcc, its path is passed to CMake.
script nvcc 'echo compute_75; echo compute_90; echo compute_100'
expect_failure "-DCMAKE_CUDA_ARCHITECTURES=75-real;90;100" env PATH="$work/bin" LIBTORCH="$work/torch" "$copy/run" package
grep -qF "this nvcc does not know compute capability 120" "$work/output" || fail "it does not say what is left out"
expect_failure "-DCMAKE_CUDA_COMPILER=$work/bin/nvcc" env PATH="$work/bin" LIBTORCH="$work/torch" "$copy/run" build
# A python3 whose torch has no CUDA support is ignored on a machine with a GPU.
rm "$work/torch/lib/libtorch_cuda.so"
script python3 "echo $(sed -n 's/^TORCH_VERSION=//p' "$copy/versions.env") '$work/torch'"
expect_failure "of python3 has no CUDA support, and this machine has a GPU" env PATH="$work/bin" "$copy/run" build
! grep -qF -- "-DLIBTORCH=$work/torch" "$work/output" || fail "it was taken all the same"

# If no library is found, one message names all of them.
expect_failure "Zstandard (header zstd.h, library zstd; on Debian and Ubuntu: libzstd-dev)" \
  cmake -S "$copy" -B "$work/cmake" -G Ninja -DCMAKE_MAKE_PROGRAM="$(command -v ninja)" \
  -DCMAKE_CXX_COMPILER="$(command -v c++)" -DLIBTORCH= -DPYARROW= '-DCMAKE_IGNORE_PREFIX_PATH=/;/usr;/usr/local'
for name in fmt yaml-cpp "JSON for Modern C++" CLI11 zlib PCRE2 utf8proc SentencePiece OpenSSL GoogleTest; do
  grep -qF " $name (header" "$work/output" || { cat "$work/output"; fail "$name is not named"; }
done
