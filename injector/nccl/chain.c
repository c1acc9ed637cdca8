/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include "life/library.h"
#include "log.h"
#include "translate.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* NCCL's name for a plugin that the program is linked with; any beginning of it will do (plugin_open.c). */
#define CS_NCCL_STATIC_PLUGIN "STATIC_PLUGIN"

/* What is spoken to when NCCL speaks this version. The functions behind init have one type in all versions.
 */
struct target {
	const void *table;
	unsigned int version; /* 0 none */
};

static struct target targets[CS_NCCL_VERSIONS + 1];
/* The masks that the plugin writes, one for each version of NCCL: two NCCLs in one process have two. */
static int their_masks[CS_NCCL_VERSIONS + 1];
static char plugin_name[256];
static unsigned int oldest_version; /* that the plugin has; 0 no plugin */
static atomic_bool complained;

/* -- loading ------------------------------------------------------------------------------------------- */

static void *
open_plugin(const char *plugin, const char **why)
{
	char name[300];
	void *library;

	if (plugin[0] == '\0')
		return cs_library_open("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL, why);
	if (strncasecmp(plugin, CS_NCCL_STATIC_PLUGIN, strlen(plugin)) == 0)
		return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
	library = cs_library_open(plugin, RTLD_NOW | RTLD_LOCAL, why);
	if (library != NULL || strchr(plugin, '/') != NULL)
		return library;
	snprintf(name, sizeof(name), "libnccl-profiler-%s.so", plugin);
	return cs_library_open(name, RTLD_NOW | RTLD_LOCAL, why);
}

/* A second name of this library, or the program's global scope with this library in it. */
static bool
is_our_own(const void *table)
{
	Dl_info theirs, ours;

	return dladdr(table, &theirs) != 0 && dladdr(targets, &ours) != 0 &&
	       theirs.dli_fbase == ours.dli_fbase;
}

static bool
is_complete(const struct cs_nccl_profiler_v5 *table)
{
	return table->init != NULL && table->start_event != NULL && table->stop_event != NULL &&
	       table->record_event_state != NULL && table->finalize != NULL;
}

/* The newest that is not newer than NCCL's, as NCCL itself would choose. */
static const char *
choose_targets(void *library)
{
	const char *reason = "it exports no ncclProfiler_v1 ... ncclProfiler_v7";
	struct target newest = {0};
	char symbol[32];

	for (unsigned int version = 1; version <= CS_NCCL_VERSIONS; version++) {
		const void *table;

		snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", version);
		table = dlsym(library, symbol);
		if (table != NULL && is_our_own(table))
			reason = "it is collscope itself";
		else if (table != NULL && !is_complete(table))
			reason = "its interface lacks functions";
		else if (table != NULL)
			newest = (struct target){table, version};
		if (oldest_version == 0)
			oldest_version = newest.version;
		targets[version] = newest;
	}
	return newest.version == 0 ? reason : NULL;
}

int
cs_nccl_chain_load(const char *plugin)
{
	const char *reason = NULL;
	void *library = open_plugin(plugin, &reason);

	memset(targets, 0, sizeof(targets));
	memset(their_masks, 0, sizeof(their_masks));
	complained = false;
	oldest_version = 0;
	snprintf(plugin_name, sizeof(plugin_name), "%s", plugin[0] != '\0' ? plugin : "libnccl-profiler.so");
	if (library == NULL && plugin[0] == '\0')
		return -ENOENT; /* NCCL looks for it by itself, and most have none */
	if (library != NULL)
		reason = choose_targets(library);
	if (library != NULL && reason == NULL)
		return 0;
	cs_log_warn("Cannot forward to the NCCL profiler plugin \"%s\": %s", plugin_name,
		reason != NULL ? reason : "it cannot be loaded");
	return -ENOENT;
}

unsigned int
cs_nccl_chain_version(unsigned int version)
{
	return targets[version].version;
}

/* -- init ---------------------------------------------------------------------------------------------- */

static int
call_init(unsigned int version, void **context, int *mask, const struct cs_nccl_init *arguments)
{
	const struct target *target = &targets[version];

	if (target->version >= 5)
		return ((const struct cs_nccl_profiler_v5 *)target->table)
			->init(context, arguments->hash, mask, arguments->name, arguments->nodes,
				arguments->ranks, arguments->rank, arguments->logger);
	if (target->version == 4)
		return ((const struct cs_nccl_profiler_v4 *)target->table)
			->init(context, mask, arguments->name, arguments->hash, arguments->nodes,
				arguments->ranks, arguments->rank, arguments->logger);
	return ((const struct cs_nccl_profiler_v1 *)target->table)->init(context, mask);
}

/* One line for a process is enough. */
static bool
first_complaint(void)
{
	return !atomic_exchange(&complained, true);
}

static int
their_mask(unsigned int version)
{
	return __atomic_load_n(&their_masks[version], __ATOMIC_RELAXED) &
	       cs_nccl_version_events(targets[version].version);
}

void
cs_nccl_chain_init(unsigned int version, struct cs_nccl_comm *comm, const struct cs_nccl_init *arguments,
	int our_mask, int *mask)
{
	void *theirs = NULL;
	int before, result;

	if (targets[version].version == 0) {
		if (oldest_version != 0 && first_complaint())
			cs_log_warn("This NCCL speaks profiler interface %u, \"%s\" only newer ones (from %u "
				    "on): nothing is forwarded to it",
				version, plugin_name, oldest_version);
		*mask = our_mask;
		return;
	}
	if (comm == NULL && first_complaint())
		cs_log_warn("More than %u NCCL communicators: \"%s\" is not told of those past them",
			CS_NCCL_COMMS, plugin_name);
	before = __atomic_load_n(&their_masks[version], __ATOMIC_RELAXED);
	if (comm != NULL) {
		result = call_init(version, &theirs, &their_masks[version], arguments);
		comm->chain.open = result == CS_NCCL_SUCCESS;
		comm->chain.context = theirs;
		comm->chain.our_mask = our_mask;
		comm->chain.nccl_mask = mask;
		if (result != CS_NCCL_SUCCESS) {
			/* What a plugin wants that failed is not worth its price. */
			__atomic_store_n(&their_masks[version], before, __ATOMIC_RELAXED);
			if (first_complaint())
				cs_log_warn("The init of \"%s\" failed (%d): nothing of this communicator is "
					    "forwarded to it",
					plugin_name, result);
		}
		atomic_store_explicit(&comm->chain.their_mask, their_mask(version), memory_order_relaxed);
	}
	*mask = our_mask | their_mask(version);
}

/* Plugins may keep the pointer to their mask, and switch themselves on and off with it. */
static void
follow_mask(unsigned int version, struct cs_nccl_comm *comm)
{
	int theirs = their_mask(version);

	if (theirs == atomic_load_explicit(&comm->chain.their_mask, memory_order_relaxed))
		return;
	atomic_store_explicit(&comm->chain.their_mask, theirs, memory_order_relaxed);
	__atomic_store_n(comm->chain.nccl_mask, comm->chain.our_mask | theirs, __ATOMIC_RELAXED);
}

/* -- events -------------------------------------------------------------------------------------------- */

void
cs_nccl_chain_start(
	unsigned int version, struct cs_nccl_comm *comm, enum cs_nccl_mark mark, void *event, void **handle)
{
	const struct cs_nccl_profiler_v5 *table = targets[version].table;
	struct cs_nccl_event_legacy room;
	void *theirs = NULL;

	follow_mask(version, comm);
	event = cs_nccl_translate_event(version, targets[version].version, comm, event, &room);
	if (event == NULL)
		return;
	table->start_event(comm->chain.context, &theirs, event);
	if (!cs_nccl_handle_is_plain(theirs)) {
		/* It would be taken for one of ours: the event ends here for them, and goes on for us. */
		table->stop_event(theirs);
		return;
	}
	/* Where nothing of ours hangs on it, NCCL gets what they give, NULL too. */
	*handle = cs_nccl_handle(mark == CS_NCCL_MARK_OTHER ? CS_NCCL_MARK_NONE : mark, theirs);
}

void
cs_nccl_chain_stop(unsigned int version, void *theirs)
{
	const struct cs_nccl_profiler_v5 *table = targets[version].table;

	if (table != NULL)
		table->stop_event(theirs);
}

void
cs_nccl_chain_state(unsigned int version, void *theirs, int state, void *arguments)
{
	const struct cs_nccl_profiler_v5 *table = targets[version].table;
	struct cs_nccl_state_v1 room;
	bool known;

	if (table == NULL)
		return;
	arguments =
		cs_nccl_translate_state(version, targets[version].version, state, arguments, &room, &known);
	if (known)
		table->record_event_state(theirs, state, arguments);
}

void
cs_nccl_chain_finalize(unsigned int version, struct cs_nccl_comm *comm)
{
	const struct cs_nccl_profiler_v5 *table = targets[version].table;

	comm->chain.open = false;
	if (table != NULL && comm->chain.context != NULL)
		table->finalize(comm->chain.context);
	comm->chain.context = NULL;
}
