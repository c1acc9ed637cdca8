/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL profiler plugin that was there before us: has the interface versions that it is built for, behaves
 * as told and writes down what it is told. It knows NCCL's layouts by their sizes only.
 */
#ifndef CS_CHAINED_PLUGIN_H
#define CS_CHAINED_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

enum chained_call { CHAINED_INIT, CHAINED_START, CHAINED_STOP, CHAINED_STATE, CHAINED_FINALIZE };

enum chained_handles {
	CHAINED_OWN,    /* of each event its record's address */
	CHAINED_SAME,   /* one for all, as plugins do that only count */
	CHAINED_NUMBER, /* no pointer at all */
	CHAINED_NULL
};

struct chained_record {
	enum chained_call call;
	unsigned int version;
	void *context, *handle;
	unsigned char event[136];
	int state;
	bool has_arguments;
	unsigned char arguments[16];
	char name[32];
	uint64_t hash;
	int nodes, ranks, rank;
};

struct chained_plugin {
	/* how it behaves */
	int mask;
	bool mask_once; /* fills the mask at its first init only */
	bool fail;      /* its init */
	bool null_context;
	enum chained_handles handles;
	/* what it was told */
	int *mask_place;
	unsigned int inits;
	unsigned int count; /* of calls; the first of them are in: */
	struct chained_record records[256];
};

/* In the library, found with dlsym. */
extern struct chained_plugin chained_plugin;

#endif
