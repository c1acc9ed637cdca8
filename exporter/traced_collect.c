/* SPDX-License-Identifier: Apache-2.0 */
/* What the scrape says about one process: gauges of its status words, and who it is. */
#include "traced.h"

#include "clock.h"
#include "collective.h"
#include "public_environment.h"

#include <ctype.h>
#include <string.h>

static const char *
number(struct cs_snapshot *snapshot, int64_t value)
{
	return value < 0 ? "unknown" : cs_arena_format(&snapshot->arena, "%lld", (long long)value);
}

static const char *
text(struct cs_snapshot *snapshot, const char *value)
{
	return cs_arena_text(&snapshot->arena, value);
}

/* A sample whose first two labels are those of the process; NULL without memory. */
static struct cs_sample *
add_sample(struct cs_snapshot *snapshot, const struct cs_traced *traced, enum cs_family_id family,
	struct cs_value value)
{
	struct cs_sample *sample = cs_snapshot_add(snapshot, family);

	if (!sample)
		return NULL;
	sample->labels[0] = number(snapshot, traced->gpu);
	sample->labels[1] = number(snapshot, traced->rank);
	sample->value = value;
	return sample;
}

static uint64_t
load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void
collect_state(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	enum cs_state now = cs_traced_state(traced);

	for (unsigned int state = 0; state < CS_STATE_COUNT; state++) {
		struct cs_sample *sample = add_sample(
			snapshot, traced, CS_FAMILY_INJECTOR_STATE, cs_value_integer(state == now));

		if (sample)
			sample->labels[2] = cs_state_name(state);
	}
}

static void
add_perturbation(
	const struct cs_traced *traced, struct cs_snapshot *snapshot, uint8_t phase, int64_t over_one_ppm)
{
	struct cs_sample *sample = add_sample(
		snapshot, traced, CS_FAMILY_STEP_PERTURBATION, cs_value_real((double)over_one_ppm / 1e6));

	if (sample)
		sample->labels[2] = cs_phase_name(phase);
}

/* What the process has measured itself, where it has: by graph; of a phase with several the worst is served
 * (CS_COMBINE_MAX). A library of before segment format 1.2 says one number for all. */
static void
collect_perturbation(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	uint64_t ratio_ppm = load(&traced->status.step_ratio_ppm);
	bool by_graph = false;

	for (unsigned int i = 0; i < CS_STEP_RATIOS; i++) {
		uint64_t word = load(&traced->status.step_ratios[i]);

		if (word == 0)
			continue;
		by_graph = true;
		add_perturbation(traced, snapshot,
			cs_graph_phases_get(&traced->phases, (uint32_t)(word >> 32)),
			(int64_t)(word & 0xffff) * 100 - 1000000);
	}
	if (!by_graph && ratio_ppm != 0)
		add_perturbation(traced, snapshot, CS_PHASE_UNKNOWN, (int64_t)ratio_ppm - 1000000);
}

static void
collect_clocks(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	for (uint32_t gpu = 0; traced->reader && gpu < traced->dictionary->gpu_count; gpu++) {
		struct cs_clock_estimate estimate;
		struct cs_sample *sample;

		if (cs_analysis_read_clock(traced->analysis, traced->source, gpu, &estimate) < 0)
			continue;
		sample = cs_snapshot_add(snapshot, CS_FAMILY_CLOCK_UNCERTAINTY);
		if (!sample)
			return;
		sample->labels[0] = number(snapshot, cs_feed_gpu(traced->dictionary, gpu));
		sample->value = cs_value_ns(estimate.uncertainty_ns);
	}
}

static void
collect_process(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	const struct cs_process_info *process = &traced->dictionary->process;
	uint64_t mode = load(&traced->status.mode);
	struct cs_sample *sample = add_sample(snapshot, traced, CS_FAMILY_PROCESS_INFO, cs_value_integer(1));
	const char **labels;

	if (!sample)
		return;
	labels = sample->labels + 2;
	*labels++ = number(snapshot, process->world);
	*labels++ = number(snapshot, process->pid);
	*labels++ = text(snapshot, process->comm);
	*labels++ = text(snapshot, process->pod);
	*labels++ = cs_mode_name(mode < CS_MODE_COUNT ? (unsigned int)mode : CS_MODE_COUNT);
	*labels++ = text(snapshot, process->injector_version);
	*labels++ = text(snapshot, process->cuda_driver);
	*labels++ = text(snapshot, process->driver);
	*labels++ = text(snapshot, process->cupti);
	*labels++ = text(snapshot, process->nccl);
}

static const char *
uuid_text(struct cs_snapshot *snapshot, const uint8_t uuid[16])
{
	static const uint8_t none[16];

	if (memcmp(uuid, none, sizeof(none)) == 0)
		return "";
	return cs_arena_format(&snapshot->arena,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", uuid[0], uuid[1],
		uuid[2], uuid[3], uuid[4], uuid[5], uuid[6], uuid[7], uuid[8], uuid[9], uuid[10], uuid[11],
		uuid[12], uuid[13], uuid[14], uuid[15]);
}

