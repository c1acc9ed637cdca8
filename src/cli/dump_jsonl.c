/* SPDX-License-Identifier: Apache-2.0 */
/* docs/dump.md is the contract of these lines: members are only added, `null` means "not known". */
#include "dump.h"

#include "json_line.h"

#include <inttypes.h>

int32_t
cs_dump_rank(const struct cs_target *target, const struct cs_label *label)
{
	return label->rank != CS_RANK_UNKNOWN ? label->rank : target->dictionary->process.rank;
}

int32_t
cs_dump_world(const struct cs_target *target, const struct cs_label *label)
{
	return label->world > 0 ? label->world : target->dictionary->process.world;
}

static void
put_index(struct cs_json_line *line, const char *key, int32_t value)
{
	if (value < 0)
		cs_json_line_null(line, key);
	else
		cs_json_line_signed(line, key, value);
}

static void
put_or_null(struct cs_json_line *line, const char *key, uint64_t value, uint64_t unknown)
{
	if (value == unknown)
		cs_json_line_null(line, key);
	else
		cs_json_line_unsigned(line, key, value);
}

static void
begin(struct cs_json_line *line, FILE *stream, const char *kind, const struct cs_target *target)
{
	cs_json_line_begin(line, stream);
	cs_json_line_text(line, "kind", kind);
	cs_json_line_unsigned(line, "pid", target->pid);
}

static void
put_text_or_null(struct cs_json_line *line, const char *key, const char *text)
{
	cs_json_line_text(line, key, *text ? text : NULL);
}

static void
put_process(FILE *stream, const struct cs_target *target)
{
	const struct cs_process_info *process = &target->dictionary->process;
	struct cs_json_line line;

	begin(&line, stream, "process", target);
	cs_json_line_text(&line, "segment", target->path);
	put_text_or_null(&line, "command", process->command_line);
	put_text_or_null(&line, "pod", process->pod);
	put_index(&line, "rank", process->rank);
	put_index(&line, "world", process->world > 0 ? process->world : CS_RANK_UNKNOWN);
	cs_json_line_unsigned(&line, "start_ns", process->created_ns);
	cs_json_line_boolean(&line, "alive", target->alive);
	put_text_or_null(&line, "injector_version", process->injector_version);
	put_text_or_null(&line, "nccl", process->nccl);
	put_text_or_null(&line, "cupti", process->cupti);
	put_text_or_null(&line, "driver", process->driver);
	cs_json_line_end(&line);
}

static void
put_step(FILE *stream, const struct cs_target *target, const struct cs_step *step)
{
	struct cs_json_line line;
	bool deep = step->depth == CS_DEPTH_DEEP;

	begin(&line, stream, "step", target);
	put_index(&line, "gpu", cs_target_gpu(target, step->gpu));
	put_index(&line, "rank", step->rank);
	cs_json_line_unsigned(&line, "start_ns", step->start_ns);
	cs_json_line_unsigned(&line, "end_ns", step->end_ns);
	cs_json_line_unsigned(&line, "duration_ns", step->end_ns - step->start_ns);
	cs_json_line_unsigned(&line, "step", step->step);
	cs_json_line_text(&line, "phase", cs_phase_name(step->phase));
	cs_json_line_text(&line, "phase_rule", cs_phase_rule_name(step->phase_rule));
	put_or_null(&line, "phase_line", step->phase_line, 0);
	cs_json_line_text(&line, "phase_name",
		step->phase_name ? cs_dictionary_borrow_name(target->dictionary, step->phase_name) : NULL);
	cs_json_line_text(&line, "depth", cs_depth_name(step->depth));
	put_or_null(&line, "graph", step->graph_id, 0);
	put_or_null(&line, "correlation", step->correlation_id, 0);
	cs_json_line_unsigned(&line, "launches", step->launches);
	/* A light window times the step and sees nothing inside it. */
	put_or_null(&line, "collectives", deep ? step->collectives : UINT64_MAX, UINT64_MAX);
	put_or_null(&line, "collective_ns", deep ? step->collective_ns : CS_NS_UNKNOWN, CS_NS_UNKNOWN);
	put_or_null(&line, "exposed_collective_ns", deep ? step->exposed_collective_ns : CS_NS_UNKNOWN,
		CS_NS_UNKNOWN);
	cs_json_line_end(&line);
}

