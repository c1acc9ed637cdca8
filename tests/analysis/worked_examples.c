/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worked examples of docs/analysis.md and docs/steps.md, computed by the analysis itself.
 *
 *   worked_examples NAME           prints one
 *   worked_examples --list         names them
 *   worked_examples --check FILE   compares FILE's blocks after "<!-- worked example: NAME -->" with what
 * comes out; exit 1 when one differs or FILE has none
 */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FOUNDING_BYTES  43008
#define VERIFY_BYTES    (8U * 7168U * 2U)
#define DRAFT_BYTES     (2U * 7168U * 2U)

static double
us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void
print_steps(FILE *out, const struct scene *scene, size_t first, size_t count)
{
	fprintf(out, "%4s %-12s %-9s %8s %11s %10s %14s %10s\n", "step", "phase", "rule", "launches",
		"collectives", "length us", "collective us", "exposed us");
	for (size_t i = first; i < first + count && i < scene->step_count; i++) {
		const struct cs_step *step = &scene->steps[i];

		fprintf(out, "%4llu %-12s %-9s %8u %11u %10.1f %14.1f %10.1f\n",
			(unsigned long long)step->step, cs_phase_name(step->phase),
			cs_phase_rule_name(step->phase_rule), step->launches, step->collectives,
			us(step->end_ns - step->start_ns), us(step->collective_ns),
			us(step->exposed_collective_ns));
	}
}

static void
example_overlap(FILE *out)
{
	struct scene scene;
	const struct cs_collective *item;
	uint32_t label;

	scene_open(&scene, 1, NULL);
	label = scene_label(&scene, 0, CS_OP_ALL_REDUCE, VERIFY_BYTES, 1, 0);
	scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 7, 400 * US, 1010 * US);
	scene_busy(&scene, 0, CS_BUSY_COMPUTE, 0, 8, 900 * US, 1030 * US);
	scene_busy(&scene, 0, CS_BUSY_COPY, CS_RECORD_COPY_TO_HOST, 9, 1020 * US, 1060 * US);
	scene_collective(&scene, 0, label, 7, 1000 * US, 1100 * US);
	scene_play(&scene);
	item = &scene.collectives[0];
	fprintf(out, "stream 7  compute      400 ... 1010 us\n"
		     "stream 7  all-reduce  1000 ... 1100 us\n"
		     "stream 8  compute      900 ... 1030 us\n"
		     "stream 9  copy to host 1020 ... 1060 us\n\n");
	fprintf(out, "duration            %6.1f us\n", us(item->end_ns - item->start_ns));
	fprintf(out, "beside compute      %6.1f us\n", us(item->overlap_ns[CS_BUSY_COMPUTE]));
	fprintf(out, "beside a copy       %6.1f us, to the host %.1f\n", us(item->overlap_ns[CS_BUSY_COPY]),
		us(item->copy_ns[CS_COPY_TO_HOST]));
	fprintf(out, "beside a collective %6.1f us\n", us(item->overlap_ns[CS_BUSY_COLLECTIVE]));
	fprintf(out, "exposed             %6.1f us\n", us(item->exposed_ns));
	fprintf(out,
		"dependent           %6.1f us (its own stream's predecessor, launched programmatically)\n",
		us(item->dependent_ns));
	scene_close(&scene);
}

/* beside_ns: so long a copy to the host runs beside every all-reduce of the verify pass. */
static void
put_founding_step(
	struct scene *scene, const uint32_t label[2], uint64_t *at_ns, uint64_t reduce_ns, uint64_t beside_ns)
{
	uint64_t start_ns = scene_graph(scene, 0, 21, label[1], 9, *at_ns, 20 * US, reduce_ns) + 50 * US;
	uint64_t end_ns = scene_graph(scene, 0, 22, label[0], 122, start_ns, 60 * US, reduce_ns);

	for (uint64_t i = 0; beside_ns && i < 122; i++) {
		uint64_t copy_ns = start_ns + i * (60 * US + reduce_ns) + 70 * US;

		scene_busy(scene, 0, CS_BUSY_COPY, CS_RECORD_COPY_TO_HOST, 9, copy_ns, copy_ns + beside_ns);
	}
	*at_ns = end_ns + 800 * US;
}

