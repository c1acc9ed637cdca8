/* SPDX-License-Identifier: Apache-2.0 */
/* For programs, first thing in main: descriptors 0 to 2 are what they are taken for. */
#ifndef CS_DESCRIPTORS_H
#define CS_DESCRIPTORS_H

/*
 * A program that is started without stdout or stderr (>&-) would get that number for the next file it opens,
 * and print into a segment or the exporter's lock file. A placeholder that cannot be written takes the number
 * instead: what is printed fails with EBADF. It is closed on exec, so `collscope run` hands on what it was
 * given.
 */
void cs_descriptors_occupy(void);

#endif
