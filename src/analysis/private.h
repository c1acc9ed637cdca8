/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the analysis. The way of a record:
 *
 *   ingest -> reorder (reorder.h) -> lane of its GPU (lane.c) -> overlap sweep (overlap.h) and unit (unit.c);
 *             replay.c keeps how far each graph launch got, and learns graphs (graphs.h) from it; what is
 * known of them from their capture is in captured.c
 *          -> run of units -> step: merged or split (step.c), phase decided (phase.c)
 *          -> ranks (group.c, match.c): matched with the other members of its group -> sink (deliver.c)
 *
 * A lane is one GPU of one source: one rank. Everything here belongs to one analysis and one thread.
 */
#ifndef CS_ANALYSIS_PRIVATE_H
#define CS_ANALYSIS_PRIVATE_H

#include "analysis.h"
#include "reorder.h"
#include "window.h"

/* Eager work further apart than this belongs to two steps. Between two steps of a server lies the scheduler's
 * turn, 0.5 ms and more unless it is overlapped; between two eager kernels of a step lie tens of
 * microseconds. */
#define CS_EAGER_GAP_NS 500000U
/* Graph launches further apart (with the GPU idle) are no pieces of one step. */
#define CS_MERGE_GAP_NS 200000U
/* A launch that has been over for so long gets no more kernels. */
#define CS_QUIET_NS 20000000U
/* A marker that comes later than this after a step does not speak of it. */
#define CS_MARKER_WAIT_NS 20000000U
/* A piece of a piecewise step has at most so many collectives, and a step at least so many pieces. */
#define CS_PIECE_COLLECTIVES_MAX 4U
#define CS_PIECEWISE_MIN         4U
/* Eager collectives that follow a graph at once and belong to it: the logits' all-gather. */
#define CS_TAIL_COLLECTIVES_MAX 2U
/* More than any model's pass; an eager stretch that never pauses is cut there. */
#define CS_STEP_ITEMS_MAX 16384U
#define CS_LAUNCH_HASH    256U
#define CS_PARTS_MAX      4U
#define CS_MEMBERS_MAX    64U
#define CS_SPARE_UNITS    256U
#define CS_REPLAYS_KEPT   8U
/* A pass with fewer collectives than a model of four layers has is no target. */
#define CS_TARGET_COLLECTIVES_MIN 8U
/* Units that may wait, all lanes together: one without collectives is in no other count. About 10 MiB. */
#define CS_WAITING_UNITS_MAX 16384U
/* Collectives that may wait for their peers or for what is beside them, all lanes together; about 15 MiB. */
#define CS_WAITING_ITEMS_MAX 65536U

struct cs_catalog;
struct cs_lane;
struct cs_source;
struct cs_unit;
struct cs_member;
struct cs_rules;
struct cs_graphs;
struct cs_host;

/* What cs_collective does not carry out of the analysis; parallel to cs_unit.items. */
struct cs_item_extra {
	uint64_t share_ns;        /* exposed time of its step that this item alone answers for (overlap.c) */
	struct cs_member *member; /* in which communicator; NULL none, or nobody to match with */
	uint32_t sequence;        /* in its communicator, 0 not known */
	bool blind;               /* not everything beside it was seen */
};

enum cs_unit_kind {
	CS_UNIT_LAUNCH = 1, /* one deep graph launch, or what lies between two marker kernels of it */
	CS_UNIT_EAGER = 2,  /* a stretch of collectives outside graphs */
	CS_UNIT_LIGHT = 3,  /* one launch seen by GRAPH_TRACE */
	CS_UNIT_MARKER = 4, /* a marker kernel outside graphs: a boundary */
	CS_UNIT_LATE = 5,   /* one collective that came too late for its step */
};

/* The collectives of one communicator in one step: what is matched with the other ranks. An eager stretch
 * that the ranks have cut differently comes apart into parts of one collective each (cs_group_dissolve). */
