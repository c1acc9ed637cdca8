# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the scripts share. Sourced, not run. Sets ROOT (the project) and changes into it.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
export ROOT

# Debian packages: to build, and in addition to test.
BUILD_PACKAGES=(build-essential cmake ninja-build pkg-config libmicrohttpd-dev libjansson-dev zlib1g-dev
    libcmocka-dev python3 python3-venv scdoc)
TEST_PACKAGES=(prometheus jq curl file dpkg-dev)
LINT_PACKAGES=(clang-format-14 clang-tidy-14 cppcheck shellcheck codespell mandoc)

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$(basename "$0"): $*"
    exit 1
}

# install_packages NAME...: installs what is missing when root, else names the one line to run and stops.
install_packages() {
    local missing=() name
    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" != 0 ]; then
        say "Missing packages. Run this line, then start again:"
        say "  sudo apt-get install -y --no-install-recommends ${missing[*]}"
        exit 1
    fi
    say "Installing: ${missing[*]}"
    # The packaged server must not start by itself: tests run their own on a free port.
    local policy=/usr/sbin/policy-rc.d made_policy=no
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made_policy=yes
    fi
    local ok=yes
    {
        apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    } >&2 </dev/null || ok=no
    if [ "$made_policy" = yes ]; then rm -f "$policy"; fi
    [ "$ok" = yes ] || die "apt-get could not install: ${missing[*]}"
}

# A virtual environment for the Python tools that Debian 12 lacks or has too old; made once in build/.
PYTHON_VENV=$ROOT/build/python
python_tools() {
    local stamp=$PYTHON_VENV/.done-2
    [ -e "$stamp" ] && return 0
    python3 -m venv "$PYTHON_VENV" || die "cannot make a Python environment in build/python"
    "$PYTHON_VENV/bin/pip" install -q --disable-pip-version-check 'prometheus_client>=0.20,<1' 'PyYAML>=6,<7' >&2 ||
        die "cannot install prometheus_client and PyYAML from PyPI"
    touch "$stamp"
}

# configure PRESET: brings the CUDA headers when there are none, then runs cmake.
configure() {
    local preset=$1
    shift
    if ! compgen -G "${CUDA_HOME:-/usr/local/cuda}/include/cupti.h" >/dev/null &&
        ! compgen -G "${CUDA_HOME:-/usr/local/cuda}/extras/CUPTI/include/cupti.h" >/dev/null &&
        ! compgen -G "/usr/local/cuda-1[23].*/include/cupti.h" >/dev/null &&
        [ ! -e build/cuda-headers/include/cupti.h ]; then
        scripts/fetch-cuda-headers
    fi
    # A build folder that was configured elsewhere (a moved checkout) is no use.
    if [ -e "build/$preset/CMakeCache.txt" ] &&
        ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "build/$preset/CMakeCache.txt"; then
        rm -rf "build/$preset"
    fi
    cmake --preset "$preset" "$@" >"build/$preset.configure.log" 2>&1 ||
        { tail -n 30 "build/$preset.configure.log" >&2; die "cmake failed (build/$preset.configure.log)"; }
}

# build PRESET [ninja arguments]
build() {
    local preset=$1
    shift
    cmake --build "build/$preset" "$@" >"build/$preset.build.log" 2>&1 ||
        { tail -n 60 "build/$preset.build.log" >&2; die "the build failed (build/$preset.build.log)"; }
}

mkdir -p build
