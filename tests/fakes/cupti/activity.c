/* SPDX-License-Identifier: Apache-2.0 */
/* The activity API's switches: kinds, attributes, and what cuptiFinalize leaves behind. */
#include "cupti.h"

#include <stdatomic.h>
#include <string.h>

#define DEVICE_BUFFER_BYTES 3200000U
#define DEVICE_POOL_LIMIT   250U
#define DEVICE_PRE_ALLOCATE 3U

static _Atomic unsigned char kinds[FAKE_CLIENTS][CUPTI_ACTIVITY_KIND_COUNT];
static _Atomic bool ever_enabled;
static _Atomic bool traced;
static _Atomic bool finalized_after_tracing;
static _Atomic int bad_edge;
static _Atomic uint64_t leaked_bytes;
static _Atomic uint64_t busy_until_ns;

/* Values of the attributes, by attribute; sizes as the header says. */
static struct {
	size_t bytes;
	uint64_t value;
} attributes[] = {
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] = {sizeof(size_t), DEVICE_BUFFER_BYTES},
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP] = {sizeof(size_t), 8U << 20},
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT] = {sizeof(size_t), DEVICE_POOL_LIMIT},
	[CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE] = {sizeof(size_t), 25000},
	[CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT] = {sizeof(size_t), 250},
	[CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER] = {sizeof(uint8_t), 0},
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE] = {sizeof(size_t), DEVICE_PRE_ALLOCATE},
	[CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE] = {sizeof(size_t), 3},
	[CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED] = {sizeof(uint8_t), 0},
	[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER] = {sizeof(uint8_t), FAKE_HAS_13},
	[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS] = {sizeof(size_t), 16U << 20},
};

bool
fake_client_wants(unsigned int client, CUpti_ActivityKind kind)
{
	return atomic_load_explicit(&kinds[client][kind], memory_order_relaxed) != 0;
}

bool
fake_kind_enabled(CUpti_ActivityKind kind)
{
	unsigned int client = 0;

	while (client < FAKE_CLIENTS && !fake_client_wants(client, kind))
		client++;
	return client < FAKE_CLIENTS;
}

bool
fake_per_thread_buffers(void)
{
	return attributes[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER].value != 0;
}

bool
fake_client_zeroes_buffers(void)
{
	return attributes[CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER].value != 0;
}

void
fake_note_busy_until(uint64_t end_ns)
{
	if (end_ns != CS_FAKE_NEVER_NS && end_ns > atomic_load(&busy_until_ns))
		atomic_store(&busy_until_ns, end_ns);
}

bool
fake_take_bad_edge(void)
{
	return atomic_exchange(&bad_edge, 0) != 0;
}

/* CS_FAKE_CUPTI_EDGES=0: no damage at the edges of a window; 2: at the beginning of each, also where the GPU
 * rests, which on a machine that does not keep up is the scenario's and not the test's to say. */
static bool
damages_edge(void)
{
	uint64_t edges = fake_number("CS_FAKE_CUPTI_EDGES", 1);

	return edges > 1 || (edges == 1 && atomic_load(&busy_until_ns) > fake_cupti_now_ns());
}

CUptiResult
fake_client_enable(unsigned int client, CUpti_ActivityKind kind)
{
	CUptiResult result;

	if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT)
		return CUPTI_ERROR_INVALID_KIND;
	result = fake_attach();
	if (result != CUPTI_SUCCESS)
		return result;
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && !fake_kind_enabled(kind) && damages_edge())
		atomic_store(&bad_edge, 1);
	/* CS_FAKE_CUPTI_LEAK_KIB=N: so much GPU memory is gone with each window. */
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && !fake_kind_enabled(kind))
		atomic_fetch_add(&leaked_bytes, fake_number("CS_FAKE_CUPTI_LEAK_KIB", 0) << 10);
	atomic_store(&kinds[client][kind], 1);
	atomic_store(&ever_enabled, true);
	fake_buffers_start_worker();
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityEnable(CUpti_ActivityKind kind)
{
	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	return fake_client_enable(0, kind);
}

