/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer for tests: makes a segment in the directory of its argument with the real writer and does what
 * lines on its standard input say, one command a line, each answered by one line. At the end of input it
 * exits and leaves the segment, as a killed process does.
 *
 *   gpu NVML_INDEX                                    -> index
 *   communicator HASH RANK WORLD                      -> index + 1
 *   label OP IMPL BYTES|unknown RANK WORLD COMM FLAGS -> id
 *   name TEXT                                         -> id
 *   record TYPE FLAGS GPU KLASS REF START END VALUE NODE CORRELATION GRAPH STREAM -> ok
 *   repeat COUNT STEP_NS (the last record again, later each time)                 -> ok
 *   reserve COUNT (slots of the ring that are never filled)                       -> ok
 *   lose CAUSE COUNT                                  -> ok
 *   rank RANK WORLD                                   -> ok
 *   text WHICH TEXT                                   -> ok
 *   environment NAME VALUE                            -> ok
 *   status WORD VALUE (index of the 64-bit word)      -> ok
 *   path                                              -> the segment's path
 *   unlink                                            -> ok, and exits
 */
#include "collective.h"
#include "segment/segment_writer.h"
#include "segment/segment_writer_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cs_record last;

static int
say(long long number)
{
	printf("%lld\n", number);
	return 0;
}

static int
do_gpu(struct cs_segment_writer *writer, const char *rest)
{
	struct cs_gpu gpu = {.pci_domain = 0,
		.pci_device = 0,
		.compute_capability = 90,
		.name = "Test GPU",
		.link = {[0] = CS_LINK_NVLINK, [2] = CS_LINK_PCIE_SYSTEM, [3] = CS_LINK_SELF},
		.link_nvlinks = {[0] = 18}};

	gpu.nvml_index = gpu.cuda_ordinal = atoi(rest);
	gpu.pci_bus = (uint32_t)gpu.nvml_index + 1;
	gpu.uuid[0] = (uint8_t)(gpu.nvml_index + 1);
	return say(cs_segment_writer_gpu(writer, &gpu));
}

static int
do_communicator(struct cs_segment_writer *writer, const char *rest)
{
	struct cs_communicator communicator = {.nodes = 1, .impl = CS_IMPL_NCCL, .name = "tp:0"};

	if (sscanf(rest, "%" SCNx64 " %d %d", &communicator.hash, &communicator.rank, &communicator.world) !=
		3)
		return -EINVAL;
	return say(cs_segment_writer_communicator(writer, &communicator));
}

static int
do_label(struct cs_segment_writer *writer, const char *rest)
{
	struct cs_label label = {.source = CS_LABEL_SOURCE_NCCL_PROFILER};
	char op[32], impl[32], bytes[32], dtype[32] = "";
	unsigned int flags;

	if (sscanf(rest, "%31s %31s %31s %d %d %u %u %31s", op, impl, bytes, &label.rank, &label.world,
		    &label.comm_id, &flags, dtype) < 7)
		return -EINVAL;
	while (dtype[0] && label.dtype < CS_DTYPE_COUNT && strcmp(cs_dtype_name(label.dtype), dtype) != 0)
		label.dtype++;
	label.op = (uint8_t)cs_op_parse(op);
	label.impl = (uint8_t)cs_impl_parse(impl);
	label.flags = (uint8_t)flags;
	label.bytes = strcmp(bytes, "unknown") == 0 ? CS_BYTES_UNKNOWN : strtoull(bytes, NULL, 10);
	return say(cs_segment_writer_label(writer, &label));
}

static int
do_record(struct cs_segment_writer *writer, const char *rest)
{
	unsigned int type, flags, gpu, klass;
	struct cs_record record = {0};

	if (sscanf(rest,
		    "%u %u %u %u %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32
		    " %" SCNu32 " %" SCNu32,
		    &type, &flags, &gpu, &klass, &record.ref, &record.start_ns, &record.end_ns, &record.value,
		    &record.graph_node_id, &record.correlation_id, &record.graph_id, &record.stream_id) != 12)
		return -EINVAL;
	record.type = (uint8_t)type;
	record.flags = (uint8_t)flags;
	record.gpu = (uint8_t)gpu;
	record.klass = (uint8_t)klass;
	last = record;
	return cs_segment_writer_append(writer, &record);
}