struct cs_part {
	struct cs_part *next; /* member->first_part */
	struct cs_unit *unit;
	struct cs_member *member;
	uint64_t signature; /* of operations and sizes in order */
	uint64_t first_start_ns, last_end_ns;
	uint32_t first_item; /* the first of its collectives in unit->items is here or later */
	uint32_t count;
	/* Of its first collective, 0 not known: differs, then it is another. Outside graphs the same number
	 * is the same collective; a replay carries that of the capture. */
	uint32_t sequence;
	bool single;  /* of a stretch that came apart */
	bool crowded; /* its member had one like it shortly before */
	bool resolved;
};

/* A piece of a step on its way to become one, and then the step. */
struct cs_unit {
	struct cs_unit *next;                    /* lane->units, lane->run, lane->steps, or the free list */
	struct cs_unit *hash_next;               /* lane->launches */
	struct cs_unit *open_next, *open_before; /* lane->open */
	struct cs_lane *lane;
	enum cs_unit_kind kind;
	bool closed;           /* gets no more items */
	bool continues;        /* the launch began in the unit before it */
	bool piece;            /* part of a step that was merged from many launches */
	bool split;            /* part of a launch */
	bool goes_on;          /* its last launch goes on in the unit after it */
	uint32_t launch_first; /* collectives of its first launch in units before it */
	/* Its last launch. launch_items: collectives of it in all; 0 while that is not known. */
	uint32_t launch_items, last_graph_id, last_correlation_id;
	uint32_t open_items; /* under the sweep */
	uint32_t stream_id;  /* of its first record */
	uint32_t capacity;
	uint32_t name_before, name_after; /* marker kernels beside it: name ids, 0 none */
	uint8_t phase_before;             /* what the marker before it begins, the one after it ends */
	uint8_t phase_after;
	uint64_t idle_ns;            /* nothing ran on the lane for so long before it */
	uint64_t activity_before_ns; /* the lane's last activity before it ended then; 0 none */
	uint64_t activity_after_ns;  /* the next began then; UINT64_MAX none */
	uint32_t part_count, open_parts;
	struct cs_part parts[CS_PARTS_MAX];
	/* Of dissolved parts, room for one per item; NULL none. They live as long as the unit, which is not
	 * delivered before all parts are resolved; resolved ones are out of every queue when cs_group_resolve
	 * returns. */
	struct cs_part *singles;
	uint32_t single_count;
	struct cs_step step; /* collectives = items in use */
	struct cs_collective *items;
	struct cs_item_extra *extra;
};

struct cs_unit_list {
	struct cs_unit *first;
	struct cs_unit *last;
	size_t count;
};

/* An interval under the sweep. */
struct cs_active {
	uint64_t start_ns, end_ns;
	struct cs_unit *unit; /* of a collective, else NULL */
	uint32_t item;
	uint32_t stream_id;
	uint8_t klass;     /* enum cs_busy_class */
	uint8_t direction; /* enum cs_copy_direction, of a copy */
	bool opaque;       /* a light launch: what it ran is not known */
};

struct cs_sweep {
	uint64_t now_ns;
	uint64_t first_end_ns; /* least end in `active` */
	struct cs_active *active;
	size_t count;
	size_t capacity;
};

/* What a marker kernel's name means. */
struct cs_marker_sense {
	bool known;
	uint8_t ends, begins;
};

/* What a label means for matching. */
struct cs_membership {
	struct cs_member *member;
	uint64_t identity; /* of operation and size */
	bool known;
};

/* A launch that is two steps. */
struct cs_split {
	uint32_t at;         /* collectives of the first */
	uint8_t first, rest; /* phases */
	uint8_t rule;        /* enum cs_phase_rule */
	uint32_t line;       /* of the user's rule */
};