static void
print_founding(FILE *out, struct scene *scene)
{
	uint64_t sum_ns = 0, beside_ns = 0, count = 0;

	for (size_t i = 0; i < scene->collective_count; i++) {
		const struct cs_collective *item = &scene->collectives[i];

		if (item->phase != CS_PHASE_VERIFY)
			continue;
		sum_ns += item->end_ns - item->start_ns;
		beside_ns += item->copy_ns[CS_COPY_TO_HOST];
		count++;
	}
	for (size_t i = scene->step_count; i-- > 0;) {
		if (scene->steps[i].phase == CS_PHASE_VERIFY) {
			print_steps(out, scene, i, 1);
			break;
		}
	}
	fprintf(out, "each all-reduce: %.1f us, of these beside a copy to the host: %.1f us\n",
		us(count ? sum_ns / count : 0), us(count ? beside_ns / count : 0));
}

static void
example_founding(FILE *out)
{
	static const struct {
		const char *title;
		uint64_t reduce_ns, beside_ns;
	} variants[] = {
		{"NCCL:", 225 * US, 0},
		{"\nThe custom all-reduce, as it was measured by itself:", 38 * US, 0},
		{"\nThe custom all-reduce, in production:", 310 * US, 290 * US},
	};

	for (size_t variant = 0; variant < COUNT_OF(variants); variant++) {
		struct scene scene;
		uint64_t at_ns = 0;
		uint32_t label[2];

		scene_open(&scene, 1, NULL);
		label[0] = scene_label(&scene, 0, CS_OP_ALL_REDUCE, FOUNDING_BYTES, 1, 0);
		label[1] = scene_label(&scene, 0, CS_OP_ALL_REDUCE, FOUNDING_BYTES / 3, 1, 0);
		for (unsigned int i = 0; i < 10; i++)
			put_founding_step(&scene, label, &at_ns, variants[variant].reduce_ns,
				variants[variant].beside_ns);
		scene_play(&scene);
		fprintf(out, "%s\n", variants[variant].title);
		print_founding(out, &scene);
		scene_close(&scene);
	}
}

static void
example_ranks(FILE *out)
{
	static const uint64_t arrival_us[4] = {0, 12, 80, 3};
	struct scene scene;

	scene_open(&scene, 4, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t communicator = scene_communicator(&scene, i, 0xabc, (int32_t)i, 4);
		uint32_t label = scene_label(&scene, i, CS_OP_ALL_REDUCE, VERIFY_BYTES, 4, communicator);

		scene.ranks[i].clock_ns = (int64_t)(i * 7000);
		scene_collective(&scene, i, label, 7, 1000 * US + arrival_us[i] * US, 1120 * US);
	}
	scene_play(&scene);
	fprintf(out, "%4s %10s %10s %11s %8s %11s %s\n", "rank", "start us", "end us", "duration us",
		"wait us", "transfer us", "last arrival");
	for (size_t i = 0; i < scene.collective_count; i++) {
		const struct cs_collective *item = &scene.collectives[i];

		fprintf(out, "%4u %10.1f %10.1f %11.1f %8.1f %11.1f %s\n", item->source,
			us(item->start_ns - SCENE_EPOCH_NS), us(item->end_ns - SCENE_EPOCH_NS),
			us(item->end_ns - item->start_ns), us(item->wait_ns), us(item->transfer_ns),
			item->last_arrival ? "yes" : "");
	}
	fprintf(out, "\nbus bandwidth = %u bytes / %.1f us x 2 x (4 - 1) / 4 = %.2f GB/s\n", VERIFY_BYTES,
		us(scene.collectives[0].transfer_ns),
		(double)VERIFY_BYTES / (double)scene.collectives[0].transfer_ns * 2 * 3 / 4);
	scene_close(&scene);
}

static void
example_clocks(FILE *out)
{
	struct cs_clock_estimate clock;
	struct scene scene;
	uint64_t random = 1;

	scene_open(&scene, 2, NULL);
	scene.ranks[1].clock_ns = 37000;
	scene.ranks[1].drift = 20e-6 / 60;
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t communicator = scene_communicator(&scene, i, 0xabc, (int32_t)i, 2);
		uint32_t label = scene_label(&scene, i, CS_OP_ALL_REDUCE, VERIFY_BYTES, 2, communicator);

		for (unsigned int k = 0; k < 400; k++) {
			uint64_t end_ns = k * 150 * US + 100 * US;

			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			scene_collective(
				&scene, i, label, 7, end_ns - 40 * US, end_ns + (random >> 33) % 3000);
		}
	}
	scene_play(&scene);
	for (unsigned int i = 0; i < 2; i++) {
		if (cs_analysis_read_clock(scene.analysis, scene.ranks[i].source, 0, &clock))
			continue;
		fprintf(out, "rank %u: offset %.1f us, uncertainty %.1f us, from %u ends%s\n", i,
			(double)clock.offset_ns / 1e3, us(clock.uncertainty_ns), clock.samples,
			clock.reference ? " (the reference)" : "");
	}
	scene_close(&scene);
}

