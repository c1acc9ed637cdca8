/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test has the program do while it plays: one letter each on standard input, and the program answers
 * "at step N" when that is done. So a test waits for what it has to, however long that takes, instead of
 * naming steps by which it should have happened.
 *
 *   p  the profiler inside the program starts
 *   s  it stops; first says how many kernels it has recorded, in how many steps
 *   n  nothing: how far is it?
 *   e  the last step has been played; the end of the input is the same
 */
#ifndef CS_FAKE_SCENARIO_ORDERS_H
#define CS_FAKE_SCENARIO_ORDERS_H

enum scenario_order {
	SCENARIO_ORDER_NONE,
	SCENARIO_ORDER_PROFILE,
	SCENARIO_ORDER_STOP,
	SCENARIO_ORDER_TELL,
	SCENARIO_ORDER_END,
};

/* The next one; NONE when there is none yet. Does not wait. */
enum scenario_order scenario_orders_take(void);

#endif
