/* SPDX-License-Identifier: Apache-2.0 */
/* docs/dump.md is the contract: members are only added; `null` means "not known". */
#include "segment/exporter_lock.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#define STATUS_JSON_VERSION 1

/* jansson's integers are signed 64 bits; a counter of that size is an attack or a bug, and stays a number. */
static json_t *
number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *
index_or_null(int64_t value)
{
	return value < 0 ? json_null() : json_integer(value);
}

static json_t *
text_or_null(const char *text)
{
	return *text ? json_string(text) : json_null();
}

/* {"pool_empty": 3, ...}: every name, zeros too, so that a reader needs no defaults. */
static json_t *
counts(const _Atomic uint64_t *values, unsigned int first, unsigned int end,
	const char *(*name)(unsigned int))
{
	json_t *object = json_object();

	for (unsigned int i = first; i < end; i++)
		json_object_set_new(object, name(i), number(values[i]));
	return object;
}

static json_t *
gpu_links(const struct cs_gpu *gpu)
{
	json_t *links = json_array();

	for (unsigned int peer = 0; peer < sizeof(gpu->link); peer++) {
		if (gpu->link[peer] == CS_LINK_UNKNOWN || gpu->link[peer] == CS_LINK_SELF)
			continue;
		json_array_append_new(links,
			json_pack("{s:i, s:s, s:i}", "gpu", (int)peer, "link", cs_link_name(gpu->link[peer]),
				"nvlinks", (int)gpu->link_nvlinks[peer]));
	}
	return links;
}

static json_t *
gpu_object(const struct cs_gpu *gpu)
{
	char uuid[48], pci[32];
	const uint8_t *u = gpu->uuid;

	snprintf(uuid, sizeof(uuid),
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
		u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	snprintf(pci, sizeof(pci), "%04x:%02x:%02x.0", gpu->pci_domain, gpu->pci_bus, gpu->pci_device);
	return json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:i, s:i, s:o}", "gpu",
		index_or_null(gpu->nvml_index), "cuda_device", index_or_null(gpu->cuda_ordinal), "uuid", uuid,
		"pci", pci, "name", text_or_null(gpu->name), "memory_bytes", number(gpu->memory_bytes),
		"multiprocessors", (int)gpu->multiprocessors, "compute_capability",
		(int)gpu->compute_capability, "links", gpu_links(gpu));
}

static json_t *
communicator_object(const struct cs_communicator *communicator)
{
	char hash[24];

	snprintf(hash, sizeof(hash), "%016" PRIx64, communicator->hash);
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "communicator", hash, "impl",
		cs_impl_name(communicator->impl), "name", text_or_null(communicator->name), "rank",
		index_or_null(communicator->rank), "world", index_or_null(communicator->world), "nodes",
		index_or_null(communicator->nodes));
}

static void
add_tables(json_t *object, const struct cs_dictionary *dictionary)
{
	json_t *gpus = json_array();
	json_t *communicators = json_array();
	json_t *environment = json_object();

	for (uint32_t i = 0; i < dictionary->gpu_count; i++)
		json_array_append_new(gpus, gpu_object(&dictionary->gpus[i]));
	for (uint32_t i = 0; i < dictionary->communicator_count; i++)
		json_array_append_new(communicators, communicator_object(&dictionary->communicators[i]));
	for (uint32_t i = 0; i < dictionary->environment_count; i++)
		json_object_set_new(environment, dictionary->environment[i].name,
			json_string(dictionary->environment[i].value));
	json_object_set_new(object, "gpus", gpus);
	json_object_set_new(object, "communicators", communicators);
	json_object_set_new(object, "environment", environment);
}