CUptiResult
cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
	CUptiResult result;

	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	result = fake_client_enable(0, kind);
	if (result == CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_DEVICE)
		fake_buffers_dump_device(0);
	return result;
}

CUptiResult
fake_client_disable(unsigned int client, CUpti_ActivityKind kind)
{
	bool was_on;

	if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT)
		return CUPTI_ERROR_INVALID_KIND;
	was_on = fake_client_wants(client, kind);
	atomic_store(&kinds[client][kind], 0);
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && was_on && !fake_kind_enabled(kind) &&
		fake_number("CS_FAKE_CUPTI_EDGES", 1))
		fake_buffers_spoil_running(kind);
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityDisable(CUpti_ActivityKind kind)
{
	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	return fake_client_disable(0, kind);
}

static CUptiResult
check_attribute(CUpti_ActivityAttribute attribute, const size_t *bytes, const void *value)
{
	if (!bytes || !value || (size_t)attribute >= sizeof(attributes) / sizeof(attributes[0]))
		return CUPTI_ERROR_INVALID_PARAMETER;
	return *bytes < attributes[attribute].bytes ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT
						    : CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
	CUptiResult result;

	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	result = check_attribute(attribute, bytes, value);
	if (result != CUPTI_SUCCESS)
		return result;
	*bytes = attributes[attribute].bytes;
	memcpy(value, &attributes[attribute].value, *bytes);
	return CUPTI_SUCCESS;
}

CUptiResult
fake_set_attribute(CUpti_ActivityAttribute attribute, size_t *bytes, const void *value)
{
	CUptiResult result = check_attribute(attribute, bytes, value);
	uint64_t number = 0;

	if (result != CUPTI_SUCCESS)
		return result;
	memcpy(&number, value, attributes[attribute].bytes);
	if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER && atomic_load(&ever_enabled) &&
		number != attributes[attribute].value)
		fake_cupti_misuse("PER_THREAD_ACTIVITY_BUFFER changed after activities were enabled");
	attributes[attribute].value = number;
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	return fake_set_attribute(attribute, bytes, value);
}

/* Switches that change nothing here. */
CUptiResult
cuptiActivityEnableLatencyTimestamps(uint8_t on)
{
	(void)on;
	FAKE_CUPTI_ENTER();
	return CUPTI_SUCCESS;
}

CUptiResult
cuptiActivityEnableLaunchAttributes(uint8_t on)
{
	(void)on;
	FAKE_CUPTI_ENTER();
	return CUPTI_SUCCESS;
}

void
fake_set_traced(void)
{
	atomic_store_explicit(&traced, true, memory_order_relaxed);
}

bool
fake_graph_launch_dies(void)
{
	return atomic_load_explicit(&finalized_after_tracing, memory_order_relaxed);
}

uint64_t
fake_device_bytes(int device)
{
	uint64_t buffers = attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE].value;

	(void)device;
	if (attributes[CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED].value ||
		!atomic_load(&ever_enabled))
		return 0;
	return buffers * attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE].value +
	       atomic_load(&leaked_bytes);
}

/* Detaches CUPTI. Harmless while only callbacks were used; after kernels were traced the next graph launch
 * dies. */
CUptiResult
cuptiFinalize(void)
{
	enum cs_fake_inside inside;
	unsigned int client, kind;

	FAKE_CUPTI_ENTER();
	inside = *fake_driver()->inside();
	if (inside != CS_FAKE_INSIDE_NOTHING && inside != CS_FAKE_INSIDE_API_CALLBACK)
		fake_cupti_misuse("cuptiFinalize called from a buffer or resource callback");
	fake_callbacks_reset();
	for (client = 0; client < FAKE_CLIENTS; client++)
		for (kind = 0; kind < CUPTI_ACTIVITY_KIND_COUNT; kind++)
			atomic_store(&kinds[client][kind], 0);
	fake_buffers_reset();
	fake_clock_reset();
	atomic_store(&ever_enabled, false);
	if (atomic_load(&traced))
		atomic_store(&finalized_after_tracing, true);
	fake_detach();
	return CUPTI_SUCCESS;
}
