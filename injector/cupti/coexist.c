/* SPDX-License-Identifier: Apache-2.0 */
#include "coexist.h"

#include "clock.h"

static unsigned int haste = 1;

void
cs_coexist_hurry(unsigned int divisor)
{
	haste = divisor < 1 ? 1 : divisor > CS_COEXIST_HASTE_MAX ? CS_COEXIST_HASTE_MAX : divisor;
}

uint64_t
cs_coexist_look_ns(void)
{
	uint64_t look_ns = CS_NS_PER_S / haste;

	return look_ns < 20 * CS_NS_PER_MS ? 20 * CS_NS_PER_MS : look_ns;
}

uint64_t
cs_coexist_step_back_ns(uint32_t base_s, unsigned int before)
{
	static const unsigned int times[] = {1, 2, 5, 10};
	const unsigned int last = sizeof(times) / sizeof(times[0]) - 1;

	return base_s * CS_NS_PER_S * times[before < last ? before : last] / haste;
}

uint64_t
cs_coexist_judge_ns(void)
{
	/* Some flushes at least. */
	const uint64_t least_ns = 500 * CS_NS_PER_MS;

	return CS_COEXIST_JUDGE_NS / haste > least_ns ? CS_COEXIST_JUDGE_NS / haste : least_ns;
}

bool
cs_coexist_forgives(uint64_t since_last_ns)
{
	return since_last_ns >= CS_COEXIST_FORGIVE_NS / haste;
}

bool
cs_coexist_should_unsubscribe(
	enum cs_mode mode, uint64_t now_ns, uint64_t first_context_ns, uint64_t last_graph_ns)
{
	if (mode == CS_MODE_FULL || first_context_ns == 0)
		return false;
	if (last_graph_ns == 0)
		return now_ns > first_context_ns &&
		       now_ns - first_context_ns >= CS_COEXIST_NO_GRAPH_NS / haste;
	return now_ns > last_graph_ns && now_ns - last_graph_ns >= CS_COEXIST_QUIET_NS / haste;
}

bool
cs_coexist_should_hold(uint64_t now_ns, uint64_t since_ns, uint64_t launched_ns)
{
	return launched_ns != 0 && now_ns - launched_ns < CS_COEXIST_HOLD_IDLE_NS / haste &&
	       now_ns - since_ns < CS_COEXIST_HOLD_NS / haste;
}

static bool
work_went_on(const struct cs_coexist_window *window)
{
	if (window->subscribed)
		return window->launches != 0;
	return (double)window->cpu_ns >= CS_COEXIST_BUSY_SHARE * (double)window->length_ns &&
	       window->length_ns != 0;
}

enum cs_coexist_verdict
cs_coexist_judge(const struct cs_coexist_window *window, unsigned int *silent)
{
	if (window->requested != 0 || window->completed != 0) {
		*silent = 0;
		return CS_COEXIST_OURS;
	}
	if (!work_went_on(window))
		return CS_COEXIST_IDLE;
	++*silent;
	if (window->held != 0 && *silent < CS_COEXIST_SILENT_MAX)
		return CS_COEXIST_SILENT;
	*silent = 0;
	return CS_COEXIST_FOREIGN;
}
