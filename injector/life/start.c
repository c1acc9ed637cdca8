/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens inside cuInit: settings, CUPTI, subscription. No thread, no segment: a process may well never
 * create a context (API servers and tokenizers call cuInit too).
 */
#include "clock.h"
#include "context.h"
#include "cupti/coexist.h"
#include "cupti/subscription.h"
#include "cupti/suspects.h"
#include "cupti/tracing.h"
#include "cupti/witness.h"
#include "identity.h"
#include "instance.h"
#include "log.h"
#include "nccl/nccl_activate.h"
#include "nvtx/nvtx_activate.h"
#include "records/delivery.h"
#include "room.h"
#include "segment/rundir.h"
#include "worker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static void
load_catalog(struct cs_instance *instance)
{
	char complaint[256] = "";

	if (cs_catalog_load(instance->settings.catalog, &instance->catalog, complaint, sizeof(complaint)) < 0)
		cs_log_warn("Cannot use COLLSCOPE_CATALOG, built-in rules only: %s", complaint);
}

/* 0, or dormant without even a segment: what we took the host would lack. */
static int
look_for_room(struct cs_instance *instance)
{
	const char *limit = "";
	uint64_t left_bytes = cs_room_left_bytes(&limit);

	if (left_bytes >= CS_ROOM_NEEDED_BYTES)
		return 0;
	instance->no_room = true;
	cs_instance_go_dormant(
		"%s leaves %llu MiB to this process, and %llu are needed beside what it uses itself; "
		"raise it",
		limit, (unsigned long long)(left_bytes >> 20), CS_ROOM_NEEDED_BYTES >> 20);
	return -ENOMEM;
}

/* 0, or dormant. Before anything of CUPTI is touched, so that a bad directory costs the host nothing. */
static int
prepare_directory(struct cs_instance *instance)
{
	const struct cs_settings *settings = &instance->settings;
	int result =
		cs_settings_prepare_directory(settings, instance->directory, sizeof(instance->directory));

	if (result < 0)
		cs_instance_go_dormant(
			"the run directory%s%s cannot be used (%s); set COLLSCOPE_DIR to one that can",
			settings->directory_too_long ? "" : " ",
			settings->directory[0] ? settings->directory : instance->directory,
			cs_rundir_error_text(result));
	return result;
}

static int
load_cupti(struct cs_instance *instance)
{
	char complaint[320] = "";
	int result = cs_cupti_api_load(
		instance->settings.cupti_path, &instance->cupti, complaint, sizeof(complaint));

	if (result < 0)
		cs_instance_go_dormant("%s", complaint);
	return result;
}

/* For tests alone (HACKING.md), hence no setting: what otherwise takes minutes comes within a second. */
static void
hurry(void)
{
	const char *divisor = getenv("CS_TEST_HASTE");

	if (divisor)
		cs_coexist_hurry((unsigned int)strtoul(divisor, NULL, 10));
}

/*
 * Somebody else's tool was here first (Nsight, a debugger, another injection): its buffers and callbacks are
 * its own, so we stand aside. The worker tries again from time to time; it needs a segment to say so in.
 */
static void
stand_aside(struct cs_instance *instance, const char *other)
{
	char suspect[128] = "perhaps ";
	const size_t perhaps = strlen(suspect);

	if (!other[0] && cs_suspects_name(suspect + perhaps, sizeof(suspect) - perhaps))
		other = suspect;
	cs_log_warn(
		"Another tool uses CUPTI in this process%s%s; collective profiling waits until it is gone "
		"(docs/coexistence.md).",
		other[0] ? ": " : "", other);
	cs_worker_stand_aside(other);
	cs_context_bring_to_life(instance);
}

static void
subscribe(struct cs_instance *instance)
{
	char other[128];
	CUptiResult failure;
	int result = cs_subscription_begin(instance, &failure, other, sizeof(other));

	if (result == -EBUSY)
		stand_aside(instance, other);
	else if (result < 0)
		cs_instance_go_dormant("CUPTI %u refuses callbacks (result %d)%s", instance->cupti.version,
			(int)failure,
			failure == CUPTI_ERROR_NOT_INITIALIZED ? "; it may be newer than the driver: set "
								 "COLLSCOPE_CUPTI_PATH to an older one"
							       : "");
}

/* Full mode promises every kernel, so kinds are on before there is a context. Demand mode wants to leave
 * CUPTI when labels are learnt. */
static void
begin_by_mode(struct cs_instance *instance)
{
	if (!cs_subscription_held())
		return;
	if (instance->settings.mode == CS_MODE_FULL)
		cs_tracing_begin_early(instance);
	else if (instance->settings.mode == CS_MODE_DEMAND)
		cs_witness_begin(instance);
}

void
cs_instance_start(void)
{
	static _Atomic bool started;
	struct cs_instance *instance = cs_instance_get();
	int saved_errno = errno;

	/* A set-user-ID program: whoever set its environment may have fewer rights than it has. */
	if (getauxval(AT_SECURE) != 0 || atomic_exchange(&started, true))
		return;
	cs_settings_load(&instance->settings, environ, NULL, NULL);
	if (instance->settings.mode == CS_MODE_OFF)
		goto out;
	cs_log_be_guest();
	cs_log_setup("collscope", (enum cs_log_level)instance->settings.log_level, CS_LOG_PLAIN);
	cs_settings_load(&instance->settings, environ, cs_log_warn_of, NULL);
	cs_identity_keep_environment(environ);
	cs_suspects_keep_environment();
	hurry();
	cs_fork_register();
	if (look_for_room(instance) < 0 || prepare_directory(instance) < 0 || load_cupti(instance) < 0)
		goto out;
	load_catalog(instance);
	if (!instance->catalog) {
		cs_instance_go_dormant("no memory for the kernel catalogue");
		goto out;
	}
	cs_nccl_activate(&instance->settings, cs_injector_library_path());
	cs_nvtx_activate(&instance->settings, cs_injector_library_path());
	instance->may_share = instance->settings.cupti_v2 && cs_cupti_api_can_share(&instance->cupti);
	/* Attributes belong to the subscriber if there may be several. */
	if (!instance->may_share)
		cs_device_memory_cap(instance);
	subscribe(instance);
	if (instance->may_share && cs_subscription_held())
		cs_device_memory_cap(instance);
	begin_by_mode(instance);
out:
	if (instance->settings.mode != CS_MODE_OFF)
		cs_exit_register();
	errno = saved_errno;
}