/* A graph launch, as far as its records have come. */
struct cs_replay {
	bool known;    /* false: the slot is free */
	bool over;     /* the next work of its stream has begun */
	bool trailing; /* something of it began after its last collective had ended */
	uint32_t graph_id, correlation_id;
	uint32_t stream_id; /* of its first record */
	uint32_t ended;     /* collectives of it that have ended */
	uint64_t start_ns, end_ns;
	uint64_t before_ns; /* the lane's last activity before it ended then */
	uint64_t step; /* number of the step that it was cut in, once that has been delivered; 0 not yet */
};

/* What STILL records say: no kernel ends, and the GPU works, or rests. */
struct cs_stillness {
	uint64_t busy_since_ns,
		busy_until_ns; /* it was seen to work then and then and always between; 0 never */
	uint64_t rest_ns;      /* it was seen to rest last; 0 never */
};

struct cs_lane {
	struct cs_source *source;
	uint32_t gpu;
	struct cs_sweep sweep;
	struct cs_unit_list units; /* in start order, not yet in a run */
	struct cs_unit_list run;   /* ready, perhaps one step, waiting for what follows */
	struct cs_unit_list steps; /* formed, waiting for peers and for their turn */
	uint32_t run_id;           /* of `run`; graphs remember it */
	uint32_t run_launches;
	bool run_sealed;      /* a marker came after it */
	bool run_ranged;      /* the user's rules merge it by its range */
	uint32_t marker_name; /* last marker before `run` that no step has used */
	uint8_t marker_phase; /* what it begins */
	uint64_t marker_ns;
	uint8_t upcoming_phase; /* the same as the records come: what the last marker begins, until a launch
				   does */
	uint64_t upcoming_ns;
	struct cs_unit *launches[CS_LAUNCH_HASH]; /* open units by correlation id */
	struct cs_unit *last_launch;
	struct cs_unit *eager;  /* open eager stretch */
	struct cs_unit *open;   /* all that are not closed, newest first; few, however many wait in `units` */
	uint64_t busy_until_ns; /* latest end of anything so far */
	uint64_t eager_start_ns;          /* contiguous eager work began; 0 none */
	uint64_t eager_until_ns;          /* ... and reaches to here */
	uint64_t eager_before_ns;         /* ... and what was before it ended then */
	uint64_t watermark_ns;            /* every step that starts before is formed */
	struct cs_graphs *graphs;         /* what was learnt of each graph */
	struct cs_membership *membership; /* by label id */
	uint32_t membership_count;
	int32_t rank;
	/* Where it stands (stall.c). */
	uint64_t last_end_ns; /* of the collective that ended last */
	uint64_t last_node_id;
	uint32_t last_label_id, last_ordinal;     /* in its launch or eager stretch */
	struct cs_replay recent[CS_REPLAYS_KEPT]; /* ring of the launches that began last */
	uint32_t recent_next;
	struct cs_stillness stillness;
};

struct cs_source {
	struct cs_analysis *analysis;
	uint32_t id;
	const struct cs_dictionary *dictionary;
	struct cs_reorder reorder;
	struct cs_windows windows;
	struct cs_host *host;
	struct cs_marker_sense *markers; /* by name id */
	uint32_t marker_count;
	uint64_t newest_ns; /* latest end of any GPU record */
	bool gap;           /* records are missing before the next one */
	uint64_t step_count;
	bool ended; /* its process has (cs_analysis_end_source) */
	struct cs_lane *lanes[CS_GPUS_MAX];
};

struct cs_clock_sample {
	int64_t difference_ns;
	uint64_t at_ns;
};
#define CS_CLOCK_SAMPLES 128U
#define CS_RECENT_PARTS  8U
/* Farther apart no two clocks of a node were seen; wide enough to find a partner before the offset is known.
 */
#define CS_CLOCK_FAR_NS 200000LL

