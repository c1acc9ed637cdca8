/* SPDX-License-Identifier: Apache-2.0 */
#include "orders.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum scenario_order
scenario_orders_take(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char letter = '\0';

	if (poll(&input, 1, 0) <= 0)
		return SCENARIO_ORDER_NONE;
	if (read(STDIN_FILENO, &letter, 1) != 1)
		return SCENARIO_ORDER_END;
	switch (letter) {
	case 'p':
		return SCENARIO_ORDER_PROFILE;
	case 's':
		return SCENARIO_ORDER_STOP;
	case 'n':
		return SCENARIO_ORDER_TELL;
	case 'e':
		return SCENARIO_ORDER_END;
	default:
		fprintf(stderr, "scenario_rank: no order '%c'\n", letter);
		exit(2);
	}
}
