/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "scene: %s\n", what);
	abort();
}

static void *
grow(void *array, size_t count, size_t *capacity, size_t bytes)
{
	if (count < *capacity)
		return array;
	*capacity = *capacity ? 2 * *capacity : 256;
	array = reallocarray(array, *capacity, bytes);
	check(array != NULL, "no memory");
	return array;
}

static void
take_step(void *context, const struct cs_step *step)
{
	struct scene *scene = context;

	scene->steps = grow(scene->steps, scene->step_count, &scene->step_capacity, sizeof(*step));
	scene->steps[scene->step_count] = *step;
	scene->steps[scene->step_count++].items = NULL;
}

static void
take_collective(void *context, const struct cs_collective *collective)
{
	struct scene *scene = context;

	check(collective->label != NULL, "a collective without a label");
	scene->collectives = grow(scene->collectives, scene->collective_count, &scene->collective_capacity,
		sizeof(*collective));
	scene->collectives[scene->collective_count] = *collective;
	scene->collectives[scene->collective_count++].label = NULL;
}

static void
take_other(void *context, uint32_t source, const struct cs_record *record)
{
	struct scene *scene = context;

	(void)source;
	(void)record;
	scene->other_count++;
}

void
scene_open(struct scene *scene, unsigned int ranks, const struct cs_analysis_options *options)
{
	const struct cs_analysis_sink sink = {
		.context = scene, .step = take_step, .collective = take_collective, .other = take_other};
	char complaint[256];

	memset(scene, 0, sizeof(*scene));
	check(ranks <= SCENE_RANKS_MAX, "too many ranks");
	if (cs_analysis_new(options, &sink, &scene->analysis, complaint, sizeof(complaint))) {
		fprintf(stderr, "scene: %s\n", complaint);
		abort();
	}
	scene->rank_count = ranks;
	for (unsigned int i = 0; i < ranks; i++) {
		struct scene_rank *rank = &scene->ranks[i];
		const struct cs_label none = {0};

		cs_dictionary_init(&rank->dictionary);
		rank->dictionary.gpu_count = 1;
		rank->dictionary.process.pid = 100 + i;
		rank->dictionary.process.rank = (int32_t)i;
		check(cs_dictionary_add_name(&rank->dictionary, "", 0) >= 0, "name");
		check(cs_dictionary_add_label(&rank->dictionary, &none) >= 0, "label");
		check(cs_analysis_add_source(scene->analysis, &rank->dictionary, &rank->source) == 0,
			"source");
	}
}

void
scene_close(struct scene *scene)
{
	cs_analysis_destroy(scene->analysis);
	for (unsigned int i = 0; i < scene->rank_count; i++) {
		cs_dictionary_fini(&scene->ranks[i].dictionary);
		free(scene->ranks[i].records);
	}
	free(scene->steps);
	free(scene->collectives);
}

uint32_t
scene_label(struct scene *scene, unsigned int rank, enum cs_op op, uint64_t bytes, int32_t world,
	uint32_t comm_id)
{
	const struct cs_label label = {
		.op = (uint8_t)op,
		.impl = CS_IMPL_NCCL,
		.dtype = CS_DTYPE_BFLOAT16,
		.rank = CS_RANK_UNKNOWN,
		.world = world,
		.comm_id = comm_id,
		.bytes = bytes,
	};

	check(cs_dictionary_add_label(&scene->ranks[rank].dictionary, &label) >= 0, "label");
	return scene->ranks[rank].dictionary.label_count - 1;
}

uint32_t
scene_communicator(struct scene *scene, unsigned int rank, uint64_t hash, int32_t member, int32_t world)
{
	struct cs_dictionary *dictionary = &scene->ranks[rank].dictionary;

	check(dictionary->communicator_count < CS_COMMUNICATORS_MAX, "communicators");
	dictionary->communicators[dictionary->communicator_count++] = (struct cs_communicator){
		.hash = hash, .rank = member, .world = world, .nodes = 1, .impl = CS_IMPL_NCCL};
	return dictionary->communicator_count;
}

uint32_t
scene_name(struct scene *scene, unsigned int rank, const char *text)
{
	struct cs_dictionary *dictionary = &scene->ranks[rank].dictionary;

	for (uint32_t i = 0; i < dictionary->name_count; i++) {
		if (strcmp(cs_dictionary_borrow_name(dictionary, i), text) == 0)
			return i;
	}
	check(cs_dictionary_add_name(dictionary, text, strlen(text)) >= 0, "name");
	return dictionary->name_count - 1;
}

static uint64_t
clock_of(const struct scene_rank *rank, uint64_t time_ns)
{
	return SCENE_EPOCH_NS + time_ns +
	       (uint64_t)(rank->clock_ns + (int64_t)((double)time_ns * rank->drift));
}

void
scene_put(struct scene *scene, unsigned int at, struct cs_record record)
{
	struct scene_rank *rank = &scene->ranks[at];

	record.start_ns = clock_of(rank, record.start_ns);
	record.end_ns = clock_of(rank, record.end_ns);
	rank->records = grow(rank->records, rank->count, &rank->capacity, sizeof(record));
	rank->records[rank->count++] = record;
}

static uint64_t
bytes_of(const struct scene *scene, unsigned int rank, uint32_t label)
{
	return cs_dictionary_borrow_label(&scene->ranks[rank].dictionary, label)->bytes;
}

void
scene_collective(struct scene *scene, unsigned int rank, uint32_t label, uint32_t stream, uint64_t start_ns,
	uint64_t end_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_COLLECTIVE,
			.ref = label,
			.start_ns = start_ns,
			.end_ns = end_ns,
			.value = bytes_of(scene, rank, label),
			.correlation_id = ++scene->ranks[rank].correlation_id,
			.stream_id = stream});
}

