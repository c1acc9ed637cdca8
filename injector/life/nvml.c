/* SPDX-License-Identifier: Apache-2.0 */
/* Types and numbers are those of nvml.h (ABI version 1 and 2 entry points, unchanged since driver 418). */
#include "nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NVML_SUCCESS        0
#define NVML_LINKS_MAX      18U
#define NVML_P2P_NVLINK     2
#define NVML_P2P_OK         0
#define NVML_FEATURE_ACTIVE 1U

typedef void *nvml_device; /* an opaque handle of NVML's, not a struct of ours */

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

#define PROCESSES_MAX            64U
#define NVML_VALUE_NOT_AVAILABLE UINT64_MAX

/* nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3 */
struct nvml_process {
	unsigned int pid;
	unsigned long long used_bytes;
	unsigned int gpu_instance, compute_instance;
};

struct nvml_utilization {
	unsigned int gpu, memory;
};

struct cs_nvml {
	int (*init)(void);
	int (*shutdown)(void);
	int (*driver_version)(char *text, unsigned int bytes);
	int (*count)(unsigned int *count);
	int (*by_index)(unsigned int index, nvml_device *device);
	int (*by_pci)(const char *bus_id, nvml_device *device);
	int (*index)(nvml_device device, unsigned int *index);
	int (*pci)(nvml_device device, struct nvml_pci *pci);
	/* optional */
	int (*ancestor)(nvml_device a, nvml_device b, int *level);
	int (*p2p)(nvml_device a, nvml_device b, int what, int *status);
	int (*link_state)(nvml_device device, unsigned int link, unsigned int *active);
	int (*link_remote)(nvml_device device, unsigned int link, struct nvml_pci *pci);
	int (*utilization)(nvml_device device, struct nvml_utilization *utilization);
	int (*processes)(nvml_device device, unsigned int *count, void *infos);
};

static const struct {
	const char *name;
	size_t offset_bytes;
	int optional;
} symbols[] = {
#define SYMBOL(name, member, optional)                                                                       \
	{                                                                                                    \
		name, offsetof(struct cs_nvml, member), optional                                             \
	}
	SYMBOL("nvmlInit_v2", init, 0),
	SYMBOL("nvmlShutdown", shutdown, 0),
	SYMBOL("nvmlSystemGetDriverVersion", driver_version, 0),
	SYMBOL("nvmlDeviceGetCount_v2", count, 0),
	SYMBOL("nvmlDeviceGetHandleByIndex_v2", by_index, 0),
	SYMBOL("nvmlDeviceGetHandleByPciBusId_v2", by_pci, 0),
	SYMBOL("nvmlDeviceGetIndex", index, 0),
	SYMBOL("nvmlDeviceGetPciInfo_v3", pci, 0),
	SYMBOL("nvmlDeviceGetTopologyCommonAncestor", ancestor, 1),
	SYMBOL("nvmlDeviceGetP2PStatus", p2p, 1),
	SYMBOL("nvmlDeviceGetNvLinkState", link_state, 1),
	SYMBOL("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_remote, 1),
	SYMBOL("nvmlDeviceGetUtilizationRates", utilization, 1),
	SYMBOL("nvmlDeviceGetComputeRunningProcesses_v3", processes, 1),
#undef SYMBOL
};

struct cs_nvml *
cs_nvml_open(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	struct cs_nvml *nvml = library ? calloc(1, sizeof(*nvml)) : NULL;

	if (!nvml)
		return NULL;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *address = dlsym(library, symbols[i].name);

		if (!address && !symbols[i].optional)
			goto none; /* stays loaded: others may use it */
		memcpy((char *)nvml + symbols[i].offset_bytes, &address, sizeof(address));
	}
	if (nvml->init() == NVML_SUCCESS)
		return nvml;
none:
	free(nvml);
	return NULL;
}

void
cs_nvml_close(struct cs_nvml *nvml)
{
	if (nvml)
		nvml->shutdown();
	free(nvml);
}

void
cs_nvml_driver_version(struct cs_nvml *nvml, char *text, size_t text_bytes)
{
	text[0] = '\0';
	if (nvml && nvml->driver_version(text, (unsigned int)text_bytes) != NVML_SUCCESS)
		text[0] = '\0';
}

