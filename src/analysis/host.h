/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host side of a source said: NVTX ranges and launch calls. Joined with GPU work through the
 * correlation id of the launch, which is exact. Bounded: the last 2048 ranges and 8192 launches.
 */
#ifndef CS_HOST_H
#define CS_HOST_H

#include "analysis.h"

/* Ranges around one launch that are looked at, innermost first. */
#define CS_HOST_RANGES_MAX 8U

struct cs_host_range {
	uint64_t start_ns, end_ns;
	uint32_t name_id;
};

struct cs_host *cs_host_new(void);
void cs_host_destroy(struct cs_host *host);
/* As new. */
void cs_host_clear(struct cs_host *host);
/* MARK and HOST_LAUNCH records; others are ignored. */
void cs_host_note(struct cs_host *host, const struct cs_record *record);
/* The ranges in which the step's first launch was made. Where the launch call is not known: those around the
 * whole step, which holds for a host that waits for the GPU. */
size_t cs_host_ranges(const struct cs_host *host, const struct cs_step *step,
	struct cs_host_range ranges[CS_HOST_RANGES_MAX]);
/* A launch call for that GPU that was made before before_ns and whose work was not seen to begin; the oldest
 * one after the newest that was. false: none. */
bool cs_host_pending(const struct cs_host *host, uint32_t gpu, uint64_t before_ns, struct cs_record *launch);
/* The GPU has begun the work of that launch. */
void cs_host_seen(struct cs_host *host, uint32_t correlation_id);

#endif