void
scene_busy(struct scene *scene, unsigned int rank, enum cs_busy_class klass, unsigned int flags,
	uint32_t stream, uint64_t start_ns, uint64_t end_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_BUSY,
			.flags = (uint8_t)flags,
			.klass = (uint8_t)klass,
			.ref = 1,
			.start_ns = start_ns,
			.end_ns = end_ns,
			.value = end_ns - start_ns,
			.stream_id = stream});
}

void
scene_marker(struct scene *scene, unsigned int rank, const char *name, uint64_t start_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_MARKER,
			.ref = scene_name(scene, rank, name),
			.start_ns = start_ns,
			.end_ns = start_ns + 3 * US,
			.stream_id = 7});
}

void
scene_window(struct scene *scene, unsigned int rank, enum cs_depth depth, uint64_t start_ns, uint64_t end_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_WINDOW,
			.flags = (uint8_t)depth,
			.start_ns = start_ns,
			.end_ns = end_ns});
}

void
scene_window_open(struct scene *scene, unsigned int rank, uint64_t start_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_WINDOW_OPEN,
			.flags = CS_DEPTH_DEEP,
			.start_ns = start_ns,
			.end_ns = start_ns});
}

static uint64_t
put_pass(struct scene *scene, unsigned int rank, struct cs_record record, uint32_t label,
	uint32_t collectives, uint64_t compute_ns, uint64_t reduce_ns)
{
	uint64_t at_ns = record.start_ns;

	for (uint32_t i = 0; i < collectives || (i == 0 && compute_ns); i++) {
		record.type = CS_RECORD_BUSY;
		record.ref = 1;
		record.start_ns = at_ns;
		record.end_ns = at_ns + compute_ns;
		record.value = compute_ns;
		if (compute_ns)
			scene_put(scene, rank, record);
		at_ns = record.end_ns;
		if (i >= collectives)
			break;
		record.type = CS_RECORD_COLLECTIVE;
		record.ref = label;
		record.start_ns = at_ns;
		record.end_ns = at_ns + reduce_ns;
		record.value = bytes_of(scene, rank, label);
		scene_put(scene, rank, record);
		at_ns = record.end_ns;
	}
	return at_ns;
}

uint64_t
scene_graph(struct scene *scene, unsigned int rank, uint32_t graph, uint32_t label, uint32_t collectives,
	uint64_t start_ns, uint64_t compute_ns, uint64_t reduce_ns)
{
	const struct cs_record record = {.flags = CS_RECORD_IN_GRAPH,
		.start_ns = start_ns,
		.correlation_id = ++scene->ranks[rank].correlation_id,
		.graph_id = graph,
		.graph_node_id = graph,
		.stream_id = 7};

	return put_pass(scene, rank, record, label, collectives, compute_ns, reduce_ns);
}

void
scene_captured(struct scene *scene, unsigned int rank, uint32_t graph, uint32_t collectives, uint32_t label,
	uint32_t first, uint32_t count, uint64_t at_ns)
{
	scene_put(scene, rank,
		(struct cs_record){.type = CS_RECORD_GRAPH,
			.start_ns = at_ns,
			.end_ns = at_ns,
			.graph_id = graph,
			.sequence = collectives,
			.ref = label,
			.correlation_id = first,
			.value = count,
			.graph_node_id = (uint64_t)graph << 32 | (first + 1)});
}

uint64_t
scene_eager(struct scene *scene, unsigned int rank, uint32_t label, uint32_t collectives, uint64_t start_ns,
	uint64_t compute_ns, uint64_t reduce_ns)
{
	const struct cs_record record = {
		.start_ns = start_ns, .correlation_id = ++scene->ranks[rank].correlation_id, .stream_id = 7};

	return put_pass(scene, rank, record, label, collectives, compute_ns, reduce_ns);
}

static void
feed(struct scene *scene)
{
	for (unsigned int i = 0; i < scene->rank_count; i++) {
		struct scene_rank *rank = &scene->ranks[i];

		check(cs_analysis_ingest(scene->analysis, rank->source, rank->records, rank->count) == 0,
			"ingest");
		rank->count = 0;
	}
}

void
scene_play(struct scene *scene)
{
	feed(scene);
	cs_analysis_drain(scene->analysis);
}

void
scene_advance(struct scene *scene, uint64_t now_ns)
{
	feed(scene);
	cs_analysis_advance(scene->analysis, SCENE_EPOCH_NS + now_ns);
}

void
scene_play_live(struct scene *scene, uint64_t slice_ns)
{
	size_t at[SCENE_RANKS_MAX] = {0};
	uint64_t now_ns = SCENE_EPOCH_NS;
	bool more = true;

	while (more) {
		now_ns += slice_ns;
		more = false;
		for (unsigned int i = 0; i < scene->rank_count; i++) {
			struct scene_rank *rank = &scene->ranks[i];
			size_t first = at[i];

			while (at[i] < rank->count && rank->records[at[i]].end_ns < now_ns)
				at[i]++;
			check(cs_analysis_ingest(scene->analysis, rank->source, rank->records + first,
				      at[i] - first) == 0,
				"ingest");
			more |= at[i] < rank->count;
		}
		cs_analysis_advance(scene->analysis, now_ns);
	}
	for (unsigned int i = 0; i < scene->rank_count; i++)
		scene->ranks[i].count = 0;
	cs_analysis_drain(scene->analysis);
}
