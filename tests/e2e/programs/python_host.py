#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python program as inference servers are: it launches on the GPU through libcuda, and has children by multiprocessing.

    python_host.py fork|spawn|forkserver|subprocess

Children of fork cannot use CUDA (nobody's can) and only count; all others launch as well."""
import ctypes
import multiprocessing
import subprocess
import sys
import time

IMAGE = (b"fake module\n"
         b"kernel _Z12python_gemmPf duration 20000\n"
         b"kernel _ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii"
         b" duration 30000 params 8 64:8 8 8 4 4\n")
NAMES = [line.split()[1] for line in IMAGE.splitlines()[1:]]


def check(result):
    if result:
        sys.exit(f"CUDA error {result}")


def launch(times, device=0):
    """Two kernels each time; returns how many."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, stream, function = (ctypes.c_void_p() for _ in range(4))
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(cuda.cuModuleLoadData(ctypes.byref(module), IMAGE))
    words = (ctypes.c_uint64 * 8)()
    rank, packs = ctypes.c_int(0), ctypes.c_int(2688)
    parameters = (ctypes.c_void_p * 6)(*[ctypes.addressof(words)] * 4, ctypes.addressof(rank), ctypes.addressof(packs))
    for _ in range(times):
        for name in NAMES:
            check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
            check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, None))
    check(cuda.cuStreamSynchronize(stream))
    time.sleep(0.2)
    return 2 * times


def launch_in_child(times):
    """A pool ends its processes by SIGTERM: what they launched is seen if the library has handed it over by then."""
    launched = launch(times)
    time.sleep(2)
    return launched


def count(number):
    return sum(range(number))


def main():
    how = sys.argv[1]
    print("parent launched", launch(50))
    if how == "subprocess":
        print("child:", subprocess.run([sys.executable, "-c", "print('hello')"], capture_output=True, text=True, check=True).stdout)
    else:
        with multiprocessing.get_context(how).Pool(2) as pool:
            if how == "fork":
                print("children counted", pool.map(count, [1000, 2000, 3000]))
            else:
                print("children launched", pool.map(launch_in_child, [10, 20]))
    print("parent launched", launch(50))


if __name__ == "__main__":
    main()