/* One lane in one group. */
struct cs_member {
	struct cs_group *group;
	struct cs_lane *lane;
	int32_t rank;
	struct cs_part *first_part;
	struct cs_part *last_part;
	/* The last few that entered, resolved or not: ring. */
	struct {
		uint64_t signature, end_ns;
	} recent[CS_RECENT_PARTS];
	uint32_t recent_next;
	struct cs_clock_sample samples[CS_CLOCK_SAMPLES]; /* ring */
	uint32_t sample_count;
	uint32_t sample_next;
	bool locked; /* offset and uncertainty hold */
	uint64_t locked_at_ns;
	uint32_t misses;   /* steps in a row without a match since */
	int64_t offset_ns; /* its clock minus the clock of the group's first member */
	uint64_t uncertainty_ns;
};

struct cs_group {
	struct cs_group *next;
	uint64_t key;
	int32_t world;
	bool exact;     /* the key is a communicator's hash */
	bool ambiguous; /* a rank is there twice: nothing can be matched */
	uint32_t gone;  /* rank + 1 of a member that has ended and been removed; 0 none */
	uint32_t member_count;
	struct cs_member *members[CS_MEMBERS_MAX];
};

struct cs_analysis {
	struct cs_analysis_sink sink;
	uint64_t horizon_ns;
	uint64_t now_ns;             /* latest cs_analysis_advance */
	uint64_t clock_ns;           /* latest cs_analysis_tell_clock; 0 never */
	uint64_t unsettled_until_ns; /* the clock was set back: records from before may still come; 0 never */
	size_t pending;              /* records in all waiting rooms */
	size_t pending_max;
	size_t waiting_items; /* collectives in units */
	size_t waiting_units;
	bool incomplete_steps;
	struct cs_analysis_counts counts;
	struct cs_source **sources; /* by id; NULL where removed */
	uint32_t source_count;
	struct cs_group *groups;
	struct cs_rules *rules;     /* NULL none */
	struct cs_catalog *catalog; /* built in: what markers mean */
	struct cs_unit *spare_units;
	size_t spare_unit_count;
};

/* unit.c: pieces of steps. */

/* A fresh unit, not in any list; NULL: no memory. */
struct cs_unit *cs_unit_take(struct cs_lane *lane, enum cs_unit_kind kind, const struct cs_record *record);
/* Gives back a unit that is in no list. */
void cs_unit_give(struct cs_unit *unit);
void cs_unit_destroy(struct cs_unit *unit);
/* Index of a new zeroed item, or -ENOMEM. */
int cs_unit_add_item(struct cs_unit *unit, const struct cs_record *record, struct cs_member *member);
/* Appends what `from` has and gives it back. 0 or -ENOMEM (nothing changed). */
int cs_unit_absorb(struct cs_unit *unit, struct cs_unit *from);
/* Cuts the items from `index` on off into a new unit; NULL: no memory. */
struct cs_unit *cs_unit_cut(struct cs_unit *unit, uint32_t index);
void cs_unit_list_append(struct cs_unit_list *list, struct cs_unit *unit);
struct cs_unit *cs_unit_list_pop(struct cs_unit_list *list);

/* lane.c: records of one GPU in order of start. */

struct cs_lane *cs_lane_new(struct cs_source *source, uint32_t gpu);
void cs_lane_destroy(struct cs_lane *lane);
/* 0 or -ENOMEM (the record is lost or its overlap incomplete). */
int cs_lane_take(struct cs_lane *lane, const struct cs_record *record);
/* One collective that came after its time: handed on without a step. */
int cs_lane_take_late(struct cs_lane *lane, const struct cs_record *record);
/* No record that starts before frontier_ns will come. UINT64_MAX: no record at all. */
void cs_lane_advance(struct cs_lane *lane, uint64_t frontier_ns);
/* Nothing is waited for any more: what is open is closed, its overlap unknown. */
void cs_lane_force(struct cs_lane *lane);
/* Time starts again: nothing that is a time stays, what was learnt does. The lane has been drained. */
void cs_lane_restart(struct cs_lane *lane);

/* replay.c: how far the graph launches of a lane have come. */

