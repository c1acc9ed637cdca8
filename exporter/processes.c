/* SPDX-License-Identifier: Apache-2.0 */
#include "processes.h"

#include "clock.h"
#include "leftovers.h"
#include "log.h"
#include "segment/rundir.h"
#include "segment/segment_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWEEP_NS (60 * CS_NS_PER_S)

const char *
cs_rejection_name(unsigned int rejection)
{
	static const char *const names[] = {
		"incomplete", "other_version", "corrupt", "permission", "limit", "other"};

	_Static_assert(sizeof(names) / sizeof(names[0]) == CS_REJECTION_COUNT, "one name each");
	return rejection < CS_REJECTION_COUNT ? names[rejection] : "unknown";
}

void
cs_processes_init(struct cs_processes *processes, const struct cs_processes_options *options,
	struct cs_analysis *analysis, struct cs_series_table *table)
{
	*processes = (struct cs_processes){
		.options = *options,
		.analysis = analysis,
		.table = table,
		.alone_since_ns = cs_clock_monotonic_ns(),
	};
}

void
cs_processes_fini(struct cs_processes *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		cs_traced_retire(processes->items[i]);
	for (size_t i = 0; i < processes->count; i++)
		cs_traced_destroy(processes->items[i]);
	processes->count = 0;
	free(processes->forgotten);
	processes->forgotten = NULL;
	processes->forgotten_count = processes->forgotten_room = 0;
}

struct cs_traced *
cs_processes_find(struct cs_processes *processes, uint32_t source)
{
	for (size_t i = 0; i < processes->count; i++) {
		if (processes->items[i]->source == source && processes->items[i]->reader)
			return processes->items[i];
	}
	return NULL;
}

/* -- files ----------------------------------------------------------------------------------------------- */

static void
path_of(const struct cs_processes *processes, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", processes->options.directory, name);
}

/* Unlinks the file of that name if it is still the same file and no writer holds it. */
static void
remove_file(const struct cs_processes *processes, const char *name, dev_t device, ino_t inode)
{
	char path[PATH_MAX];
	struct cs_log_value said, why;
	struct stat status;
	int fd;

	if (processes->options.read_only)
		return;
	path_of(processes, name, path);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode &&
		S_ISREG(status.st_mode) && cs_segment_lock_held(fd) == 0) {
		if (unlink(path) == 0)
			cs_log_debug(
				"Removed the segment of a dead process path=%s", cs_log_value(&said, path));
		else if (errno != ENOENT)
			cs_log_warn("Cannot remove the segment of a dead process path=%s error=%s",
				cs_log_value(&said, path), cs_log_value(&why, strerror(errno)));
	}
	close(fd);
}

/* -- what cannot be used --------------------------------------------------------------------------------- */

static enum cs_rejection
reason_of(int code)
{
	switch (code) {
	case -EAGAIN:
		return CS_REJECTION_INCOMPLETE;
	case -EPROTO:
		return CS_REJECTION_VERSION;
	case -EBADMSG:
	case -EIO:
		return CS_REJECTION_CORRUPT;
	case -EACCES:
	case -EPERM:
		return CS_REJECTION_PERMISSION;
	case -E2BIG:
		return CS_REJECTION_LIMIT;
	default:
		return CS_REJECTION_OTHER;
	}
}

static struct cs_rejected *
find_rejected(struct cs_processes *processes, const char *name)
{
	for (size_t i = 0; i < processes->rejected_count; i++) {
		if (strcmp(processes->rejected[i].name, name) == 0)
			return &processes->rejected[i];
	}
	return NULL;
}

static void
count_rejected(struct cs_rejections *rejections, enum cs_rejection reason, uid_t owner)
{
	if (reason == CS_REJECTION_PERMISSION) {
		rejections->owners_differ |= rejections->counts[reason] != 0 && rejections->owner != owner;
		rejections->owner = owner;
	}
	rejections->counts[reason]++;
	rejections->unusable += reason != CS_REJECTION_INCOMPLETE;
}

