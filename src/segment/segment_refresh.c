/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of a reader, and the check of records against it.
 *
 * Order: the writer puts names before the labels that use them, and labels before the records that use them.
 * So records are copied first, then the counts are loaded from labels to names, then entries are copied;
 * whatever a copied thing refers to is then below the count that was loaded after it.
 */
#include "barrier.h"
#include "bus_guard.h"
#include "collective.h"
#include "segment_reader_private.h"

#include <errno.h>
#include <string.h>

/* A text that changes all the time must not hold the reader up: it keeps the texts that it has. */
#define PROCESS_ATTEMPTS 16U

struct counts {
	uint64_t labels, communicators, environment, gpus, names;
};

/* Tables only grow, and not beyond their capacity. */
static int
load_count(const struct cs_segment_reader *reader, enum cs_section_type type, uint64_t known, uint64_t *count)
{
	const struct cs_table_head *head = cs_reader_section(reader, type);

	/* Pairs with the writer's release of the count. */
	*count = atomic_load_explicit(&head->count, memory_order_acquire);
	return *count >= known && *count <= reader->map.capacity[type] ? 0 : -EBADMSG;
}

static int
load_counts(const struct cs_segment_reader *reader, struct counts *counts)
{
	const struct cs_dictionary *known = &reader->dictionary;
	int result = load_count(reader, CS_SECTION_LABEL, known->label_count, &counts->labels);

	if (result == 0)
		result = load_count(
			reader, CS_SECTION_COMMUNICATOR, known->communicator_count, &counts->communicators);
	if (result == 0)
		result = load_count(
			reader, CS_SECTION_ENVIRONMENT, known->environment_count, &counts->environment);
	if (result == 0)
		result = load_count(reader, CS_SECTION_GPU, known->gpu_count, &counts->gpus);
	if (result == 0)
		result = load_count(reader, CS_SECTION_NAME, known->name_count, &counts->names);
	/* "No name" and "no label" are there from the start: an id of 0 resolves too. */
	if (result == 0 && (counts->names == 0 || counts->labels == 0))
		result = -EBADMSG;
	return result;
}

static const void *
table_entries(const struct cs_segment_reader *reader, enum cs_section_type type)
{
	return (const uint8_t *)cs_reader_section(reader, type) + sizeof(struct cs_table_head);
}

/* One copy of an entry, of which the mapping's owner can change nothing afterwards: the loads are atomic, so
 * the compiler may not repeat them. Entries and structs are whole words. */
static void
copy_entry(void *to, const void *from, size_t bytes)
{
	const _Atomic uint64_t *words = from;

	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) {
		uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);

		memcpy((uint8_t *)to + i * sizeof(word), &word, sizeof(word));
	}
}

static int
copy_names(struct cs_segment_reader *reader, uint64_t count)
{
	const struct cs_name *names = table_entries(reader, CS_SECTION_NAME);
	const char *text = table_entries(reader, CS_SECTION_TEXT);
	uint64_t text_bytes = reader->map.capacity[CS_SECTION_TEXT];
	struct cs_dictionary *dictionary = &reader->dictionary;

	while (dictionary->name_count < count) {
		struct cs_name name;
		char copy[CS_NAME_BYTES_MAX];
		int result;

		copy_entry(&name, &names[dictionary->name_count], sizeof(name));
		if (name.length_bytes > CS_NAME_BYTES_MAX || name.length_bytes > text_bytes ||
			name.offset_bytes > text_bytes - name.length_bytes)
			return -EBADMSG;
		if (dictionary->name_count == 0 && name.length_bytes != 0)
			return -EBADMSG;
		/* Out of the mapping before anything is allocated: a fault leaves no memory behind. */
		memcpy(copy, text + name.offset_bytes, name.length_bytes);
		result = cs_dictionary_add_name(dictionary, copy, name.length_bytes);
		if (result < 0)
			return result;
	}
	return 0;
}

static int
copy_labels(struct cs_segment_reader *reader, uint64_t count)
{
	static const struct cs_label no_label;
	const struct cs_label *labels = table_entries(reader, CS_SECTION_LABEL);
	struct cs_dictionary *dictionary = &reader->dictionary;

	while (dictionary->label_count < count) {
		struct cs_label label;
		int result;

		copy_entry(&label, &labels[dictionary->label_count], sizeof(label));
		if (dictionary->label_count == 0 && memcmp(&label, &no_label, sizeof(label)) != 0)
			return -EBADMSG;
		result = cs_dictionary_add_label(dictionary, &label);
		if (result < 0)
			return result;
	}
	return 0;
}