/* The first record of a unit of a launch. Fills the unit's launch_first. */
void cs_replay_begin(struct cs_unit *unit, const struct cs_record *record);
/* One more record of it; ordinal: of a collective in its launch, UINT32_MAX for anything else. */
void cs_replay_advance(struct cs_lane *lane, const struct cs_record *record, uint32_t ordinal);
/* The record is not of a graph: launches before it on its stream are over. */
void cs_replay_pass(struct cs_lane *lane, const struct cs_record *record);
/* The unit gets no more items: what it tells of its graph is learnt. */
void cs_replay_close(struct cs_unit *unit);
/* NULL: not one of the last. */
struct cs_replay *cs_replay_find(struct cs_lane *lane, uint32_t correlation_id);
/* Has the unit's last launch fewer collectives than its graph, as far as both are known? */
bool cs_replay_lacks(const struct cs_unit *unit);
/* ... and nothing says that there were fewer this time: it stopped, or its end was not recorded. */
bool cs_replay_is_cut(const struct cs_unit *unit);

/* step.c: from units to steps. */
void cs_lane_form(struct cs_lane *lane, uint64_t frontier_ns);

/* phase.c */

/* Sets phase, rule. The graphs must have been told of the step (cs_graphs_note). */
void cs_phase_decide(struct cs_unit *unit);
/* Position of the first collective of the next pass inside one launch; 0: the unit is one pass. */
uint32_t cs_phase_split(const struct cs_unit *unit, struct cs_split *split);
/* Which pass of a drafter: over as many tokens as the target's, it extends the draft model's cache; a draft
 * proper takes few of those that the target verifies, half of them at most. Between the two nobody can tell
 * (an extend over the accepted tokens alone): unknown. */
int cs_phase_of_draft(uint64_t bytes, uint64_t target_bytes);
/* A marker kernel: what it ends and begins (enum cs_phase; unknown when it does not say). */
void cs_phase_marker(struct cs_source *source, uint32_t name_id, uint8_t *ends, uint8_t *begins);

/* group.c: which lanes belong together. */

/* The lane's member for a label; NULL when there is nobody to match with (or no memory). */
struct cs_member *cs_group_find_slowly(struct cs_lane *lane, uint32_t label_id);
static inline struct cs_member *
cs_group_find(struct cs_lane *lane, uint32_t label_id)
{
	if (label_id < lane->membership_count && lane->membership[label_id].known)
		return lane->membership[label_id].member;
	return cs_group_find_slowly(lane, label_id);
}
/* Takes the lane out of all groups. Its parts must be gone. */
void cs_group_leave(struct cs_analysis *analysis, struct cs_lane *lane);
/* Queues the parts of a formed step with their groups. */
void cs_group_enter(struct cs_unit *unit);
/* Puts in the place of an eager part its collectives one by one. 0; -ENOMEM: nothing changed. */
int cs_group_dissolve(struct cs_part *part);
/* Is the part a stretch of more than one collective outside graphs? */
static inline bool
cs_part_is_stretch(const struct cs_part *part)
{
	return part->unit->step.graph_id == 0 && part->count > 1;
}
void cs_group_destroy(struct cs_analysis *analysis);
/* Offsets between clocks, and everything else that is a time, are to be learnt anew. */
void cs_group_restart(struct cs_group *group);

/* match.c: what the ranks tell about each other. */

/* Resolves the parts that can get no better; everything when force. */
void cs_group_resolve(struct cs_group *group, bool force);
/* Is the member's clock known at now_ns (CLOCK_REALTIME, as records have it)? */
bool cs_match_knows_clock(const struct cs_member *member, uint64_t now_ns);
/* How well; the uncertainty grows with the age of what was seen. */
void cs_match_tell_clock(const struct cs_member *member, uint64_t now_ns, struct cs_clock_estimate *told);

/* stall.c */

/* newest_ns: end of the newest GPU record of the source. */
void cs_stillness_note(struct cs_stillness *stillness, const struct cs_record *record, uint64_t newest_ns);

/* deliver.c: to the sink, in order. What still waits for peers stays, and all that started after it. */
void cs_source_deliver(struct cs_source *source);

#endif
