/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes NCCL load this library as its profiler plugin.
 *
 * NCCL reads NCCL_PROFILER_PLUGIN when the first communicator is made, which is after cuInit, so setting the
 * variable from InitializeInjection is early enough (seen with NCCL 2.28.9). NCCL's dlopen then returns this
 * same image.
 */
#ifndef CS_NCCL_ACTIVATE_H
#define CS_NCCL_ACTIVATE_H

#include "environment.h"

/*
 * Start-up, from InitializeInjection; setenv allocates. A plugin that the user chose is left alone, unless
 * COLLSCOPE_NCCL_CHAIN=1 asks to forward every call to it (injector/nccl/chain.h). Says in one line on stderr
 * (level info or warn) when NCCL's labels will be missing and why. errno kept.
 */
void cs_nccl_activate(const struct cs_settings *settings, const char *library_path);

#endif
