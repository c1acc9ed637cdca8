/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel catalogue: which kernel names are collectives (or step markers), who implements them, and where
 * in the launch parameters the size, rank and world are. Data, not code: src/catalog/catalog.tbl is compiled
 * in as text and goes through the same parser as a user's COLLSCOPE_CATALOG file (docs/catalog.md has the
 * grammar).
 *
 * First row that matches wins; a user's rows come before the built-in ones.
 *
 * Thread context: load at start-up; classify and decode from any thread (they only read). decode is
 * host-safe: no allocation, no system call; it reads host memory through kernel_params only.
 */
#ifndef CS_CATALOG_H
#define CS_CATALOG_H

#include "collective.h"
#include "segment/segment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_catalog;      /* opaque, immutable after load */
struct cs_catalog_rule; /* opaque row */

/* Built-in rows, preceded by those of `user_file` ("" or NULL: none). On a bad user file: -EINVAL (or -errno
 * of open) with "FILE:LINE: reason" in `complaint`, and *catalog holds the built-in rows all the same.
 * -ENOMEM: *catalog NULL. */
int cs_catalog_load(
	const char *user_file, struct cs_catalog **catalog, char *complaint, size_t complaint_bytes);
void cs_catalog_destroy(struct cs_catalog *catalog);

#define CS_CATALOG_ARGUMENTS 6U

enum cs_catalog_kind { CS_CATALOG_NONE = 0, CS_CATALOG_COLLECTIVE = 1, CS_CATALOG_MARKER = 2 };

/* What a kernel name alone tells. */
struct cs_catalog_match {
	enum cs_catalog_kind kind;
	const struct cs_catalog_rule *rule; /* borrowed from the catalogue; NULL for NONE */
	uint32_t rule_id;                   /* row + 1, 0 for none */
	uint8_t op, impl, dtype, reduction, algorithm, protocol; /* enums of collective.h */
	uint8_t label_flags; /* CS_LABEL_FUSED, CS_LABEL_PART, CS_LABEL_BOUND */
	uint8_t phase;       /* MARKER: the phase that the marker ends (enum cs_phase), or unknown */
	int32_t world;       /* template argument, else CS_RANK_UNKNOWN */
	bool has_size_rule;
	uint8_t phase_next;    /* MARKER: the phase that begins after it, or unknown */
	uint8_t element_bytes; /* of one element, 0 unknown; known also where the name leaves open which of
				  two types of this width it is */
	int32_t arguments[CS_CATALOG_ARGUMENTS]; /* template arguments that the row names, for its size rule
						  */
	uint8_t arguments_known;                 /* one bit each */
};

/* mangled or demangled name, NUL-terminated; never fails (kind NONE). A suspicious name without a row of its
 * own
 * ("...allreduce...") matches the last rows: impl unknown, op by word. Cost: not for hot paths; cache per
 * function. */
void cs_catalog_classify(
	const struct cs_catalog *catalog, const char *kernel_name, struct cs_catalog_match *match);

/* The same as a sentence for people: which row matched and by what, which template arguments were found; for
 * a name that a row of kind ignore turned away, that row. Returns the length as snprintf does. */
int cs_catalog_explain(
	const struct cs_catalog *catalog, const char *kernel_name, char *text, size_t text_bytes);

/* One launch, as the driver callback sees it. */
struct cs_launch {
	void **kernel_params;     /* array of pointers, one per parameter; NULL when `extra` is used */
	const void *extra_buffer; /* CU_LAUNCH_PARAM_BUFFER_POINTER's buffer, or NULL */
	size_t extra_bytes;
	/* Layout from cuFuncGetParamInfo; param_count 0 = unknown (CUDA < 12.4): then only rules that need no
	 * fingerprint. */
	uint32_t param_count;
	const uint32_t *param_offsets; /* bytes in the parameter buffer */
	const uint32_t *param_bytes;
	uint32_t grid[3];
	uint32_t block[3];
	int nccl_version; /* 22809 = 2.28.9; 0 unknown */
};

/*
 * Reads size, rank and world by the rule and checks them (docs/catalog.md, "sanity checks"): alignment, 0 <
 * bytes <= 1 GiB, rank < world, world equal to the template argument, parameter sizes as expected. Fills
 * label->{op, impl, dtype, ..., bytes, count, rank, world, flags, rule_id, source}; leaves name_id and
 * comm_id. 0: size known. -ENODATA: the rule has no size (label filled from the name). -EINVAL: a check
 * failed (bytes unknown).
 */
int cs_catalog_decode(
	const struct cs_catalog_match *match, const struct cs_launch *launch, struct cs_label *label);

/* Rows for listing, in matching order. */
size_t cs_catalog_rule_count(const struct cs_catalog *catalog);
struct cs_catalog_rule_text {
	const char *id;      /* short stable name of the row: "vllm-cross-device-reduce" */
	const char *pattern; /* as written */
	const char *size;    /* size rule as written; "" none */
	const char *origin;  /* "built-in" or the file's path */
	unsigned int line;
	struct cs_catalog_match match; /* what the row says before a name fills in the rest */
};
int cs_catalog_rule_describe(
	const struct cs_catalog *catalog, size_t index, struct cs_catalog_rule_text *text);

#endif
