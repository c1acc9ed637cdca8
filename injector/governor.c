/* SPDX-License-Identifier: Apache-2.0 */
#include "governor.h"

#define PERTURBATION_MAX 4.0
#define MARGIN           0.75

void
cs_governor_init(struct cs_governor *governor, double budget, uint64_t base_period_ns, uint64_t deep_ns,
	uint64_t light_ns)
{
	*governor = (struct cs_governor){
		.budget = budget,
		.base_period_ns = base_period_ns,
		.deep_ns = deep_ns,
		.light_ns = light_ns,
		.perturbation = -1,
	};
}

void
cs_governor_measure(struct cs_governor *governor, const struct cs_launches_steps *steps)
{
	double measured;

	if (steps->deep_count < CS_GOVERNOR_SAMPLES_MIN || steps->light_count < CS_GOVERNOR_SAMPLES_MIN ||
		steps->light_ns == 0)
		return;
	measured = (double)steps->deep_ns / (double)steps->light_ns - 1;
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

	return (perturbation * (double)governor->deep_ns +
		       CS_GOVERNOR_LIGHT_COST * 2 * (double)governor->light_ns) /
	       period_ns;
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
	choice->light_always = choice->cost + CS_GOVERNOR_LIGHT_COST <= MARGIN * governor->budget;
	if (choice->light_always)
		choice->cost += CS_GOVERNOR_LIGHT_COST;
}
