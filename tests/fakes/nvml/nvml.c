/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake libnvidia-ml.so.1: the same GPUs as the fake driver's, in the machine's own numbering whatever
 * CUDA_VISIBLE_DEVICES says. Their use is that of the process itself, which asks. CS_FAKE_TOPOLOGY=nvlink:
 * every GPU has 18 NVLinks to a switch; else PCIe, four GPUs to a host bridge.
 */
#include "../fake.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT            __attribute__((visibility("default")))
#define DEVICES_MAX       16U
#define SUCCESS           0
#define INVALID           2
#define NOT_SUPPORTED     3
#define NOT_FOUND         6
#define INSUFFICIENT_SIZE 7
#define LINKS             18U
#define P2P_OK            0
#define P2P_NONE          5
#define P2P_NVLINK        2
#define LEVEL_BRIDGE      30
#define LEVEL_SYSTEM      50
#define BUS_FIRST         0x10U /* as cuDeviceGetPCIBusId of the fake driver */
#define GPUS_A_BRIDGE     4U

struct device {
	unsigned int index;
};

struct pci {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

static struct device devices[DEVICES_MAX];

static unsigned int
count(void)
{
	const char *text = getenv("CS_FAKE_DEVICES");
	unsigned long number = text ? strtoul(text, NULL, 10) : 8;

	return number < DEVICES_MAX ? (unsigned int)number : DEVICES_MAX;
}

static int
has_nvlink(void)
{
	const char *text = getenv("CS_FAKE_TOPOLOGY");

	return text && strcmp(text, "nvlink") == 0;
}

/* -- a slow answer and the end of the process ---------------------------------------------------------- */

static atomic_bool leaving;
static atomic_int under_way;

static void
note_exit(void)
{
	atomic_store(&leaving, true);
}

static __attribute__((constructor)) void
expect_exit(void)
{
	if (getenv("CS_FAKE_NVML_SLOW"))
		atexit(note_exit);
}

/* What the real one does to a call that is under way then is not known. */
static __attribute__((destructor)) void
check_nobody_is_inside(void)
{
	static const char misuse[] = "fake NVML: a call is under way while the library is taken down\n";

	if (atomic_load(&under_way) == 0)
		return;
	(void)!write(STDERR_FILENO, misuse, sizeof(misuse) - 1);
	_exit(97);
}

static void
answer_slowly(void)
{
	if (!getenv("CS_FAKE_NVML_SLOW"))
		return;
	atomic_fetch_add(&under_way, 1);
	while (!atomic_load(&leaving))
		usleep(1000);
	usleep(50000);
	atomic_fetch_sub(&under_way, 1);
}

EXPORT int nvmlInit_v2(void);
EXPORT int
nvmlInit_v2(void)
{
	unsigned int i;

	for (i = 0; i < DEVICES_MAX; i++)
		devices[i].index = i;
	return SUCCESS;
}

EXPORT int nvmlShutdown(void);
EXPORT int
nvmlShutdown(void)
{
	return SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned int bytes);
EXPORT int
nvmlSystemGetDriverVersion(char *text, unsigned int bytes)
{
	return snprintf(text, bytes, "580.00.fake") < (int)bytes ? SUCCESS : INVALID;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *number);
EXPORT int
nvmlDeviceGetCount_v2(unsigned int *number)
{
	*number = count();
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **device);
EXPORT int
nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **device)
{
	if (index >= count())
		return INVALID;
	*device = &devices[index];
	return SUCCESS;
}

/* Accepts domains of four and of eight digits, as the real one. */
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device);
EXPORT int
nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device)
{
	unsigned int domain, bus, slot;

	if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3 || bus < BUS_FIRST ||
		bus - BUS_FIRST >= count())
		return NOT_FOUND;
	*device = &devices[bus - BUS_FIRST];
	return SUCCESS;
}

EXPORT int nvmlDeviceGetIndex(const struct device *device, unsigned int *index);
EXPORT int
nvmlDeviceGetIndex(const struct device *device, unsigned int *index)
{
	*index = device->index;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci *pci);
EXPORT int
nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci *pci)
{
	memset(pci, 0, sizeof(*pci));
	pci->bus = BUS_FIRST + device->index;
	snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "0000:%02X:00.0", pci->bus);
	snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0", pci->bus);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(const struct device *a, const struct device *b, int *level);
EXPORT int
nvmlDeviceGetTopologyCommonAncestor(const struct device *a, const struct device *b, int *level)
{
	*level = a->index / GPUS_A_BRIDGE == b->index / GPUS_A_BRIDGE ? LEVEL_BRIDGE : LEVEL_SYSTEM;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetP2PStatus(const struct device *a, const struct device *b, int what, int *status);
EXPORT int
nvmlDeviceGetP2PStatus(const struct device *a, const struct device *b, int what, int *status)
{
	(void)a;
	(void)b;
	*status = what != P2P_NVLINK || has_nvlink() ? P2P_OK : P2P_NONE;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkState(const struct device *device, unsigned int link, unsigned int *active);
EXPORT int
nvmlDeviceGetNvLinkState(const struct device *device, unsigned int link, unsigned int *active)
{
	(void)device;
	if (!has_nvlink() || link >= LINKS)
		return NOT_SUPPORTED;
	*active = 1;
	return SUCCESS;
}

/* The links end at a switch, not at a GPU. */
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(
	const struct device *device, unsigned int link, struct pci *pci);
EXPORT int
nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *device, unsigned int link, struct pci *pci)
{
	(void)device;
	if (!has_nvlink() || link >= LINKS)
		return NOT_SUPPORTED;
	memset(pci, 0, sizeof(*pci));
	pci->bus = 0xc0;
	return SUCCESS;
}

/* A kernel that never ends is work, as on a real GPU. */
EXPORT int nvmlDeviceGetUtilizationRates(const struct device *device, unsigned int *rates);
EXPORT int
nvmlDeviceGetUtilizationRates(const struct device *device, unsigned int *rates)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*works)(void) = NULL;
	void *address = driver ? dlsym(driver, "cs_fake_works") : NULL;

	(void)device;
	answer_slowly();
	memcpy(&works, &address, sizeof(works));
	rates[0] = works && works() ? 100 : 0;
	rates[1] = 0;
	if (driver)
		dlclose(driver);
	return works ? SUCCESS : NOT_SUPPORTED;
}

struct process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance, compute_instance;
};

/* This process alone, as if it had the machine for itself. CS_FAKE_NVML_PID: under another number, as in a
 * container. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
	const struct device *device, unsigned int *number, struct process *list);
EXPORT int
nvmlDeviceGetComputeRunningProcesses_v3(
	const struct device *device, unsigned int *number, struct process *list)
{
	const char *text = getenv("CS_FAKE_NVML_PID");
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	const struct cs_fake_driver *driver = library ? dlsym(library, CS_FAKE_DRIVER_SYMBOL) : NULL;
	unsigned int room = *number;

	*number = 1;
	if (library)
		dlclose(library);
	if (room == 0 || !list)
		return INSUFFICIENT_SIZE;
	if (!driver)
		return NOT_SUPPORTED;
	list[0] =
		(struct process){.pid = text ? (unsigned int)strtoul(text, NULL, 10) : (unsigned int)getpid(),
			.used_bytes = driver->memory_bytes((int)device->index)};
	return SUCCESS;
}
