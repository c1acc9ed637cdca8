/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room under the limits that the host has set itself: `ulimit -v` (RLIMIT_AS) and `ulimit -d` (RLIMIT_DATA).
 * What we map, the program cannot; one that just fits would fail because of us.
 */
#ifndef CS_ROOM_H
#define CS_ROOM_H

#include <stdint.h>

/* 32 MiB of ours (docs/architecture.md), the address space that the C library sets aside for the memory of
 * each new thread (64 MiB, and up to as much again until it is aligned; one thread is ours, one CUPTI's), and
 * as much again for CUPTI itself and for what the program has yet to do. */
#define CS_ROOM_NEEDED_BYTES (512ULL << 20)

/* Bytes that may still be mapped, by the tighter of the two; *limit says which. UINT64_MAX: no limit, or it
 * is not known how much is in use (no /proc). Start-up; opens a file, allocates nothing. */
uint64_t cs_room_left_bytes(const char **limit);
/* The same of given numbers: what /proc/self/statm says, and the limits (RLIM_INFINITY as UINT64_MAX). Pure.
 */
uint64_t cs_room_left_of(const char *statm, uint64_t page_bytes, uint64_t address_space_bytes,
	uint64_t data_bytes, const char **limit);

#endif