/* Counted, and found anew by the next look. */
static void
reject_past_room(struct cs_processes *processes, enum cs_rejection reason, uid_t owner)
{
	count_rejected(&processes->past, reason, owner);
	if (!processes->past_said)
		cs_log_warn(
			"More than %u segments cannot be used: those past them are counted, and not named",
			CS_PROCESSES_MAX);
	processes->past_said = true;
}

static bool
others_of_owner(const struct cs_processes *processes, const struct cs_rejected *rejected)
{
	for (size_t i = 0; i < processes->rejected_count; i++) {
		const struct cs_rejected *other = &processes->rejected[i];

		if (other != rejected && other->reason == CS_REJECTION_PERMISSION &&
			other->owner == rejected->owner)
			return true;
	}
	return false;
}

static void
reject(struct cs_processes *processes, const char *name, const struct stat *file, int code,
	const char *sentence, uint64_t now_ns)
{
	struct cs_rejected *rejected = find_rejected(processes, name);
	enum cs_rejection reason = reason_of(code);
	struct cs_log_value said;
	bool is_news = !rejected || rejected->inode != file->st_ino || rejected->reason != reason;

	if (!rejected) {
		if (processes->rejected_count == CS_PROCESSES_MAX) {
			reject_past_room(processes, reason, file->st_uid);
			return;
		}
		rejected = &processes->rejected[processes->rejected_count++];
		*rejected = (struct cs_rejected){.found_ns = now_ns};
		strncpy(rejected->name, name, sizeof(rejected->name) - 1);
	}
	rejected->device = file->st_dev;
	rejected->inode = file->st_ino;
	rejected->changed = file->st_ctim; /* rights too */
	rejected->reason = reason;
	rejected->owner = file->st_uid;
	rejected->in_directory = true;
	/* A segment that is being filled is no news, nor are the other ranks' of the same user. */
	if (is_news && reason == CS_REJECTION_PERMISSION && !others_of_owner(processes, rejected))
		cs_log_warn("A segment cannot be used: run the exporter as the user who runs the server, uid "
			    "%u, and not as uid %u reason=%s error=%s",
			(unsigned int)file->st_uid, (unsigned int)geteuid(), cs_rejection_name(reason),
			cs_log_value(&said, sentence));
	else if (is_news && reason != CS_REJECTION_INCOMPLETE && reason != CS_REJECTION_PERMISSION)
		cs_log_warn("A segment cannot be used reason=%s error=%s", cs_rejection_name(reason),
			cs_log_value(&said, sentence));
}

/* Whether the reason lies in the file. The others pass with time: a writer that is at work, a lack of
 * descriptors or memory. */
static bool
is_lasting(enum cs_rejection reason)
{
	return reason == CS_REJECTION_VERSION || reason == CS_REJECTION_CORRUPT ||
	       reason == CS_REJECTION_PERMISSION;
}

static bool
is_unchanged(const struct cs_rejected *rejected, const struct stat *file)
{
	return rejected && rejected->inode == file->st_ino && rejected->device == file->st_dev &&
	       rejected->changed.tv_sec == file->st_ctim.tv_sec &&
	       rejected->changed.tv_nsec == file->st_ctim.tv_nsec && is_lasting(rejected->reason);
}

static void
forget_rejected(struct cs_processes *processes, struct cs_rejected *rejected)
{
	*rejected = processes->rejected[--processes->rejected_count];
}

/* -- what is over and cannot be removed ------------------------------------------------------------------ */

static int
compare_forgotten(const void *left, const void *right)
{
	const struct cs_forgotten *a = left, *b = right;

	if (a->inode != b->inode)
		return a->inode < b->inode ? -1 : 1;
	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return strcmp(a->name, b->name);
}

