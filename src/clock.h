/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks. Header-only; host-safe (vDSO, no lock); errno is not touched on success. */
#ifndef CS_CLOCK_H
#define CS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CS_NS_PER_S  1000000000ULL
#define CS_NS_PER_MS 1000000ULL
#define CS_NS_PER_US 1000ULL

static inline uint64_t
cs_clock_ns(clockid_t clock_id)
{
	struct timespec now = {0};

	clock_gettime(clock_id, &now);
	return (uint64_t)now.tv_sec * CS_NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t
cs_clock_realtime_ns(void)
{
	return cs_clock_ns(CLOCK_REALTIME);
}

static inline uint64_t
cs_clock_monotonic_ns(void)
{
	return cs_clock_ns(CLOCK_MONOTONIC);
}

#endif
