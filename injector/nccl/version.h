/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL calls us. */
#ifndef CS_NCCL_VERSION_H
#define CS_NCCL_VERSION_H

/*
 * Asks the library that holds the code at `address` (a return address inside NCCL, which may be linked into
 * something else) for ncclGetVersion, and tells announce.h and the segment. Once per process; later calls do
 * nothing. From a plugin's init: dlopen with RTLD_NOLOAD takes the loader's lock, which NCCL does not hold
 * there.
 */
void cs_nccl_version_find(const void *address);

/*
 * The same where no plugin is called (COLLSCOPE_NCCL=0, another plugin, NCCL before 2.23): looks for a
 * library named libnccl.so among those loaded since the last call. Sizes read from launch parameters need the
 * version, since the layout of NCCL's arguments follows it; launches before it is known stay without. From
 * the worker's thread only: it takes the loader's lock.
 */
void cs_nccl_version_watch(void);

#endif
