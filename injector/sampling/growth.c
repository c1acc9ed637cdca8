/* SPDX-License-Identifier: Apache-2.0 */
#include "growth.h"

/* Windows may fill one part in so many. */
#define SHARE 5U

static uint64_t
less(uint64_t bytes, uint64_t by)
{
	return bytes > by ? bytes - by : 0;
}

void
cs_growth_forget(struct cs_growth *growth)
{
	*growth = (struct cs_growth){0};
}

bool
cs_growth_add(struct cs_growth *growth, const struct cs_growth_window *window, uint64_t threshold_bytes)
{
	if (growth->running && window->before_bytes > growth->last_bytes)
		cs_growth_forget(growth);
	if (growth->running) {
		growth->between_ns += window->begin_ns - growth->last_ns;
		/* What is given back between windows was no leak. */
		growth->grown_bytes = less(growth->grown_bytes, growth->last_bytes - window->before_bytes);
	}
	growth->running = true;
	growth->last_bytes = window->after_bytes;
	growth->last_ns = window->end_ns;
	growth->in_ns += window->end_ns - window->begin_ns;
	if (window->after_bytes > window->before_bytes) {
		growth->windows++;
		growth->grown_bytes += window->after_bytes - window->before_bytes;
	} else {
		growth->grown_bytes = less(growth->grown_bytes, window->before_bytes - window->after_bytes);
	}
	return threshold_bytes != 0 && growth->grown_bytes >= threshold_bytes &&
	       growth->windows >= CS_GROWTH_WINDOWS &&
	       growth->in_ns * SHARE <= growth->in_ns + growth->between_ns;
}
