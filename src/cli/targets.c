/* SPDX-License-Identifier: Apache-2.0 */
#include "targets.h"

#include "collective.h"
#include "directory.h"
#include "log.h"
#include "segment/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int
cs_target_query_add_pid(struct cs_target_query *query, struct cs_cmd_parser *parser)
{
	uint64_t pid;
	int result = cs_cmd_value_integer(parser, 1, INT32_MAX, &pid);

	if (result)
		return result;
	if (query->pid_count == CS_TARGET_PIDS_MAX)
		return cs_cmd_usage_error(parser, "Over %d processes named", CS_TARGET_PIDS_MAX);
	query->pids[query->pid_count++] = (uint32_t)pid;
	return 0;
}

static bool
is_wanted(const struct cs_target_query *query, uint32_t pid)
{
	for (size_t i = 0; i < query->pid_count; i++) {
		if (query->pids[i] == pid)
			return true;
	}
	return query->pid_count == 0;
}

static bool
is_known(const struct cs_targets *targets, const char *path)
{
	for (size_t i = 0; i < targets->count; i++) {
		if (strcmp(targets->items[i]->path, path) == 0)
			return true;
	}
	for (size_t i = 0; i < targets->retired_count; i++) {
		if (strcmp(targets->retired[i]->path, path) == 0)
			return true;
	}
	for (size_t i = 0; i < targets->rejected_count; i++) {
		if (strcmp(targets->rejected[i], path) == 0)
			return true;
	}
	return false;
}

static int
reject(struct cs_targets *targets, const char *path)
{
	void *grown =
		reallocarray(targets->rejected, targets->rejected_count + 1, sizeof(targets->rejected[0]));

	if (!grown)
		return -ENOMEM;
	targets->rejected = grown;
	snprintf(targets->rejected[targets->rejected_count++], CS_TARGET_PATH_BYTES, "%s", path);
	return 0;
}

static int
keep(struct cs_targets *targets, struct cs_target *target)
{
	void *grown = reallocarray(targets->items, targets->count + 1, sizeof(struct cs_target *));

	if (!grown)
		return -ENOMEM;
	targets->items = grown;
	targets->items[targets->count++] = target;
	return 0;
}

static void
destroy(struct cs_target *target)
{
	if (!target)
		return;
	cs_segment_reader_close(target->reader);
	free(target);
}

void
cs_target_break(struct cs_target *target, int error)
{
	if (!target->broken)
		cs_log_error("Cannot read segment \"%s\" any more: %s", target->path, strerror(-error));
	target->broken = true;
	target->alive = false;
}

int
cs_target_refresh(struct cs_target *target)
{
	int result;

	if (target->broken)
		return -EIO;
	if (target->let_go)
		return 0;
	result = cs_segment_reader_status(target->reader, &target->status);
	if (result == 0)
		result = cs_segment_reader_refresh(target->reader);
	if (result) {
		cs_target_break(target, result);
		return -EIO;
	}
	target->alive = cs_segment_reader_writer_alive(target->reader) != 0;
	return 0;
}

void
cs_target_let_go(struct cs_target *target)
{
	/* Its last words came after the status that was taken when it was found dead. */
	(void)cs_target_refresh(target);
	cs_segment_reader_let_go(target->reader);
	target->let_go = true;
}

int
cs_targets_retire(struct cs_targets *targets, struct cs_target *target)
{
	struct cs_target **grown =
		reallocarray(targets->retired, targets->retired_count + 1, sizeof(struct cs_target *));
	size_t kept = 0;

	if (!grown)
		return -ENOMEM;
	targets->retired = grown;
	targets->retired[targets->retired_count++] = target;
	for (size_t i = 0; i < targets->count; i++) {
		if (targets->items[i] != target)
			targets->items[kept++] = targets->items[i];
	}
	targets->count = kept;
	return 0;
}

size_t
cs_targets_count_broken(const struct cs_targets *targets)
{
	size_t count = 0;

	for (size_t i = 0; i < targets->count; i++)
		count += targets->items[i]->broken;
	for (size_t i = 0; i < targets->retired_count; i++)
		count += targets->retired[i]->broken;
	return count;
}

/* Whether that is why it cannot be opened, and is said with the others of its owner: a server has many ranks.
 */
static bool
is_of_another_user(struct cs_targets *targets, const char *path, int error)
{
	struct stat file;
	size_t at = 0;

	if (error != -EACCES || lstat(path, &file) != 0 || file.st_uid == geteuid())
		return false;
	while (at < targets->owner_count && targets->owners[at].uid != file.st_uid)
		at++;
	if (at == CS_TARGET_OWNERS_MAX) {
		targets->others_count++;
		return true;
	}
	if (at == targets->owner_count) {
		targets->owners[targets->owner_count++].uid = file.st_uid;
		targets->owners[at].count = 0;
	}
	targets->owners[at].count++;
	return true;
}

