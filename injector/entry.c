/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one function that the CUDA driver looks for in the library that CUDA_INJECTION64_PATH names. It runs
 * inside the first cuInit. NVIDIA documents no meaning of its result; whatever befalls us, the host is told
 * that all is well.
 */
#include "life/instance.h"

__attribute__((visibility("default"))) int InitializeInjection(void);

int
InitializeInjection(void)
{
	cs_instance_start();
	return 1;
}
