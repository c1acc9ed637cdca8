/* SPDX-License-Identifier: Apache-2.0 */
#include "announce.h"

#include "collective.h"
#include "life/thread_slot.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Threads that call NCCL: one per GPU and stream in the engines, plus capture threads. */
#define CS_ANNOUNCE_THREADS 128U
/* Communicators in one NCCL group. */
#define CS_ANNOUNCE_COMMUNICATORS 8U

/* Sum of the collectives announced for one communicator and not launched yet. */
struct announced {
	struct cs_label label; /* works = how many */
	uint32_t sequence;
	bool point_to_point; /* sends and receives are in it, which bring no late facts */
};

/* A kernel that was launched for a group of several collectives: which of them it holds is not known until
 * late facts or the end of the group tell. */
struct grouped {
	struct announced sum;
	uint64_t key;
	uint32_t launches;
	bool settled; /* late facts came */
};

struct thread_state {
	struct cs_thread_slot slot;
	uint32_t depth;
	uint32_t launch_comm; /* of the launch that comes now */
	bool launch_known;
	bool last_open; /* `last` may still be completed by the other producer */
	bool last_from_nvtx;
	bool last_from_plugin;
	bool late_open;
	bool lost; /* an announcement of this outermost call or group had no room */
	struct announced last;
	uint32_t announced_count;
	uint32_t grouped_count;
	struct announced announced[CS_ANNOUNCE_COMMUNICATORS];
	struct grouped grouped[CS_ANNOUNCE_COMMUNICATORS];
	struct grouped *taken; /* group that the last taken launch belongs to, or NULL */
	uint64_t bound_key;
	struct announced late;
};

static struct thread_state states[CS_ANNOUNCE_THREADS];
static struct thread_state no_state; /* of the threads that found none; never used as a state */
static __thread struct thread_state *own __attribute__((tls_model("initial-exec")));

static _Atomic int nccl_version;
static char nccl_version_text[32];
static void (*_Atomic launch_begins)(void);
static void (*_Atomic launch_ends)(void);
static void (*_Atomic amend_launch)(uint64_t key, const struct cs_label *facts, uint32_t sequence);

/* Once per thread: looking for a state is a system call for each that is taken. */
static __attribute__((noinline, cold)) struct thread_state *
state_claim(void)
{
	own = cs_thread_slot_claim(states, sizeof(states[0]), CS_ANNOUNCE_THREADS);
	if (own == NULL)
		own = &no_state;
	return own;
}

/* NULL: more threads than states. */
static inline struct thread_state *
state_of_thread(void)
{
	struct thread_state *state = own != NULL ? own : state_claim();

	return state == &no_state ? NULL : state;
}

/* -- labels -------------------------------------------------------------------------------------------- */

/* Lower is more trusted; NONE is the least. */
static unsigned int
distrust(uint8_t source)
{
	return source == CS_LABEL_SOURCE_NONE ? CS_LABEL_SOURCE_COUNT : source;
}

/* Fills what *label does not know from *facts. Returns whether anything changed. */
static bool
label_fill(struct cs_label *label, const struct cs_label *facts)
{
	struct cs_label before = *label;

	if (label->op == CS_OP_UNKNOWN)
		label->op = facts->op;
	if (label->impl == CS_IMPL_UNKNOWN)
		label->impl = facts->impl;
	if (label->dtype == CS_DTYPE_UNKNOWN)
		label->dtype = facts->dtype;
	if (label->reduction == CS_REDUCTION_UNKNOWN)
		label->reduction = facts->reduction;
	if (label->algorithm == CS_ALGORITHM_UNKNOWN)
		label->algorithm = facts->algorithm;
	if (label->protocol == CS_PROTOCOL_UNKNOWN)
		label->protocol = facts->protocol;
	if (label->channels == 0)
		label->channels = facts->channels;
	if (label->comm_id == 0)
		label->comm_id = facts->comm_id;
	if (label->rank == CS_RANK_UNKNOWN)
		label->rank = facts->rank;
	if (label->world == CS_RANK_UNKNOWN)
		label->world = facts->world;
	if (label->bytes == CS_BYTES_UNKNOWN && facts->bytes != CS_BYTES_UNKNOWN) {
		label->bytes = facts->bytes;
		label->source = facts->source;
	}
	if (label->count == 0)
		label->count = facts->count;
	if (label->works == 0)
		label->works = facts->works;
	return memcmp(&before, label, sizeof(before)) != 0;
}

