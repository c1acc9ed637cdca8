/* SPDX-License-Identifier: Apache-2.0 */
#include "families.h"

/* clang-format off */
#define LABELS(...) \
	{__VA_ARGS__, NULL}, (unsigned int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))
#define NO_LABELS {NULL}, 0

static const struct cs_family families[CS_FAMILY_COUNT] = {
	[CS_FAMILY_COLLECTIVE_DURATION] = {"collscope_collective_duration_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Time of one collective on one rank: start to end of its kernel on the GPU.",
		LABELS("gpu", "rank", "op", "impl", "phase", "size")},
	[CS_FAMILY_COLLECTIVE_BYTES] = {"collscope_collective_bytes", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"bytes", "Message bytes of collectives on one rank, as nccl-tests counts them; those of unknown size add nothing.",
		LABELS("gpu", "rank", "op", "impl", "phase", "size")},
	[CS_FAMILY_COLLECTIVE_OVERLAP] = {"collscope_collective_overlap_seconds", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"seconds", "Time of collectives while another stream of the GPU ran the class of work in `with`; none: nothing else ran.",
		LABELS("gpu", "rank", "op", "impl", "phase", "with")},
	[CS_FAMILY_COLLECTIVE_CONTENDED] = {"collscope_collective_contended_duration_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Time of one collective by what ran beside it at any moment: another collective, else a copy, else compute, else none.",
		LABELS("op", "impl", "size", "with")},
	[CS_FAMILY_COLLECTIVE_WAIT] = {"collscope_collective_wait_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Part of one collective's time on one rank that went into waiting for the last rank to arrive.",
		LABELS("gpu", "rank", "op", "impl", "phase")},
	[CS_FAMILY_COLLECTIVE_TRANSFER] = {"collscope_collective_transfer_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Time of one collective once all ranks had arrived: the least duration over the ranks, once per collective.",
		LABELS("op", "impl", "phase", "size")},
	[CS_FAMILY_COLLECTIVE_LAST_ARRIVALS] = {"collscope_collective_last_arrivals", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Collectives at which this rank was the last to arrive.",
		LABELS("gpu", "rank", "phase")},
	[CS_FAMILY_COLLECTIVES_UNLABELLED] = {"collscope_collectives_unlabelled", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Collectives whose message size nobody could tell.",
		LABELS("gpu", "rank", "impl")},
	[CS_FAMILY_COLLECTIVES_UNMATCHED] = {"collscope_collectives_unmatched", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Collectives of several ranks for which no other rank was found: their wait and transfer are not known.",
		LABELS("gpu", "rank", "impl")},
	[CS_FAMILY_STEP_DURATION] = {"collscope_step_duration_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Time of one step (forward pass) on one rank, from its first to its last GPU work.",
		LABELS("gpu", "rank", "phase")},
	[CS_FAMILY_STEP_COLLECTIVE] = {"collscope_step_collective_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Time of one step during which a collective ran.",
		LABELS("gpu", "rank", "phase")},
	[CS_FAMILY_STEP_EXPOSED] = {"collscope_step_exposed_collective_seconds", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"seconds", "Time of one step during which a collective ran and nothing else on the GPU: the price of communication.",
		LABELS("gpu", "rank", "phase")},
	[CS_FAMILY_STEP_COLLECTIVES] = {"collscope_step_collectives", CS_TYPE_HISTOGRAM, CS_COMBINE_SUM,
		"", "Collectives in one step on one rank.",
		LABELS("phase")},
	[CS_FAMILY_TRACE_SECONDS] = {"collscope_trace_seconds", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"seconds", "Time a process spent at each tracing depth: off, light (a record per graph launch), deep (a record per kernel).",
		LABELS("gpu", "rank", "depth")},
	[CS_FAMILY_RECORDS] = {"collscope_records", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Records that the injected library wrote, by kind.",
		LABELS("gpu", "rank", "kind")},
	[CS_FAMILY_RECORDS_LOST] = {"collscope_records_lost", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Records that were not kept, by cause.",
		LABELS("gpu", "rank", "cause")},
	[CS_FAMILY_LABEL_FAILURES] = {"collscope_label_failures", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Collective kernels that the injected library could not label fully, by reason.",
		LABELS("gpu", "rank", "reason")},
	[CS_FAMILY_INJECTOR_CPU] = {"collscope_injector_cpu_seconds", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"seconds", "CPU time of the injected library: its own thread and its callbacks as far as measured.",
		LABELS("gpu", "rank")},
	[CS_FAMILY_STEP_PERTURBATION] = {"collscope_step_perturbation_ratio", CS_TYPE_GAUGE, CS_COMBINE_MAX,
		"ratio", "How much longer steps take while every kernel is traced than while nothing is; 0.05 is 5 % longer.",
		LABELS("gpu", "rank")},
	[CS_FAMILY_STALLED] = {"collscope_stalled_collective_seconds", CS_TYPE_GAUGE, CS_COMBINE_MAX,
		"seconds", "How long a rank with work under way has ended none of it, by the collective it stands at; no sample: none is known to.",
		LABELS("gpu", "rank", "op", "impl")},
	[CS_FAMILY_CLOCK_UNCERTAINTY] = {"collscope_clock_uncertainty_seconds", CS_TYPE_GAUGE, CS_COMBINE_MAX,
		"seconds", "How far the GPU's clock, put against its group's, may be off: spread of the ends of common collectives.",
		LABELS("gpu")},
	[CS_FAMILY_INJECTOR_MEMORY] = {"collscope_injector_memory_bytes", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"bytes", "Host memory of the injected library, its segment included.",
		LABELS("gpu", "rank")},
	[CS_FAMILY_INJECTOR_DEVICE_MEMORY] = {"collscope_injector_device_memory_bytes", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"bytes", "GPU memory that tracing takes in the process.",
		LABELS("gpu", "rank")},
	[CS_FAMILY_INJECTOR_HEARTBEAT] = {"collscope_injector_heartbeat_timestamp_seconds", CS_TYPE_GAUGE, CS_COMBINE_MAX,
		"seconds", "When the injected library's thread last gave a sign of life, in Unix time.",
		LABELS("gpu", "rank")},
	[CS_FAMILY_INJECTOR_STATE] = {"collscope_injector_state", CS_TYPE_STATESET, CS_COMBINE_MAX,
		"", "1 for the state that the injected library is in, 0 for every other state.",
		LABELS("gpu", "rank", "collscope_injector_state")},
	[CS_FAMILY_BUILD_INFO] = {"collscope_build", CS_TYPE_INFO, CS_COMBINE_MAX,
		"", "What this exporter is.",
		LABELS("version", "segment_format", "compiler")},
	[CS_FAMILY_PROCESS_INFO] = {"collscope_process", CS_TYPE_INFO, CS_COMBINE_MAX,
		"", "A traced process: who it is and which versions it runs.",
		LABELS("gpu", "rank", "world", "pid", "command", "pod", "mode", "injector_version", "cuda_driver", "driver",
			"cupti", "nccl")},
	[CS_FAMILY_GPU_INFO] = {"collscope_gpu", CS_TYPE_INFO, CS_COMBINE_MAX,
		"", "A GPU that a traced process uses.",
		LABELS("gpu", "uuid", "pci_bus_id", "name", "compute_capability")},
	[CS_FAMILY_COMMUNICATOR_INFO] = {"collscope_communicator", CS_TYPE_INFO, CS_COMBINE_MAX,
		"", "A communicator that a traced process takes part in; rank and world are those in the communicator.",
		LABELS("gpu", "rank", "comm", "name", "impl", "world", "nodes")},
	[CS_FAMILY_CONFIG_INFO] = {"collscope_config", CS_TYPE_INFO, CS_COMBINE_MAX,
		"", "A variable of the traced process's environment that bears on collectives (an allow-list).",
		LABELS("gpu", "rank", "name", "value")},
	[CS_FAMILY_EXPORTER_PROCESSES] = {"collscope_exporter_processes", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"", "Traced processes that the exporter holds: live ones, and dead ones whose series are still served.",
		LABELS("state")},
	[CS_FAMILY_EXPORTER_REJECTED] = {"collscope_exporter_segments_rejected", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"", "Segment files in the run directory that cannot be used now, by reason.",
		LABELS("reason")},
	[CS_FAMILY_EXPORTER_RECORDS] = {"collscope_exporter_records_read", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Records that the exporter has read from segments.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_LATE] = {"collscope_exporter_records_late", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Records that came too late or in too great a number to be set against all others; their overlap is not known.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_INCOMPLETE] = {"collscope_exporter_steps_incomplete", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Steps that a window's edge or lost records may have cut: in no step family.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_BUSY] = {"collscope_exporter_ingest_seconds", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"seconds", "Time the exporter spent reading and analysing records.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_COLLECTION] = {"collscope_exporter_collection_duration_seconds", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"seconds", "Time the values of this scrape took to be copied, waiting for the ingest thread included.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_EXPOSITION] = {"collscope_exporter_exposition_duration_seconds", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"seconds", "Time the previous scrape took to be written and compressed.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_SERIES] = {"collscope_exporter_series", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"", "Time series of traced processes that are served; a histogram is as many as it has lines.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_FOLDED] = {"collscope_exporter_folded", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Observations that went to a family's series with the value other in every label because of --collscope.max-series.",
		NO_LABELS},
	[CS_FAMILY_EXPORTER_DROPPED] = {"collscope_exporter_observations_dropped", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"", "Observations that were dropped because memory ran out.",
		NO_LABELS},
	[CS_FAMILY_PROCESS_CPU] = {"process_cpu_seconds", CS_TYPE_COUNTER, CS_COMBINE_SUM,
		"seconds", "Total user and system CPU time spent in seconds.", NO_LABELS},
	[CS_FAMILY_PROCESS_RESIDENT] = {"process_resident_memory_bytes", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"bytes", "Resident memory size in bytes.", NO_LABELS},
	[CS_FAMILY_PROCESS_VIRTUAL] = {"process_virtual_memory_bytes", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"bytes", "Virtual memory size in bytes.", NO_LABELS},
	[CS_FAMILY_PROCESS_OPEN_FDS] = {"process_open_fds", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"", "Number of open file descriptors.", NO_LABELS},
	[CS_FAMILY_PROCESS_MAX_FDS] = {"process_max_fds", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"", "Maximum number of open file descriptors.", NO_LABELS},
	[CS_FAMILY_PROCESS_START] = {"process_start_time_seconds", CS_TYPE_GAUGE, CS_COMBINE_SUM,
		"seconds", "Start time of the process since unix epoch in seconds.", NO_LABELS},
};
/* clang-format on */

const struct cs_family *
cs_family_borrow(enum cs_family_id id)
{
	return &families[id];
}

const char *
cs_family_suffix(const struct cs_family *family)
{
	switch (family->type) {
	case CS_TYPE_COUNTER:
		return "_total";
	case CS_TYPE_INFO:
		return "_info";
	case CS_TYPE_GAUGE:
	case CS_TYPE_HISTOGRAM:
	case CS_TYPE_STATESET:
		return "";
	}
	return "";
}
