/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every COLLSCOPE_* variable, once. The file that includes this defines the five macros below and undefines
 * them afterwards; src/environment.c makes the parser, the ranges and the help out of it.
 *
 *   CS_CHOICE(name, field, values, fallback, help)            value stored = position in `values`
 *   CS_RATIO(name, field, low, high, fallback, help)
 *   CS_INTEGER(name, field, low, high, note, power, fallback, help)   power: only powers of two
 *   CS_BOOLEAN(name, field, fallback, help)
 *   CS_TEXT(name, field, values, fallback, help)
 *
 * Order is that of the documentation.
 */
CS_CHOICE("COLLSCOPE_MODE", mode, "off|demand|sample|full", "sample",
	"When to trace: never, when asked, in planned windows, or always.")
CS_RATIO("COLLSCOPE_BUDGET", budget, 0.0001, 1, "0.01",
	"Share of step time that tracing may cost in sample mode, in any minute.")
CS_TEXT("COLLSCOPE_DIR", directory, "absolute path", "",
	"Run directory for segments; unset: /run/collscope, else /dev/shm/collscope-<uid>.")
CS_CHOICE("COLLSCOPE_EXPORTER", exporter, "off|auto", "auto",
	"Whether the first traced process of a node starts collscope-exporter.")
CS_TEXT("COLLSCOPE_EXPORTER_PATH", exporter_path, "path", "",
	"Exporter to start; unset: collscope-exporter beside the library, or in ../bin, ../../bin or "
	"../exporter from there.")
CS_TEXT("COLLSCOPE_LISTEN", listen, "address:port", "127.0.0.1:19400",
	"Where a self-started exporter listens.")
CS_CHOICE("COLLSCOPE_LOG", log_level, "error|warn|info|debug", "warn",
	"How much the library says on standard error.")
CS_INTEGER("COLLSCOPE_RING_MIB", ring_mib, 1, 16, ", power of two", true, "8",
	"Size of a segment's record ring, MiB.")
CS_INTEGER("COLLSCOPE_PERIOD_MS", period_ms, 100, 600000, "", false, "10000",
	"Least time from one sample window to the next, ms; up to 64 times that when it costs too much.")
CS_INTEGER("COLLSCOPE_WINDOW_MS", window_ms, 1, 60000, "", false, "100",
	"Least length of a sample window, ms; up to 64 times that, at most 10 s, where steps are long.")
CS_INTEGER("COLLSCOPE_DEVICE_GROWTH_MIB", device_growth_mib, 0, 65536, "", false, "256",
	"GPU memory that may grow in sample windows, and only in them, before tracing stops, MiB; 0: not "
	"watched.")
CS_INTEGER("COLLSCOPE_STEP_BACK_S", step_back_s, 1, 86400, "", false, "60",
	"How long to leave CUPTI to another tool that has taken it over, s; longer when it comes again.")
CS_INTEGER("COLLSCOPE_TRACE_MAX_S", trace_max_s, 0, 86400, "", false, "600",
	"Longest trace that collscope trace may ask for, s; 0: none.")
CS_INTEGER(
	"COLLSCOPE_FLUSH_MS", flush_ms, 10, 1000, "", false, "100", "How often CUPTI hands over records, ms.")
CS_INTEGER("COLLSCOPE_BUFFERS", buffers, 4, 32, "", false, "16",
	"Activity buffers of 512 KiB that CUPTI may fill.")
CS_INTEGER("COLLSCOPE_DEVICE_MIB", device_mib, 2, 256, "", false, "12",
	"GPU memory that CUPTI may use per context, MiB.")
CS_TEXT("COLLSCOPE_CATALOG", catalog, "path", "",
	"File with further kernel rules, read before the built-in ones.")
CS_BOOLEAN("COLLSCOPE_NCCL", nccl, "1", "Whether to be NCCL's profiler plugin.")
CS_BOOLEAN("COLLSCOPE_NCCL_CHAIN", nccl_chain, "0",
	"Whether to take the place of a profiler plugin that is already set, and call it for every event.")
CS_TEXT("COLLSCOPE_NCCL_PLUGIN", nccl_plugin, "path", "",
	"Profiler plugin to call after collscope; COLLSCOPE_NCCL_CHAIN sets it to the one it replaces.")
CS_BOOLEAN("COLLSCOPE_NVTX", nvtx, "1",
	"Whether to read NCCL's NVTX ranges, and those of COLLSCOPE_NVTX_RANGES.")
CS_TEXT("COLLSCOPE_NVTX_RANGES", nvtx_ranges, "comma-separated patterns", "",
	"Names of NVTX ranges to keep as marks; * ? and [] match as in a shell.")
CS_TEXT("COLLSCOPE_NVTX_TOOL", nvtx_tool, "path", "",
	"NVTX tool to call after collscope; set from NVTX_INJECTION64_PATH when that names another tool.")
CS_TEXT("COLLSCOPE_CUPTI_PATH", cupti_path, "path", "",
	"libcupti to load; unset: the one of the process, then of the toolkit.")
CS_CHOICE("COLLSCOPE_CUPTI_V2", cupti_v2, "off|auto", "off",
	"Whether to share CUPTI with tools that can do so, where it is 13.3 and the driver r610 or later; "
	"torch.profiler then sees no GPU.")
CS_TEXT("COLLSCOPE_STEPS", steps, "path", "",
	"File with rules that name steps and phases; for exporter and command.")
CS_INTEGER("COLLSCOPE_STALL_S", stall_s, 1, 86400, "", false, "10",
	"How long a rank stands still before it is said, s; for exporter and command.")
