/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler plugin that was there before us (NCCL's Inspector, a vendor's): NCCL knows one plugin only, so
 * with COLLSCOPE_NCCL_CHAIN=1 we load it and forward every call of the interface version that NCCL speaks.
 */
#ifndef CS_NCCL_CHAIN_H
#define CS_NCCL_CHAIN_H

#include "profiler_abi.h"

/* Start-up. plugin: what NCCL_PROFILER_PLUGIN named, by NCCL's rules (a path, or "foo" for
 * libnccl-profiler-foo.so). 0, or -ENOENT with one line on stderr. */
int cs_nccl_chain_load(const char *plugin);

/* Table of the forwarded plugin for interface version 1 ... 7 (cast to the struct of profiler_abi.h), NULL
 * when nothing is forwarded. Any thread. When a plugin was loaded but lacks this version, says so once. */
const void *cs_nccl_chain_table(unsigned int version);

/* An event whose handle is the forwarded plugin's own: remembers, for this thread, which of our events it is,
 * so that stop can tell. false: too many open events; ours is then not told of the stop. */
void cs_nccl_chain_remember(void *theirs, const void *mine);
/* What was remembered for the handle (forgotten by this), NULL nothing. */
const void *cs_nccl_chain_recall(void *theirs);

#endif
