/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes NVTX load this library as its tool.
 *
 * NVTX is header-only: each library that uses it reads NVTX_INJECTION64_PATH at its own first NVTX call.
 * NCCL's comes after cuInit, so setting the variable from InitializeInjection reaches it (seen with
 * NCCL 2.28.9).
 */
#ifndef CS_NVTX_ACTIVATE_H
#define CS_NVTX_ACTIVATE_H

#include "environment.h"

/* Start-up, from InitializeInjection; setenv allocates. Another tool that the user chose is loaded and
 * forwarded to (injector/nvtx/forward.h). errno kept. */
void cs_nvtx_activate(const struct cs_settings *settings, const char *library_path);

#endif
