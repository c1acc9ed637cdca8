/* SPDX-License-Identifier: Apache-2.0 */
#include "impl_change.h"

#include "clock.h"
#include "collective.h"
#include "log.h"
#include "size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_LEAST_NS CS_NS_PER_S
#define QUIET_MOST_NS  (3600 * CS_NS_PER_S)

_Static_assert((CS_IMPL_SERIES_MAX & (CS_IMPL_SERIES_MAX - 1)) == 0, "a place is found by a mask");
_Static_assert(sizeof(struct cs_impl_key) == 12, "keys are compared as bytes");

void
cs_impl_changes_fini(struct cs_impl_changes *changes)
{
	free(changes->series);
	*changes = (struct cs_impl_changes){0};
}

static size_t
hash_key(const struct cs_impl_key *key)
{
	uint32_t words[3];
	uint64_t hash;

	memcpy(words, key, sizeof(words));
	hash = (words[0] ^ (uint64_t)words[1] << 32 ^ words[2] * UINT64_C(0x9E3779B97F4A7C15)) *
	       UINT64_C(0xD6E8FEB86659FD93);
	return (size_t)(hash >> 32);
}

struct cs_impl_series *
cs_impl_changes_find(struct cs_impl_changes *changes, const struct cs_impl_key *key)
{
	size_t at = hash_key(key) & (CS_IMPL_SERIES_MAX - 1);

	if (!changes->series)
		changes->series = calloc(CS_IMPL_SERIES_MAX, sizeof(*changes->series));
	if (!changes->series)
		return NULL;
	while (changes->series[at].used && memcmp(&changes->series[at].key, key, sizeof(*key)) != 0)
		at = (at + 1) & (CS_IMPL_SERIES_MAX - 1);
	if (changes->series[at].used)
		return &changes->series[at];
	/* One place stays free, where a search ends. */
	if (changes->count + 1 == CS_IMPL_SERIES_MAX)
		return NULL;
	changes->count++;
	changes->series[at] = (struct cs_impl_series){.key = *key, .used = true};
	return &changes->series[at];
}

static uint64_t
elapsed(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

bool
cs_impl_change_see(struct cs_impl_series *series, uint8_t impl, uint64_t start_ns, struct cs_impl_line *line)
{
	if (series->told == CS_IMPL_UNKNOWN) {
		series->told = series->seen = impl;
		return false;
	}
	if (impl != series->seen) {
		if (elapsed(series->last_change_ns, start_ns) >= QUIET_MOST_NS)
			series->quiet_ns = 0;
		if (series->changes < UINT32_MAX)
			series->changes++;
		series->seen = impl;
		series->last_change_ns = start_ns;
	}
	if (impl == series->told ||
		(series->quiet_ns > 0 && elapsed(series->last_line_ns, start_ns) < series->quiet_ns))
		return false;
	*line = (struct cs_impl_line){.before = series->told, .now = impl, .changes = series->changes};
	series->quiet_ns = series->quiet_ns == 0                  ? QUIET_LEAST_NS
			   : series->quiet_ns < QUIET_MOST_NS / 2 ? series->quiet_ns * 2
								  : QUIET_MOST_NS;
	series->last_line_ns = start_ns;
	series->told = impl;
	series->changes = 0;
	return true;
}

void
cs_impl_change_log(const struct cs_impl_series *series, const struct cs_impl_line *line, uint32_t pid)
{
	const struct cs_impl_key *key = &series->key;
	char size[CS_SIZE_TEXT_BYTES];

	cs_size_text(key->size, size);
	cs_log_info(
		"Another implementation runs at this size op=%s size=%s dtype=%s phase=%s now=%s before=%s "
		"changes=%" PRIu32 " gpu=%" PRId32 " rank=%" PRId32 " pid=%" PRIu32,
		cs_op_name(key->op), size, cs_dtype_name(key->dtype), cs_phase_name(key->phase),
		cs_impl_name(line->now), cs_impl_name(line->before), line->changes, key->gpu, key->rank, pid);
}
