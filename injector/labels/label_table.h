/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels that the callbacks have made, in private memory: an application thread that makes one waits for
 * nobody, not even for the segment's tables, whose lock another thread may hold while it does not run. The
 * segment's id of a label is looked up later, by whoever needs it first (the parser, as a rule).
 *
 * label.name_id holds a hash of the kernel's name here; the id goes in when the label goes to the segment.
 *
 * Thread context: any thread, all functions at once; host-safe.
 */
#ifndef CS_LABEL_TABLE_H
#define CS_LABEL_TABLE_H

#include "segment/segment_writer.h"

#include <stdatomic.h>

#define CS_LABEL_TABLE_SLOTS CS_LABELS_MAX

struct cs_label_entry {
	_Atomic uint32_t state;      /* 0 free, 1 being written, else a hash of the label */
	_Atomic uint32_t segment_id; /* 0: not there yet */
	struct cs_label label;
};

struct cs_label_table {
	struct cs_label_entry slots[CS_LABEL_TABLE_SLOTS]; /* all zero: empty */
};

/* Number of an equal label, from 1; a new one if there is none. 0: no room. Two threads that bring the same
 * label at the same moment may get two numbers. */
uint32_t cs_label_table_put(struct cs_label_table *table, const struct cs_label *label);

/* NULL for 0. */
static inline struct cs_label_entry *
cs_label_table_entry(struct cs_label_table *table, uint32_t number)
{
	return number == 0 || number > CS_LABEL_TABLE_SLOTS ? NULL : &table->slots[number - 1];
}

/* The segment's id of a label; 0 when its table is full or busy (the next call tries again). */
uint32_t cs_label_entry_segment_id(
	struct cs_label_entry *entry, struct cs_segment_writer *writer, uint32_t name_id);

#endif