static void
add_status(json_t *object, const struct cs_target *target)
{
	const struct cs_status *status = &target->status;

	json_object_set_new(object, "mode", json_string(cs_mode_name((unsigned int)status->mode)));
	json_object_set_new(object, "state", json_string(cs_status_state(target)));
	json_object_set_new(object, "request_until_ns",
		cs_status_request_until_ns(target) ? number(cs_status_request_until_ns(target))
						   : json_null());
	json_object_set_new(object, "subscribed", json_boolean(status->subscribed != 0));
	json_object_set_new(object, "depth", json_string(cs_depth_name((unsigned int)status->depth)));
	json_object_set_new(object, "heartbeat_ns", number(status->heartbeat_ns));
	json_object_set_new(object, "last_record_end_ns", number(status->last_record_end_ns));
	json_object_set_new(object, "delivered_until_ns", number(status->delivered_until_ns));
	json_object_set_new(object, "period_ns", number(status->period_ns));
	json_object_set_new(object, "window_ns", number(status->window_ns));
	json_object_set_new(object, "step_ratio_ppm",
		status->step_ratio_ppm ? number(status->step_ratio_ppm) : json_null());
	json_object_set_new(object, "cpu_ns", number(status->cpu_ns));
	json_object_set_new(object, "host_memory_bytes", number(status->host_memory_bytes));
	json_object_set_new(object, "device_memory_bytes", number(status->device_memory_bytes));
	json_object_set_new(object, "graph_launches", number(status->graph_launches));
	json_object_set_new(object, "kernels_seen", number(status->kernels_seen));
	json_object_set_new(object, "nodes_labelled", number(status->nodes_labelled));
	json_object_set_new(object, "foreign_windows", number(status->foreign_windows));
	json_object_set_new(object, "windows_skipped", number(status->windows_skipped));
	json_object_set_new(object, "tracing_rests", number(status->tracing_rests));
	json_object_set_new(
		object, "records", counts(status->records, 1, CS_RECORD_TYPE_COUNT, cs_record_type_name));
	json_object_set_new(
		object, "records_lost", counts(status->lost, 0, CS_LOSS_CAUSE_COUNT, cs_loss_cause_name));
	json_object_set_new(object, "unlabelled",
		counts(status->unlabelled, 0, CS_UNLABELLED_REASON_COUNT, cs_unlabelled_reason_name));
	json_object_set_new(object, "trace_ns", counts(status->trace_ns, 0, CS_DEPTH_COUNT, cs_depth_name));
	json_object_set_new(object, "windows", counts(status->windows, 0, CS_DEPTH_COUNT, cs_depth_name));
}

static json_t *
process_object(const struct cs_target *target)
{
	const struct cs_dictionary *dictionary = target->dictionary;
	const struct cs_process_info *process = &dictionary->process;
	json_t *object = json_pack("{s:I, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "pid",
		(json_int_t)target->pid, "alive", target->alive, "segment", target->path, "command",
		text_or_null(process->command_line), "comm", text_or_null(process->comm), "pod",
		text_or_null(process->pod), "reason", text_or_null(process->reason), "rank",
		index_or_null(process->rank), "world",
		index_or_null(process->world > 0 ? process->world : -1));

	json_object_set_new(
		object, "labels", json_integer(dictionary->label_count ? dictionary->label_count - 1 : 0));
	json_object_set_new(object, "created_ns", number(process->created_ns));
	add_status(object, target);
	json_object_set_new(object, "injector_version", text_or_null(process->injector_version));
	json_object_set_new(object, "cuda_driver", text_or_null(process->cuda_driver));
	json_object_set_new(object, "driver", text_or_null(process->driver));
	json_object_set_new(object, "cupti", text_or_null(process->cupti));
	json_object_set_new(object, "cupti_path", text_or_null(process->cupti_path));
	json_object_set_new(object, "nccl", text_or_null(process->nccl));
	add_tables(object, dictionary);
	return object;
}

static json_t *
phases_array(const struct cs_phase_rules *phase_rules, const struct cs_target *target)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < phase_rules->count; i++) {
		const struct cs_phase_rules_row *row = &phase_rules->rows[i];
		const char *name = cs_phase_rules_name(row);
		json_t *object;

		if (row->target != target)
			continue;
		object = json_pack("{s:s, s:s, s:o, s:o, s:o}", "phase", cs_phase_name(row->phase),
			"phase_rule", cs_phase_rule_name(row->rule), "phase_line",
			row->line ? number(row->line) : json_null(), "phase_name",
			name ? json_string(name) : json_null(), "steps", number(row->steps));
		json_array_append_new(rows, object);
	}
	return rows;
}

static json_t *
share_or_null(uint64_t part, uint64_t whole)
{
	return whole ? json_real((double)part / (double)whole) : json_null();
}

