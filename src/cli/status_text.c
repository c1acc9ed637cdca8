/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include "clock.h"
#include "exporter_start.h"
#include "segment/exporter_lock.h"
#include "segment/segment_state.h"
#include "table.h"
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

uint64_t
cs_status_records(const struct cs_target *target)
{
	uint64_t sum = 0;

	for (unsigned int i = 1; i < CS_RECORD_TYPE_COUNT; i++)
		sum += target->status.records[i];
	return sum;
}

/* Of one cause, as cs_segment_lost counts it. */
static uint64_t
lost_by(const struct cs_target *target, unsigned int cause)
{
	return target->status.lost[cause] -
	       (cause == CS_LOSS_BAD_TIMESTAMP ? cs_segment_cut(&target->status) : 0);
}

uint64_t
cs_status_unlabelled(const struct cs_target *target)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < CS_UNLABELLED_REASON_COUNT; i++)
		sum += target->status.unlabelled[i];
	return sum;
}

uint64_t
cs_status_request_until_ns(const struct cs_target *target)
{
	return cs_segment_request_until_ns(&target->status, target->alive, cs_clock_realtime_ns());
}

const char *
cs_status_state(const struct cs_target *target)
{
	return cs_segment_state_word(&target->status, target->alive, cs_clock_realtime_ns());
}

static enum cs_style
state_style(const struct cs_target *target)
{
	if (!target->alive)
		return CS_STYLE_DIM;
	switch ((enum cs_state)target->status.state) {
	case CS_STATE_TRACING:
		return CS_STYLE_GREEN;
	case CS_STATE_DORMANT:
		return CS_STYLE_RED;
	case CS_STATE_YIELDED:
	case CS_STATE_PAUSED:
		return CS_STYLE_YELLOW;
	default:
		return CS_STYLE_PLAIN;
	}
}

static void
format_gpus(const struct cs_target *target, char *text, size_t text_bytes)
{
	size_t used = 0;

	snprintf(text, text_bytes, "-");
	for (uint32_t i = 0; i < target->dictionary->gpu_count && used + 8 < text_bytes; i++) {
		int32_t index = target->dictionary->gpus[i].nvml_index;

		used += (size_t)snprintf(text + used, text_bytes - used, "%s", i ? "," : "");
		if (index < 0)
			used += (size_t)snprintf(text + used, text_bytes - used, "?");
		else
			used += (size_t)snprintf(text + used, text_bytes - used, "%d", index);
	}
}

static void
format_rank(const struct cs_process_info *process, char *text, size_t text_bytes)
{
	if (process->rank < 0)
		snprintf(text, text_bytes, "-");
	else if (process->world <= 0)
		snprintf(text, text_bytes, "%d", process->rank);
	else
		snprintf(text, text_bytes, "%d/%d", process->rank, process->world);
}

/* "tracing until 10:11:12Z", "waiting, ends 10:11:12Z", or the state alone. */
static void
format_state(const struct cs_target *target, char *text, size_t text_bytes)
{
	uint64_t until_ns = cs_status_request_until_ns(target);
	char clock[CS_UNITS_TEXT_BYTES];

	if (until_ns && target->status.depth == CS_DEPTH_OFF)
		snprintf(text, text_bytes, "waiting, ends %s", cs_units_format_clock(until_ns, clock));
	else if (until_ns)
		snprintf(text, text_bytes, "%s until %s", cs_status_state(target),
			cs_units_format_clock(until_ns, clock));
	else
		snprintf(text, text_bytes, "%s", cs_status_state(target));
}

