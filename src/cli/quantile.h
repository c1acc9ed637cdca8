/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact quantiles of values that are kept: what is summed up for people fits in memory, and a median that can
 * be checked against the dump by hand is worth it. Thread context: any; no state.
 */
#ifndef CS_QUANTILE_H
#define CS_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

/* Puts `value` behind the first `count` of an array that grows; *values is the caller's to free. 0 or
 * -ENOMEM. */
int cs_quantile_add(uint64_t **values, size_t *capacity, uint64_t count, uint64_t value);
void cs_quantile_sort(uint64_t *values, uint64_t count);
/* Nearest rank: the least value that at least `percent` of all are not above. count > 0. */
uint64_t cs_quantile_of(const uint64_t *sorted, uint64_t count, unsigned int percent);

#endif