static int
do_repeat(struct cs_segment_writer *writer, const char *rest)
{
	uint64_t count, step_ns;

	if (sscanf(rest, "%" SCNu64 " %" SCNu64, &count, &step_ns) != 2)
		return -EINVAL;
	while (count--) {
		last.start_ns += step_ns;
		last.end_ns += step_ns;
		cs_segment_writer_append(writer, &last);
	}
	return 0;
}

/* As a writer does that is killed within cs_segment_writer_append. */
static int
do_reserve(struct cs_segment_writer *writer, const char *rest)
{
	atomic_fetch_add_explicit(&writer->ring_head->head, strtoull(rest, NULL, 10), memory_order_relaxed);
	return 0;
}

static int
do_lose(struct cs_segment_writer *writer, const char *rest)
{
	unsigned int cause;
	uint64_t count;

	if (sscanf(rest, "%u %" SCNu64, &cause, &count) != 2)
		return -EINVAL;
	cs_segment_writer_lose(writer, cause, count, 1);
	return 0;
}

static int
do_rank(struct cs_segment_writer *writer, const char *rest)
{
	int32_t rank, world;

	if (sscanf(rest, "%d %d", &rank, &world) != 2)
		return -EINVAL;
	cs_segment_writer_rank(writer, rank, world);
	return 0;
}

static int
do_text(struct cs_segment_writer *writer, const char *rest)
{
	char *text;
	unsigned long which = strtoul(rest, &text, 10);

	if (which >= CS_TEXT_COUNT || *text != ' ')
		return -EINVAL;
	cs_segment_writer_text(writer, (enum cs_process_text)which, text + 1);
	return 0;
}

static int
do_environment(struct cs_segment_writer *writer, const char *rest)
{
	char name[64];
	int at;

	if (sscanf(rest, "%63s %n", name, &at) != 1)
		return -EINVAL;
	return cs_segment_writer_environment(writer, name, rest + at);
}

static int
do_status(struct cs_segment_writer *writer, const char *rest)
{
	_Atomic uint64_t *words = (_Atomic uint64_t *)(void *)cs_segment_writer_status(writer);
	unsigned int word;
	uint64_t value;

	if (sscanf(rest, "%u %" SCNu64, &word, &value) != 2 ||
		word >= sizeof(struct cs_status) / sizeof(*words))
		return -EINVAL;
	atomic_store_explicit(&words[word], value, memory_order_release);
	return 0;
}

static const struct {
	const char *name;
	int (*act)(struct cs_segment_writer *writer, const char *rest);
	int answers_itself;
} commands[] = {
	{"gpu", do_gpu, 1},
	{"communicator", do_communicator, 1},
	{"label", do_label, 1},
	{"record", do_record, 0},
	{"repeat", do_repeat, 0},
	{"reserve", do_reserve, 0},
	{"lose", do_lose, 0},
	{"rank", do_rank, 0},
	{"text", do_text, 0},
	{"environment", do_environment, 0},
	{"status", do_status, 0},
};

static void
act(struct cs_segment_writer *writer, const char *line)
{
	size_t length = strcspn(line, " ");

	if (strcmp(line, "path") == 0) {
		printf("%s\n", cs_segment_writer_path(writer));
		return;
	}
	if (strncmp(line, "name ", 5) == 0) {
		say(cs_segment_writer_name(writer, line + 5));
		return;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int result;

		if (strlen(commands[i].name) != length || strncmp(commands[i].name, line, length) != 0)
			continue;
		result = commands[i].act(writer, line[length] ? line + length + 1 : "");
		if (result < 0)
			printf("error %s\n", strerror(-result));
		else if (!commands[i].answers_itself)
			puts("ok");
		return;
	}
	printf("error no command %s\n", line);
}

int
main(int argc, char **argv)
{
	struct cs_segment_options options = {.version = "9.8.7"};
	struct cs_segment_writer *writer;
	char line[1024];
	int result;

	if (argc < 2) {
		fprintf(stderr, "usage: %s DIRECTORY [RING_SLOTS]\n", argv[0]);
		return 2;
	}
	options.directory = argv[1];
	options.ring_slots = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1024;
	result = cs_segment_writer_create(&options, &writer);
	if (result < 0) {
		fprintf(stderr, "cannot create a segment: %s\n", strerror(-result));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "unlink") == 0) {
			cs_segment_writer_destroy(writer, true);
			puts("ok");
			return 0;
		}
		act(writer, line);
	}
	cs_segment_writer_destroy(writer, false);
	return 0;
}
