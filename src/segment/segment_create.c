/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a segment file: creation, the end, and what a fork child does with it. */
#include "clock.h"
#include "proc_file.h"
#include "rundir.h"
#include "segment_writer_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* renameat2's flag, for C libraries and kernel headers that lack it. */
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1U
#endif

/* Processes of different PID namespaces can share a run directory, a PID and a start tick; a process that
 * executes another program keeps both. Then the next tick is tried, so many times. */
#define NAME_ATTEMPTS 64U

static const uint32_t section_order[] = {
	CS_SECTION_CONTROL,
	CS_SECTION_STATUS,
	CS_SECTION_PROCESS,
	CS_SECTION_GPU,
	CS_SECTION_COMMUNICATOR,
	CS_SECTION_NAME,
	CS_SECTION_TEXT,
	CS_SECTION_LABEL,
	CS_SECTION_ENVIRONMENT,
	CS_SECTION_RING,
};
#define SECTION_COUNT (sizeof(section_order) / sizeof(section_order[0]))
_Static_assert(SECTION_COUNT == CS_SECTION_TYPE_COUNT - 1, "every section type is laid out");
_Static_assert(SECTION_COUNT <= CS_SEGMENT_SECTIONS_MAX, "the directory holds every section");

struct layout {
	struct cs_section sections[SECTION_COUNT];
	uint64_t file_bytes;
};

static void
lay_out(uint32_t ring_slots, struct layout *layout)
{
	uint64_t offset_bytes = sizeof(struct cs_segment_header);

	for (size_t i = 0; i < SECTION_COUNT; i++) {
		const struct cs_section_rule *rule = cs_section_rule(section_order[i]);
		struct cs_section *section = &layout->sections[i];

		section->type = section_order[i];
		section->stride_bytes = rule->stride_bytes;
		section->capacity = section->type == CS_SECTION_RING ? ring_slots : rule->capacity_max;
		section->offset_bytes = offset_bytes;
		section->length_bytes = cs_section_length_bytes(rule, section->capacity);
		offset_bytes += section->length_bytes;
	}
	layout->file_bytes = offset_bytes;
}

/* -- who we are ------------------------------------------------------------------------------------------ */

/* Field 22 of /proc/self/stat; 0 when /proc is not there. Field 2, the name, may hold anything: count from
 * the last parenthesis, after which field 3 comes. */
