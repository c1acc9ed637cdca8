/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for injector/life/instance.c in unit tests: one segment in a directory of its own. */
#ifndef CS_INSTANCE_DOUBLE_H
#define CS_INSTANCE_DOUBLE_H

#include "injector.h"

/* Makes the segment that cs_injector_borrow_writer() gives from now on; close removes everything. 0 or
 * -errno. */
int instance_double_open(void);
void instance_double_close(void);
/* As after fork: no writer. */
void instance_double_hide(bool hidden);

#endif