static void
say_owners(struct cs_targets *targets)
{
	for (size_t i = 0; i < targets->owner_count; i++)
		cs_log_error("Cannot open %zu segment%s of uid %u: run this as that user (you are uid %u)",
			targets->owners[i].count, targets->owners[i].count == 1 ? "" : "s",
			(unsigned int)targets->owners[i].uid, (unsigned int)geteuid());
	if (targets->others_count)
		cs_log_error("Cannot open %zu segment%s of still other users", targets->others_count,
			targets->others_count == 1 ? "" : "s");
	targets->owner_count = 0;
	targets->others_count = 0;
}

static int
open_one(struct cs_targets *targets, struct cs_target *target)
{
	struct cs_error error;
	int result;

	cs_error_clear(&error);
	result = cs_segment_reader_open(target->path, targets->query.from_oldest, &target->reader, &error);
	/* Being created, or just removed: neither is anybody's trouble. */
	if (result == -EAGAIN || result == -ENOENT)
		return -EAGAIN;
	if (result && targets->query.silent)
		return result;
	if (result) {
		targets->unreadable++;
		if (!is_of_another_user(targets, target->path, result))
			cs_log_error("%s", error.text[0] ? error.text : strerror(-result));
		return result;
	}
	target->dictionary = cs_segment_reader_borrow_dictionary(target->reader);
	result = cs_target_refresh(target);
	if (result)
		targets->unreadable++;
	return result;
}

static int
visit(const char *path, const char *name, void *context)
{
	struct cs_targets *targets = context;
	struct cs_target *target = calloc(1, sizeof(*target));
	int result = 0;

	if (!target)
		return -ENOMEM;
	if (cs_rundir_parse_name(name, &target->pid, &target->start_time_ticks) ||
		!is_wanted(&targets->query, target->pid))
		goto out;
	snprintf(target->path, sizeof(target->path), "%s", path);
	if (is_known(targets, target->path))
		goto out;
	result = open_one(targets, target);
	if (result == -EAGAIN) {
		result = 0;
		goto out;
	}
	if (result) {
		result = reject(targets, target->path);
		goto out;
	}
	if (!target->alive && !targets->query.ended) {
		targets->ended++;
		result = reject(targets, target->path);
		goto out;
	}
	result = keep(targets, target);
	if (result == 0)
		target = NULL;
out:
	destroy(target);
	return result;
}

static int
compare(const void *a, const void *b)
{
	const struct cs_target *left = *(struct cs_target *const *)a;
	const struct cs_target *right = *(struct cs_target *const *)b;
	int32_t left_rank = left->dictionary->process.rank;
	int32_t right_rank = right->dictionary->process.rank;

	if (left_rank != right_rank)
		return left_rank < right_rank ? -1 : 1;
	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return (left->start_time_ticks > right->start_time_ticks) -
	       (left->start_time_ticks < right->start_time_ticks);
}

int
cs_targets_rescan(struct cs_targets *targets, size_t *added)
{
	size_t before = targets->count;
	int result = cs_rundir_each(targets->directory, visit, targets);

	say_owners(targets);
	if (targets->count > before)
		qsort(targets->items, targets->count, sizeof(struct cs_target *), compare);
	if (added)
		*added = targets->count - before;
	return result;
}

static void
say_pids_not_found(const struct cs_targets *targets)
{
	char list[CS_TARGET_PIDS_MAX * 12] = "";
	size_t used = 0;

	for (size_t i = 0; i < targets->query.pid_count; i++)
		used += (size_t)snprintf(
			list + used, sizeof(list) - used, "%s%u", i ? ", " : "", targets->query.pids[i]);
	cs_log_warn("No traced process of pid %s%s \"%s\"", list,
		targets->missing ? ": there is no directory" : " in", targets->directory);
}

static int
say_nothing_found(const struct cs_targets *targets)
{
	if (targets->query.silent)
		return CS_EXIT_NOTHING;
	if (targets->unreadable)
		return CS_EXIT_ERROR;
	if (targets->query.pid_count)
		say_pids_not_found(targets);
	else if (targets->missing)
		cs_log_warn("No traced process: there is no directory \"%s\"", targets->directory);
	else
		cs_log_warn("No traced process in \"%s\"", targets->directory);
	if (targets->query.pid_count == 0 && !targets->ended)
		cs_log_info("Start one with `collscope run -- COMMAND`; one that runs as another user, or "
			    "with COLLSCOPE_DIR, is found with --dir DIR");
	if (targets->ended)
		cs_log_info("%zu %s ended and left records", targets->ended,
			targets->ended == 1 ? "process has" : "processes have");
	return CS_EXIT_NOTHING;
}

