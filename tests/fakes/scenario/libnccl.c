/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2, as far as somebody looks for it: a library of this name that says its release. What it does
 * besides is in the program itself (nccl.c). */
__attribute__((visibility("default"))) int ncclGetVersion(int *version);
__attribute__((visibility("default"))) void fake_nccl_set_release(int number);

static int release;

int
ncclGetVersion(int *version)
{
	*version = release;
	return 0;
}

void
fake_nccl_set_release(int number)
{
	release = number;
}
