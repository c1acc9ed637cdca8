/* SPDX-License-Identifier: Apache-2.0 */
#include "quantile.h"

#include <errno.h>
#include <stdlib.h>

int
cs_quantile_add(uint64_t **values, size_t *capacity, uint64_t count, uint64_t value)
{
	if (count == *capacity) {
		size_t grown_capacity = *capacity ? *capacity * 2 : 256;
		void *grown = reallocarray(*values, grown_capacity, sizeof(**values));

		if (!grown)
			return -ENOMEM;
		*values = grown;
		*capacity = grown_capacity;
	}
	(*values)[count] = value;
	return 0;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

void
cs_quantile_sort(uint64_t *values, uint64_t count)
{
	qsort(values, count, sizeof(*values), compare_numbers);
}

uint64_t
cs_quantile_of(const uint64_t *sorted, uint64_t count, unsigned int percent)
{
	return sorted[(count * percent + 99) / 100 - 1];
}
