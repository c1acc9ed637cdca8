/* SPDX-License-Identifier: Apache-2.0 */
#include "impl_change.h"

#include "collective.h"
#include "log.h"
#include "size.h"

#include <inttypes.h>
#include <string.h>

const struct cs_series_key *
cs_impl_change_find(const struct cs_feed_map *map, const struct cs_series_key *key)
{
	struct cs_series_key like = *key;

	if (key->impl == CS_IMPL_UNKNOWN || key->size == CS_SIZE_UNKNOWN || key->other)
		return NULL;
	for (size_t i = 0; i < map->capacity; i++) {
		const struct cs_series_key *entry = &map->entries[i].key;

		if (!map->entries[i].used || entry->impl == CS_IMPL_UNKNOWN || entry->impl == key->impl)
			continue;
		like.impl = entry->impl;
		like.comm = entry->comm; /* a custom kernel knows of none */
		if (memcmp(&like, entry, sizeof(like)) == 0)
			return entry;
	}
	return NULL;
}

void
cs_impl_change_log(const struct cs_feed_map *map, const struct cs_series_key *key, uint32_t pid)
{
	const struct cs_series_key *before = cs_impl_change_find(map, key);
	char size[CS_SIZE_TEXT_BYTES];

	if (!before || key->rank > 0)
		return;
	cs_size_text(key->size, size);
	cs_log_info("Another implementation runs at this size op=%s size=%s phase=%s now=%s before=%s "
		    "rank=%" PRId32 " pid=%" PRIu32,
		cs_op_name(key->op), size, cs_phase_name(key->phase), cs_impl_name(key->impl),
		cs_impl_name(before->impl), key->rank, pid);
}
