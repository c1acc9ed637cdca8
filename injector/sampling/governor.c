/* SPDX-License-Identifier: Apache-2.0 */
#include "governor.h"

#include "clock.h"

#define PERTURBATION_MAX 4.0
#define MARGIN           0.75
#define SPARSE           8U
/* A window with less work than this share teaches nothing about steps. */
#define BUSY_SHARE 4U
/* A graph with at least this share of the launches of the most frequent one is usual. */
#define USUAL_SHARE 4U

void
cs_governor_init(
	struct cs_governor *governor, double budget, uint64_t base_period_ns, uint64_t base_window_ns)
{
	*governor = (struct cs_governor){
		.budget = budget,
		.base_period_ns = base_period_ns,
		.base_window_ns = base_window_ns,
		.perturbation = -1,
		.bound = -1,
		.quick = CS_GOVERNOR_QUICK,
	};
}

static double
clamp(double perturbation)
{
	return perturbation < 0 ? 0 : perturbation > PERTURBATION_MAX ? PERTURBATION_MAX : perturbation;
}

static double
larger(double one, double other)
{
	return one > other ? one : other;
}

/* How much of CS_GOVERNOR_KERNEL_NS each kernel is taken to cost at least. */
static double
kernel_part(const struct cs_governor *governor)
{
	if (governor->perturbation < 0)
		return 1;
	return governor->old ? CS_GOVERNOR_OLD_PART : 0;
}

double
cs_governor_expected(const struct cs_governor *governor)
{
	double bound = governor->bound >= 0 ? governor->bound : CS_GOVERNOR_UNMEASURED;
	double part = kernel_part(governor);

	/* bound = lost / (time - lost); of that, what holds when so much less is lost. */
	return larger(governor->perturbation, part * bound / (1 + (1 - part) * bound));
}

/* The longest window, as an exponent. */
static unsigned int
window_exponent_max(const struct cs_governor *governor)
{
	unsigned int exponent = 0;

	while (exponent < CS_GOVERNOR_WINDOW_EXPONENT_MAX &&
		governor->base_window_ns << (exponent + 1) <= CS_GOVERNOR_WINDOW_MAX_NS)
		exponent++;
	return exponent;
}

static uint64_t
allowance_ns(const struct cs_governor *governor)
{
	return (uint64_t)(governor->budget * (double)(CS_SPENDING_SECONDS * CS_NS_PER_S));
}

/* The window's length, cut to what a minute pays for. */
static uint64_t
affordable_window_ns(const struct cs_governor *governor)
{
	uint64_t window_ns = governor->base_window_ns << governor->window_exponent;
	uint64_t least_ns = governor->base_window_ns >> CS_GOVERNOR_WINDOW_EXPONENT_MAX;

	while (window_ns / 2 >= least_ns && window_ns >= 2 * CS_NS_PER_MS &&
		cs_governor_expected(governor) * (double)window_ns > MARGIN * (double)allowance_ns(governor))
		window_ns /= 2;
	return window_ns;
}

/* What the account takes for granted is put right when the perturbation turns out to be higher, also than
 * nothing. */
static void
revise(struct cs_governor *governor)
{
	cs_spending_rebook(&governor->spending, clamp(governor->perturbation), kernel_part(governor));
}

/* -- measuring ------------------------------------------------------------------------------------------- */

bool
cs_governor_ratio(const struct cs_steps_graph *graph, double *ratio)
{
	uint32_t enough = graph->untraced_ns >= CS_GOVERNOR_LONG_NS ? CS_GOVERNOR_SAMPLES_LONG
								    : CS_GOVERNOR_SAMPLES_MIN;

	if (graph->traced_count < enough || graph->untraced_count < enough || graph->untraced_ns == 0)
		return false;
	*ratio = 1 + clamp((double)graph->traced_ns / (double)graph->untraced_ns - 1);
	return true;
}

static void
want_window(struct cs_governor *governor, uint64_t step_ns, bool may_shrink)
{
	unsigned int most = window_exponent_max(governor);
	unsigned int wanted = 0;

	while (wanted < most && (governor->base_window_ns << wanted) < CS_GOVERNOR_STEPS * step_ns)
		wanted++;
	if (wanted > governor->window_exponent) {
		governor->window_exponent = wanted;
		governor->window_calm = 0;
	} else if (wanted == governor->window_exponent) {
		governor->window_calm = 0;
	} else if (may_shrink && ++governor->window_calm >= CS_GOVERNOR_WINDOW_CALM) {
		governor->window_exponent--;
		governor->window_calm = 0;
	}
}