static struct cs_forgotten *
find_forgotten(const struct cs_processes *processes, const char *name, const struct stat *file)
{
	struct cs_forgotten key = {.device = file->st_dev, .inode = file->st_ino};

	if (processes->forgotten_count == 0)
		return NULL;
	strncpy(key.name, name, sizeof(key.name) - 1);
	return bsearch(
		&key, processes->forgotten, processes->forgotten_count, sizeof(key), compare_forgotten);
}

/* Behind the others: cs_processes_look sorts them. 0 or -ENOMEM. */
static int
add_forgotten(struct cs_processes *processes, const struct cs_traced *traced)
{
	struct cs_forgotten *one;

	if (processes->forgotten_count == processes->forgotten_room) {
		size_t room = processes->forgotten_room ? 2 * processes->forgotten_room : 64;
		void *grown = realloc(processes->forgotten, room * sizeof(*processes->forgotten));

		if (!grown)
			return -ENOMEM;
		processes->forgotten = grown;
		processes->forgotten_room = room;
	}
	one = &processes->forgotten[processes->forgotten_count++];
	*one = (struct cs_forgotten){.device = traced->device, .inode = traced->inode, .in_directory = true};
	memcpy(one->name, traced->name, sizeof(one->name));
	return 0;
}

static void
drop_forgotten(struct cs_processes *processes)
{
	size_t kept = 0;

	for (size_t i = 0; i < processes->forgotten_count; i++) {
		if (processes->forgotten[i].in_directory)
			processes->forgotten[kept++] = processes->forgotten[i];
	}
	processes->forgotten_count = kept;
}

/* -- looking --------------------------------------------------------------------------------------------- */

struct look {
	struct cs_processes *processes;
	uint64_t now_ns;
};

static struct cs_traced *
find_named(struct cs_processes *processes, const char *name, const struct stat *file)
{
	for (size_t i = 0; i < processes->count; i++) {
		struct cs_traced *traced = processes->items[i];

		if (traced->inode == file->st_ino && traced->device == file->st_dev &&
			strcmp(traced->name, name) == 0)
			return traced;
	}
	return NULL;
}

static int
open_process(struct cs_processes *processes, const char *path, const char *name, const struct stat *file,
	struct cs_error *error)
{
	struct cs_log_value command, segment;
	struct cs_traced *traced;
	int result;

	if (processes->count == CS_PROCESSES_MAX)
		return cs_error_set(error, -E2BIG,
			"%s is one more than the %u processes that an exporter can follow", path,
			CS_PROCESSES_MAX);
	result = cs_traced_open(&traced, path, name, processes->analysis, processes->table, error);
	if (result < 0)
		return result;
	traced->device = file->st_dev;
	traced->inode = file->st_ino;
	traced->in_directory = true;
	processes->items[processes->count++] = traced;
	cs_log_info("Following a process pid=%u command=%s segment=%s", traced->dictionary->process.pid,
		cs_log_value(&command, traced->dictionary->process.comm), cs_log_value(&segment, path));
	return 0;
}

static int
visit(const char *path, const char *name, void *context)
{
	struct look *look = context;
	struct cs_forgotten *forgotten;
	struct cs_rejected *rejected;
	struct cs_traced *traced;
	struct stat file;
	struct cs_error error;
	int result;

	if (lstat(path, &file) < 0)
		return 0;
	traced = find_named(look->processes, name, &file);
	if (traced) {
		traced->in_directory = true;
		return 0;
	}
	forgotten = find_forgotten(look->processes, name, &file);
	if (forgotten) {
		forgotten->in_directory = true;
		return 0;
	}
	rejected = find_rejected(look->processes, name);
	if (is_unchanged(rejected, &file)) {
		rejected->in_directory = true;
		return 0;
	}
	cs_error_clear(&error);
	result = open_process(look->processes, path, name, &file, &error);
	if (result == 0 && rejected)
		forget_rejected(look->processes, rejected);
	else if (result < 0 && result != -ENOENT)
		reject(look->processes, name, &file, result, error.text, look->now_ns);
	return 0;
}

