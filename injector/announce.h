/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calling thread has been told about the collective that it is about to launch: by the NCCL profiler
 * plugin and by NVTX payloads in NCCL's domain. Producers (injector/nccl/, injector/nvtx/) announce; the
 * launch callback takes.
 *
 * NCCL calls us on the thread that then calls cuLaunchKernel(Ex): API event or NVTX range first, the launch
 * before they end. Grouped calls announce several collectives before one launch. All state is thread-local
 * with a fixed size; nothing here allocates, locks or makes a system call: host-safe.
 *
 * Thread context: any application thread; every function works on the calling thread's state alone.
 */
#ifndef CS_ANNOUNCE_H
#define CS_ANNOUNCE_H

#include "segment.h"

#include <stdbool.h>

/*
 * One collective. `label` has op, dtype, reduction, algorithm, protocol, bytes, count, channels, rank, world,
 * comm_id as far as known (zeros and UNKNOWN otherwise) and source = NCCL_PROFILER or NVTX. A second
 * announcement of the same collective by a less trusted source fills only what the first left unknown. Full:
 * counted, dropped.
 */
void cs_announce_collective(const struct cs_label *label, uint32_t sequence);
/* Begin and end of an API call or group; nested. At the end of the outermost one what was not taken is
 * forgotten. */
void cs_announce_begin(void);
void cs_announce_end(void);
/* The plugin's KernelLaunch event: everything announced since the last one belongs to the launch that comes
 * now. */
void cs_announce_launch(void);

/*
 * For the launch callback, for kernels that the catalogue calls NCCL's. Merges what was announced for this
 * launch into *label (several collectives: bytes and count summed, works = how many, op and dtype kept where
 * all agree, else unknown) and *sequence. false: nothing announced, label untouched. The announcements are
 * consumed.
 */
bool cs_announce_take(struct cs_label *label, uint32_t *sequence);

/* Entry of the stream-less information for status: version text of NCCL once known ("2.28.9"), "" before.
 * Static string. */
const char *cs_announce_nccl_version(void);

#endif
