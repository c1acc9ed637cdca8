/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the fake libcupti. One source, three libraries: FAKE_CUPTI_VERSION (what cuptiGetVersion answers)
 * decides which functions, record sizes and defaults it has: 24 = CUDA 12.6, 130001 = CUDA 13.0 Update 1,
 * 130301 = CUDA 13.3 Update 1.
 *
 * A client is whoever has kinds and buffers: number 0 all who use the functions of the first kind, the others
 * one subscriber each of those who share CUPTI (13.3).
 *
 * It does what the real one was measured to do; see tests/fakes/README.md for the list, and for the
 * CS_FAKE_CUPTI_* variables that make it fail.
 */
#ifndef CS_FAKE_CUPTI_CUPTI_H
#define CS_FAKE_CUPTI_CUPTI_H

#include "../fake.h"

#include <cupti.h>

#include <pthread.h>

#ifndef FAKE_CUPTI_VERSION
#error "FAKE_CUPTI_VERSION says which CUPTI to be"
#endif
#define FAKE_HAS_13      (FAKE_CUPTI_VERSION >= 130000)
#define FAKE_HAS_SHARING (FAKE_CUPTI_VERSION >= 130300)
#define FAKE_CLIENTS     5U
#define FAKE_HAS_NULL_ANSWER                                                                                 \
	(FAKE_CUPTI_VERSION >= 27) /* bufferRequested may answer NULL without a crash                        \
				    */

/* Guards everything of this library; never held while the client's code runs. */
extern pthread_mutex_t fake_cupti_lock;

/* -- state.c ------------------------------------------------------------------------------------------- */

/* The driver; NULL when the process has none. */
const struct cs_fake_driver *fake_driver(void);
/* What every entry starts with: counts the call and says whether it is to fail. */
CUptiResult fake_cupti_enter(const char *name);
#define FAKE_CUPTI_ENTER()                                                                                   \
	do {                                                                                                 \
		CUptiResult enter_result = fake_cupti_enter(__func__);                                       \
		if (enter_result != CUPTI_SUCCESS)                                                           \
			return enter_result;                                                                 \
	} while (0)
/* A number from the environment; a text that is none ends the process as a misuse of the fake. */
uint64_t fake_number(const char *name, uint64_t fallback);
uint64_t fake_cupti_now_ns(void);
/* Puts this CUPTI's hooks into the driver, as the first real use of CUPTI patches the driver. */
CUptiResult fake_attach(void);
void fake_detach(void);
_Noreturn void fake_cupti_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* -- callbacks.c: the subscriber ----------------------------------------------------------------------- */

void fake_callbacks_enter(struct cs_fake_call *call);
void fake_callbacks_exit(struct cs_fake_call *call);
void fake_callbacks_resource(uint32_t cbid, const struct cs_fake_event *event);
void fake_callbacks_synchronized(struct cs_fake_context *context, struct cs_fake_stream *stream);
void fake_callbacks_reset(void); /* for cuptiFinalize */
/* FAKE_CLIENTS: it is no subscriber, or does not share. */
unsigned int fake_client_of(CUpti_SubscriberHandle handle);
/* What functions of the first kind begin with, after FAKE_CUPTI_ENTER: they are refused as long as somebody
 * shares. */
bool fake_is_shared(void);
#define FAKE_FIRST_KIND()                                                                                    \
	do {                                                                                                 \
		if (fake_is_shared())                                                                        \
			return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;                               \
	} while (0)

/* -- activity.c: kinds and attributes ------------------------------------------------------------------ */

bool fake_kind_enabled(CUpti_ActivityKind kind); /* for any client */
bool fake_client_wants(unsigned int client, CUpti_ActivityKind kind);
CUptiResult fake_client_enable(unsigned int client, CUpti_ActivityKind kind);
CUptiResult fake_client_disable(unsigned int client, CUpti_ActivityKind kind);
CUptiResult fake_set_attribute(CUpti_ActivityAttribute attribute, size_t *bytes, const void *value);
bool fake_per_thread_buffers(void);
bool fake_client_zeroes_buffers(void);
/* True once after CONCURRENT_KERNEL was switched on while the GPU worked: the record at that edge has no
 * times. */
