/* SPDX-License-Identifier: Apache-2.0 */
/* A library that needs libcupti, as torch does; nothing else matters. */
#include <cupti.h>

CUptiResult fake_tool_version(uint32_t *version);

CUptiResult
fake_tool_version(uint32_t *version)
{
	return cuptiGetVersion(version);
}