static void
put_label(struct cs_json_line *line, const struct cs_target *target, const struct cs_label *label)
{
	const struct cs_communicator *communicator =
		label->comm_id ? cs_dictionary_borrow_communicator(target->dictionary, label->comm_id) : NULL;
	char hash[24];

	cs_json_line_text(line, "op", cs_op_name(label->op));
	cs_json_line_text(line, "impl", cs_impl_name(label->impl));
	cs_json_line_text(line, "dtype", label->dtype ? cs_dtype_name(label->dtype) : NULL);
	cs_json_line_text(line, "reduction", label->reduction ? cs_reduction_name(label->reduction) : NULL);
	cs_json_line_text(line, "algorithm", label->algorithm ? cs_algorithm_name(label->algorithm) : NULL);
	cs_json_line_text(line, "protocol", label->protocol ? cs_protocol_name(label->protocol) : NULL);
	cs_json_line_text(line, "size_from", label->source ? cs_label_source_name(label->source) : NULL);
	put_index(line, "world",
		cs_dump_world(target, label) > 0 ? cs_dump_world(target, label) : CS_RANK_UNKNOWN);
	/* A 64-bit hash is no number to JSON readers that hold doubles. */
	if (communicator)
		snprintf(hash, sizeof(hash), "%016" PRIx64, communicator->hash);
	cs_json_line_text(line, "communicator", communicator ? hash : NULL);
	put_text_or_null(line, "kernel", cs_dictionary_borrow_name(target->dictionary, label->name_id));
}

static void
put_collective(FILE *stream, const struct cs_target *target, const struct cs_collective *c)
{
	struct cs_json_line line;
	bool in_graph = c->record_flags & CS_RECORD_IN_GRAPH;

	begin(&line, stream, "collective", target);
	put_index(&line, "gpu", cs_target_gpu(target, c->gpu));
	put_index(&line, "rank", cs_dump_rank(target, c->label));
	cs_json_line_unsigned(&line, "start_ns", c->start_ns);
	cs_json_line_unsigned(&line, "end_ns", c->end_ns);
	cs_json_line_unsigned(&line, "duration_ns", c->end_ns - c->start_ns);
	put_or_null(&line, "bytes", c->bytes, CS_BYTES_UNKNOWN);
	cs_json_line_text(&line, "phase", cs_phase_name(c->phase));
	put_or_null(&line, "step", c->step, 0);
	put_or_null(&line, "ordinal", c->step ? c->ordinal : UINT64_MAX, UINT64_MAX);
	put_or_null(&line, "graph", in_graph ? c->graph_id : 0, 0);
	put_or_null(&line, "node", in_graph ? c->graph_node_id : 0, 0);
	put_or_null(&line, "correlation", c->correlation_id, 0);
	cs_json_line_unsigned(&line, "stream", c->stream_id);
	cs_json_line_boolean(&line, "fused", c->record_flags & CS_RECORD_FUSED);
	cs_json_line_boolean(&line, "part", c->record_flags & CS_RECORD_PART);
	put_label(&line, target, c->label);
	put_or_null(&line, "overlap_compute_ns", c->overlap_ns[CS_BUSY_COMPUTE], CS_NS_UNKNOWN);
	put_or_null(&line, "overlap_copy_ns", c->overlap_ns[CS_BUSY_COPY], CS_NS_UNKNOWN);
	put_or_null(&line, "overlap_copy_to_host_ns", c->copy_ns[CS_COPY_TO_HOST], CS_NS_UNKNOWN);
	put_or_null(&line, "overlap_copy_from_host_ns", c->copy_ns[CS_COPY_FROM_HOST], CS_NS_UNKNOWN);
	put_or_null(&line, "overlap_copy_peer_ns", c->copy_ns[CS_COPY_PEER], CS_NS_UNKNOWN);
	put_or_null(&line, "overlap_collective_ns", c->overlap_ns[CS_BUSY_COLLECTIVE], CS_NS_UNKNOWN);
	put_or_null(&line, "exposed_ns", c->exposed_ns, CS_NS_UNKNOWN);
	put_or_null(&line, "dependent_ns", c->dependent_ns, CS_NS_UNKNOWN);
	put_or_null(&line, "wait_ns", c->wait_ns, CS_NS_UNKNOWN);
	put_or_null(&line, "transfer_ns", c->transfer_ns, CS_NS_UNKNOWN);
	if (c->wait_ns == CS_NS_UNKNOWN)
		cs_json_line_null(&line, "last_arrival");
	else
		cs_json_line_boolean(&line, "last_arrival", c->last_arrival);
	put_or_null(&line, "matched_ranks", c->matched_ranks, 0);
	cs_json_line_end(&line);
}

static void
put_window(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	struct cs_json_line line;

	begin(&line, stream, "window", target);
	cs_json_line_unsigned(&line, "start_ns", record->start_ns);
	cs_json_line_unsigned(&line, "end_ns", record->end_ns);
	cs_json_line_unsigned(&line, "window", record->ref);
	cs_json_line_text(&line, "depth", cs_depth_name(record->flags & 0xf));
	cs_json_line_unsigned(&line, "graph_launches", record->value);
	cs_json_line_boolean(&line, "foreign", record->flags & CS_RECORD_WINDOW_FOREIGN);
	cs_json_line_end(&line);
}

static void
put_window_open(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	struct cs_json_line line;

	begin(&line, stream, "window_open", target);
	cs_json_line_unsigned(&line, "start_ns", record->start_ns);
	cs_json_line_unsigned(&line, "end_ns", record->end_ns);
	cs_json_line_unsigned(&line, "window", record->ref);
	cs_json_line_text(&line, "depth", cs_depth_name(record->flags & 0xf));
	cs_json_line_end(&line);
}

