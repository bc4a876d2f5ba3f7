/* A stand-in for libnvidia-ml.so.1: the functions the real nvidia-ml-py calls, answered from a text file.

   The file (path in NVML_STANDIN, read anew at every call) has lines "GPU KEY VALUE", for instance
   "0 power_mw 250000"; GPU "-" is the driver itself. A key that is not there is not supported by the board.
   "0 lost 1": the board has fallen off the bus. "- init 9": nvmlInit fails with that code. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define GPU_IS_LOST 15

typedef unsigned int uint;
typedef unsigned long long ulong64;
typedef struct { char name[8]; } Device;

static Device devices[16];

static int look_up(const char *gpu, const char *key, char *value, size_t size) {
    char line[512], found_gpu[64], found_key[128], found_value[256];
    int status = NOT_SUPPORTED;
    const char *path = getenv("NVML_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return NOT_SUPPORTED;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %127s %255[^\n]", found_gpu, found_key, found_value) != 3) continue;
        if (strcmp(gpu, found_gpu)) continue;
        if (!strcmp(found_key, "lost")) { status = GPU_IS_LOST; break; }
        if (!strcmp(found_key, key)) {
            snprintf(value, size, "%s", found_value);
            status = SUCCESS;
        }
    }
    fclose(file);
    return status;
}

static int number(Device *gpu, const char *key, ulong64 *value) {
    char text[256];
    int status = look_up(gpu ? gpu->name : "-", key, text, sizeof text);
    if (status == SUCCESS) *value = strtoull(text, NULL, 0);
    return status;
}

static int uint_number(Device *gpu, const char *key, uint *value) {
    ulong64 wide;
    int status = number(gpu, key, &wide);
    if (status == SUCCESS) *value = (uint)wide;
    return status;
}

static Device *device(const char *name) {
    int i;
    for (i = 0; i < 16; i++) {
        if (!devices[i].name[0]) snprintf(devices[i].name, sizeof devices[i].name, "%s", name);
        if (!strcmp(devices[i].name, name)) return &devices[i];
    }
    return NULL;
}

int nvmlInitWithFlags(uint flags) {
    uint code = SUCCESS;
    (void)flags;
    uint_number(NULL, "init", &code);
    return (int)code;
}
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "stand-in error"; }
int nvmlSystemGetDriverVersion(char *text, uint size) { return look_up("-", "driver", text, size); }
int nvmlDeviceGetCount_v2(uint *count) { return uint_number(NULL, "count", count); }

int nvmlDeviceGetHandleByIndex_v2(uint index, Device **handle) {
    char name[8];
    snprintf(name, sizeof name, "%u", index);
    *handle = device(name);
    return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **handle) {
    char name[64], text[256];
    if (look_up("-", uuid, name, sizeof name) != SUCCESS) return NOT_FOUND;
    if (look_up(name, "uuid", text, sizeof text) != SUCCESS) return NOT_FOUND;
    *handle = device(name);
    return SUCCESS;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *slice, Device **board) {
    char name[64];
    int status = look_up(slice->name, "board", name, sizeof name);
    if (status == SUCCESS) *board = device(name);
    return status;
}
int nvmlDeviceGetUUID(Device *gpu, char *text, uint size) { return look_up(gpu->name, "uuid", text, size); }
int nvmlDeviceGetName(Device *gpu, char *text, uint size) { return look_up(gpu->name, "name", text, size); }

int nvmlDeviceGetUtilizationRates(Device *gpu, struct { uint gpu, memory; } *rates) {
    int status = uint_number(gpu, "utilization", &rates->gpu);
    uint_number(gpu, "memory_utilization", &rates->memory);
    return status;
}
int nvmlDeviceGetMemoryInfo(Device *gpu, struct { ulong64 total, free, used; } *memory) {
    int status = number(gpu, "memory_total", &memory->total);
    if (status == SUCCESS) status = number(gpu, "memory_used", &memory->used);
    return status;
}
int nvmlDeviceGetPowerUsage(Device *gpu, uint *mw) { return uint_number(gpu, "power_mw", mw); }
int nvmlDeviceGetEnforcedPowerLimit(Device *gpu, uint *mw) { return uint_number(gpu, "enforced_limit_mw", mw); }
int nvmlDeviceGetPowerManagementLimit(Device *gpu, uint *mw) { return uint_number(gpu, "limit_mw", mw); }
int nvmlDeviceGetPowerManagementDefaultLimit(Device *gpu, uint *mw) { return uint_number(gpu, "default_limit_mw", mw); }
int nvmlDeviceGetPowerManagementLimitConstraints(Device *gpu, uint *least_mw, uint *most_mw) {
    int status = uint_number(gpu, "least_limit_mw", least_mw);
    return status == SUCCESS ? uint_number(gpu, "most_limit_mw", most_mw) : status;
}
/* Written into the file, where the last line with a key counts. "0 set_refused 4": refused with that code. */
int nvmlDeviceSetPowerManagementLimit(Device *gpu, uint mw) {
    uint code = SUCCESS, least = 0, most = ~0u;
    FILE *file;
    uint_number(gpu, "set_refused", &code);
    if (code != SUCCESS) return (int)code;
    uint_number(gpu, "least_limit_mw", &least);
    uint_number(gpu, "most_limit_mw", &most);
    if (mw < least || mw > most) return INVALID_ARGUMENT;
    file = fopen(getenv("NVML_STANDIN"), "a");
    if (!file) return NOT_SUPPORTED;
    fprintf(file, "%s limit_mw %u\n", gpu->name, mw);
    fclose(file);
    return SUCCESS;
}
int nvmlDeviceGetTotalEnergyConsumption(Device *gpu, ulong64 *mj) { return number(gpu, "energy_mj", mj); }
int nvmlDeviceGetTemperature(Device *gpu, int sensor, uint *c) { (void)sensor; return uint_number(gpu, "temperature", c); }
int nvmlDeviceGetTemperatureThreshold(Device *gpu, int which, uint *c) {
    return which > 1 ? NOT_SUPPORTED : uint_number(gpu, which ? "slowdown" : "shutdown", c);
}
int nvmlDeviceGetClockInfo(Device *gpu, int type, uint *mhz) {
    return uint_number(gpu, type == 1 ? "sm_mhz" : "memory_mhz", mhz);
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device *gpu, uint *value) { return uint_number(gpu, "pcie_generation", value); }
int nvmlDeviceGetCurrPcieLinkWidth(Device *gpu, uint *value) { return uint_number(gpu, "pcie_lanes", value); }
int nvmlDeviceGetPcieReplayCounter(Device *gpu, uint *value) { return uint_number(gpu, "pcie_replays", value); }
int nvmlDeviceGetTotalEccErrors(Device *gpu, int type, int counter, ulong64 *count) {
    (void)counter;
    return number(gpu, type ? "ecc_uncorrected" : "ecc_corrected", count);
}
/* Only the old name is here, as in a driver before 535: the new one is looked for first and not found. */
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *gpu, ulong64 *bits) { return number(gpu, "throttle", bits); }

typedef struct { uint pid; ulong64 memory; uint gpu_instance, compute_instance; } Process;

int nvmlDeviceGetComputeRunningProcesses_v3(Device *gpu, uint *count, Process *processes) {
    uint pid;
    int status = uint_number(gpu, "pid", &pid);
    if (status == GPU_IS_LOST) return status;
    if (status != SUCCESS) { *count = 0; return SUCCESS; }
    if (!processes) { *count = 1; return INSUFFICIENT_SIZE; }
    memset(processes, 0, sizeof *processes);
    processes->pid = pid;
    *count = 1;
    return SUCCESS;
}
