/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `size` label: the least power of two that is at least the message size, so that it has few values and
 * still sorts and plots as a number. A collective without a payload (a barrier) is "0"; a size nobody could
 * tell is "unknown".
 */
#ifndef CS_EXPORTER_SIZE_H
#define CS_EXPORTER_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* Buckets 0 ... 64 are exponents of two. */
#define CS_SIZE_ZERO    254U
#define CS_SIZE_UNKNOWN 255U
/* "18446744073709551616" and its NUL. */
#define CS_SIZE_TEXT_BYTES 24U

uint8_t cs_size_bucket(uint64_t bytes); /* CS_BYTES_UNKNOWN gives CS_SIZE_UNKNOWN */
void cs_size_text(uint8_t bucket, char text[CS_SIZE_TEXT_BYTES]);

#endif