static void
add_row(struct cs_table *table, const struct cs_target *target)
{
	const struct cs_status *status = &target->status;
	const struct cs_process_info *process = &target->dictionary->process;
	uint64_t lost = cs_segment_lost(&target->status);
	char text[CS_UNITS_TEXT_BYTES];
	char list[80];

	cs_table_add(table, CS_STYLE_PLAIN, "%u", target->pid);
	format_rank(process, list, sizeof(list));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", list);
	format_gpus(target, list, sizeof(list));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", list);
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_mode_name((unsigned int)status->mode));
	format_state(target, list, sizeof(list));
	cs_table_add(table, state_style(target), "%s", list);
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_depth_name((unsigned int)status->depth));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_count(cs_status_records(target), text));
	cs_table_add(table, lost ? CS_STYLE_RED : CS_STYLE_PLAIN, "%s", cs_units_format_count(lost, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%u",
		target->dictionary->label_count ? target->dictionary->label_count - 1 : 0);
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_duration(status->cpu_ns, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_bytes(status->host_memory_bytes, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%s", cs_units_format_bytes(status->device_memory_bytes, text));
	cs_table_add(table, CS_STYLE_PLAIN, "%s",
		process->command_line[0] ? process->command_line : process->comm);
}

/* " pool_empty 10, ring_contended 2": those that are not zero. */
static void
print_counts(
	FILE *stream, const _Atomic uint64_t *counts, unsigned int count, const char *(*name)(unsigned int))
{
	const char *separator = "";

	for (unsigned int i = 0; i < count; i++) {
		uint64_t value = counts[i];

		if (value == 0)
			continue;
		fprintf(stream, "%s %s %" PRIu64, separator, name(i), value);
		separator = ",";
	}
}

struct loss_sum {
	uint64_t records;
	unsigned int processes;
};

static void
sum_losses(const struct cs_targets *targets, struct loss_sum sums[CS_LOSS_CAUSE_COUNT])
{
	for (size_t i = 0; i < targets->count; i++) {
		for (unsigned int cause = 0; cause < CS_LOSS_CAUSE_COUNT; cause++) {
			uint64_t lost = lost_by(targets->items[i], cause);

			sums[cause].records += lost;
			sums[cause].processes += lost != 0;
		}
	}
}

/* Causes that the process has alone. */
static void
print_own_losses(FILE *stream, const struct cs_target *target, const struct loss_sum *sums)
{
	const char *separator = "";

	for (unsigned int cause = 0; cause < CS_LOSS_CAUSE_COUNT; cause++) {
		uint64_t lost = lost_by(target, cause);

		if (lost == 0 || sums[cause].processes > 1)
			continue;
		if (!*separator)
			fprintf(stream, "%u: records lost:", target->pid);
		fprintf(stream, "%s %s %" PRIu64, separator, cs_loss_cause_name(cause), lost);
		separator = ",";
	}
	if (*separator)
		fputc('\n', stream);
}

/* Causes that several have: eight ranks say the same eight times over. */
static void
print_common_losses(FILE *stream, const struct loss_sum *sums)
{
	for (unsigned int cause = 0; cause < CS_LOSS_CAUSE_COUNT; cause++) {
		if (sums[cause].processes > 1)
			fprintf(stream, "%u processes: records lost: %s %" PRIu64 "\n", sums[cause].processes,
				cs_loss_cause_name(cause), sums[cause].records);
	}
}

/* What is not lost, only never traced; in full mode nothing else tells of it. */
static void
print_rests(FILE *stream, const struct cs_target *target)
{
	uint64_t rests = target->status.tracing_rests;

	if (rests != 0)
		fprintf(stream,
			"%u: tracing rested %" PRIu64
			" time%s, as buffers ran short (more COLLSCOPE_BUFFERS may help)\n",
			target->pid, rests, rests == 1 ? "" : "s");
}

static bool
has_same_reason(const struct cs_target *a, const struct cs_target *b)
{
	return strcmp(a->dictionary->process.reason, b->dictionary->process.reason) == 0 &&
	       strcmp(cs_status_state(a), cs_status_state(b)) == 0;
}

/* In the place of the first that has it: what a pause tells of is the same of all. */
static void
print_reason(FILE *stream, const struct cs_targets *targets, size_t at)
{
	const struct cs_target *target = targets->items[at];
	size_t count = 0;

	if (!target->dictionary->process.reason[0])
		return;
	for (size_t i = 0; i < targets->count; i++) {
		if (!has_same_reason(target, targets->items[i]))
			continue;
		if (i < at)
			return;
		count++;
	}
	if (count == 1)
		fprintf(stream, "%u: ", target->pid);
	else
		fprintf(stream, "%zu processes: ", count);
	fprintf(stream, "%s: %s\n", cs_status_state(target), target->dictionary->process.reason);
}

/* What else the table cannot say: causes. */
static void
print_remarks(FILE *stream, const struct cs_target *target, const struct loss_sum *sums)
{
	const struct cs_status *status = &target->status;
	uint64_t silent_ns = cs_segment_silent_ns(status, target->alive, cs_clock_realtime_ns());
	char text[CS_UNITS_TEXT_BYTES];

	print_own_losses(stream, target, sums);
	print_rests(stream, target);
	if (cs_status_unlabelled(target)) {
		fprintf(stream, "%u: collectives without a label:", target->pid);
		print_counts(
			stream, status->unlabelled, CS_UNLABELLED_REASON_COUNT, cs_unlabelled_reason_name);
		fputc('\n', stream);
	}
	if (silent_ns)
		fprintf(stream, "%u: no sign from the profiler's thread for %s: is the process stopped?\n",
			target->pid, cs_units_format_duration(silent_ns, text));
}

int
cs_status_print_table(const struct cs_targets *targets, FILE *stream, struct cs_page *page)
{
	static const char *const expendable[] = {
		"GPU MEM", "HOST MEM", "CPU", "LABELS", "DEPTH", "RECORDS", NULL};
	static const char *const headings[] = {">PID", ">RANK", "GPU", "MODE", "STATE", "DEPTH", ">RECORDS",
		">LOST", ">LABELS", ">CPU", ">HOST MEM", ">GPU MEM", "COMMAND"};
	struct cs_table *table = cs_table_new(headings, sizeof(headings) / sizeof(headings[0]));
	struct loss_sum sums[CS_LOSS_CAUSE_COUNT] = {0};
	int result;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < targets->count; i++)
		add_row(table, targets->items[i]);
	cs_table_set_name(table, "processes");
	cs_table_set_expendable(table, expendable);
	result = cs_table_print(table, stream, page);
	sum_losses(targets, sums);
	for (size_t i = 0; i < targets->count && result == 0; i++) {
		print_reason(stream, targets, i);
		print_remarks(stream, targets->items[i], sums);
	}
	if (result == 0)
		print_common_losses(stream, sums);
	cs_table_destroy(table);
	return result;
}

static void
print_field(FILE *stream, const char *name, const char *text)
{
	if (*text)
		fprintf(stream, "  %-16s %s\n", name, text);
}

/* As nvidia-smi writes it. */
static void
print_uuid(FILE *stream, const uint8_t uuid[16])
{
	static const uint8_t none[16];

	if (memcmp(uuid, none, sizeof(none)) == 0)
		return;
	fputs("    uuid          GPU", stream);
	for (unsigned int i = 0; i < 16; i++)
		fprintf(stream, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			uuid[i]);
	fputc('\n', stream);
}

static void
print_gpu(FILE *stream, const struct cs_gpu *gpu)
{
	char memory[CS_UNITS_TEXT_BYTES];
	char index[16] = "?";

	if (gpu->nvml_index >= 0)
		snprintf(index, sizeof(index), "%d", gpu->nvml_index);
	fprintf(stream, "  gpu %s            %s, %s, sm_%u, PCI %04x:%02x:%02x, CUDA device %d\n", index,
		gpu->name[0] ? gpu->name : "unknown", cs_units_format_bytes(gpu->memory_bytes, memory),
		gpu->compute_capability, gpu->pci_domain, gpu->pci_bus, gpu->pci_device, gpu->cuda_ordinal);
	print_uuid(stream, gpu->uuid);
	for (unsigned int peer = 0; peer < sizeof(gpu->link); peer++) {
		if (gpu->link[peer] == CS_LINK_UNKNOWN || gpu->link[peer] == CS_LINK_SELF)
			continue;
		fprintf(stream, "    to gpu %-6u %s", peer, cs_link_name(gpu->link[peer]));
		if (gpu->link_nvlinks[peer])
			fprintf(stream, " x%u", gpu->link_nvlinks[peer]);
		fputc('\n', stream);
	}
}

/* Without the records that tell of losses: the two lines that follow have what they say. */
static void
print_long_records(FILE *stream, const struct cs_status *status)
{
	_Atomic uint64_t records[CS_RECORD_TYPE_COUNT];
	uint64_t sum = 0;

	for (unsigned int type = 0; type < CS_RECORD_TYPE_COUNT; type++) {
		records[type] = type == CS_RECORD_LOSS ? 0 : status->records[type];
		sum += records[type];
	}
	fprintf(stream, "  %-16s%s", "records", sum ? "" : " 0");
	print_counts(stream, records, CS_RECORD_TYPE_COUNT, cs_record_type_name);
}

static void
print_long_losses(FILE *stream, const struct cs_target *target)
{
	_Atomic uint64_t lost[CS_LOSS_CAUSE_COUNT];

	for (unsigned int cause = 0; cause < CS_LOSS_CAUSE_COUNT; cause++)
		lost[cause] = lost_by(target, cause);
	fprintf(stream, "\n  %-16s%s", "lost", cs_segment_lost(&target->status) ? "" : " 0");
	print_counts(stream, lost, CS_LOSS_CAUSE_COUNT, cs_loss_cause_name);
	fprintf(stream, "\n  %-16s %" PRIu64 " at window ends, as is normal", "cut",
		cs_segment_cut(&target->status));
}

static void
print_long_one(FILE *stream, const struct cs_target *target, const struct cs_phase_rules *phase_rules)
{
	const struct cs_dictionary *dictionary = target->dictionary;
	const struct cs_process_info *process = &dictionary->process;
	const struct cs_status *status = &target->status;
	char text[CS_UNITS_TEXT_BYTES];
	char rank[80];

	fprintf(stream, "%u  %s\n", target->pid,
		process->command_line[0] ? process->command_line : process->comm);
	format_state(target, rank, sizeof(rank));
	fprintf(stream, "  %-16s %s\n", "state", rank);
	print_field(stream, "reason", process->reason);
	print_field(stream, "subscription",
		target->alive && status->subscribed
			? "held: torch.profiler up to torch 2.11 sees nothing of the GPU if it starts now"
			: "");
	format_rank(process, rank, sizeof(rank));
	print_field(stream, "rank", rank);
	fprintf(stream, "  %-16s %s, depth %s\n", "mode", cs_mode_name((unsigned int)status->mode),
		cs_depth_name((unsigned int)status->depth));
	if (status->period_ns) {
		fprintf(stream, "  %-16s %s", "windows", cs_units_format_duration(status->window_ns, text));
		fprintf(stream, " every %s, more often at first\n",
			cs_units_format_duration(status->period_ns, text));
	}
	fprintf(stream, "  %-16s", "traced");
	for (unsigned int depth = CS_DEPTH_COUNT; depth-- > 0;)
		fprintf(stream, "%s %s %s", depth + 1 < CS_DEPTH_COUNT ? "," : "", cs_depth_name(depth),
			cs_units_format_duration(status->trace_ns[depth], text));
	fputc('\n', stream);
	if (status->tracing_rests)
		fprintf(stream, "  %-16s %" PRIu64 ", as buffers ran short\n", "rests",
			(uint64_t)status->tracing_rests);
	print_long_records(stream, status);
	print_long_losses(stream, target);
	fprintf(stream, "\n  %-16s %u", "labels", dictionary->label_count ? dictionary->label_count - 1 : 0);
	if (cs_status_unlabelled(target)) {
		fputs("; without:", stream);
		print_counts(
			stream, status->unlabelled, CS_UNLABELLED_REASON_COUNT, cs_unlabelled_reason_name);
	}
	fprintf(stream, "\n  %-16s %" PRIu64 "\n", "graph launches", (uint64_t)status->graph_launches);
	cs_phase_rules_print(phase_rules, target, stream);
	fprintf(stream, "  %-16s CPU %s", "cost", cs_units_format_duration(status->cpu_ns, text));
	fprintf(stream, ", host memory %s", cs_units_format_bytes(status->host_memory_bytes, text));
	fprintf(stream, ", GPU memory %s\n", cs_units_format_bytes(status->device_memory_bytes, text));
	print_field(stream, "pod", process->pod);
	print_field(stream, "injector", process->injector_version);
	print_field(stream, "CUDA driver", process->cuda_driver);
	print_field(stream, "NVIDIA driver", process->driver);
	print_field(stream, "CUPTI", process->cupti);
	print_field(stream, "CUPTI path", process->cupti_path);
	print_field(stream, "NCCL", process->nccl);
	print_field(stream, "segment", target->path);
	for (uint32_t i = 0; i < dictionary->gpu_count; i++)
		print_gpu(stream, &dictionary->gpus[i]);
	for (uint32_t i = 0; i < dictionary->communicator_count; i++) {
		const struct cs_communicator *communicator = &dictionary->communicators[i];

		fprintf(stream, "  communicator     %016" PRIx64 " %s rank %d of %d, nodes %d%s%s\n",
			communicator->hash, cs_impl_name(communicator->impl), communicator->rank,
			communicator->world, communicator->nodes, communicator->name[0] ? ", " : "",
			communicator->name);
	}
	for (uint32_t i = 0; i < dictionary->environment_count; i++)
		fprintf(stream, "  environment      %s=%s\n", dictionary->environment[i].name,
			dictionary->environment[i].value);
}

int
cs_status_print_long(const struct cs_targets *targets, const struct cs_phase_rules *phase_rules, FILE *stream)
{
	for (size_t i = 0; i < targets->count; i++) {
		if (i)
			fputc('\n', stream);
		print_long_one(stream, targets->items[i], phase_rules);
	}
	return 0;
}

int
cs_status_why_no_exporter(const struct cs_targets *targets, char *text, size_t text_bytes, bool *started)
{
	bool alive = false;

	/* Without a process to serve, exporters leave. */
	for (size_t i = 0; i < targets->count; i++)
		alive = alive || targets->items[i]->alive;
	return alive ? cs_exporter_last_words(targets->directory, text, text_bytes, started) : -ENOENT;
}

/* Whether a process looks after the exporter, as far as its segment tells. */
static bool
any_looks_after_exporter(const struct cs_targets *targets)
{
	for (size_t i = 0; i < targets->count; i++) {
		const struct cs_target *target = targets->items[i];

		if (target->alive && target->status.state != CS_STATE_DORMANT &&
			target->status.state != CS_STATE_EXITED)
			return true;
	}
	return false;
}

static void
print_no_exporter(const struct cs_targets *targets, FILE *stream)
{
	char words[512];
	bool started = true;
	bool said = cs_status_why_no_exporter(targets, words, sizeof(words), &started) == 0;

	if (!started) {
		fprintf(stream, "exporter: did not start: %s\n", words);
		return;
	}
	fputs("exporter: none", stream);
	/* Its environment is not in the segment. */
	if (any_looks_after_exporter(targets))
		fputs("; a traced process starts one within a minute, unless its COLLSCOPE_EXPORTER is off",
			stream);
	if (said)
		fprintf(stream, "; the last one said: %s", words);
	fputc('\n', stream);
}

void
cs_status_print_exporter(const struct cs_targets *targets, FILE *stream)
{
	struct cs_exporter_serving serving;
	int result = cs_exporter_find_serving(targets->directory, &serving);

	if (result == 0)
		fprintf(stream, "exporter: serving %s\n", serving.address);
	else if (result == -EAGAIN)
		fputs("exporter: starting\n", stream);
	else
		print_no_exporter(targets, stream);
}