static json_t *
step_object(const struct cs_step_row *row)
{
	json_t *object = json_object();

	json_object_set_new(object, "phase", json_string(cs_phase_name(row->phase)));
	json_object_set_new(object, "count", number(row->count));
	json_object_set_new(object, "sum_ns", number(row->sum_ns));
	json_object_set_new(object, "p50_ns", number(row->p50_ns));
	json_object_set_new(object, "p99_ns", number(row->p99_ns));
	json_object_set_new(object, "collectives", share_or_null(row->collectives, row->count));
	json_object_set_new(object, "mean_collective_ns", number(row->collective_ns / row->count));
	json_object_set_new(object, "mean_exposed_ns",
		row->exposed_count ? number(row->exposed_ns / row->exposed_count) : json_null());
	json_object_set_new(object, "exposed_share", share_or_null(row->exposed_ns, row->exposed_sum_ns));
	return object;
}

static json_t *
collective_object(const struct cs_summary_row *row)
{
	json_t *object = json_object();

	json_object_set_new(object, "op", json_string(cs_op_name(row->op)));
	json_object_set_new(object, "impl", json_string(cs_impl_name(row->impl)));
	json_object_set_new(
		object, "bytes", row->bytes == CS_BYTES_UNKNOWN ? json_null() : number(row->bytes));
	json_object_set_new(
		object, "dtype", row->dtype ? json_string(cs_dtype_name(row->dtype)) : json_null());
	json_object_set_new(object, "phase", json_string(cs_phase_name(row->phase)));
	json_object_set_new(object, "algorithm",
		row->algorithm ? json_string(cs_algorithm_name(row->algorithm)) : json_null());
	json_object_set_new(object, "protocol",
		row->protocol ? json_string(cs_protocol_name(row->protocol)) : json_null());
	json_object_set_new(object, "count", number(row->count));
	json_object_set_new(object, "matched", number(row->matched));
	json_object_set_new(object, "sum_ns", number(row->sum_ns));
	json_object_set_new(object, "p50_ns", row->count ? number(row->p50_ns) : json_null());
	json_object_set_new(object, "p99_ns", row->count ? number(row->p99_ns) : json_null());
	json_object_set_new(
		object, "mean_wait_ns", row->matched ? number(row->wait_ns / row->matched) : json_null());
	json_object_set_new(object, "bus_bytes_per_s",
		row->transfer_ns && row->bus_bytes
			? json_real((double)row->bus_bytes * 1e9 / (double)row->transfer_ns)
			: json_null());
	json_object_set_new(object, "gpu_time_share", row->share < 0 ? json_null() : json_real(row->share));
	return object;
}

static json_t *
range_object(const struct cs_summary_range *range)
{
	json_t *impls = json_array();

	for (unsigned int impl = 0; impl < CS_IMPL_COUNT; impl++) {
		if (range->impls & (1U << impl))
			json_array_append_new(impls, json_string(cs_impl_name(impl)));
	}
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "op", cs_op_name(range->op), "dtype",
		range->dtype ? json_string(cs_dtype_name(range->dtype)) : json_null(), "impls", impls,
		"from_bytes", number(range->from_bytes), "to_bytes", number(range->to_bytes), "count",
		number(range->count));
}

static json_t *
span_object(const struct cs_summary *summary)
{
	const struct cs_summary_span *span = &summary->span;

	return json_pack("{s:o, s:o, s:o, s:o}", "since_ns",
		summary->since_ns ? number(summary->since_ns) : json_null(), "from_ns",
		span->from_ns ? number(span->from_ns) : json_null(), "to_ns",
		span->from_ns ? number(span->to_ns) : json_null(), "traced_ns",
		span->traced_ns ? number(span->traced_ns) : json_null());
}