static bool
is_point_to_point(uint8_t op)
{
	return op == CS_OP_SEND || op == CS_OP_RECV || op == CS_OP_SEND_RECV;
}

static uint8_t
op_merge(uint8_t one, uint8_t other)
{
	if (one == other)
		return one;
	/* A send and a receive in one kernel are one exchange. */
	if (is_point_to_point(one) && is_point_to_point(other))
		return CS_OP_SEND_RECV;
	return CS_OP_UNKNOWN;
}

static void
announced_add(struct announced *sum, const struct announced *one)
{
	struct cs_label *label = &sum->label;
	const struct cs_label *add = &one->label;
	uint32_t works = (uint32_t)label->works + (add->works > 1 ? add->works : 1U);

	if (label->works == 0) {
		*sum = *one;
		label->works = add->works > 1 ? add->works : 1;
		return;
	}
	label->works = works > UINT16_MAX ? UINT16_MAX : (uint16_t)works;
	label->op = op_merge(label->op, add->op);
	if (label->dtype != add->dtype)
		label->dtype = CS_DTYPE_UNKNOWN;
	if (label->reduction != add->reduction)
		label->reduction = CS_REDUCTION_UNKNOWN;
	if (label->algorithm != add->algorithm)
		label->algorithm = CS_ALGORITHM_UNKNOWN;
	if (label->protocol != add->protocol)
		label->protocol = CS_PROTOCOL_UNKNOWN;
	if (label->bytes == CS_BYTES_UNKNOWN || add->bytes == CS_BYTES_UNKNOWN)
		label->bytes = CS_BYTES_UNKNOWN;
	else
		label->bytes += add->bytes;
	/* Elements of different types have no sum. */
	label->count = label->dtype == CS_DTYPE_UNKNOWN ? 0 : label->count + add->count;
	if (distrust(add->source) > distrust(label->source))
		label->source = add->source;
	if (add->channels > label->channels)
		label->channels = add->channels;
	sum->sequence = one->sequence;
	sum->point_to_point |= one->point_to_point;
}

/* -- announcements ------------------------------------------------------------------------------------- */

/* `last` is complete: it goes to its communicator's sum. */
static void
last_close(struct thread_state *state)
{
	struct announced *sum = NULL;

	if (!state->last_open)
		return;
	state->last_open = false;
	for (uint32_t i = 0; i < state->announced_count; i++)
		if (state->announced[i].label.comm_id == state->last.label.comm_id)
			sum = &state->announced[i];
	if (sum == NULL) {
		if (state->announced_count == CS_ANNOUNCE_COMMUNICATORS) {
			state->lost = true;
			return;
		}
		sum = &state->announced[state->announced_count++];
		memset(sum, 0, sizeof(*sum));
	}
	announced_add(sum, &state->last);
}

/* The other producer spoke of the same call already: same operation as far as both know it. */
static bool
last_is_the_same(const struct thread_state *state, const struct cs_label *label)
{
	bool plugin = label->source == CS_LABEL_SOURCE_NCCL_PROFILER;

	if (!state->last_open || (plugin ? state->last_from_plugin : state->last_from_nvtx))
		return false;
	return label->op == CS_OP_UNKNOWN || state->last.label.op == CS_OP_UNKNOWN ||
	       label->op == state->last.label.op;
}

void
cs_announce_collective(const struct cs_label *label, uint32_t sequence)
{
	struct thread_state *state = state_of_thread();
	struct cs_label merged = *label;

	if (state == NULL)
		return;
	if (last_is_the_same(state, label)) {
		const struct cs_label *other = &state->last.label;

		if (distrust(label->source) < distrust(other->source)) {
			label_fill(&merged, other);
			state->last.label = merged;
		} else {
			label_fill(&state->last.label, label);
		}
		if (state->last.sequence == 0)
			state->last.sequence = sequence;
	} else {
		last_close(state);
		state->last_open = true;
		state->last_from_nvtx = false;
		state->last_from_plugin = false;
		state->last = (struct announced){.label = *label,
			.sequence = sequence,
			.point_to_point = is_point_to_point(label->op)};
	}
	if (label->source == CS_LABEL_SOURCE_NCCL_PROFILER)
		state->last_from_plugin = true;
	else
		state->last_from_nvtx = true;
}

void
cs_announce_begin(void)
{
	struct thread_state *state = state_of_thread();

	if (state != NULL)
		state->depth++;
}

