/* SPDX-License-Identifier: Apache-2.0 */
/* One line per record for people; may change from version to version, jsonl does not. */
#include "dump.h"

#include "units.h"

#include <inttypes.h>

static void
begin(FILE *stream, const struct cs_target *target, uint64_t time_ns, const char *kind)
{
	char when[CS_UNITS_TEXT_BYTES];

	fprintf(stream, "[%s] pid=%u %s:", cs_units_format_time(time_ns, when), target->pid, kind);
}

static void
put_index(FILE *stream, const char *key, int32_t value)
{
	if (value >= 0)
		fprintf(stream, " %s=%d", key, value);
}

static void
put_duration(FILE *stream, const char *key, uint64_t duration_ns)
{
	char text[CS_UNITS_TEXT_BYTES];

	if (duration_ns != CS_NS_UNKNOWN)
		fprintf(stream, ", %s %s", key, cs_units_format_duration(duration_ns, text));
}

static void
put_process(FILE *stream, const struct cs_target *target)
{
	const struct cs_process_info *process = &target->dictionary->process;

	begin(stream, target, process->created_ns, "process");
	put_index(stream, "rank", process->rank);
	put_index(stream, "world", process->world);
	fprintf(stream, " alive=%s command=\"%s\"\n", target->alive ? "yes" : "no", process->command_line);
}

static void
put_step(FILE *stream, const struct cs_target *target, const struct cs_step *step)
{
	begin(stream, target, step->start_ns, "step");
	put_index(stream, "gpu", cs_target_gpu(target, step->gpu));
	put_index(stream, "rank", step->rank);
	fprintf(stream, " step=%" PRIu64 " phase=%s by=%s", step->step, cs_phase_name(step->phase),
		cs_phase_rule_name(step->phase_rule));
	if (step->phase_line)
		fprintf(stream, ":%" PRIu32, step->phase_line);
	else if (step->phase_name)
		fprintf(stream, ":%s", cs_dictionary_borrow_name(target->dictionary, step->phase_name));
	fprintf(stream, " depth=%s", cs_depth_name(step->depth));
	if (step->depth == CS_DEPTH_DEEP)
		fprintf(stream, " collectives=%u", step->collectives);
	put_duration(stream, "took", step->end_ns - step->start_ns);
	if (step->depth == CS_DEPTH_DEEP) {
		put_duration(stream, "in collectives", step->collective_ns);
		put_duration(stream, "exposed", step->exposed_collective_ns);
	}
	fputc('\n', stream);
}

static void
put_collective(FILE *stream, const struct cs_target *target, const struct cs_collective *c)
{
	char bytes[CS_UNITS_TEXT_BYTES];

	begin(stream, target, c->start_ns, "collective");
	put_index(stream, "gpu", cs_target_gpu(target, c->gpu));
	put_index(stream, "rank", cs_dump_rank(target, c->label));
	fprintf(stream, " %s %s %s", cs_op_name(c->label->op), cs_impl_name(c->label->impl),
		cs_units_format_bytes(c->bytes, bytes));
	if (c->label->dtype)
		fprintf(stream, " %s", cs_dtype_name(c->label->dtype));
	fprintf(stream, " phase=%s", cs_phase_name(c->phase));
	if (c->step)
		fprintf(stream, " step=%" PRIu64 ".%u", c->step, c->ordinal);
	put_duration(stream, "took", c->end_ns - c->start_ns);
	put_duration(stream, "wait", c->wait_ns);
	put_duration(stream, "exposed", c->exposed_ns);
	fputc('\n', stream);
}

static void
put_graph(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	const struct cs_label *label = cs_dictionary_borrow_label(target->dictionary, record->ref);

	begin(stream, target, record->start_ns, "graph");
	put_index(stream, "gpu", cs_target_gpu(target, record->gpu));
	fprintf(stream, " graph=%u", record->graph_id);
	if (record->sequence == CS_GRAPH_UNKNOWN) {
		fputs(" collectives=unknown\n", stream);
		return;
	}
	fprintf(stream, " collectives=%u", record->sequence);
	if (record->value)
		fprintf(stream, " from=%u count=%" PRIu64 " %s %s", record->correlation_id, record->value,
			record->ref ? cs_op_name(label->op) : "unknown",
			record->ref ? cs_impl_name(label->impl) : "unknown");
	fputc('\n', stream);
}

static void
put_other(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	const struct cs_label *label;

	switch (record->type) {
	case CS_RECORD_WINDOW:
		begin(stream, target, record->start_ns, "window");
		fprintf(stream, " depth=%s graph-launches=%" PRIu64, cs_depth_name(record->flags & 0xf),
			record->value);
		if (record->flags & CS_RECORD_WINDOW_FOREIGN)
			fputs(" owned by another tool", stream);
		break;
	case CS_RECORD_WINDOW_OPEN:
		begin(stream, target, record->start_ns, "window-open");
		fprintf(stream, " depth=%s\n", cs_depth_name(record->flags & 0xf));
		return;
	case CS_RECORD_MARK:
		begin(stream, target, record->start_ns, "mark");
		fprintf(stream, " name=\"%s\" thread=%" PRIu64,
			cs_dictionary_borrow_name(target->dictionary, record->ref), record->value);
		break;
	case CS_RECORD_HOST_LAUNCH:
		label = cs_dictionary_borrow_label(target->dictionary, record->ref);
		begin(stream, target, record->start_ns, "host-launch");
		if (record->ref)
			fprintf(stream, " %s %s", cs_op_name(label->op), cs_impl_name(label->impl));
		else
			fprintf(stream, " graph=%u", record->graph_id);
		fprintf(stream, " thread=%" PRIu64, record->value);
		break;
	case CS_RECORD_STILL:
		begin(stream, target, record->start_ns, "still");
		put_index(stream, "gpu", cs_target_gpu(target, record->gpu));
		if (record->value == CS_STILL_UNKNOWN)
			fputs(" gpu-busy=unknown", stream);
		else
			fprintf(stream, " gpu-busy=%" PRIu64 "%%", record->value);
		break;
	case CS_RECORD_GRAPH:
		put_graph(stream, target, record);
		return;
	default:
		return;
	}
	put_duration(stream, "took", record->end_ns - record->start_ns);
	fputc('\n', stream);
}

static void
put_loss(FILE *stream, const struct cs_target *target, unsigned int cause, uint64_t count,
	const struct cs_record *when)
{
	if (when)
		begin(stream, target, when->end_ns, "loss");
	else
		fprintf(stream, "[time unknown] pid=%u loss:", target->pid);
	fprintf(stream, " cause=%s count=%" PRIu64 "\n", cs_loss_cause_name(cause), count);
}

const struct cs_dump_format cs_dump_text = {
	.name = "text",
	.process = put_process,
	.step = put_step,
	.collective = put_collective,
	.other = put_other,
	.loss = put_loss,
};
