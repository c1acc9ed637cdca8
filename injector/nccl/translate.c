/* SPDX-License-Identifier: Apache-2.0 */
#include "translate.h"

#include "collective.h"
#include "facts.h"
#include "handle.h"

#include <string.h>

/* ncclProfilerEventState_t (src/include/plugin/nccl_profiler.h); the numbers never changed. */
#define STATE_PROXY_STEP_FIRST    8
#define STATE_PROXY_STEP_LAST     12
#define STATE_PROXY_CONTROL_FIRST 13
#define STATE_PROXY_CONTROL_LAST  18
#define STATE_LAST_V4             22 /* KernelChStop */
#define STATE_LAST_V5             24 /* GroupEndApiStart */
#define STATE_LAST_V6             30 /* CeBatchComplete */

/* What NCCL's shim for version 1 says of a word that it does not know. */
#define FUNC_ELSE      6U /* ncclFuncSend */
#define DATATYPE_ELSE  8U /* ncclFloat64 */
#define ALGORITHM_ELSE 6U /* NCCL_ALGO_PAT */
#define PROTOCOL_ELSE  2U /* NCCL_PROTO_SIMPLE */

int
cs_nccl_version_events(unsigned int version)
{
	static const int events[CS_NCCL_VERSIONS + 1] = {0, 0x3f, 0x3f, 0xff, 0xff, 0xfff, 0x7fff, 0xffff};

	return events[version];
}

/* A Coll or P2p event of versions 2 to 7. */
struct task {
	const char *name, *func, *datatype, *algorithm, *protocol;
	uint64_t hash, sequence;
	const void *send;
	void *receive; /* or the one buffer of a send or receive */
	size_t count, traffic_bytes;
	void *parent;
	int root; /* or peer */
	uint8_t channels, warps;
};

static void
read_communicator(struct task *task, const struct cs_nccl_comm *comm)
{
	task->hash = comm->hash;
	task->name = comm->name[0] != '\0' ? comm->name : NULL;
}

static void
read_coll_v4(struct task *task, const struct cs_nccl_coll_v4 *coll)
{
	task->sequence = coll->sequence;
	task->func = coll->func;
	task->send = coll->send;
	task->receive = coll->receive;
	task->count = coll->count;
	task->root = coll->root;
	task->datatype = coll->datatype;
	task->channels = coll->channels;
	task->warps = coll->warps;
	task->algorithm = coll->algorithm;
	task->protocol = coll->protocol;
}

static void
read_coll_v3(struct task *task, const struct cs_nccl_coll_v3 *coll)
{
	task->name = coll->name;
	task->hash = coll->comm_hash;
	task->sequence = coll->sequence;
	task->func = coll->func;
	task->send = coll->send;
	task->receive = coll->receive;
	task->count = coll->count;
	task->root = coll->root;
	task->datatype = coll->datatype;
	task->channels = coll->channels_max;
	task->warps = coll->warps;
	task->algorithm = coll->algorithm;
	task->protocol = coll->protocol;
}

/* v2 is v3 with the traffic in its middle. */
static void
read_coll_v2(struct task *task, const struct cs_nccl_coll_v2 *coll)
{
	struct cs_nccl_coll_v3 head = {0};

	memcpy(&head, coll, offsetof(struct cs_nccl_coll_v3, channels_max));
	head.channels_max = coll->channels_max;
	head.warps = coll->warps;
	head.algorithm = coll->algorithm;
	head.protocol = coll->protocol;
	read_coll_v3(task, &head);
	task->traffic_bytes = coll->traffic_bytes;
}

static void
read_coll(unsigned int from, const void *event, struct task *task)
{
	const struct cs_nccl_event_legacy *legacy = event;
	const struct cs_nccl_event *modern = event;

	if (from >= 5) {
		read_coll_v4(task, &modern->u.coll);
		task->parent = modern->u.coll_v5.parent_group;
	} else if (from == 4) {
		read_coll_v4(task, &legacy->u.coll_v4);
	} else if (from == 3) {
		read_coll_v3(task, &legacy->u.coll_v3);
	} else {
		read_coll_v2(task, &legacy->u.coll_v2);
	}
}

static void
read_p2p_v4(struct task *task, const struct cs_nccl_p2p_v4 *p2p)
{
	task->func = p2p->func;
	task->receive = p2p->buffer;
	task->datatype = p2p->datatype;
	task->count = p2p->count;
	task->root = p2p->peer;
	task->channels = p2p->channels;
}

static void
read_p2p_v2(struct task *task, const struct cs_nccl_p2p_v2 *p2p)
{
	task->name = p2p->name;
	task->hash = p2p->comm_hash;
	task->func = p2p->func;
	task->receive = p2p->buffer;
	task->datatype = p2p->datatype;
	task->count = p2p->count;
	task->root = p2p->peer;
}

static void
read_p2p(unsigned int from, const void *event, struct task *task)
{
	const struct cs_nccl_event_legacy *legacy = event;
	const struct cs_nccl_event *modern = event;

	if (from >= 5) {
		read_p2p_v4(task, &modern->u.p2p_v5.head);
		task->parent = modern->u.p2p_v5.parent_group;
	} else if (from == 4) {
		read_p2p_v4(task, &legacy->u.p2p_v4);
	} else {
		read_p2p_v2(task, &legacy->u.p2p_v2);
	}
}

/* The number in one of version 1's enums of what both the number and the word mean. */
static uint8_t
number_of(uint8_t (*value_of)(unsigned int), uint8_t value, uint8_t otherwise)
{
	for (uint8_t number = 0; value != 0 && number < 16; number++)
		if (value_of(number) == value)
			return number;
	return otherwise;
}

