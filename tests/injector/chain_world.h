/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of forwarding share: NCCL of any interface version as the caller of our plugin, with another
 * plugin (chained_plugin.h) behind ours, and what reached that one. Descriptors are written and read by the
 * offsets of NCCL's own headers, not with the structs under test.
 */
#ifndef CS_CHAIN_WORLD_H
#define CS_CHAIN_WORLD_H

#include "chained_plugin.h"
#include "nccl/profiler_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of a Coll event; 0: this version has no such field. */
struct coll_places {
	size_t name, hash, sequence, func, send, receive, count, root, datatype, traffic, channels, warps,
		algorithm, protocol, parent_group;
};

/* By version. */
extern const struct coll_places coll_at[];
extern const unsigned int all_events[];

extern struct chained_plugin *plugin; /* the one that is behind ours */
extern uint64_t late_key;             /* of the last launch that late facts came for */
extern int send_buffer, receive_buffer;

int chain_setup(void **state);
int chain_teardown(void **state);
/* Puts the plugin that has just these versions ("5", "24") behind ours, which asks for everything. */
void chain_load(const char *versions);
void chain_load_version(unsigned int version);

/* -- NCCL: events 0x1 and so on as in its headers, parents as it passes them */

/* NCCL's own is on its stack, no longer than it has to be. */
struct descriptor {
	unsigned char bytes[136];
};

/* Our plugin of this version; the functions behind init have one type. */
const struct cs_nccl_profiler_v5 *ours(unsigned int version);
/* Communicator "tp", 8 ranks, this one 5. The context. */
void *nccl_init(unsigned int version, uint64_t hash, int *mask);
struct descriptor descriptor_of(unsigned int version, unsigned int type, void *parent);
/* offset 0: nothing */
void put(struct descriptor *descriptor, size_t offset, const void *value, size_t bytes);
#define PUT(descriptor, offset, type, value) put(descriptor, offset, &(type){value}, sizeof(type))
/* The handle, which may be NULL; then NCCL makes no stop. */
void *start(unsigned int version, void *context, struct descriptor descriptor);
void stop(unsigned int version, void *handle);
struct descriptor coll_of(unsigned int version, void *parent, void *group);
struct descriptor coll_api_of(unsigned int version, void *group_api);
/* Bytes that were announced for the launch that comes now; 0 none. */
uint64_t announced_bytes(void);
/* One all-reduce as NCCL of this version makes it, on the calling thread. What of it reaches our labels is
 * the same with any plugin behind ours. */
void all_reduce(unsigned int version, void *context);

/* -- what reached the plugin */

uint64_t get_u64(const struct chained_record *entry, size_t offset);
const void *get_pointer(const struct chained_record *entry, size_t offset);
int get_int(const struct chained_record *entry, size_t offset);
uint64_t type_of(const struct chained_record *entry);
unsigned int calls(enum chained_call call);
/* The only event of this type; NULL there was none. */
const struct chained_record *event_of(unsigned int type);
/* The first change to this state. */
const struct chained_record *state_of(int state);
/* Each handle that it gave came back at one stop, and none that it did not give. */
void check_stops(void);

#endif
