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

#endif