/* Not known to be alive after its directory entry and lock are gone. A lock that cannot be asked about
 * (-errno) is no sign of death while the file is there. */
static bool
has_died(const struct cs_traced *traced)
{
	int alive = cs_segment_reader_writer_alive(traced->reader);

	return alive == 0 || (alive < 0 && !traced->in_directory);
}

/* Forward one stage where it is time. */
static void
advance_stage(struct cs_processes *processes, struct cs_traced *traced, uint64_t now_ns)
{
	const struct cs_processes_options *options = &processes->options;
	struct cs_log_value command;

	if (traced->stage == CS_TRACED_LIVE && has_died(traced)) {
		traced->stage = CS_TRACED_DEAD;
		traced->died_ns = now_ns;
		/* Its last words, whether it has exited or was killed; a failure is met again when it is
		 * read. */
		(void)cs_segment_reader_status(traced->reader, &traced->status);
		cs_log_info("A process is gone pid=%u command=%s", traced->dictionary->process.pid,
			cs_log_value(&command, traced->dictionary->process.comm));
	}
	if (traced->stage == CS_TRACED_DEAD && now_ns - traced->died_ns >= options->linger_ns) {
		cs_traced_retire(traced);
		remove_file(processes, traced->name, traced->device, traced->inode);
	}
	if (traced->stage == CS_TRACED_RETIRED && now_ns - traced->died_ns >= options->retention_ns)
		cs_traced_forget(traced);
}

static void
advance_processes(struct cs_processes *processes, uint64_t now_ns)
{
	bool any_alive = false;
	size_t kept = 0;

	/* Retiring hands out results, which look the processes up: nothing leaves the list before all are
	 * through. */
	for (size_t i = 0; i < processes->count; i++) {
		advance_stage(processes, processes->items[i], now_ns);
		any_alive |= processes->items[i]->stage == CS_TRACED_LIVE;
	}
	for (size_t i = 0; i < processes->count; i++) {
		struct cs_traced *traced = processes->items[i];

		/* One whose file could not be removed stays known by name, or it would be found again;
		 * without memory for that it stays as it is. */
		if (traced->stage == CS_TRACED_FORGOTTEN &&
			(!traced->in_directory || add_forgotten(processes, traced) == 0))
			cs_traced_destroy(traced);
		else
			processes->items[kept++] = traced;
	}
	processes->count = kept;
	if (any_alive)
		processes->alone_since_ns = 0;
	else if (!processes->alone_since_ns)
		processes->alone_since_ns = now_ns;
}

static void
advance_rejected(struct cs_processes *processes, uint64_t now_ns)
{
	for (size_t i = processes->rejected_count; i-- > 0;) {
		struct cs_rejected *rejected = &processes->rejected[i];

		if (!rejected->in_directory)
			forget_rejected(processes, rejected);
		else if (now_ns - rejected->found_ns >= processes->options.retention_ns &&
			 rejected->reason != CS_REJECTION_LIMIT && !rejected->removal_tried) {
			rejected->removal_tried = true;
			remove_file(processes, rejected->name, rejected->device, rejected->inode);
		}
	}
}

void
cs_processes_look(struct cs_processes *processes, uint64_t now_monotonic_ns)
{
	struct look look = {processes, now_monotonic_ns};
	struct cs_log_value path, why;
	int result;

	for (size_t i = 0; i < processes->count; i++)
		processes->items[i]->in_directory = false;
	for (size_t i = 0; i < processes->rejected_count; i++)
		processes->rejected[i].in_directory = false;
	for (size_t i = 0; i < processes->forgotten_count; i++)
		processes->forgotten[i].in_directory = false;
	processes->past = (struct cs_rejections){0};
	result = cs_rundir_each(processes->options.directory, visit, &look);
	if (result < 0 && !processes->directory_failed)
		cs_log_warn("Cannot read the run directory path=%s error=%s",
			cs_log_value(&path, processes->options.directory),
			cs_log_value(&why, strerror(-result)));
	processes->directory_failed = result < 0;
	if (!processes->options.read_only && now_monotonic_ns - processes->swept_ns >= SWEEP_NS) {
		processes->swept_ns = now_monotonic_ns;
		cs_leftovers_remove(processes->options.directory, processes->options.retention_ns);
	}
	/* Of a directory that could not be read nothing is known to be gone. */
	if (result >= 0)
		drop_forgotten(processes);
	advance_processes(processes, now_monotonic_ns);
	if (processes->forgotten_count > 1)
		qsort(processes->forgotten, processes->forgotten_count, sizeof(*processes->forgotten),
			compare_forgotten);
	advance_rejected(processes, now_monotonic_ns);
}