void
cs_governor_measure(struct cs_governor *governor, const struct cs_steps_graph *graphs, size_t count)
{
	double worst = -1;
	uint64_t step_ns = 0;
	uint64_t most = 0;

	for (size_t i = 0; i < count; i++)
		if (!graphs[i].eager && graphs[i].untraced_total > most)
			most = graphs[i].untraced_total;
	for (size_t i = 0; i < count; i++) {
		double ratio;

		if (cs_governor_ratio(&graphs[i], &ratio) && ratio - 1 > worst)
			worst = ratio - 1;
		/* From one launch of a graph that comes rarely to the next is more than a step. */
		if (!graphs[i].eager && graphs[i].untraced_count >= CS_GOVERNOR_SAMPLES_LONG &&
			graphs[i].untraced_total >= most / USUAL_SHARE && graphs[i].untraced_ns > step_ns)
			step_ns = graphs[i].untraced_ns;
	}
	want_window(governor, step_ns, false);
	if (worst < 0)
		return;
	governor->perturbation = governor->perturbation < 0 ? worst : (governor->perturbation + worst) / 2;
	governor->old = false;
	revise(governor);
}

void
cs_governor_lose_sight(struct cs_governor *governor)
{
	if (governor->old)
		return;
	governor->old = true;
	revise(governor);
}

/* -- learning from records ------------------------------------------------------------------------------- */

static double
bound_of(const struct cs_pace_summary *summary)
{
	double lost_ns = (double)summary->kernels * CS_GOVERNOR_KERNEL_NS;
	double rest_ns = (double)summary->active_ns - lost_ns;

	return rest_ns > 0 ? clamp(lost_ns / rest_ns) : PERTURBATION_MAX;
}

static void
learn_bound(struct cs_governor *governor, const struct cs_pace_summary *summary)
{
	double bound = bound_of(summary);

	governor->bound = bound > governor->bound ? bound : (governor->bound + bound) / 2;
}

static void
learn_steps(struct cs_governor *governor, const struct cs_pace_summary *summary, uint64_t window_ns)
{
	if (summary->step_ns != 0) {
		governor->vain = 0;
		want_window(governor, summary->step_ns, true);
	} else if (summary->busy_ns < summary->length_ns / BUSY_SHARE) {
		return;
	} else if (governor->vain > 0) {
		governor->vain--;
	} else if (governor->window_exponent < window_exponent_max(governor) &&
		   window_ns == governor->base_window_ns << governor->window_exponent) {
		governor->window_exponent++;
		governor->window_calm = 0;
	} else {
		governor->window_exponent = 0;
		governor->vain = CS_GOVERNOR_VAIN;
	}
}

static struct cs_spending_work
work_of(uint64_t active_ns, uint64_t kernels)
{
	double most_ns = PERTURBATION_MAX * (double)active_ns;
	uint64_t kernels_ns = kernels * CS_GOVERNOR_KERNEL_NS;

	return (struct cs_spending_work){.active_ns = active_ns,
		.bound_ns = (double)kernels_ns < most_ns ? kernels_ns : (uint64_t)most_ns};
}

/* What a window has cost. */
static uint64_t
actual_ns(const struct cs_governor *governor, const struct cs_spending_work *work)
{
	return (uint64_t)larger(clamp(governor->perturbation) * (double)work->active_ns,
		kernel_part(governor) * (double)work->bound_ns);
}

void
cs_governor_learn(struct cs_governor *governor, const struct cs_pace_summary *summary, uint64_t end_ns)
{
	uint64_t idle_ns = summary->length_ns - summary->active_ns;
	uint64_t window_ns = affordable_window_ns(governor);
	struct cs_spending_work work = work_of(summary->active_ns, summary->kernels);

	if (summary->kernels == 0) {
		cs_spending_settle(&governor->spending, end_ns, 0, &work);
		governor->quick = CS_GOVERNOR_QUICK;
		return;
	}
	cs_spending_settle(&governor->spending, end_ns, actual_ns(governor, &work), &work);
	if (idle_ns >= CS_GOVERNOR_QUICK_NS)
		governor->quick = CS_GOVERNOR_QUICK;
	else if (governor->quick > 0)
		governor->quick--;
	if (summary->active_ns == 0)
		return;
	learn_bound(governor, summary);
	if (summary->step_ns == 0 && summary->active_ns < window_ns / 2 &&
		++governor->stumps < CS_GOVERNOR_STUMPS)
		return;
	governor->stumps = 0;
	learn_steps(governor, summary, window_ns);
}