bool fake_take_bad_edge(void);
/* Kernels were traced in this process: cuptiFinalize is deadly from now on. */
void fake_set_traced(void);
bool fake_graph_launch_dies(void);
uint64_t fake_device_bytes(int device);
/* The GPU has work until then, as far as CUPTI saw. */
void fake_note_busy_until(uint64_t end_ns);

/* -- records.c: from operations to records ------------------------------------------------------------- */

union fake_record_memory {
	CUpti_Activity any;
	CUpti_ActivityKernel10 kernel;
	CUpti_ActivityMemcpy6 copy;
	CUpti_ActivityMemcpyPtoP4 peer_copy;
	CUpti_ActivityMemset4 set;
	CUpti_ActivityGraphTrace2 graph;
	CUpti_ActivityAPI api;
	uint8_t room[256]; /* for those of later versions */
	CUpti_ActivityDevice5 machine;
};

struct fake_record {
	union fake_record_memory memory;
	uint32_t size;
	int device;
	struct cs_fake_span span; /* true times; written into the record when it is complete */
	bool no_times;            /* stays start = end = 0 */
	bool late_end;            /* ends when it is handed over: its kind was switched off while it ran */
	long thread;              /* that launched it; 0 when buffers are everybody's */
	uint64_t queued_ns; /* a launch that came after its planned span ended no earlier than it was made */
};

/* Bytes that a record of this kind takes in a buffer; 0: no kind of this fake. */
uint32_t fake_record_size(CUpti_ActivityKind kind);
/* Writes the times into a record whose work has ended (complete), or leaves end = 0. */
void fake_record_finish(struct fake_record *record, bool complete);
void fake_records_queued(const struct cs_fake_call *call, const struct cs_fake_exec *exec,
	const struct cs_fake_stream *stream, const struct cs_fake_operation *operations, size_t count);
void fake_records_api(const struct cs_fake_call *call);

/* -- clock.c: which clock the times are of ------------------------------------------------------------- */

/* The client's, or CLOCK_REALTIME. */
uint64_t fake_clock_now(void);
/* What is to be added to a time of CLOCK_REALTIME to get one of that clock, modulo 2^64. */
uint64_t fake_clock_offset(void);
void fake_clock_reset(void);

/* -- buffers.c: activity buffers and their delivery ---------------------------------------------------- */

/* Keeps records until they are complete and handed over. Never asks the client for anything. */
void fake_buffers_append(const struct fake_record *records, size_t count);
/* What runs now will end when it is handed over, as far as its record says. */
void fake_buffers_spoil_running(CUpti_ActivityKind kind);
/* CUPTI hands over what it has before a context goes. */
void fake_buffers_context_ends(void);
/* A record of the device, into a buffer that is asked for here and now; none when nobody registered. */
void fake_buffers_dump_device(unsigned int client);
/* The functions of the second kind have one parameter more, which nobody reads, or two less. */
struct fake_buffer_functions {
	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;
	void (*request_v2)(uint8_t **buffer, size_t *size, size_t *records, void *info);
	void (*complete_v2)(uint8_t *buffer, size_t size, size_t valid, void *info);
};
CUptiResult fake_buffers_register(unsigned int client, const struct fake_buffer_functions *functions);
bool fake_buffers_registered(unsigned int client);
/* The client has gone: what CUPTI has of it is lost. */
void fake_buffers_forget(unsigned int client);
uint64_t fake_buffers_take_dropped(unsigned int client);
CUptiResult fake_next_record(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record);
void fake_buffers_start_worker(void);
void fake_buffers_reset(void);

/* -- ids ----------------------------------------------------------------------------------------------- */

static inline uint64_t
fake_node_id(const struct cs_fake_node *node)
{
	return node->moved_id ? node->moved_id : (uint64_t)node->graph->id << 32 | node->ordinal;
}

#endif