static uint64_t
read_start_time_ticks(void)
{
	char stat[1024];
	const char *field;

	if (cs_proc_file_read("/proc/self/stat", stat, sizeof(stat)) <= 0)
		return 0;
	field = strrchr(stat, ')');
	for (int number = 2; field && number < 22; number++) {
		field = strchr(field, ' ');
		if (field)
			field++;
	}
	return field ? strtoull(field, NULL, 10) : 0;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* 32 hexadecimal digits with hyphens between; stays zero when unreadable. */
static void
read_boot_id(uint8_t boot_id[16])
{
	char text[64] = "";
	unsigned int digits = 0;

	memset(boot_id, 0, 16);
	if (cs_proc_file_read("/proc/sys/kernel/random/boot_id", text, sizeof(text)) <= 0)
		return;
	for (const char *c = text; *c && digits < 32; c++) {
		int digit = hex_digit(*c);

		if (digit < 0)
			continue;
		boot_id[digits / 2] = (uint8_t)((boot_id[digits / 2] << 4) | digit);
		digits++;
	}
}

static uint64_t
read_pid_namespace_inode(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/* -- filling --------------------------------------------------------------------------------------------- */

static void
fill_header(struct cs_segment_header *header, const struct layout *layout, const char *version,
	uint64_t start_time_ticks, uint64_t generation)
{
	static const char magic[16] = CS_SEGMENT_MAGIC;

	atomic_store_explicit(&header->generation_begin, generation, memory_order_relaxed);
	memcpy(header->magic, magic, sizeof(magic));
	header->endian = CS_SEGMENT_ENDIAN;
	header->major = CS_SEGMENT_MAJOR;
	header->minor = CS_SEGMENT_MINOR;
	header->header_bytes = sizeof(*header);
	header->section_count = SECTION_COUNT;
	header->file_bytes = layout->file_bytes;
	header->pid = (uint32_t)getpid();
	header->uid = (uint32_t)geteuid();
	header->parent_pid = (uint32_t)getppid();
	header->start_time_ticks = start_time_ticks;
	header->pid_namespace_inode = read_pid_namespace_inode();
	read_boot_id(header->boot_id);
	header->created_ns = cs_clock_realtime_ns();
	if (version)
		strncpy(header->injector_version, version, sizeof(header->injector_version) - 1);
	memcpy(header->sections, layout->sections, sizeof(layout->sections));
}

static void
find_sections(struct cs_segment_writer *writer, const struct layout *layout)
{
	uint8_t *at[CS_SECTION_TYPE_COUNT] = {NULL};

	for (size_t i = 0; i < SECTION_COUNT; i++)
		at[layout->sections[i].type] = writer->base + layout->sections[i].offset_bytes;
	writer->header = (struct cs_segment_header *)(void *)writer->base;
	writer->control = (struct cs_control *)(void *)at[CS_SECTION_CONTROL];
	writer->status = (struct cs_status *)(void *)at[CS_SECTION_STATUS];
	writer->process = (struct cs_process *)(void *)at[CS_SECTION_PROCESS];
#define TABLE(name, entries, section)                                                                        \
	do {                                                                                                 \
		writer->name##_head = (struct cs_table_head *)(void *)at[section];                           \
		writer->entries = (void *)(at[section] + sizeof(struct cs_table_head));                      \
	} while (0)
	TABLE(gpu, gpus, CS_SECTION_GPU);
	TABLE(communicator, communicators, CS_SECTION_COMMUNICATOR);
	TABLE(name, names, CS_SECTION_NAME);
	TABLE(text, text, CS_SECTION_TEXT);
	TABLE(label, labels, CS_SECTION_LABEL);
	TABLE(environment, environment, CS_SECTION_ENVIRONMENT);
#undef TABLE
	writer->ring_head = (struct cs_ring_head *)(void *)at[CS_SECTION_RING];
	writer->slots = (struct cs_ring_slot *)(void *)(at[CS_SECTION_RING] + sizeof(struct cs_ring_head));
}

/* Entry 0 of NAME is the empty text, entry 0 of LABEL is all zero: "no name", "no label". */
static void
fill_tables(struct cs_segment_writer *writer)
{
	writer->text_bytes = 1;
	writer->name_count = 1;
	writer->label_count = 1;
	atomic_store_explicit(&writer->text_head->count, 1, memory_order_relaxed);
	atomic_store_explicit(&writer->name_head->count, 1, memory_order_relaxed);
	atomic_store_explicit(&writer->label_head->count, 1, memory_order_relaxed);
	writer->process->rank = -1;
	writer->process->world = -1;
}

/* -- the file -------------------------------------------------------------------------------------------- */

static int
lock_as_sign_of_life(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -errno;
}

static bool
locked_by_other_description(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/*
 * Closes `fd`. A mapping holds the open file description, and with it the lock, so that no descriptor stays
 * in the host: the host cannot close it under us, or give its number to a file of its own that we would
 * close. Not so on overlayfs, a container's root: there a mapping holds the file of the layer below, and the
 * lock goes with the descriptor. What the lock does is looked at, and one descriptor kept where it has to be.
 */
static int
settle_lock(struct cs_segment_writer *writer, int directory, const char *temporary, int fd)
{
	struct stat status = {0};
	int result = 0;
	int probe = openat(directory, temporary, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (probe < 0)
		result = -errno;
	close(fd);
	if (probe < 0)
		return result;
	if (locked_by_other_description(probe)) {
		close(probe);
		return 0;
	}
	result = lock_as_sign_of_life(probe);
	if (result == 0 && fstat(probe, &status) != 0)
		result = -errno;
	if (result < 0) {
		close(probe);
		return result;
	}
	writer->lock_fd = probe;
	writer->lock_device = status.st_dev;
	writer->lock_inode = status.st_ino;
	return 0;
}

/* Async-signal-safe. The host may have closed our descriptor and opened a file of its own under its number.
 */
static void
close_lock(struct cs_segment_writer *writer)
{
	struct stat status;

	if (writer->lock_fd >= 0 && fstat(writer->lock_fd, &status) == 0 &&
		status.st_dev == writer->lock_device && status.st_ino == writer->lock_inode)
		close(writer->lock_fd);
	writer->lock_fd = -1;
}

/* What fallocate(2) would do, for filters and file systems that refuse it otherwise than by EOPNOTSUPP, where
 * the C library does this itself. */
static int
write_zeros(int fd, uint64_t bytes)
{
	static const char zeros[65536];
	uint64_t at = 0;

	while (at < bytes) {
		size_t want = bytes - at < sizeof(zeros) ? (size_t)(bytes - at) : sizeof(zeros);
		ssize_t got = pwrite(fd, zeros, want, (off_t)at);

		if (got == 0)
			return ENOSPC;
		if (got < 0 && errno != EINTR)
			return errno;
		if (got > 0)
			at += (uint64_t)got;
	}
	return 0;
}

static int
reserve_blocks(int fd, uint64_t bytes)
{
	struct rlimit limit;
	sigset_t all, before;
	int result;

	/* Above the limit the kernel would send SIGXFSZ, which ends the host. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
		return -EFBIG;
	/* A tmpfs of older kernels gives back what it has reserved and says EINTR when a signal comes; under
	 * a host's profiling timer it would never come to an end. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = posix_fallocate(fd, 0, (off_t)bytes);
	if (result == EPERM || result == ENOSYS)
		result = write_zeros(fd, bytes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -result;
}

/* A name that no reader takes for a segment (the dot). */
static int
open_temporary(int directory, uint32_t pid, uint64_t ticks, char *name, size_t name_bytes)
{
	for (unsigned int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
		int result = cs_rundir_format_temporary(pid, ticks, attempt, name, name_bytes);
		int fd;

		if (result < 0)
			return result;
		fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			fchmod(fd, 0600); /* whatever the umask is */
			return fd;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* rename(2) that never replaces. link(2) and unlink(2) where renameat2(2) is not to be had (some network and
 * FUSE file systems, old kernels, seccomp filters). */
static int
rename_without_replacing(int directory, const char *from, const char *to)
{
	if (syscall(SYS_renameat2, directory, from, directory, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS && errno != EPERM)
		return -errno;
	if (linkat(directory, from, directory, to, 0) != 0)
		return -errno;
	unlinkat(directory, from, 0);
	return 0;
}

static int
publish(struct cs_segment_writer *writer, int directory, const char *temporary, const char *directory_path,
	uint64_t ticks)
{
	uint32_t pid = writer->header->pid;
	int result = -EEXIST;

	for (unsigned int attempt = 0; attempt < NAME_ATTEMPTS && result == -EEXIST; attempt++) {
		char name[64];
		int length;

		result = cs_rundir_format_name(pid, ticks + attempt, name, sizeof(name));
		if (result < 0)
			break;
		length = snprintf(writer->path, sizeof(writer->path), "%s/%s", directory_path, name);
		if (length < 0 || (size_t)length >= sizeof(writer->path))
			return -ENAMETOOLONG;
		result = rename_without_replacing(directory, temporary, name);
	}
	return result;
}

static struct cs_segment_writer *
allocate_writer(void)
{
	/* Populated now, so that no later insertion waits for a page. */
	void *memory = mmap(NULL, sizeof(struct cs_segment_writer), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	struct cs_segment_writer *writer = memory;

	if (memory == MAP_FAILED)
		return NULL;
	writer->lock_fd = -1;
	return writer;
}

static int
map_file(struct cs_segment_writer *writer, int fd, uint64_t file_bytes)
{
	void *base = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	writer->base = base;
	writer->file_bytes = file_bytes;
	return 0;
}

static int
create(const struct cs_segment_options *options, uint32_t ring_slots, struct cs_segment_writer *writer)
{
	uint64_t ticks = read_start_time_ticks();
	uint64_t generation = cs_clock_realtime_ns() | 1;
	char temporary[96] = "";
	struct layout layout;
	int directory;
	int fd = -1;
	int result;

	directory = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	fd = open_temporary(directory, (uint32_t)getpid(), ticks, temporary, sizeof(temporary));
	if (fd < 0) {
		result = fd;
		goto close_directory;
	}
	lay_out(ring_slots, &layout);
	result = lock_as_sign_of_life(fd);
	if (result < 0)
		goto unlink_temporary;
	result = reserve_blocks(fd, layout.file_bytes);
	if (result < 0)
		goto unlink_temporary;
	result = map_file(writer, fd, layout.file_bytes);
	if (result < 0)
		goto unlink_temporary;
	find_sections(writer, &layout);
	writer->ring_mask = ring_slots - 1;
	fill_header(writer->header, &layout, options->version, ticks, generation);
	fill_tables(writer);
	atomic_store_explicit(&writer->header->generation_end, generation, memory_order_release);
	/* Before anybody can look for the lock. */
	result = settle_lock(writer, directory, temporary, fd);
	fd = -1;
	if (result == 0)
		result = publish(writer, directory, temporary, options->directory, ticks);

unlink_temporary:
	if (result < 0)
		unlinkat(directory, temporary, 0);
	if (fd >= 0)
		close(fd);
close_directory:
	close(directory);
	return result;
}

int
cs_segment_writer_create(const struct cs_segment_options *options, struct cs_segment_writer **writer)
{
	uint32_t ring_slots = options->ring_slots ? options->ring_slots : CS_RING_SLOTS_DEFAULT;
	struct cs_segment_writer *made;
	int saved_errno = errno;
	int result;

	*writer = NULL;
	if (ring_slots < CS_RING_SLOTS_MIN || ring_slots > CS_RING_SLOTS_MAX ||
		(ring_slots & (ring_slots - 1)) != 0)
		return -EINVAL;
	made = allocate_writer();
	if (!made)
		return -ENOMEM;
	result = create(options, ring_slots, made);
	if (result < 0)
		cs_segment_writer_destroy(made, false);
	else
		*writer = made;
	errno = saved_errno;
	return result;
}

void
cs_segment_writer_destroy(struct cs_segment_writer *writer, bool unlink_file)
{
	int saved_errno = errno;

	if (!writer)
		return;
	if (unlink_file && cs_segment_writer_usable(writer))
		unlink(writer->path);
	if (writer->base)
		munmap(writer->base, writer->file_bytes);
	close_lock(writer);
	munmap(writer, sizeof(*writer));
	errno = saved_errno;
}

void
cs_segment_writer_abandon(struct cs_segment_writer *writer)
{
	int saved_errno = errno;

	if (!writer)
		return;
	atomic_store_explicit(&writer->abandoned, true, memory_order_relaxed);
	/* Private zero pages in place of the file: the lock's open file description loses this process, and
	 * pointers that were handed out stay harmless. mmap(2) is a bare system call: async-signal-safe. When
	 * it fails, the child keeps the pages and uses none of them. */
	(void)mmap(writer->base, writer->file_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	close_lock(writer);
	errno = saved_errno;
}

struct cs_status *
cs_segment_writer_status(struct cs_segment_writer *writer)
{
	return writer->status;
}

struct cs_control *
cs_segment_writer_control(struct cs_segment_writer *writer)
{
	return writer->control;
}

const char *
cs_segment_writer_path(const struct cs_segment_writer *writer)
{
	return writer->path;
}

uint64_t
cs_segment_writer_mapped_bytes(const struct cs_segment_writer *writer)
{
	return writer->file_bytes + sizeof(*writer);
}