static void
clean_field(char *field, size_t field_bytes)
{
	char clean[CS_NAME_BYTES_MAX];

	cs_text_clean(field, field_bytes, clean, field_bytes);
	memset(field, 0, field_bytes);
	memcpy(field, clean, strlen(clean) + 1);
}
#define CLEAN(field) clean_field((field), sizeof(field))

static void
copy_gpus(struct cs_segment_reader *reader, uint64_t count)
{
	const struct cs_gpu *gpus = table_entries(reader, CS_SECTION_GPU);
	struct cs_dictionary *dictionary = &reader->dictionary;

	while (dictionary->gpu_count < count) {
		struct cs_gpu *gpu = &dictionary->gpus[dictionary->gpu_count];

		copy_entry(gpu, &gpus[dictionary->gpu_count], sizeof(*gpu));
		CLEAN(gpu->name);
		if (gpu->nvml_index < -1)
			gpu->nvml_index = -1;
		for (size_t i = 0; i < sizeof(gpu->link); i++)
			if (gpu->link[i] >= CS_LINK_COUNT)
				gpu->link[i] = CS_LINK_UNKNOWN;
		dictionary->gpu_count++;
		dictionary->changes++;
	}
}

static void
copy_communicators(struct cs_segment_reader *reader, uint64_t count)
{
	const struct cs_communicator *communicators = table_entries(reader, CS_SECTION_COMMUNICATOR);
	struct cs_dictionary *dictionary = &reader->dictionary;

	while (dictionary->communicator_count < count) {
		struct cs_communicator *communicator =
			&dictionary->communicators[dictionary->communicator_count];

		copy_entry(
			communicator, &communicators[dictionary->communicator_count], sizeof(*communicator));
		CLEAN(communicator->name);
		if (communicator->impl >= CS_IMPL_COUNT)
			communicator->impl = CS_IMPL_UNKNOWN;
		cs_rank_clean(&communicator->rank, &communicator->world);
		dictionary->communicator_count++;
		dictionary->changes++;
	}
}

static void
copy_environment(struct cs_segment_reader *reader, uint64_t count)
{
	const struct cs_environment *environment = table_entries(reader, CS_SECTION_ENVIRONMENT);
	struct cs_dictionary *dictionary = &reader->dictionary;

	while (dictionary->environment_count < count) {
		struct cs_environment *entry = &dictionary->environment[dictionary->environment_count];

		copy_entry(entry, &environment[dictionary->environment_count], sizeof(*entry));
		CLEAN(entry->name);
		CLEAN(entry->value);
		dictionary->environment_count++;
		dictionary->changes++;
	}
}

static int
refresh_tables(struct cs_segment_reader *reader)
{
	struct counts counts;
	int result = load_counts(reader, &counts);

	if (result == 0)
		result = copy_names(reader, counts.names);
	if (result < 0)
		return result;
	copy_gpus(reader, counts.gpus);
	copy_communicators(reader, counts.communicators);
	copy_environment(reader, counts.environment);
	return copy_labels(reader, counts.labels);
}

/* -- PROCESS --------------------------------------------------------------------------------------------- */

static void
take_process(struct cs_segment_reader *reader, const struct cs_process *process)
{
	struct cs_process_info *info = &reader->dictionary.process;

#define TAKE(field)                                                                                          \
	do {                                                                                                 \
		_Static_assert(sizeof(info->field) == sizeof(process->field), "same field");                 \
		cs_text_clean(process->field, sizeof(process->field), info->field, sizeof(info->field));     \
	} while (0)
	TAKE(comm);
	TAKE(command_line);
	TAKE(reason);
	TAKE(cuda_driver);
	TAKE(cupti);
	TAKE(cupti_path);
	TAKE(nccl);
	TAKE(driver);
	TAKE(pod);
#undef TAKE
	info->rank = process->rank;
	info->world = process->world;
	cs_rank_clean(&info->rank, &info->world);
	reader->dictionary.changes++;
}

