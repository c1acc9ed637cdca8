/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our CUPTI subscription: callbacks of contexts, launches and graphs. There is one subscriber per process, so
 * it is held only while there is something to learn (injector/cupti/coexist.h).
 *
 * Shared (COLLSCOPE_CUPTI_V2=auto, CUPTI 13.3, driver r610): there may be several, and tracing needs one. It
 * is kept for as long as the process may trace; where it else would be given up its callbacks are switched
 * off, after which launches cost as little. Everybody else has to use the functions of the second kind, too:
 * those of the first, as torch.profiler's, are refused as long as one of these subscribers lives. Not tested
 * on a GPU: what is said of it here is CUPTI's documentation and headers.
 */
#ifndef CS_SUBSCRIPTION_H
#define CS_SUBSCRIPTION_H

#include "life/instance.h"
#include "sampling/steps.h"

/*
 * Subscribes and switches context callbacks on. 0; -EBUSY: somebody else holds it, whose name is in `other`
 * when CUPTI tells (13.0 on), else ""; -EIO with CUPTI's result in *failure. Start-up or worker, between
 * enter and leave.
 */
int cs_subscription_begin(
	struct cs_instance *instance, CUptiResult *failure, char *other, size_t other_bytes);
/* Gives it up, or only its callbacks if it is shared; callbacks under way on other threads end by themselves.
 * leave: all of it; no kind may be on. Idempotent. Worker. */
void cs_subscription_end(struct cs_instance *instance);
void cs_subscription_leave(struct cs_instance *instance);
/* Before tracing: a shared one that was left is taken again, without callbacks. If it is not to be had, as
 * another tool has used the functions of the first kind meanwhile, so do we from now on. */
void cs_subscription_renew(struct cs_instance *instance);

/* Callbacks come. */
bool cs_subscription_held(void);
/* Step times of what was launched while we were subscribed: cs_steps_read, cs_steps_name. Worker. */
size_t cs_subscription_steps(struct cs_steps_graph *graphs);
void cs_subscription_name_graph(uint32_t correlation_id, uint32_t graph_id);
/* Switches the label side's callbacks on, when held. CONTEXT_CREATED or worker. */
void cs_subscription_enable_labels(void);

#endif
