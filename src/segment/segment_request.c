/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's side of CONTROL. The writer's is in segment_control.c. */
#include "barrier.h"
#include "bus_guard.h"
#include "clock.h"
#include "segment_check.h"
#include "segment_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The writer's worker looks at CONTROL once per turn, some milliseconds; looking more often than this would
 * not make the answer come sooner. */
#define POLL_NS (2 * CS_NS_PER_MS)

/* Largest errno of the Linux ABI; anything above in control_result was not written by a writer of ours. */
#define ERRNO_MAX 4095U

#define PATH_BYTES 1024U

/* Part of a file, by an offset that need not be a multiple of this machine's pages (64 KiB on some). */
struct part {
	void *base; /* NULL: not mapped */
	size_t length_bytes;
	void *at; /* of the offset */
};

struct cs_segment_asker {
	char path[PATH_BYTES]; /* for sentences */
	int fd;
	struct part control_part, status_part;
	struct cs_control *control;
	const struct cs_status *status;
	bool locked;
	struct cs_segment_question question; /* the last one posted */
	uint64_t sequence;                   /* its number; 0: none was posted */
	bool answered;
	uint64_t result;
};

/* false: time is up. */
static bool
wait_a_little(uint64_t deadline_ns)
{
	struct timespec pause = {.tv_nsec = POLL_NS};

	if (cs_clock_monotonic_ns() >= deadline_ns)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static int
lock_control(struct cs_segment_asker *asker, uint64_t deadline_ns)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};

	while (!asker->locked && fcntl(asker->fd, F_OFD_SETLK, &lock) != 0) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return -errno;
		if (!wait_a_little(deadline_ns))
			return -ETIMEDOUT;
	}
	asker->locked = true;
	return 0;
}

/* Body of the guarded call. */
static int
post(void *context)
{
	struct cs_segment_asker *asker = context;
	struct cs_control *control = asker->control;
	uint64_t odd = atomic_load_explicit(&control->request_sequence, memory_order_relaxed) | 1;

	atomic_store_explicit(&control->request_sequence, odd, memory_order_relaxed);
	cs_fence_fill();
	atomic_store_explicit(&control->command, asker->question.command, memory_order_relaxed);
	atomic_store_explicit(&control->from_ns, asker->question.from_ns, memory_order_relaxed);
	atomic_store_explicit(&control->until_ns, asker->question.until_ns, memory_order_relaxed);
	atomic_store_explicit(&control->argument, asker->question.argument, memory_order_relaxed);
	asker->sequence = odd + 1;
	asker->answered = false;
	/* Pairs with the acquire in cs_segment_writer_take_request. */
	atomic_store_explicit(&control->request_sequence, asker->sequence, memory_order_release);
	return 0;
}

/* Body of the guarded call. */
static int
look(void *context)
{
	struct cs_segment_asker *asker = context;

	/* Pairs with the release in cs_segment_writer_answer. */
	if (atomic_load_explicit(&asker->status->control_done, memory_order_acquire) == asker->sequence) {
		asker->result = atomic_load_explicit(&asker->status->control_result, memory_order_relaxed);
		asker->answered = true;
	}
	return 0;
}

static int
wait_for_answer(struct cs_segment_asker *asker, uint64_t deadline_ns)
{
	bool more = true;
	int result;

	while (more) {
		bool gone = cs_segment_lock_held(asker->fd) == 0;

		/* One last look after the writer has gone or time is up. */
		more = !gone && wait_a_little(deadline_ns);
		result = cs_bus_guard_call(asker->status, sizeof(*asker->status), look, asker);
		if (result < 0)
			return result;
		if (asker->answered)
			return asker->result <= ERRNO_MAX ? -(int)asker->result : -EBADMSG;
		if (gone)
			return -ENOTCONN;
	}
	return -ETIMEDOUT;
}

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
explain(const struct cs_segment_asker *asker, struct cs_error *error, int result)
{
	switch (result) {
	case -ETIMEDOUT:
		cs_error_set(error, result,
			"the process did not answer in time; it may be stopped, or its injector dormant");
		break;
	case -ENOTCONN:
		cs_error_set(error, result, "the process has gone");
		break;
	case -EIO:
		cs_error_set(error, result, "the file shrank meanwhile");
		break;
	default:
		cs_error_set(error, result, "%s", strerror(-result));
		break;
	}
	return cs_error_wrap(error, result, "request to segment %s failed", asker->path);
}