#define PROCESS_WORDS (offsetof(struct cs_process, reserved) / sizeof(uint64_t))
_Static_assert(offsetof(struct cs_process, reserved) % sizeof(uint64_t) == 0, "PROCESS is copied by words");

static void
refresh_process(struct cs_segment_reader *reader)
{
	const struct cs_process *process = cs_reader_section(reader, CS_SECTION_PROCESS);
	const _Atomic uint64_t *from = (const _Atomic uint64_t *)(const void *)process;

	for (unsigned int attempt = 0; attempt < PROCESS_ATTEMPTS; attempt++) {
		/* Pairs with the writer's release of the even sequence. */
		uint64_t sequence = atomic_load_explicit(&process->sequence, memory_order_acquire);
		union {
			uint64_t words[PROCESS_WORDS];
			struct cs_process process;
		} copy;

		if (sequence == reader->process_sequence)
			return;
		if (sequence & 1)
			continue;
		for (size_t i = 1; i < PROCESS_WORDS; i++)
			copy.words[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
		cs_fence_check();
		if (atomic_load_explicit(&process->sequence, memory_order_relaxed) != sequence)
			continue;
		take_process(reader, &copy.process);
		reader->process_sequence = sequence;
		return;
	}
}

void
cs_reader_set_identity(struct cs_segment_reader *reader, const struct cs_segment_header *header)
{
	struct cs_process_info *info = &reader->dictionary.process;

	info->pid = header->pid;
	info->uid = header->uid;
	info->parent_pid = header->parent_pid;
	info->start_time_ticks = header->start_time_ticks;
	info->pid_namespace_inode = header->pid_namespace_inode;
	memcpy(info->boot_id, header->boot_id, sizeof(info->boot_id));
	info->created_ns = header->created_ns;
	cs_text_clean(header->injector_version, sizeof(header->injector_version), info->injector_version,
		sizeof(info->injector_version));
	reader->dictionary.changes++;
}

/* Body of the guarded call. */
static int
refresh(void *context)
{
	struct cs_segment_reader *reader = context;

	refresh_process(reader);
	return refresh_tables(reader);
}

int
cs_segment_reader_refresh(struct cs_segment_reader *reader)
{
	return cs_bus_guard_call(reader->base, reader->map.file_bytes, refresh, reader);
}

/* -- records --------------------------------------------------------------------------------------------- */

static bool
record_valid(const struct cs_dictionary *dictionary, const struct cs_record *record)
{
	if (record->end_ns < record->start_ns)
		return false;
	switch (record->type) {
	case CS_RECORD_COLLECTIVE:
		return record->gpu < dictionary->gpu_count && record->ref < dictionary->label_count;
	case CS_RECORD_BUSY:
		return record->gpu < dictionary->gpu_count && record->klass < CS_BUSY_CLASS_COUNT;
	case CS_RECORD_GRAPH_LAUNCH:
	case CS_RECORD_STILL:
		return record->gpu < dictionary->gpu_count;
	case CS_RECORD_GRAPH:
		return record->gpu < dictionary->gpu_count && record->ref < dictionary->label_count;
	case CS_RECORD_MARKER:
		return record->gpu < dictionary->gpu_count && record->ref < dictionary->name_count;
	default:
		break;
	}
	/* Of the process: GPU 0 before there is any. */
	if (record->gpu != 0 && record->gpu >= dictionary->gpu_count)
		return false;
	switch (record->type) {
	case CS_RECORD_WINDOW:
	case CS_RECORD_WINDOW_OPEN:
		return (record->flags & 0xf) < CS_DEPTH_COUNT;
	case CS_RECORD_MARK:
		return record->ref < dictionary->name_count;
	case CS_RECORD_LOSS:
		return record->ref < CS_LOSS_CAUSE_COUNT;
	case CS_RECORD_HOST_LAUNCH:
		return record->ref < dictionary->label_count;
	default:
		return false;
	}
}

size_t
cs_reader_keep_valid(struct cs_segment_reader *reader, struct cs_record *records, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (!record_valid(&reader->dictionary, &records[i])) {
			reader->losses.invalid++;
			continue;
		}
		if (kept != i)
			records[kept] = records[i];
		kept++;
	}
	return kept;
}