void
cs_governor_learn_part(struct cs_governor *governor, const struct cs_pace_summary *summary, uint64_t end_ns)
{
	struct cs_spending_work work = work_of(summary->active_ns, summary->kernels);
	uint64_t seen_ns = actual_ns(governor, &work);
	uint64_t reserved_ns = governor->spending.reserved_ns;

	cs_spending_settle(&governor->spending, end_ns, seen_ns > reserved_ns ? seen_ns : reserved_ns, &work);
	if (governor->quick > 0)
		governor->quick--;
	if (summary->active_ns != 0 && bound_of(summary) > governor->bound)
		learn_bound(governor, summary);
	if (summary->step_ns != 0)
		learn_steps(governor, summary, affordable_window_ns(governor));
}

/* -- choosing -------------------------------------------------------------------------------------------- */

static double
cost_of(const struct cs_governor *governor, uint64_t window_ns, unsigned int exponent)
{
	return cs_governor_expected(governor) * (double)window_ns /
	       (double)(governor->base_period_ns << exponent);
}

/* How many windows, one a period, the account counts together when one more is opened (spending.h: until the
 * second in which it ended is over a minute old). */
static uint64_t
together(uint64_t window_ns, uint64_t period_ns)
{
	return ((CS_SPENDING_SECONDS + 1) * CS_NS_PER_S + window_ns - 1) / period_ns + 1;
}

/* Also by the account: were one window of several refused there, again and again, each process would lack
 * another one, and those of a group might never meet. */
static bool
fits(const struct cs_governor *governor, uint64_t window_ns, unsigned int exponent, double share)
{
	uint64_t period_ns = governor->base_period_ns << exponent;
	uint64_t sparse = governor->base_period_ns / governor->base_window_ns;
	double minute_ns =
		cs_governor_expected(governor) * (double)window_ns * (double)together(window_ns, period_ns);

	if (sparse > SPARSE)
		sparse = SPARSE;
	return cost_of(governor, window_ns, exponent) <= share * governor->budget &&
	       minute_ns <= share * (double)allowance_ns(governor) && period_ns >= sparse * window_ns;
}

static void
choose_period(struct cs_governor *governor, uint64_t window_ns)
{
	if (!fits(governor, window_ns, governor->exponent, 1)) {
		governor->calm = 0;
		do {
			if (governor->exponent < CS_GOVERNOR_EXPONENT_MAX)
				governor->exponent++;
		} while (governor->skipped && governor->exponent < CS_GOVERNOR_EXPONENT_MAX &&
			 !fits(governor, window_ns, governor->exponent, 1));
	} else if (governor->exponent > 0 && fits(governor, window_ns, governor->exponent - 1, MARGIN)) {
		if (++governor->calm >= CS_GOVERNOR_CALM) {
			governor->exponent--;
			governor->calm = 0;
		}
	} else {
		governor->calm = 0;
	}
	governor->skipped = false;
}

/* The base period, or the next that is short enough when halved; twice the window at least. 0: no finer than
 * the period. */
static uint64_t
quick_grid_ns(const struct cs_governor *governor, uint64_t period_ns, uint64_t window_ns)
{
	uint64_t grid_ns = governor->base_period_ns;

	while (grid_ns > CS_GOVERNOR_QUICK_NS)
		grid_ns /= 2;
	while (grid_ns < 2 * window_ns)
		grid_ns *= 2;
	return grid_ns < period_ns ? grid_ns : 0;
}

void
cs_governor_choose(struct cs_governor *governor, struct cs_governor_choice *choice)
{
	uint64_t window_ns = affordable_window_ns(governor);

	choose_period(governor, window_ns);
	choice->window_ns = window_ns;
	choice->period_ns = governor->base_period_ns << governor->exponent;
	choice->quick_ns = governor->quick > 0 ? quick_grid_ns(governor, choice->period_ns, window_ns) : 0;
	choice->cost = cost_of(governor, window_ns, governor->exponent);
}

bool
cs_governor_afford(struct cs_governor *governor, uint64_t now_ns, uint64_t window_ns)
{
	uint64_t cost_ns = (uint64_t)(cs_governor_expected(governor) * (double)window_ns);

	if (cs_spending_reserve(&governor->spending, now_ns, cost_ns, allowance_ns(governor)))
		return true;
	governor->skipped = true;
	return false;
}

bool
cs_governor_overdraws(
	const struct cs_governor *governor, uint64_t now_ns, uint64_t active_ns, uint64_t kernels)
{
	uint64_t booked_ns =
		cs_spending_total_ns(&governor->spending, now_ns) - governor->spending.reserved_ns;
	struct cs_spending_work work = work_of(active_ns, kernels);

	return booked_ns + actual_ns(governor, &work) > allowance_ns(governor);
}