int
cs_nvml_busy_percent(struct cs_nvml *nvml, const char *pci_bus_id, unsigned int *percent)
{
	struct nvml_utilization utilization;
	unsigned int processes = 0;
	nvml_device device;

	if (!nvml || !nvml->utilization || nvml->by_pci(pci_bus_id, &device) != NVML_SUCCESS ||
		nvml->utilization(device, &utilization) != NVML_SUCCESS)
		return -ENODATA;
	/* Asked with no room for the list: only how many. */
	if (nvml->processes && nvml->processes(device, &processes, NULL) != NVML_SUCCESS && processes > 1)
		return -ENODATA;
	*percent = utilization.gpu;
	return 0;
}

int
cs_nvml_process_bytes(struct cs_nvml *nvml, const char *pci_bus_id, uint32_t pid, uint64_t *bytes)
{
	struct nvml_process list[PROCESSES_MAX];
	unsigned int count = PROCESSES_MAX;
	nvml_device device;

	if (!nvml || !nvml->processes || nvml->by_pci(pci_bus_id, &device) != NVML_SUCCESS ||
		nvml->processes(device, &count, list) != NVML_SUCCESS)
		return -ENODATA;
	for (unsigned int i = 0; i < count && i < PROCESSES_MAX; i++) {
		if (list[i].pid != pid || list[i].used_bytes == NVML_VALUE_NOT_AVAILABLE)
			continue;
		*bytes = list[i].used_bytes;
		return 0;
	}
	return -ENODATA;
}

/* -- links ----------------------------------------------------------------------------------------------- */

/* Active NVLinks of a GPU; those that end at the peer itself go into *direct. */
static unsigned int
count_nvlinks(struct cs_nvml *nvml, nvml_device device, const struct nvml_pci *peer, unsigned int *direct)
{
	unsigned int active_links = 0;

	*direct = 0;
	for (unsigned int link = 0; nvml->link_state && link < NVML_LINKS_MAX; link++) {
		unsigned int active = 0;
		struct nvml_pci remote;

		if (nvml->link_state(device, link, &active) != NVML_SUCCESS || active != NVML_FEATURE_ACTIVE)
			continue;
		active_links++;
		if (nvml->link_remote && nvml->link_remote(device, link, &remote) == NVML_SUCCESS &&
			remote.domain == peer->domain && remote.bus == peer->bus &&
			remote.device == peer->device)
			(*direct)++;
	}
	return active_links;
}

static uint8_t
link_of_ancestor(int level)
{
	switch (level) {
	case 0:  /* same board */
	case 10: /* one PCIe switch */
	case 20: /* several PCIe switches */
		return CS_LINK_PCIE_SWITCH;
	case 30:
		return CS_LINK_PCIE_HOST_BRIDGE;
	case 40:
		return CS_LINK_PCIE_NODE;
	case 50:
		return CS_LINK_PCIE_SYSTEM;
	default:
		return CS_LINK_UNKNOWN;
	}
}

static void
fill_link(struct cs_nvml *nvml, nvml_device device, nvml_device peer, unsigned int peer_index,
	struct cs_gpu *gpu)
{
	struct nvml_pci peer_pci;
	unsigned int direct, all;
	int status = -1, level = -1;

	if (nvml->p2p && nvml->p2p(device, peer, NVML_P2P_NVLINK, &status) == NVML_SUCCESS &&
		status == NVML_P2P_OK && nvml->pci(peer, &peer_pci) == NVML_SUCCESS) {
		gpu->link[peer_index] = CS_LINK_NVLINK;
		/* Behind an NVSwitch no link ends at the peer; all of them lead there. */
		all = count_nvlinks(nvml, device, &peer_pci, &direct);
		gpu->link_nvlinks[peer_index] = (uint8_t)(direct ? direct : all);
		return;
	}
	if (nvml->ancestor && nvml->ancestor(device, peer, &level) == NVML_SUCCESS)
		gpu->link[peer_index] = link_of_ancestor(level);
}

int
cs_nvml_fill(struct cs_nvml *nvml, const char *pci_bus_id, struct cs_gpu *gpu)
{
	unsigned int index = 0, count = 0;
	nvml_device device, peer;

	gpu->nvml_index = -1;
	if (!nvml || nvml->by_pci(pci_bus_id, &device) != NVML_SUCCESS ||
		nvml->index(device, &index) != NVML_SUCCESS)
		return -ENODEV;
	gpu->nvml_index = (int32_t)index;
	if (nvml->count(&count) != NVML_SUCCESS)
		return 0;
	for (unsigned int i = 0; i < count && i < sizeof(gpu->link); i++) {
		if (i == index)
			gpu->link[i] = CS_LINK_SELF;
		else if (nvml->by_index(i, &peer) == NVML_SUCCESS)
			fill_link(nvml, device, peer, i, gpu);
	}
	return 0;
}