void
cs_processes_fail(
	struct cs_processes *processes, struct cs_traced *traced, int code, uint64_t now_monotonic_ns)
{
	struct stat file = {.st_dev = traced->device, .st_ino = traced->inode};
	char path[PATH_MAX];
	char sentence[PATH_MAX + 64];
	size_t at = 0;

	path_of(processes, traced->name, path);
	snprintf(sentence, sizeof(sentence), "%s %s", path,
		code == -EIO       ? "shrank while it was read"
		: code == -EBADMSG ? "contradicts itself"
				   : strerror(-code));
	if (lstat(path, &file) < 0) {
		file.st_dev = traced->device;
		file.st_ino = traced->inode;
	}
	reject(processes, traced->name, &file, code, sentence, now_monotonic_ns);
	cs_traced_retire(traced);
	while (at < processes->count && processes->items[at] != traced)
		at++;
	if (at < processes->count)
		processes->items[at] = processes->items[--processes->count];
	cs_traced_destroy(traced);
}

/* -- scrape ---------------------------------------------------------------------------------------------- */

static void
add_counted(struct cs_snapshot *snapshot, enum cs_family_id family, const char *label, uint64_t count)
{
	struct cs_sample *sample = cs_snapshot_add(snapshot, family);

	if (!sample)
		return;
	sample->labels[0] = label;
	sample->value = cs_value_integer(count);
}

/* A dead process whose GPU and rank a live one has taken over (a restarted server) says nothing any more. */
static bool
is_superseded(const struct cs_processes *processes, const struct cs_traced *traced)
{
	if (traced->stage == CS_TRACED_LIVE)
		return false;
	for (size_t i = 0; i < processes->count; i++) {
		const struct cs_traced *other = processes->items[i];

		if (other->stage == CS_TRACED_LIVE && other->gpu == traced->gpu &&
			other->rank == traced->rank)
			return true;
	}
	return false;
}

void
cs_processes_count_rejected(const struct cs_processes *processes, struct cs_rejections *rejections)
{
	*rejections = processes->past;
	for (size_t i = 0; i < processes->rejected_count; i++)
		count_rejected(rejections, processes->rejected[i].reason, processes->rejected[i].owner);
}

void
cs_processes_collect(const struct cs_processes *processes, struct cs_snapshot *snapshot)
{
	uint64_t stages[2] = {0};
	struct cs_rejections rejections;

	for (size_t i = 0; i < processes->count; i++) {
		if (processes->items[i]->stage == CS_TRACED_FORGOTTEN)
			continue;
		stages[processes->items[i]->stage == CS_TRACED_LIVE ? 0 : 1]++;
		if (!is_superseded(processes, processes->items[i]))
			cs_traced_collect(processes->items[i], snapshot);
	}
	cs_processes_count_rejected(processes, &rejections);
	add_counted(snapshot, CS_FAMILY_EXPORTER_PROCESSES, "live", stages[0]);
	add_counted(snapshot, CS_FAMILY_EXPORTER_PROCESSES, "dead", stages[1]);
	for (unsigned int reason = 0; reason < CS_REJECTION_COUNT; reason++)
		add_counted(snapshot, CS_FAMILY_EXPORTER_REJECTED, cs_rejection_name(reason),
			rejections.counts[reason]);
}
