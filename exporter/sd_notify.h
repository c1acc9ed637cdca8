/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager (systemd's notification protocol: one datagram to the socket in
 * $NOTIFY_SOCKET). Without the variable every call does nothing. Thread context: one thread.
 */
#ifndef CS_EXPORTER_SD_NOTIFY_H
#define CS_EXPORTER_SD_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STATUS=...", "WATCHDOG=1", "STOPPING=1"; several separated by newlines. 0; -ENOTCONN: no
 * manager. */
int cs_sd_notify(const char *message);
/* How often WATCHDOG=1 is due: half of $WATCHDOG_USEC, when it is meant for this process; 0: not asked for.
 */
uint64_t cs_sd_watchdog_ns(void);

#endif
