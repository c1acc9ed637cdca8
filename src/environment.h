/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The COLLSCOPE_* variables: one table (environment_table.h, an X-macro list) drives parsing, range checks,
 * warnings on unknown names, `collscope run --help`, the man page (scripts/generate-docs) and README. A test
 * compares them all.
 *
 * Parsed once at start-up, before the injector has a thread: getenv races with the host's setenv later.
 * No allocation; safe in the host at start-up.
 */
#ifndef CS_ENVIRONMENT_H
#define CS_ENVIRONMENT_H

#include "segment/segment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_PATH_BYTES 512

struct cs_settings {
	enum cs_mode mode;             /* COLLSCOPE_MODE: off, demand, sample, full; default sample */
	double budget;                 /* COLLSCOPE_BUDGET: share of step time, 0.0001 ... 1; default 0.01 */
	char directory[CS_PATH_BYTES]; /* COLLSCOPE_DIR; "" = default */
	bool directory_too_long;       /* COLLSCOPE_DIR is longer than `directory`, which is "" then */
	bool exporter;                 /* COLLSCOPE_EXPORTER: auto (true) or off; default auto */
	char exporter_path[CS_PATH_BYTES]; /* COLLSCOPE_EXPORTER_PATH; "" = look around the library */
	char listen[128];     /* COLLSCOPE_LISTEN: for a self-started exporter; default 127.0.0.1:19400 */
	int log_level;        /* COLLSCOPE_LOG: error, warn, info, debug; default warn (enum cs_log_level) */
	uint32_t ring_mib;    /* COLLSCOPE_RING_MIB: 1 ... 16, power of two; default 8 */
	uint32_t period_ms;   /* COLLSCOPE_PERIOD_MS: of sample windows, 100 ... 600000; default 10000 */
	uint32_t window_ms;   /* COLLSCOPE_WINDOW_MS: deep part, 1 ... 60000; default 100 */
	uint32_t flush_ms;    /* COLLSCOPE_FLUSH_MS: 10 ... 1000; default 100 */
	uint32_t trace_max_s; /* COLLSCOPE_TRACE_MAX_S: 0 ... 86400, 0 = none; default 600 */
	uint32_t device_growth_mib; /* COLLSCOPE_DEVICE_GROWTH_MIB: 0 (off) ... 65536; default 256 */
	uint32_t step_back_s;       /* COLLSCOPE_STEP_BACK_S: 1 ... 86400; default 60 */
	uint32_t buffers;           /* COLLSCOPE_BUFFERS: activity buffers of 512 KiB, 4 ... 32; default 16 */
	uint32_t device_mib; /* COLLSCOPE_DEVICE_MIB: CUPTI's device buffers per context, 2 ... 256; default
				12 */
	char catalog[CS_PATH_BYTES]; /* COLLSCOPE_CATALOG: file with further kernel rules; "" = none */
	bool nccl_chain;             /* COLLSCOPE_NCCL_CHAIN: 0, 1; default 0 */
	bool nccl;                   /* COLLSCOPE_NCCL: plugin on or off; default 1 */
	bool nvtx;                   /* COLLSCOPE_NVTX: NVTX injection on or off; default 1 */
	char nvtx_ranges[256]; /* COLLSCOPE_NVTX_RANGES: comma-separated fnmatch patterns of range names kept
				  as marks; "" = none */
	bool cupti_v2;         /* COLLSCOPE_CUPTI_V2: auto (true) or off; default off */
	char cupti_path[CS_PATH_BYTES];  /* COLLSCOPE_CUPTI_PATH: libcupti to load; "" = search */
	char steps[CS_PATH_BYTES];       /* COLLSCOPE_STEPS: rule file (exporter, CLI); "" = none */
	uint32_t stall_s;                /* COLLSCOPE_STALL_S: 1 ... 86400 (exporter, CLI); default 10 */
	char nccl_plugin[CS_PATH_BYTES]; /* COLLSCOPE_NCCL_PLUGIN: profiler plugin to forward to; "" = none */
	char nvtx_tool[CS_PATH_BYTES];   /* COLLSCOPE_NVTX_TOOL: NVTX tool to forward to; "" = none */
};

enum cs_variable_type {
	CS_VARIABLE_CHOICE,
	CS_VARIABLE_RATIO,
	CS_VARIABLE_INTEGER,
	CS_VARIABLE_BOOLEAN,
	CS_VARIABLE_TEXT
};

struct cs_variable {
	const char *name; /* "COLLSCOPE_MODE" */
	enum cs_variable_type type;
	const char *values;   /* for people: "off|demand|sample|full", "0.0001 to 1" */
	const char *fallback; /* default, as text; "" = unset */
	const char *help;     /* one sentence */
};

/* The table, in the order of documentation. */
const struct cs_variable *cs_variables(size_t *count);

/*
 * Fills `settings` with defaults, then from envp (environ, or a test's). A bad value keeps the default; each
 * bad value and each unknown COLLSCOPE_* name gives one call of complain(sentence, context) (may be NULL).
 * Returns how many complaints.
 */
unsigned int cs_settings_load(struct cs_settings *settings, char *const *envp,
	void (*complain)(const char *sentence, void *context), void *context);

/*
 * For programs that read single variables: what cs_settings_load complains of in the variables `names` (a
 * NULL-terminated list; NULL: all), and unknown COLLSCOPE_* names. Settings for the library alone are the
 * library's to complain of. `settings` is filled as by cs_settings_load.
 */
unsigned int cs_settings_load_some(struct cs_settings *settings, char *const *envp, const char *const *names,
	void (*complain)(const char *sentence, void *context), void *context);

/*
 * cs_rundir_prepare (segment/rundir.h) with the settings' directory. -ENAMETOOLONG also when COLLSCOPE_DIR is
 * longer than settings take: who named a directory does not want another one.
 */
int cs_settings_prepare_directory(const struct cs_settings *settings, char *path, size_t path_bytes);

/* Closest known name to a mistyped one by edit distance <= 3, or NULL; for variables, subcommands, flags. */
const char *cs_suggest(const char *word, const char *const *known, size_t known_count);

#endif
