/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's private copy of what a segment or a capture says apart from records: who wrote it, its GPUs,
 * communicators, names, labels, environment. Records refer to it by id. Every text in it is valid UTF-8
 * without control characters (bad bytes become '?'), every id has been checked against its count, so users
 * need not check again.
 *
 * Ids are stable: entries are only appended while a dictionary lives.
 * Thread context: one thread at a time.
 */
#ifndef CS_DICTIONARY_H
#define CS_DICTIONARY_H

#include "segment.h"

#include <stdbool.h>

struct cs_process_info {
	uint32_t pid;
	uint32_t uid;
	uint32_t parent_pid; /* 0 not known */
	uint64_t start_time_ticks;
	uint64_t pid_namespace_inode;
	uint8_t boot_id[16];
	uint64_t created_ns;
	char injector_version[32];
	char comm[32];
	char command_line[256];
	char reason[256];
	char cuda_driver[32];
	char cupti[32];
	char cupti_path[256];
	char nccl[32];
	char driver[32];
	char pod[128];
	int32_t rank;
	int32_t world;
};

struct cs_dictionary {
	struct cs_process_info process;
	uint32_t gpu_count;
	uint32_t communicator_count;
	uint32_t name_count;
	uint32_t label_count;
	uint32_t environment_count;
	struct cs_gpu gpus[CS_GPUS_MAX];
	struct cs_communicator communicators[CS_COMMUNICATORS_MAX];
	struct cs_environment environment[CS_ENVIRONMENT_MAX];
	char **names;            /* name_count owned strings */
	struct cs_label *labels; /* label_count; [0] is all zero */
	uint64_t changes;        /* grows whenever anything above changed */
};

/* Zeroes; no allocation. */
void cs_dictionary_init(struct cs_dictionary *dictionary);
/* Frees what the dictionary owns. */
void cs_dictionary_fini(struct cs_dictionary *dictionary);

/* Append one entry (text is cleaned and copied). 0, -ENOMEM, -ENOSPC (over the format's maximum). */
int cs_dictionary_add_name(struct cs_dictionary *dictionary, const char *text, size_t length_bytes);
int cs_dictionary_add_label(struct cs_dictionary *dictionary, const struct cs_label *label);

/* Borrowed; never NULL: an unknown id gives "" or the all-unknown label. */
const char *cs_dictionary_borrow_name(const struct cs_dictionary *dictionary, uint32_t id);
const struct cs_label *cs_dictionary_borrow_label(const struct cs_dictionary *dictionary, uint32_t id);
/* NULL when unknown. */
const struct cs_gpu *cs_dictionary_borrow_gpu(const struct cs_dictionary *dictionary, uint32_t index);
const struct cs_communicator *cs_dictionary_borrow_communicator(
	const struct cs_dictionary *dictionary, uint32_t id);

/* Makes both unknown unless world is unknown or at least 1, and rank unknown or within world. */
void cs_rank_clean(int32_t *rank, int32_t *world);

/* Copies `in` to `out` (capacity with the NUL) with invalid UTF-8 and control characters replaced by '?', cut
 * at a character boundary. Always terminates. */
void cs_text_clean(const char *in, size_t in_bytes, char *out, size_t out_bytes);

#endif
