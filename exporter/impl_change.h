/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines choose the implementation of a collective by its size, and by what is on: a log line tells when a
 * second one appears at a size of a phase. The histograms then show both.
 */
#ifndef CS_EXPORTER_IMPL_CHANGE_H
#define CS_EXPORTER_IMPL_CHANGE_H

#include "feed.h"

/* Another known label set of the map that differs from `key` in implementation alone; NULL when there is
 * none, or `key` is of an unknown implementation or size. Linear in the label sets: for the moment a label
 * set is new. */
const struct cs_series_key *cs_impl_change_find(
	const struct cs_feed_map *map, const struct cs_series_key *key);

/* Logs it, for rank 0 (all ranks of a group switch together) or an unknown one. */
void cs_impl_change_log(const struct cs_feed_map *map, const struct cs_series_key *key, uint32_t pid);

#endif
