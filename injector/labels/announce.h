/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calling thread has been told about the collective that it is about to launch: by the NCCL profiler
 * plugin and by NVTX payloads in NCCL's domain. Producers (injector/nccl/, injector/nvtx/) announce; the
 * launch callback takes.
 *
 * NCCL calls us on the thread that then calls cuLaunchKernel(Ex): API event or NVTX range first, the launch
 * before they end. Grouped calls announce several collectives before one launch. Algorithm, protocol,
 * channels and sequence number (and, before NCCL 2.28, all the plugin knows) come after the launch, on the
 * same thread: "late facts", which go to the launch that was bound last.
 *
 * All state is per thread with a fixed size; nothing here allocates, locks or makes a system call: host-safe.
 * Thread context: any application thread; every function works on the calling thread's state alone.
 */
#ifndef CS_ANNOUNCE_H
#define CS_ANNOUNCE_H

#include "segment/segment.h"

#include <stdbool.h>

/* -- for the launch callback ----------------------------------------------------------------------------- */

/*
 * For kernels that the catalogue calls NCCL's. Merges what was announced for this launch into *label (several
 * collectives: bytes and count summed, works = how many, op and dtype kept where all agree, else unknown) and
 * *sequence (0: not known yet). Fields of *label that nobody announced stay as they are; one exception: a
 * group whose split over kernels is unknown makes bytes CS_BYTES_UNKNOWN and count 0. false: nothing
 * announced, label untouched. The announcements are consumed.
 */
bool cs_announce_take(struct cs_label *label, uint32_t *sequence);

/* After a take: whether an announcement of this thread's API call or group had no room, so that a launch may
 * lack it: more communicators in one group, or more threads, than are followed. */
bool cs_announce_lost(void);

/*
 * Says under which key the launch of this thread was filed: the graph node's id, or the correlation id for an
 * eager launch, told apart by whatever the caller puts into the key. Call it for every launch of an NCCL
 * kernel, taken or not, once the key is known (at the launch callback's exit). Key 0: filed nowhere.
 */
void cs_announce_bind(uint64_t key);

/*
 * Registers who is told late facts; once, at start-up, before any launch. tell() runs on the launching
 * thread, inside NCCL's call, soon after the launch: it must be host-safe. `facts` has the same meaning as a
 * label that was announced; complete a label with cs_announce_complete(). NULL: nobody.
 */
void cs_announce_register_amend(void (*tell)(uint64_t key, const struct cs_label *facts, uint32_t sequence));

/* Registers who is told of launches themselves; once, at start-up. begin() runs on the launching thread just
 * before the launch call, when all that belongs to it has been announced, end() when the call has returned:
 * as the plugin's KernelLaunch event tells. Both must be host-safe. */
void cs_announce_register_launches(void (*begin)(void), void (*end)(void));

/* Facts that were announced on top of what the kernel's name told, as cs_announce_take does it. Pure. */
void cs_announce_merge(struct cs_label *label, const struct cs_label *facts);

/* Fills what *label does not know with what *facts knows; and what a group's late facts say better (bytes,
 * count, works of exactly this kernel) replaces. Returns whether anything changed. Pure. */
bool cs_announce_complete(struct cs_label *label, const struct cs_label *facts);

/* Version text of NCCL once known ("2.28.9"), "" before. Static string. */
const char *cs_announce_nccl_version(void);
/* The same as a number (22809), 0 before: what struct cs_launch wants. */
int cs_announce_nccl_version_number(void);

/* -- for the producers ----------------------------------------------------------------------------------- */

/*
 * One collective. `label` has op, dtype, reduction, algorithm, protocol, bytes, count, channels, rank, world,
 * comm_id as far as known (zeros and UNKNOWN otherwise) and source = NCCL_PROFILER or NVTX. The plugin's
 * announcement inside an NVTX range that was announced is the same collective: the more trusted source wins,
 * the other fills what it leaves unknown. Full: dropped, which
 * cs_announce_lost tells, and the launch gets no size.
 */
void cs_announce_collective(const struct cs_label *label, uint32_t sequence);
/* Begin and end of an API call or group; nested. At the end of the outermost one what was not taken is
 * forgotten. */
void cs_announce_begin(void);
void cs_announce_end(void);
/* The plugin's KernelLaunch event: what has been announced for this communicator (its id in the segment; 0
 * unknown) belongs to the launch that comes now. */
void cs_announce_launch(uint32_t comm_id);
/* Its end. */
void cs_announce_launch_end(void);
/* One late collective, and the end of the late collectives of one kernel. Late labels are summed as announced
 * ones are; without cs_announce_bind() since the last _late_end() they go nowhere. */
void cs_announce_late(const struct cs_label *label, uint32_t sequence);
void cs_announce_late_end(void);

/* NCCL's version number as ncclGetVersion gives it; the first call wins. */
void cs_announce_set_nccl_version(int version);

#endif
