/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may be the other tool. CUPTI tells only from 13.0 on, and only who holds the subscription; what is
 * always there to be seen are the process's libraries and its environment: libraries that need libcupti
 * (DT_NEEDED: torch's libtorch_cpu.so, with kineto inside), those of Nsight by their folder, a
 * CUDA_INJECTION64_PATH that is not this library, and what the launchers set: nsys NSYS_PROFILING_SESSION_ID,
 * ncu NV_NSIGHT_INJECTION_PORT_BASE (2025.3) or NV_COMPUTE_PROFILER_PERFWORKS_DIR, Compute Sanitizer
 * NV_SANITIZER_INJECTION_PORT_RANGE: the names by which programs such as GROMACS and FlashMLA tell that they
 * run under these tools; NVIDIA documents none. A tool that opens libcupti by itself is not found. Being
 * there is no proof of having done it: "perhaps".
 *
 * Worker and start-up: takes the loader's lock for a moment (cs_library_visit), asks for a file's identity;
 * allocates nothing.
 */
#ifndef CS_SUSPECTS_H
#define CS_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>

/* Keeps what the environment tells. Start-up, on the host's thread: later a host thread may change the
 * environment while ours reads it, and getenv takes no lock. */
void cs_suspects_keep_environment(void);

/* "torch.profiler (libtorch_cpu.so)" and the like, the likeliest first; false and "" when nobody is found.
 * Cut to fit. */
bool cs_suspects_name(char *text, size_t text_bytes);

#endif
