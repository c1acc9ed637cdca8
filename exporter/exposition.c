/* SPDX-License-Identifier: Apache-2.0 */
#include "exposition.h"

#include <errno.h>

struct writer {
	struct cs_buffer *out;
	struct cs_buffer labels; /* name="value",... of the sample at hand */
	struct cs_buffer prefix; /* everything before a bucket's bound */
	bool openmetrics;
	bool created;
};

static void
escape(struct cs_buffer *buffer, const char *text, bool quotes)
{
	for (;;) {
		size_t plain = strcspn(text, quotes ? "\\\n\"" : "\\\n");

		cs_buffer_bytes(buffer, text, plain);
		text += plain;
		if (!*text)
			return;
		cs_buffer_char(buffer, '\\');
		cs_buffer_char(buffer, (char)(*text == '\n' ? 'n' : *text));
		text++;
	}
}

void
cs_exposition_label_value(struct cs_buffer *buffer, const char *text)
{
	escape(buffer, text, true);
}

void
cs_exposition_help(struct cs_buffer *buffer, const char *text, enum cs_format format)
{
	escape(buffer, text, format == CS_FORMAT_OPENMETRICS);
}

void
cs_exposition_value(struct cs_buffer *buffer, struct cs_value value)
{
	switch (value.kind) {
	case CS_VALUE_INTEGER:
		cs_buffer_unsigned(buffer, value.integer);
		break;
	case CS_VALUE_NANOSECONDS:
		cs_buffer_nanoseconds(buffer, value.integer);
		break;
	case CS_VALUE_REAL:
		cs_buffer_real(buffer, value.real);
		break;
	}
}

/* OpenMetrics names a family without its suffix and has a type for information; the older format has neither.
 */
static void
write_metadata(struct writer *writer, const struct cs_family *family)
{
	static const char *const text_types[] = {"counter", "gauge", "histogram", "gauge", "gauge"};
	static const char *const openmetrics_types[] = {"counter", "gauge", "histogram", "info", "stateset"};
	const char *suffix = writer->openmetrics ? "" : cs_family_suffix(family);
	const char *type = (writer->openmetrics ? openmetrics_types : text_types)[family->type];

	cs_buffer_format(writer->out, "# HELP %s%s ", family->name, suffix);
	cs_exposition_help(
		writer->out, family->help, writer->openmetrics ? CS_FORMAT_OPENMETRICS : CS_FORMAT_TEXT);
	cs_buffer_format(writer->out, "\n# TYPE %s%s %s\n", family->name, suffix, type);
	if (writer->openmetrics && *family->unit)
		cs_buffer_format(writer->out, "# UNIT %s %s\n", family->name, family->unit);
}

static void
prepare_labels(struct writer *writer, const struct cs_family *family, const struct cs_sample *sample)
{
	writer->labels.length = 0;
	for (unsigned int i = 0; i < family->label_count; i++) {
		if (i)
			cs_buffer_char(&writer->labels, ',');
		cs_buffer_text(&writer->labels, family->labels[i]);
		cs_buffer_bytes(&writer->labels, "=\"", 2);
		cs_exposition_label_value(&writer->labels, sample->labels[i]);
		cs_buffer_char(&writer->labels, '"');
	}
}

static void
write_line(struct writer *writer, const struct cs_family *family, const char *suffix, struct cs_value value)
{
	cs_buffer_text(writer->out, family->name);
	cs_buffer_text(writer->out, suffix);
	if (writer->labels.length) {
		cs_buffer_char(writer->out, '{');
		cs_buffer_bytes(writer->out, writer->labels.data, writer->labels.length);
		cs_buffer_char(writer->out, '}');
	}
	cs_buffer_char(writer->out, ' ');
	cs_exposition_value(writer->out, value);
	cs_buffer_char(writer->out, '\n');
}

static void
write_bucket(struct writer *writer, const char *bound, uint64_t count)
{
	cs_buffer_bytes(writer->out, writer->prefix.data, writer->prefix.length);
	cs_buffer_text(writer->out, bound);
	cs_buffer_bytes(writer->out, "\"} ", 3);
	cs_buffer_unsigned(writer->out, count);
	cs_buffer_char(writer->out, '\n');
}

static void
write_histogram(struct writer *writer, const struct cs_family *family, const struct cs_histogram_copy *copy)
{
	const struct cs_histogram_class *bounds = copy->histogram_class;

	writer->prefix.length = 0;
	cs_buffer_text(&writer->prefix, family->name);
	cs_buffer_text(&writer->prefix, "_bucket{");
	cs_buffer_bytes(&writer->prefix, writer->labels.data, writer->labels.length);
	cs_buffer_text(&writer->prefix, writer->labels.length ? ",le=\"" : "le=\"");
	for (size_t i = 0; i < bounds->bound_count; i++)
		write_bucket(writer, bounds->bound_texts[i], copy->cumulative[i]);
	write_bucket(writer, "+Inf", copy->cumulative[bounds->bound_count]);
	write_line(writer, family, "_sum", copy->sum);
	write_line(writer, family, "_count", cs_value_integer(copy->count));
}

static void
write_sample(struct writer *writer, const struct cs_family *family, const struct cs_sample *sample)
{
	bool has_created = family->type == CS_TYPE_COUNTER || family->type == CS_TYPE_HISTOGRAM;

	prepare_labels(writer, family, sample);
	if (sample->histogram)
		write_histogram(writer, family, sample->histogram);
	else
		write_line(writer, family, cs_family_suffix(family), sample->value);
	if (writer->created && has_created && sample->created_ns)
		write_line(writer, family, "_created", cs_value_ns(sample->created_ns));
}

int
cs_exposition_write(const struct cs_snapshot *snapshot, const struct cs_exposition_options *options,
	struct cs_buffer *buffer)
{
	struct writer writer = {
		.out = buffer,
		.openmetrics = options->format == CS_FORMAT_OPENMETRICS,
		.created = options->created && options->format == CS_FORMAT_OPENMETRICS,
	};
	bool failed;

	cs_buffer_init(&writer.labels);
	cs_buffer_init(&writer.prefix);
	for (unsigned int id = 0; id < CS_FAMILY_COUNT; id++) {
		const struct cs_family *family = cs_family_borrow(id);
		const struct cs_sample_list *list = &snapshot->families[id];

		if (options->wanted && !options->wanted[id])
			continue;
		if (options->format == CS_FORMAT_PROTOBUF) {
			cs_protobuf_family(buffer, family, list);
			continue;
		}
		write_metadata(&writer, family);
		for (size_t i = 0; i < list->count; i++)
			write_sample(&writer, family, &list->samples[i]);
	}
	if (writer.openmetrics)
		cs_buffer_text(buffer, "# EOF\n");
	failed = buffer->failed || writer.labels.failed || writer.prefix.failed;
	cs_buffer_fini(&writer.labels);
	cs_buffer_fini(&writer.prefix);
	return failed ? -ENOMEM : 0;
}
