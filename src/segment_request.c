/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's side of CONTROL. The writer's is in segment_control.c. */
#include "barrier.h"
#include "bus_guard.h"
#include "clock.h"
#include "segment_check.h"
#include "segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The writer's worker looks at CONTROL once per turn, some milliseconds; looking more often than this would
 * not make the answer come sooner. */
#define POLL_NS (2 * CS_NS_PER_MS)

/* Largest errno of the Linux ABI; anything above in control_result was not written by a writer of ours. */
#define ERRNO_MAX 4095U

struct request {
	int fd;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	struct cs_control *control;
	const struct cs_status *status;
	enum cs_command command;
	uint64_t from_ns;
	uint64_t until_ns;
	uint64_t sequence;
	bool answered;
	uint64_t result;
};

/* false: time is up. */
static bool
wait_a_little(const struct request *request)
{
	struct timespec pause = {.tv_nsec = POLL_NS};

	if (cs_clock_monotonic_ns() >= request->deadline_ns)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static int
lock_control(const struct request *request)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};

	while (fcntl(request->fd, F_OFD_SETLK, &lock) != 0) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return -errno;
		if (!wait_a_little(request))
			return -ETIMEDOUT;
	}
	return 0;
}

/* Body of the guarded call. */
static int
post(void *context)
{
	struct request *request = context;
	struct cs_control *control = request->control;
	uint64_t odd = atomic_load_explicit(&control->request_sequence, memory_order_relaxed) | 1;

	atomic_store_explicit(&control->request_sequence, odd, memory_order_relaxed);
	cs_fence_fill();
	atomic_store_explicit(&control->command, request->command, memory_order_relaxed);
	atomic_store_explicit(&control->from_ns, request->from_ns, memory_order_relaxed);
	atomic_store_explicit(&control->until_ns, request->until_ns, memory_order_relaxed);
	atomic_store_explicit(&control->argument, 0, memory_order_relaxed);
	request->sequence = odd + 1;
	/* Pairs with the acquire in cs_segment_writer_take_request. */
	atomic_store_explicit(&control->request_sequence, request->sequence, memory_order_release);
	return 0;
}

/* Body of the guarded call. */
static int
look(void *context)
{
	struct request *request = context;

	/* Pairs with the release in cs_segment_writer_answer. */
	if (atomic_load_explicit(&request->status->control_done, memory_order_acquire) == request->sequence) {
		request->result =
			atomic_load_explicit(&request->status->control_result, memory_order_relaxed);
		request->answered = true;
	}
	return 0;
}

static int
wait_for_answer(struct request *request)
{
	bool more = true;
	int result;

	while (more) {
		bool gone = cs_segment_lock_held(request->fd) == 0;

		/* One last look after the writer has gone or time is up. */
		more = !gone && wait_a_little(request);
		result = cs_bus_guard_call(request->status, sizeof(*request->status), look, request);
		if (result < 0)
			return result;
		if (request->answered)
			return request->result <= ERRNO_MAX ? -(int)request->result : -EBADMSG;
		if (gone)
			return -ENOTCONN;
	}
	return -ETIMEDOUT;
}

static int
ask(struct request *request)
{
	int result = lock_control(request);

	if (result == 0 && cs_segment_lock_held(request->fd) == 0)
		result = -ENOTCONN;
	if (result == 0)
		result = cs_bus_guard_call(request->control, sizeof(*request->control), post, request);
	if (result == 0)
		result = wait_for_answer(request);
	return result;
}

/* Part of a file, by an offset that need not be a multiple of this machine's pages (64 KiB on some). */
struct part {
	void *base; /* NULL: not mapped */
	size_t length_bytes;
	void *at; /* of the offset */
};

static int
map_part(int fd, uint64_t offset_bytes, size_t length_bytes, int protection, struct part *part)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t before = offset_bytes % page_bytes;
	void *base =
		mmap(NULL, before + length_bytes, protection, MAP_SHARED, fd, (off_t)(offset_bytes - before));

	if (base == MAP_FAILED)
		return -errno;
	part->base = base;
	part->length_bytes = before + length_bytes;
	part->at = (uint8_t *)base + before;
	return 0;
}

static void
unmap_part(const struct part *part)
{
	if (part->base)
		munmap(part->base, part->length_bytes);
}

static int
explain(struct cs_error *error, int result)
{
	switch (result) {
	case -ETIMEDOUT:
		return cs_error_set(error, result,
			"the process did not answer in time; it may be stopped, or its injector dormant");
	case -ENOTCONN:
		return cs_error_set(error, result, "the process has gone");
	case -EIO:
		return cs_error_set(error, result, "the file shrank meanwhile");
	default:
		return cs_error_set(error, result, "%s", strerror(-result));
	}
}

int
cs_segment_request(const char *path, enum cs_command command, uint64_t from_ns, uint64_t until_ns,
	unsigned int timeout_ms, struct cs_error *error)
{
	struct request request = {.command = command, .from_ns = from_ns, .until_ns = until_ns};
	struct cs_segment_header header;
	struct cs_segment_map map;
	struct part control = {0};
	struct part status = {0};
	int result;

	request.deadline_ns = cs_clock_monotonic_ns() + timeout_ms * CS_NS_PER_MS;
	request.fd = cs_segment_open_checked(path, O_RDWR, &header, &map, error);
	if (request.fd < 0)
		return cs_error_wrap(error, request.fd, "cannot open segment %s", path);
	/* CONTROL is all that a reader may write, so it is all that is mapped for writing. */
	result = map_part(request.fd, map.offset_bytes[CS_SECTION_CONTROL], sizeof(struct cs_control),
		PROT_READ | PROT_WRITE, &control);
	if (result == 0)
		result = map_part(request.fd, map.offset_bytes[CS_SECTION_STATUS], sizeof(struct cs_status),
			PROT_READ, &status);
	if (result == 0) {
		request.control = control.at;
		request.status = status.at;
		result = ask(&request);
	}
	if (result < 0) {
		explain(error, result);
		cs_error_wrap(error, result, "request to segment %s failed", path);
	}
	unmap_part(&control);
	unmap_part(&status);
	close(request.fd);
	return result;
}