static void
amend(uint64_t key, const struct cs_label *facts, uint32_t sequence)
{
	void (*tell)(uint64_t, const struct cs_label *, uint32_t) =
		atomic_load_explicit(&amend_launch, memory_order_acquire);

	if (tell != NULL && key != 0)
		tell(key, facts, sequence);
}

/* A group that became one kernel holds all that was announced: that sum is exact. */
static void
settle_groups(struct thread_state *state)
{
	for (uint32_t i = 0; i < state->grouped_count; i++) {
		const struct grouped *group = &state->grouped[i];

		if (!group->settled && group->launches == 1)
			amend(group->key, &group->sum.label, group->sum.sequence);
	}
}

void
cs_announce_end(void)
{
	struct thread_state *state = state_of_thread();

	if (state == NULL || state->depth == 0 || --state->depth > 0)
		return;
	settle_groups(state);
	state->last_open = false;
	state->announced_count = 0;
	state->grouped_count = 0;
	state->launch_known = false;
	state->taken = NULL;
	state->bound_key = 0;
	state->late_open = false;
	state->lost = false;
}

static void
call_if_set(void (*_Atomic *which)(void))
{
	void (*function)(void) = atomic_load_explicit(which, memory_order_acquire);

	if (function != NULL)
		function();
}

void
cs_announce_launch(uint32_t comm_id)
{
	struct thread_state *state = state_of_thread();

	if (state != NULL) {
		state->launch_comm = comm_id;
		state->launch_known = true;
	}
	call_if_set(&launch_begins);
}

void
cs_announce_launch_end(void)
{
	call_if_set(&launch_ends);
}

/* -- taking -------------------------------------------------------------------------------------------- */

static bool
belongs_to_launch(const struct thread_state *state, const struct cs_label *label)
{
	return !state->launch_known || state->launch_comm == 0 || label->comm_id == 0 ||
	       label->comm_id == state->launch_comm;
}

/* Of two communicators: neither's rank and size are the kernel's, which is of one of them alone. */
static void
forget_communicator(struct cs_label *label)
{
	label->comm_id = 0;
	label->rank = CS_RANK_UNKNOWN;
	label->world = CS_RANK_UNKNOWN;
}

/* Removes what was announced for this launch. works 0: nothing was. */
static struct announced
take_announced(struct thread_state *state)
{
	struct announced sum = {0};
	uint32_t kept = 0;
	bool mixed;

	last_close(state);
	for (uint32_t i = 0; i < state->announced_count; i++) {
		struct announced one = state->announced[i];

		if (!belongs_to_launch(state, &one.label)) {
			state->announced[kept++] = one;
			continue;
		}
		mixed = sum.label.works > 0 && sum.label.comm_id != one.label.comm_id;
		announced_add(&sum, &one);
		if (mixed)
			forget_communicator(&sum.label);
	}
	state->announced_count = kept;
	return sum;
}

static struct grouped *
find_group(struct thread_state *state)
{
	for (uint32_t i = 0; i < state->grouped_count; i++)
		if (belongs_to_launch(state, &state->grouped[i].sum.label))
			return &state->grouped[i];
	return NULL;
}

/* Facts of the announcements on top of what the kernel's name told: the announced ones are more trusted. */
void
cs_announce_merge(struct cs_label *label, const struct cs_label *facts)
{
	struct cs_label merged = *facts;

	merged.name_id = label->name_id;
	merged.rule_id = label->rule_id;
	merged.flags = (uint8_t)(label->flags | facts->flags);
	label_fill(&merged, label);
	/* NCCL's names always say "Sum", two types of one width share a kernel, and a kernel of several
	 * collectives is named after one of them: what was not announced of a group stays unknown rather than
	 * taking the name's word. Those on symmetric memory hold one kind of collective, and their names are
	 * exact. */
	if (facts->works > 1 && label->impl != CS_IMPL_NCCL_SYMMETRIC) {
		merged.op = facts->op;
		merged.dtype = facts->dtype;
		merged.algorithm = facts->algorithm;
		merged.protocol = facts->protocol;
	}
	*label = merged;
}

