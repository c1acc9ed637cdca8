/* SPDX-License-Identifier: Apache-2.0 */
#include "size.h"

#include "collective.h"

#include <inttypes.h>
#include <stdio.h>

uint8_t
cs_size_bucket(uint64_t bytes)
{
	if (bytes == CS_BYTES_UNKNOWN)
		return CS_SIZE_UNKNOWN;
	if (bytes == 0)
		return CS_SIZE_ZERO;
	if (bytes == 1)
		return 0;
	return (uint8_t)(64 - __builtin_clzll(bytes - 1));
}

void
cs_size_text(uint8_t bucket, char text[CS_SIZE_TEXT_BYTES])
{
	if (bucket < 64)
		snprintf(text, CS_SIZE_TEXT_BYTES, "%" PRIu64, UINT64_C(1) << bucket);
	else if (bucket == 64)
		snprintf(text, CS_SIZE_TEXT_BYTES, "18446744073709551616"); /* 2^64 fits no integer here */
	else if (bucket == CS_SIZE_ZERO)
		snprintf(text, CS_SIZE_TEXT_BYTES, "0");
	else
		snprintf(text, CS_SIZE_TEXT_BYTES, "unknown");
}
