/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a snapshot as Prometheus text 0.0.4, OpenMetrics text 1.0 or delimited protobuf. All families have
 * their metadata in the text formats, also those without a sample, so that a reader sees what can come.
 *
 * Thread context: pure; one thread per buffer.
 */
#ifndef CS_EXPORTER_EXPOSITION_H
#define CS_EXPORTER_EXPOSITION_H

#include "buffer.h"
#include "negotiate.h"
#include "snapshot.h"

struct cs_exposition_options {
	enum cs_format format;
	bool created;       /* OpenMetrics: _created samples; protobuf has creation times always */
	const bool *wanted; /* by enum cs_family_id; NULL: all */
};

/* 0, or -ENOMEM (the buffer's content is then of no use). */
int cs_exposition_write(const struct cs_snapshot *snapshot, const struct cs_exposition_options *options,
	struct cs_buffer *buffer);

/* The pieces, for exposition.c and tests. */
void cs_exposition_label_value(struct cs_buffer *buffer, const char *text); /* \ LF " escaped */
void cs_exposition_help(
	struct cs_buffer *buffer, const char *text, enum cs_format format); /* " in OpenMetrics */
void cs_exposition_value(struct cs_buffer *buffer, struct cs_value value);

/* protobuf.c: one delimited MetricFamily; families without samples are left out. */
void cs_protobuf_family(
	struct cs_buffer *buffer, const struct cs_family *family, const struct cs_sample_list *samples);

#endif
