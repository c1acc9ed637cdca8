/* SPDX-License-Identifier: Apache-2.0 */
#include "governor.h"

#define PERTURBATION_MAX 4.0
#define MARGIN           0.75

void
cs_governor_init(struct cs_governor *governor, double budget, uint64_t base_period_ns, uint64_t window_ns)
{
	*governor = (struct cs_governor){
		.budget = budget,
		.base_period_ns = base_period_ns,
		.window_ns = window_ns,
		.perturbation = -1,
	};
}

void
cs_governor_measure(struct cs_governor *governor, const struct cs_steps_medians *steps)
{
	double measured;

	if (steps->traced_count < CS_GOVERNOR_SAMPLES_MIN ||
		steps->untraced_count < CS_GOVERNOR_SAMPLES_MIN || steps->untraced_ns == 0)
		return;
	measured = (double)steps->traced_ns / (double)steps->untraced_ns - 1;
	if (measured < 0)
		measured = 0;
	if (measured > PERTURBATION_MAX)
		measured = PERTURBATION_MAX;
	governor->perturbation =
		governor->perturbation < 0 ? measured : (governor->perturbation + measured) / 2;
}

static double
cost_of(const struct cs_governor *governor, unsigned int exponent)
{
	double period_ns = (double)(governor->base_period_ns << exponent);
	double perturbation = governor->perturbation < 0 ? CS_GOVERNOR_UNMEASURED : governor->perturbation;

	return perturbation * (double)governor->window_ns / period_ns;
}

void
cs_governor_choose(struct cs_governor *governor, struct cs_governor_choice *choice)
{
	unsigned int steps = 0;

	while (steps < 2 && governor->exponent < CS_GOVERNOR_EXPONENT_MAX &&
		cost_of(governor, governor->exponent) > governor->budget) {
		governor->exponent++;
		steps++;
	}
	if (steps > 0) {
		governor->calm = 0;
	} else if (governor->exponent > 0 &&
		   cost_of(governor, governor->exponent - 1) <= MARGIN * governor->budget) {
		if (++governor->calm >= CS_GOVERNOR_CALM) {
			governor->exponent--;
			governor->calm = 0;
		}
	} else {
		governor->calm = 0;
	}
	choice->period_ns = governor->base_period_ns << governor->exponent;
	choice->cost = cost_of(governor, governor->exponent);
}