static void
example_edges(FILE *out)
{
	struct cs_analysis_counts counts;
	struct scene scene;
	uint64_t at_ns = 10 * MS + 200 * US;
	uint32_t label;

	scene_open(&scene, 1, NULL);
	label = scene_label(&scene, 0, CS_OP_ALL_REDUCE, VERIFY_BYTES, 1, 0);
	for (unsigned int i = 0; i < 10; i++)
		at_ns = scene_graph(&scene, 0, 22, label, 20, at_ns, 60 * US, 40 * US) + 300 * US;
	scene_window(&scene, 0, CS_DEPTH_DEEP, 10 * MS, at_ns - MS);
	scene_play(&scene);
	cs_analysis_read_counts(scene.analysis, &counts);
	fprintf(out, "steps handed out           %llu\n", (unsigned long long)counts.steps);
	fprintf(out, "steps over a window's edge %llu\n", (unsigned long long)counts.incomplete_steps);
	fprintf(out, "collectives handed out     %zu\n", scene.collective_count);
	scene_close(&scene);
}

struct seen {
	FILE *out;
};

static void
print_stall(void *context, const struct cs_stall *stall)
{
	const struct seen *seen = context;

	fprintf(seen->out,
		"rank %d: step %llu, collective %u (%s, %llu bytes) has not ended; last ended: collective "
		"%u%s\n",
		stall->rank, (unsigned long long)stall->step, stall->ordinal, cs_op_name(stall->label->op),
		(unsigned long long)stall->label->bytes, stall->last_ordinal,
		stall->behind ? "; it is behind, the others wait for it" : "");
}

static void
example_stall(FILE *out)
{
	struct seen seen = {out};
	struct scene scene;
	uint64_t end_ns = 0;

	scene_open(&scene, 4, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t communicator = scene_communicator(&scene, i, 0xabc, (int32_t)i, 4);
		uint32_t label = scene_label(&scene, i, CS_OP_ALL_REDUCE, VERIFY_BYTES, 4, communicator);

		end_ns = scene_graph(&scene, i, 22, label, 122, 0, 60 * US, 40 * US) + MS;
		end_ns = scene_graph(&scene, i, 22, label, 57, end_ns, 60 * US, 40 * US);
		if (i != 2)
			scene_put(&scene, i,
				(struct cs_record){.type = CS_RECORD_BUSY,
					.flags = CS_RECORD_IN_GRAPH,
					.start_ns = end_ns,
					.end_ns = end_ns + 60 * US,
					.correlation_id = scene.ranks[i].correlation_id,
					.graph_id = 22,
					.stream_id = 7});
	}
	scene_advance(&scene, end_ns + 11000 * MS);
	cs_analysis_list_stalls(scene.analysis, SCENE_EPOCH_NS + end_ns + 11000 * MS, 0, print_stall, &seen);
	scene_close(&scene);
}

/* One iteration of a server with drafts: markers between the graphs or not. */
static uint64_t
put_iteration(struct scene *scene, uint32_t verify, uint32_t draft, uint64_t at_ns, bool markers)
{
	at_ns = scene_graph(scene, 0, 21, draft, 9, at_ns, 20 * US, 30 * US);
	if (markers)
		scene_marker(scene, 0, "build_tree_efficient", at_ns + 5 * US);
	at_ns = scene_graph(scene, 0, 22, verify, 123, at_ns + 250 * US, 60 * US, 45 * US);
	if (markers)
		scene_marker(scene, 0, "verify_tree_greedy_kernel_triton", at_ns + 5 * US);
	return scene_graph(scene, 0, 23, verify, 3, at_ns + 250 * US, 20 * US, 45 * US) + 500 * US;
}