static uint8_t
func_number(const char *func)
{
	return number_of(cs_nccl_op_by_number, cs_nccl_op(func), FUNC_ELSE);
}

static uint8_t
datatype_number(const char *datatype)
{
	return number_of(cs_nccl_dtype_by_number, cs_nccl_dtype(datatype), DATATYPE_ELSE);
}

static void
write_coll(unsigned int to, const struct task *task, struct cs_nccl_event_legacy *out)
{
	switch (to) {
	case 1:
		out->u.coll_v1 = (struct cs_nccl_coll_v1){task->name, task->hash, task->sequence,
			func_number(task->func), task->send, task->receive, task->count, task->root,
			datatype_number(task->datatype), 0, task->traffic_bytes, task->channels, task->warps,
			number_of(cs_nccl_algorithm_by_number, cs_nccl_algorithm(task->algorithm),
				ALGORITHM_ELSE),
			number_of(
				cs_nccl_protocol_by_number, cs_nccl_protocol(task->protocol), PROTOCOL_ELSE),
			0, 0};
		break;
	case 2:
		out->u.coll_v2 = (struct cs_nccl_coll_v2){task->name, task->hash, task->sequence, task->func,
			task->send, task->receive, task->count, task->root, task->datatype,
			task->traffic_bytes, task->channels, task->warps, task->algorithm, task->protocol};
		break;
	case 3:
		out->u.coll_v3 = (struct cs_nccl_coll_v3){task->name, task->hash, task->sequence, task->func,
			task->send, task->receive, task->count, task->root, task->datatype, task->channels,
			task->warps, task->algorithm, task->protocol};
		break;
	default:
		out->u.coll_v4 = (struct cs_nccl_coll_v4){task->sequence, task->func, task->send,
			task->receive, task->count, task->root, task->datatype, task->channels, task->warps,
			task->algorithm, task->protocol};
	}
}

static void
write_p2p(unsigned int to, const struct task *task, struct cs_nccl_event_legacy *out)
{
	if (to == 1)
		out->u.p2p_v1 = (struct cs_nccl_p2p_v1){task->name, task->hash, func_number(task->func),
			task->receive, datatype_number(task->datatype), task->count, task->root};
	else if (to < 4)
		out->u.p2p_v2 = (struct cs_nccl_p2p_v2){task->name, task->hash, task->func, task->receive,
			task->datatype, task->count, task->root};
	else
		out->u.p2p_v4 = (struct cs_nccl_p2p_v4){
			task->func, task->receive, task->datatype, task->count, task->root, task->channels};
}

static uint64_t
unmark_legacy(struct cs_nccl_event_legacy *event)
{
	event->parent = cs_nccl_handle_theirs(event->parent);
	return event->type;
}

static uint64_t
unmark_modern(struct cs_nccl_event *event)
{
	event->parent = cs_nccl_handle_theirs(event->parent);
	if (event->type == CS_NCCL_EVENT_COLL)
		event->u.coll_v5.parent_group = cs_nccl_handle_theirs(event->u.coll_v5.parent_group);
	else if (event->type == CS_NCCL_EVENT_P2P)
		event->u.p2p_v5.parent_group = cs_nccl_handle_theirs(event->u.p2p_v5.parent_group);
	return event->type;
}

void *
cs_nccl_translate_event(unsigned int from, unsigned int to, const struct cs_nccl_comm *comm, void *event,
	struct cs_nccl_event_legacy *room)
{
	const struct cs_nccl_event *modern = event;
	const struct cs_nccl_event_legacy *legacy = event;
	uint64_t type = from >= 5 ? unmark_modern(event) : unmark_legacy(event);
	struct task task = {0};

	if ((type & ~(uint64_t)cs_nccl_version_events(to)) != 0)
		return NULL;
	if (from == to || to >= 5)
		return event;
	memset(room, 0, sizeof(*room));
	room->type = (uint8_t)type;
	room->parent = from >= 5 ? modern->parent : legacy->parent;
	room->rank = from >= 5 ? modern->rank : legacy->rank;
	if (from >= 4)
		read_communicator(&task, comm);
	task.parent = room->parent;
	if (type == CS_NCCL_EVENT_COLL) {
		read_coll(from, event, &task);
		write_coll(to, &task, room);
	} else if (type == CS_NCCL_EVENT_P2P) {
		read_p2p(from, event, &task);
		write_p2p(to, &task, room);
	} else {
		/* One layout in all versions; the largest of them is inside every version's union. */
		memcpy(&room->u, from >= 5 ? (const void *)&modern->u : (const void *)&legacy->u,
			sizeof(struct cs_nccl_proxy_op));
	}
	room->parent = task.parent;
	return room;
}

void *
cs_nccl_translate_state(unsigned int from, unsigned int to, int state, void *arguments,
	struct cs_nccl_state_v1 *room, bool *known)
{
	if (to >= 4 || from < 4) {
		*known = to >= 7 || from == to ||
			 state <= (to >= 6          ? STATE_LAST_V6
					  : to == 5 ? STATE_LAST_V5
						    : STATE_LAST_V4);
		return arguments;
	}
	memset(room, 0, sizeof(*room));
	*known = state >= STATE_PROXY_STEP_FIRST && state <= STATE_PROXY_CONTROL_LAST;
	if (state >= STATE_PROXY_CONTROL_FIRST && arguments != NULL)
		memcpy(&room->u.proxy_control.appended, arguments, sizeof(int));
	return room;
}
