/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of one version of NCCL's profiler interface for a plugin that has an older one, as NCCL's own
 * src/plugin/profiler/profiler_vN.cc do it. Differences on purpose: versions 1 to 3 are told hash and name of
 * the communicator, which NCCL leaves out when it is newer than they are.
 *
 * Pure; host-safe; any thread. Versions are 1 to CS_NCCL_VERSIONS, `to` at most `from`.
 */
#ifndef CS_NCCL_TRANSLATE_H
#define CS_NCCL_TRANSLATE_H

#include "comm.h"
#include "profiler_abi.h"

/* Bits of all events that this version has. */
int cs_nccl_version_events(unsigned int version);

/*
 * `event` is NCCL's descriptor of version `from`. Its parents lose their marks (handle.h). Gives the
 * descriptor for version `to`: `event` itself when it can be read as it is, else *room, filled; NULL when
 * `to` has no such event. What `from` does not tell is 0 (operation and traffic of v1 and v2); what is no
 * word of v1's enums becomes what NCCL makes of it (Send, ncclFloat64, PAT, SIMPLE). *comm: whose event it
 * is.
 */
void *cs_nccl_translate_event(unsigned int from, unsigned int to, const struct cs_nccl_comm *comm,
	void *event, struct cs_nccl_event_legacy *room);

/* Arguments of a change of state in versions 1 to 3; from 4 on a union of 8 bytes whose members all start it.
 */
struct cs_nccl_state_v1 {
	union {
		struct {
			size_t bytes;
			int steps;
		} proxy_op;
		struct {
			int appended;
		} proxy_control;
	} u;
};

/* The arguments for version `to`: `arguments` (which may be NULL), or *room, filled. *known = false: `to` has
 * no such state. */
void *cs_nccl_translate_state(unsigned int from, unsigned int to, int state, void *arguments,
	struct cs_nccl_state_v1 *room, bool *known);

#endif