static void
print_iterations(FILE *out, const char *rules, bool markers)
{
	char path[] = "/tmp/collscope-steps-XXXXXX";
	struct cs_analysis_options options = {.steps_file = NULL};
	int descriptor = rules ? mkstemp(path) : -1;
	struct scene scene;
	uint64_t at_ns = 0;
	uint32_t verify, draft;

	if (rules) {
		if (descriptor < 0 || write(descriptor, rules, strlen(rules)) != (ssize_t)strlen(rules))
			abort();
		close(descriptor);
		options.steps_file = path;
	}
	scene_open(&scene, 1, &options);
	verify = scene_label(&scene, 0, CS_OP_ALL_REDUCE, VERIFY_BYTES, 1, 0);
	draft = scene_label(&scene, 0, CS_OP_ALL_REDUCE, DRAFT_BYTES, 1, 0);
	for (unsigned int i = 0; i < 6; i++)
		at_ns = put_iteration(&scene, verify, draft, at_ns, markers);
	scene_play(&scene);
	print_steps(out, &scene, 15, 3);
	scene_close(&scene);
	if (rules)
		unlink(path);
}

static void
example_phases(FILE *out)
{
	fprintf(out, "Marker kernels between the graphs:\n");
	print_iterations(out, NULL, true);
	fprintf(out, "\nNone: the graphs' own signature:\n");
	print_iterations(out, NULL, false);
}

static const char rules[] = "# hidden size of the model, so that tokens can be asked for\n"
			    "hidden 7168\n"
			    "verify       collectives=100.. tokens=..64\n"
			    "draft        collectives=..20 after=build_tree* graph=yes\n"
			    "draft_extend collectives=3\n"
			    "draft        collectives=..20\n";

static void
example_rules(FILE *out)
{
	fprintf(out, "%s\n", rules);
	print_iterations(out, rules, false);
}

static const struct {
	const char *name;
	void (*print)(FILE *out);
} examples[] = {
	{"overlap", example_overlap},
	{"founding", example_founding},
	{"ranks", example_ranks},
	{"clocks", example_clocks},
	{"edges", example_edges},
	{"stall", example_stall},
	{"phases", example_phases},
	{"rules", example_rules},
};

static char *
render(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(examples); i++) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *out;

		if (strcmp(examples[i].name, name) != 0)
			continue;
		out = open_memstream(&text, &bytes);
		if (!out)
			abort();
		examples[i].print(out);
		fclose(out);
		return text;
	}
	return NULL;
}

static char *
read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0;

	if (!file || getdelim(&text, &bytes, '\0', file) < 0) {
		fprintf(stderr, "worked_examples: cannot read %s\n", path);
		exit(2);
	}
	fclose(file);
	return text;
}

/* `at`: behind the name. The block between the next two fences against what comes out. */
static bool
check_block(const char *path, const char *name, const char *at)
{
	char *expected = render(name);
	const char *begin = strstr(at, "```");
	const char *end;
	bool same;

	if (!expected) {
		fprintf(stderr, "%s: no example is called %s\n", path, name);
		return false;
	}
	begin = begin ? strchr(begin, '\n') : NULL;
	end = begin ? strstr(begin, "\n```") : NULL;
	same = end && (size_t)(end - begin) == strlen(expected) &&
	       strncmp(begin + 1, expected, strlen(expected)) == 0;
	if (!same)
		fprintf(stderr, "%s: example %s is not what comes out:\n%s", path, name, expected);
	free(expected);
	return same;
}

static int
check(const char *path)
{
	static const char mark[] = "<!-- worked example: ";
	char *text = read_file(path);
	const char *at = text;
	unsigned int found = 0;
	bool good = true;

	while ((at = strstr(at, mark)) != NULL) {
		char name[32];

		at += sizeof(mark) - 1;
		if (sscanf(at, "%31s -->", name) != 1)
			continue;
		good &= check_block(path, name, at);
		found++;
	}
	free(text);
	if (!found)
		fprintf(stderr, "%s: no worked example\n", path);
	return good && found ? 0 : 1;
}

int
main(int argc, char **argv)
{
	char *text;

	if (argc == 3 && strcmp(argv[1], "--check") == 0)
		return check(argv[2]);
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < COUNT_OF(examples); i++)
			puts(examples[i].name);
		return 0;
	}
	text = argc == 2 ? render(argv[1]) : NULL;
	if (!text) {
		fprintf(stderr, "usage: worked_examples NAME | --list | --check FILE\n");
		return 2;
	}
	fputs(text, stdout);
	free(text);
	return 0;
}