static void
put_mark(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	struct cs_json_line line;

	begin(&line, stream, "mark", target);
	cs_json_line_unsigned(&line, "start_ns", record->start_ns);
	cs_json_line_unsigned(&line, "end_ns", record->end_ns);
	cs_json_line_text(&line, "name", cs_dictionary_borrow_name(target->dictionary, record->ref));
	cs_json_line_unsigned(&line, "thread", record->value);
	cs_json_line_unsigned(&line, "nesting", record->sequence);
	cs_json_line_end(&line);
}

static void
put_host_launch(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	const struct cs_label *label = cs_dictionary_borrow_label(target->dictionary, record->ref);
	struct cs_json_line line;

	begin(&line, stream, "host_launch", target);
	cs_json_line_unsigned(&line, "start_ns", record->start_ns);
	cs_json_line_unsigned(&line, "end_ns", record->end_ns);
	cs_json_line_unsigned(&line, "thread", record->value);
	put_or_null(&line, "graph", record->graph_id, 0);
	put_or_null(&line, "correlation", record->correlation_id, 0);
	cs_json_line_text(&line, "op", record->ref ? cs_op_name(label->op) : NULL);
	cs_json_line_text(&line, "impl", record->ref ? cs_impl_name(label->impl) : NULL);
	put_or_null(&line, "bytes", record->ref ? label->bytes : CS_BYTES_UNKNOWN, CS_BYTES_UNKNOWN);
	cs_json_line_end(&line);
}

static void
put_still(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	struct cs_json_line line;

	begin(&line, stream, "still", target);
	put_index(&line, "gpu", cs_target_gpu(target, record->gpu));
	cs_json_line_unsigned(&line, "start_ns", record->start_ns);
	cs_json_line_unsigned(&line, "end_ns", record->end_ns);
	put_or_null(&line, "busy_percent", record->value, CS_STILL_UNKNOWN);
	cs_json_line_end(&line);
}

static void
put_graph(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	const struct cs_label *label = cs_dictionary_borrow_label(target->dictionary, record->ref);
	bool known = record->sequence != CS_GRAPH_UNKNOWN;
	struct cs_json_line line;

	begin(&line, stream, "graph", target);
	put_index(&line, "gpu", cs_target_gpu(target, record->gpu));
	cs_json_line_unsigned(&line, "start_ns", record->start_ns);
	cs_json_line_unsigned(&line, "end_ns", record->end_ns);
	cs_json_line_unsigned(&line, "graph", record->graph_id);
	put_or_null(&line, "collectives", record->sequence, CS_GRAPH_UNKNOWN);
	put_or_null(&line, "ordinal", known ? record->correlation_id : UINT64_MAX, UINT64_MAX);
	put_or_null(&line, "count", known ? record->value : UINT64_MAX, UINT64_MAX);
	put_or_null(&line, "node", record->graph_node_id, 0);
	cs_json_line_text(&line, "op", record->ref ? cs_op_name(label->op) : NULL);
	cs_json_line_text(&line, "impl", record->ref ? cs_impl_name(label->impl) : NULL);
	put_or_null(&line, "bytes", record->ref ? label->bytes : CS_BYTES_UNKNOWN, CS_BYTES_UNKNOWN);
	cs_json_line_end(&line);
}

static void
put_other(FILE *stream, const struct cs_target *target, const struct cs_record *record)
{
	switch (record->type) {
	case CS_RECORD_WINDOW:
		put_window(stream, target, record);
		break;
	case CS_RECORD_WINDOW_OPEN:
		put_window_open(stream, target, record);
		break;
	case CS_RECORD_MARK:
		put_mark(stream, target, record);
		break;
	case CS_RECORD_HOST_LAUNCH:
		put_host_launch(stream, target, record);
		break;
	case CS_RECORD_STILL:
		put_still(stream, target, record);
		break;
	case CS_RECORD_GRAPH:
		put_graph(stream, target, record);
		break;
	default:
		break;
	}
}

static void
put_loss(FILE *stream, const struct cs_target *target, unsigned int cause, uint64_t count,
	const struct cs_record *when)
{
	struct cs_json_line line;

	begin(&line, stream, "loss", target);
	put_or_null(&line, "start_ns", when ? when->start_ns : 0, 0);
	put_or_null(&line, "end_ns", when ? when->end_ns : 0, 0);
	cs_json_line_text(&line, "cause", cs_loss_cause_name(cause));
	cs_json_line_unsigned(&line, "count", count);
	cs_json_line_end(&line);
}

const struct cs_dump_format cs_dump_jsonl = {
	.name = "jsonl",
	.process = put_process,
	.step = put_step,
	.collective = put_collective,
	.other = put_other,
	.loss = put_loss,
};