int
cs_targets_open(struct cs_targets *targets, const struct cs_target_query *query)
{
	const char *configured = query->directory ? query->directory : getenv("COLLSCOPE_DIR");
	int result;

	*targets = (struct cs_targets){.query = *query};
	result = cs_rundir_resolve(configured && *configured ? configured : NULL, targets->directory,
		sizeof(targets->directory));
	if (result) {
		cs_directory_say_unusable(CS_LOG_ERROR, configured ? configured : "", "", result);
		return CS_EXIT_ERROR;
	}
	result = cs_targets_rescan(targets, NULL);
	targets->missing = result == -ENOENT;
	if (result && result != -ENOENT) {
		cs_directory_say_unusable(CS_LOG_ERROR, targets->directory, "", result);
		return CS_EXIT_ERROR;
	}
	return targets->count ? CS_EXIT_OK : say_nothing_found(targets);
}

/* Whether both are ranks of one communicator. What is not NCCL's has a hash of what is known of it, which two
 * servers may share; NCCL's are unique, so the others only count where there are none. */
static bool
share_communicator(const struct cs_target *a, const struct cs_target *b, bool nccl)
{
	for (uint32_t i = 0; i < a->dictionary->communicator_count; i++) {
		const struct cs_communicator *one = &a->dictionary->communicators[i];

		for (uint32_t j = 0; j < b->dictionary->communicator_count; j++) {
			const struct cs_communicator *other = &b->dictionary->communicators[j];

			if ((one->impl == CS_IMPL_NCCL) == nccl && one->impl == other->impl &&
				one->hash == other->hash && one->rank != other->rank)
				return true;
		}
	}
	return false;
}

static bool
has_nccl_group(const struct cs_target *target)
{
	for (uint32_t i = 0; i < target->dictionary->communicator_count; i++) {
		const struct cs_communicator *one = &target->dictionary->communicators[i];

		if (one->impl == CS_IMPL_NCCL && one->world != 1)
			return true;
	}
	return false;
}

/* A process that is named, or goes with one that is. */
static bool
belongs(const struct cs_targets *all, const struct cs_target *target, const struct cs_target_query *query)
{
	if (is_wanted(query, target->pid))
		return true;
	for (size_t i = 0; i < all->count; i++) {
		const struct cs_target *named = all->items[i];

		if (named != target && is_wanted(query, named->pid) &&
			share_communicator(named, target, has_nccl_group(named)))
			return true;
	}
	return false;
}

static bool
is_there(const struct cs_targets *all, uint32_t pid)
{
	for (size_t i = 0; i < all->count; i++) {
		if (all->items[i]->pid == pid)
			return true;
	}
	return false;
}

int
cs_targets_open_groups(struct cs_targets *targets, const struct cs_target_query *query)
{
	struct cs_target_query everybody = *query;
	struct cs_targets chosen;
	bool *keep_it;
	int status;

	everybody.pid_count = 0;
	everybody.silent = true;
	status = cs_targets_open(targets, &everybody);
	for (size_t i = 0; status != CS_EXIT_ERROR && i < query->pid_count; i++) {
		if (is_there(targets, query->pids[i]))
			continue;
		/* Says why, if it is there and cannot be read. */
		cs_targets_close(targets);
		everybody = *query;
		everybody.pids[0] = query->pids[i];
		everybody.pid_count = 1;
		status = cs_targets_open(targets, &everybody);
		return status;
	}
	if (status != CS_EXIT_OK)
		return status;
	keep_it = calloc(targets->count, sizeof(*keep_it));
	if (!keep_it)
		return CS_EXIT_ERROR;
	for (size_t i = 0; i < targets->count; i++)
		keep_it[i] = belongs(targets, targets->items[i], query);
	chosen = *targets;
	chosen.count = 0;
	for (size_t i = 0; i < targets->count; i++) {
		if (keep_it[i])
			chosen.items[chosen.count++] = targets->items[i];
		else
			destroy(targets->items[i]);
	}
	free(keep_it);
	*targets = chosen;
	return CS_EXIT_OK;
}

void
cs_targets_close(struct cs_targets *targets)
{
	for (size_t i = 0; i < targets->count; i++)
		destroy(targets->items[i]);
	for (size_t i = 0; i < targets->retired_count; i++)
		destroy(targets->retired[i]);
	free(targets->items);
	free(targets->retired);
	free(targets->rejected);
	targets->items = targets->retired = NULL;
	targets->rejected = NULL;
	targets->count = targets->retired_count = targets->rejected_count = 0;
}

int32_t
cs_target_gpu(const struct cs_target *target, uint32_t index)
{
	const struct cs_gpu *gpu = cs_dictionary_borrow_gpu(target->dictionary, index);

	return gpu ? gpu->nvml_index : -1;
}