int
cs_segment_asker_open(const char *path, struct cs_segment_asker **opened, struct cs_error *error)
{
	struct cs_segment_asker *asker = calloc(1, sizeof(*asker));
	struct cs_segment_header header;
	struct cs_segment_map map;
	int result;

	*opened = NULL;
	if (!asker) {
		cs_error_set(error, -ENOMEM, "no memory");
		return -ENOMEM;
	}
	snprintf(asker->path, sizeof(asker->path), "%s", path);
	asker->fd = cs_segment_open_checked(path, O_RDWR, &header, &map, error);
	if (asker->fd < 0) {
		result = cs_error_wrap(error, asker->fd, "cannot open segment %s", path);
		goto fail;
	}
	/* CONTROL is all that a reader may write, so it is all that is mapped for writing. */
	result = map_part(asker->fd, map.offset_bytes[CS_SECTION_CONTROL], sizeof(struct cs_control),
		PROT_READ | PROT_WRITE, &asker->control_part);
	if (result == 0)
		result = map_part(asker->fd, map.offset_bytes[CS_SECTION_STATUS], sizeof(struct cs_status),
			PROT_READ, &asker->status_part);
	if (result < 0) {
		explain(asker, error, result);
		goto fail;
	}
	asker->control = asker->control_part.at;
	asker->status = asker->status_part.at;
	*opened = asker;
	return 0;
fail:
	cs_segment_asker_close(asker);
	return result;
}

void
cs_segment_asker_close(struct cs_segment_asker *asker)
{
	if (!asker)
		return;
	unmap_part(&asker->control_part);
	unmap_part(&asker->status_part);
	if (asker->fd >= 0)
		close(asker->fd); /* and with it the lock */
	free(asker);
}

int
cs_segment_post(struct cs_segment_asker *asker, const struct cs_segment_question *question,
	uint64_t deadline_ns, struct cs_error *error)
{
	int result = lock_control(asker, deadline_ns);

	if (result == 0 && cs_segment_lock_held(asker->fd) == 0)
		result = -ENOTCONN;
	asker->question = *question;
	if (result == 0)
		result = cs_bus_guard_call(asker->control, sizeof(*asker->control), post, asker);
	return result < 0 ? explain(asker, error, result) : 0;
}

int
cs_segment_collect(struct cs_segment_asker *asker, uint64_t deadline_ns, struct cs_error *error)
{
	int result = asker->sequence ? wait_for_answer(asker, deadline_ns) : -EINVAL;

	return result < 0 ? explain(asker, error, result) : 0;
}

bool
cs_segment_asker_was_answered(const struct cs_segment_asker *asker)
{
	return asker->answered;
}

int
cs_segment_request(const char *path, enum cs_command command, uint64_t from_ns, uint64_t until_ns,
	unsigned int timeout_ms, struct cs_error *error)
{
	struct cs_segment_question question = {.command = command, .from_ns = from_ns, .until_ns = until_ns};
	uint64_t deadline_ns = cs_clock_monotonic_ns() + timeout_ms * CS_NS_PER_MS;
	struct cs_segment_asker *asker = NULL;
	int result = cs_segment_asker_open(path, &asker, error);

	if (result == 0 && asker)
		result = cs_segment_post(asker, &question, deadline_ns, error);
	if (result == 0 && asker)
		result = cs_segment_collect(asker, deadline_ns, error);
	cs_segment_asker_close(asker);
	return result;
}