static void
collect_gpus(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	for (uint32_t i = 0; i < traced->dictionary->gpu_count; i++) {
		const struct cs_gpu *gpu = &traced->dictionary->gpus[i];
		struct cs_sample *sample = cs_snapshot_add(snapshot, CS_FAMILY_GPU_INFO);

		if (!sample)
			return;
		sample->value = cs_value_integer(1);
		sample->labels[0] = number(snapshot, cs_feed_gpu(traced->dictionary, i));
		sample->labels[1] = uuid_text(snapshot, gpu->uuid);
		sample->labels[2] = cs_arena_format(
			&snapshot->arena, "%08X:%02X:%02X.0", gpu->pci_domain, gpu->pci_bus, gpu->pci_device);
		sample->labels[3] = text(snapshot, gpu->name);
		sample->labels[4] = cs_arena_format(&snapshot->arena, "%u.%u", gpu->compute_capability / 10,
			gpu->compute_capability % 10);
	}
}

static void
collect_links(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	for (uint32_t i = 0; i < traced->dictionary->gpu_count; i++) {
		const struct cs_gpu *gpu = &traced->dictionary->gpus[i];

		for (unsigned int peer = 0; peer < sizeof(gpu->link); peer++) {
			struct cs_sample *sample;

			if (gpu->link[peer] == CS_LINK_UNKNOWN || gpu->link[peer] == CS_LINK_SELF)
				continue;
			sample = cs_snapshot_add(snapshot, CS_FAMILY_GPU_LINK_INFO);
			if (!sample)
				return;
			sample->value = cs_value_integer(1);
			sample->labels[0] = number(snapshot, cs_feed_gpu(traced->dictionary, i));
			sample->labels[1] = number(snapshot, peer);
			sample->labels[2] = cs_link_name(gpu->link[peer]);
			sample->labels[3] = number(snapshot, gpu->link_nvlinks[peer]);
		}
	}
}

static void
collect_communicators(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	for (uint32_t i = 0; i < traced->dictionary->communicator_count; i++) {
		const struct cs_communicator *communicator = &traced->dictionary->communicators[i];
		struct cs_sample *sample =
			add_sample(snapshot, traced, CS_FAMILY_COMMUNICATOR_INFO, cs_value_integer(1));

		if (!sample)
			return;
		sample->labels[1] = number(snapshot, communicator->rank);
		sample->labels[2] =
			cs_arena_format(&snapshot->arena, "%016llx", (unsigned long long)communicator->hash);
		sample->labels[3] = text(snapshot, communicator->name);
		sample->labels[4] = cs_impl_name(communicator->impl);
		sample->labels[5] = number(snapshot, communicator->world);
		sample->labels[6] = number(snapshot, communicator->nodes);
	}
}

static void
collect_environment(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	for (uint32_t i = 0; i < traced->dictionary->environment_count; i++) {
		const struct cs_environment *variable = &traced->dictionary->environment[i];
		struct cs_sample *sample;

		/* The writer has asked too; a segment may say anything. */
		if (!cs_public_environment_allowed(variable->name, variable->value))
			continue;
		sample = add_sample(snapshot, traced, CS_FAMILY_CONFIG_INFO, cs_value_integer(1));
		if (!sample)
			return;
		sample->labels[2] = text(snapshot, variable->name);
		sample->labels[3] = text(snapshot, variable->value);
	}
}

void
cs_traced_collect(const struct cs_traced *traced, struct cs_snapshot *snapshot)
{
	const struct cs_status *status = &traced->status;

	collect_state(traced, snapshot);
	if (traced->stage == CS_TRACED_LIVE)
		add_sample(snapshot, traced, CS_FAMILY_INJECTOR_SUBSCRIBED,
			cs_value_integer(load(&status->subscribed) != 0));
	add_sample(snapshot, traced, CS_FAMILY_INJECTOR_HEARTBEAT, cs_value_ns(load(&status->heartbeat_ns)));
	/* Memory is gone with the process. */
	if (traced->stage == CS_TRACED_LIVE) {
		add_sample(snapshot, traced, CS_FAMILY_INJECTOR_MEMORY,
			cs_value_integer(load(&status->host_memory_bytes)));
		add_sample(snapshot, traced, CS_FAMILY_INJECTOR_DEVICE_MEMORY,
			cs_value_integer(load(&status->device_memory_bytes)));
	}
	if (!traced->dictionary) /* there was no memory to keep it */
		return;
	collect_perturbation(traced, snapshot);
	collect_clocks(traced, snapshot);
	collect_process(traced, snapshot);
	collect_gpus(traced, snapshot);
	collect_links(traced, snapshot);
	collect_communicators(traced, snapshot);
	collect_environment(traced, snapshot);
}