bool
cs_announce_take(struct cs_label *label, uint32_t *sequence)
{
	struct thread_state *state = own; /* who has announced nothing needs none */
	struct announced sum;
	struct grouped *group;

	if (state == NULL || state == &no_state)
		return false;
	sum = take_announced(state);
	group = find_group(state);
	state->taken = NULL;
	state->launch_known = false;
	if (sum.label.works == 0 && group == NULL)
		return false;
	if (sum.label.works == 0) {
		/* One more kernel of a group: which part it holds is not known. */
		group->launches++;
		state->taken = group;
		sum = group->sum;
	} else if (sum.label.works > 1 && state->grouped_count < CS_ANNOUNCE_COMMUNICATORS) {
		group = &state->grouped[state->grouped_count++];
		*group = (struct grouped){.sum = sum, .launches = 1};
		state->taken = group;
	}
	if (sum.label.works > 1) {
		sum.label.bytes = CS_BYTES_UNKNOWN;
		sum.label.count = 0;
	}
	cs_announce_merge(label, &sum.label);
	if (sum.label.works > 1) {
		label->bytes = CS_BYTES_UNKNOWN;
		label->count = 0;
	}
	*sequence = sum.sequence;
	return true;
}

bool
cs_announce_lost(void)
{
	return own != NULL && (own == &no_state || own->lost);
}

void
cs_announce_bind(uint64_t key)
{
	struct thread_state *state = state_of_thread();

	if (state == NULL)
		return;
	state->bound_key = key;
	if (state->taken != NULL)
		state->taken->key = key;
}

/* -- late facts ---------------------------------------------------------------------------------------- */

void
cs_announce_late(const struct cs_label *label, uint32_t sequence)
{
	struct thread_state *state = state_of_thread();
	struct announced one = {.label = *label, .sequence = sequence};

	if (state == NULL)
		return;
	if (!state->late_open)
		memset(&state->late, 0, sizeof(state->late));
	state->late_open = true;
	announced_add(&state->late, &one);
}

void
cs_announce_late_end(void)
{
	struct thread_state *state = own;

	if (state == NULL || !state->late_open) /* nor is it in no_state */
		return;
	state->late_open = false;
	if (state->taken != NULL) {
		if (state->taken->sum.point_to_point) {
			state->late.label.bytes = CS_BYTES_UNKNOWN;
			state->late.label.count = 0;
			state->late.label.works = 0;
		} else {
			state->taken->settled = true;
		}
	}
	amend(state->bound_key, &state->late.label, state->late.sequence);
	state->bound_key = 0;
	state->taken = NULL;
}

void
cs_announce_register_amend(void (*tell)(uint64_t key, const struct cs_label *facts, uint32_t sequence))
{
	atomic_store_explicit(&amend_launch, tell, memory_order_release);
}

void
cs_announce_register_launches(void (*begin)(void), void (*end)(void))
{
	atomic_store_explicit(&launch_begins, begin, memory_order_release);
	atomic_store_explicit(&launch_ends, end, memory_order_release);
}

bool
cs_announce_complete(struct cs_label *label, const struct cs_label *facts)
{
	struct cs_label before = *label;

	/* A group's label says how many collectives were announced, not what is in this kernel; late facts
	 * do. */
	if (label->works > 1 && facts->works > 0 && facts->bytes != CS_BYTES_UNKNOWN) {
		label->bytes = facts->bytes;
		label->count = facts->count;
		label->works = facts->works;
		label->source = facts->source;
	}
	/* What the whole group has in common each of its kernels has; late facts of copied bytes have no
	 * type. */
	label_fill(label, facts);
	return memcmp(&before, label, sizeof(before)) != 0;
}

/* -- version ------------------------------------------------------------------------------------------- */

void
cs_announce_set_nccl_version(int version)
{
	int expected = 0;
	/* ncclGetVersion: from 2.9 on major * 10000 + minor * 100 + patch, before major * 1000 + ...
	 * (nccl.h). */
	int major = version >= 10000 ? version / 10000 : version / 1000;
	int minor = version >= 10000 ? version / 100 % 100 : version / 100 % 10;

	if (version <= 0 || !atomic_compare_exchange_strong(&nccl_version, &expected, -1))
		return;
	snprintf(nccl_version_text, sizeof(nccl_version_text), "%d.%d.%d", major, minor, version % 100);
	/* Pairs with the acquire in cs_announce_nccl_version. */
	atomic_store_explicit(&nccl_version, version, memory_order_release);
}

const char *
cs_announce_nccl_version(void)
{
	return atomic_load_explicit(&nccl_version, memory_order_acquire) > 0 ? nccl_version_text : "";
}

int
cs_announce_nccl_version_number(void)
{
	int version = atomic_load_explicit(&nccl_version, memory_order_acquire);

	return version > 0 ? version : 0;
}