static int
add_summary(json_t *root, const struct cs_summary *summary)
{
	struct cs_summary_range *ranges = NULL;
	json_t *steps = json_array();
	json_t *rows = json_array();
	json_t *switches = json_array();
	size_t count = 0;
	int result = cs_summary_switches(summary, &ranges, &count);

	for (size_t i = 0; i < summary->steps.count; i++)
		json_array_append_new(steps, step_object(&summary->steps.rows[i]));
	for (size_t i = 0; i < summary->count; i++)
		json_array_append_new(rows, collective_object(summary->rows[i]));
	for (size_t i = 0; i < count; i++)
		json_array_append_new(switches, range_object(&ranges[i]));
	free(ranges);
	json_object_set_new(root, "traced_ns", summary->traced_ns ? number(summary->traced_ns) : json_null());
	json_object_set_new(root, "span", span_object(summary));
	json_object_set_new(root, "steps", steps);
	json_object_set_new(root, "collectives", rows);
	json_object_set_new(root, "switches", switches);
	return result;
}

static json_t *
stall_object(const struct cs_stalled_rank *stalled)
{
	bool known = stalled->ordinal_known;
	bool ended = stalled->last_end_ns != 0;
	json_t *object = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "pid",
		(json_int_t)stalled->pid, "rank", index_or_null(stalled->rank), "gpu",
		index_or_null(stalled->gpu), "since_ns", number(stalled->since_ns), "for_ns",
		number(stalled->for_ns), "step", stalled->step ? number(stalled->step) : json_null(),
		"ordinal", known ? number(stalled->ordinal) : json_null(), "op",
		known ? json_string(cs_op_name(stalled->op)) : json_null(), "impl",
		known ? json_string(cs_impl_name(stalled->impl)) : json_null(), "bytes",
		stalled->bytes == CS_BYTES_UNKNOWN ? json_null() : number(stalled->bytes), "behind",
		stalled->behind);

	json_object_set_new(object, "graph", stalled->graph_id ? number(stalled->graph_id) : json_null());
	json_object_set_new(object, "node", stalled->node_id ? number(stalled->node_id) : json_null());
	json_object_set_new(object, "last_ordinal", ended ? number(stalled->last_ordinal) : json_null());
	json_object_set_new(
		object, "last_op", ended ? json_string(cs_op_name(stalled->last_op)) : json_null());
	json_object_set_new(
		object, "last_impl", ended ? json_string(cs_impl_name(stalled->last_impl)) : json_null());
	json_object_set_new(
		object, "last_node", stalled->last_node_id ? number(stalled->last_node_id) : json_null());
	json_object_set_new(object, "last_end_ns", ended ? number(stalled->last_end_ns) : json_null());
	json_object_set_new(object, "ended_rank", index_or_null(stalled->ended_rank));
	return object;
}

static json_t *
exporter_object(const struct cs_targets *targets)
{
	struct cs_exporter_serving serving;
	char words[512] = "";
	int result = cs_exporter_find_serving(targets->directory, &serving);

	if (result == -ENOENT && cs_status_why_no_exporter(targets, words, sizeof(words), NULL) < 0)
		words[0] = 0;
	return json_pack("{s:b, s:o, s:o, s:o}", "serving", result == 0, "address",
		text_or_null(serving.address), "pid",
		serving.pid > 0 ? json_integer(serving.pid) : json_null(), "why", text_or_null(words));
}

int
cs_status_print_json(const struct cs_targets *targets, const struct cs_phase_rules *phase_rules,
	const struct cs_summary *summary, const struct cs_stalls *stalls, FILE *stream)
{
	json_t *stalled = json_array();
	json_t *processes = json_array();
	json_t *root =
		json_pack("{s:i, s:s}", "version", STATUS_JSON_VERSION, "directory", targets->directory);
	int result = 0;

	for (size_t i = 0; i < targets->count; i++) {
		json_t *process = process_object(targets->items[i]);

		if (phase_rules)
			json_object_set_new(process, "phases", phases_array(phase_rules, targets->items[i]));
		json_array_append_new(processes, process);
	}
	json_object_set_new(root, "processes", processes);
	for (size_t i = 0; i < stalls->count; i++)
		json_array_append_new(stalled, stall_object(&stalls->ranks[i]));
	json_object_set_new(root, "stalls", stalled);
	json_object_set_new(root, "exporter", exporter_object(targets));
	if (summary)
		result = add_summary(root, summary);
	/* A failed allocation anywhere above made a NULL that jansson refused; only a missing root shows
	 * here. */
	if (!root)
		result = -ENOMEM;
	if (result == 0) {
		json_dumpf(root, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		fputc('\n', stream);
	}
	json_decref(root);
	return result;
}
