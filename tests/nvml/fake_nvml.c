/* A library that answers as NVIDIA's NVML does for the machine that a file describes.
 *
 * FAKE_NVML_STATE names the file. It is read at every call, so that a test changes the machine by replacing it. Lines:
 *
 *     library INIT CALL LOAD      error codes of nvmlInit and of all other calls, and how often the driver was loaded:
 *                                 who initialized it before the last time gets NVML_ERROR_UNKNOWN
 *     events ERROR                what waiting for events fails with
 *     gpu UUID ERROR NAME         what follows tells of this one; with an ERROR it is counted but cannot be opened
 *     memory TOTAL USED           bytes
 *     utilization PERCENT
 *     ecc COUNT                   uncorrectable errors since the driver was loaded
 *     rows PENDING FAILURE        remapped rows: 0 or 1 each
 *     retired PENDING             retired pages: 0 or 1
 *     process PID BYTES           that computes; BYTES -1: not told
 *     broken ERROR                readings of the GPU fail so
 *
 * What a GPU has no line for it does not support. Each line of FAKE_NVML_STATE.xids is a UUID and an Xid; who has
 * registered for events before it was written gets it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define GPU_IS_LOST 15
#define UNKNOWN 999

#define GPUS_MAX 64
#define PROCESSES_MAX 64
#define KNOWN_MAX 256
#define TEXT_MAX 96
#define XID_EVENT 8ULL
#define NOT_TOLD 0xFFFFFFFFFFFFFFFFULL

typedef struct {
    unsigned int pid;
    unsigned long long bytes;
} Process;

typedef struct {
    char uuid[TEXT_MAX], name[TEXT_MAX];
    int error, broken;
    int has_memory, has_utilization, has_ecc, has_rows, has_retired;
    unsigned long long total, used, ecc;
    unsigned int utilization, rows_pending, rows_failed, retired;
    int processes;
    Process process[PROCESSES_MAX];
} Gpu;

typedef struct {
    int init, call, load, events, count;
    Gpu gpu[GPUS_MAX];
} Machine;

/* A device handle: one per UUID, whether the GPU is still there or not. */
typedef struct {
    char uuid[TEXT_MAX];
} Device;

typedef struct {
    Device *device[GPUS_MAX];
    int devices;
    long offset;
} EventSet;

typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} ProcessInfo;

typedef struct {
    Device *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} EventData;

static Device known[KNOWN_MAX];
static int initialized, loaded;

static void machine_read(Machine *machine) {
    char line[512];
    Gpu *gpu = NULL;
    memset(machine, 0, sizeof *machine);
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        machine->init = machine->call = UNKNOWN;
        return;
    }
    while (fgets(line, sizeof line, file)) {
        char uuid[TEXT_MAX];
        int number, taken = 0;
        long long bytes;
        unsigned int pid;
        line[strcspn(line, "\n")] = 0;
        sscanf(line, "library %d %d %d", &machine->init, &machine->call, &machine->load);
        sscanf(line, "events %d", &machine->events);
        if (sscanf(line, "gpu %95s %d %n", uuid, &number, &taken) >= 2 && machine->count < GPUS_MAX) {
            gpu = &machine->gpu[machine->count++];
            strcpy(gpu->uuid, uuid);
            gpu->error = number;
            strncpy(gpu->name, line + taken, TEXT_MAX - 1);
        }
        if (!gpu) continue;
        if (sscanf(line, "memory %llu %llu", &gpu->total, &gpu->used) == 2) gpu->has_memory = 1;
        if (sscanf(line, "utilization %u", &gpu->utilization) == 1) gpu->has_utilization = 1;
        if (sscanf(line, "ecc %llu", &gpu->ecc) == 1) gpu->has_ecc = 1;
        if (sscanf(line, "rows %u %u", &gpu->rows_pending, &gpu->rows_failed) == 2) gpu->has_rows = 1;
        if (sscanf(line, "retired %u", &gpu->retired) == 1) gpu->has_retired = 1;
        sscanf(line, "broken %d", &gpu->broken);
        if (sscanf(line, "process %u %lld", &pid, &bytes) == 2 && gpu->processes < PROCESSES_MAX) {
            Process *process = &gpu->process[gpu->processes++];
            process->pid = pid;
            process->bytes = bytes < 0 ? NOT_TOLD : (unsigned long long)bytes;
        }
    }
    fclose(file);
}

/* The machine, for a call that needs an initialized library. */
static int machine_open(Machine *machine) {
    if (!initialized) return UNINITIALIZED;
    machine_read(machine);
    if (machine->call) return machine->call;
    return machine->load == loaded ? SUCCESS : UNKNOWN;
}

static Device *device_of(const char *uuid) {
    for (int i = 0; i < KNOWN_MAX; i++) {
        if (!known[i].uuid[0]) strcpy(known[i].uuid, uuid);
        if (!strcmp(known[i].uuid, uuid)) return &known[i];
    }
    return NULL;
}

/* The GPU behind a handle. */
static int gpu_behind(Device *device, Machine *machine, Gpu **gpu) {
    int code = machine_open(machine);
    if (code) return code;
    for (int i = 0; i < machine->count; i++) {
        *gpu = &machine->gpu[i];
        if (!strcmp((*gpu)->uuid, device->uuid)) return (*gpu)->error;
    }
    return GPU_IS_LOST;
}

/* The same for a reading of it. */
static int gpu_of(Device *device, Machine *machine, Gpu **gpu) {
    int code = gpu_behind(device, machine, gpu);
    return code ? code : (*gpu)->broken;
}

int nvmlInitWithFlags(unsigned int flags) {
    Machine machine;
    (void)flags;
    machine_read(&machine);
    if (machine.init) return machine.init;
    if (!initialized++) loaded = machine.load;
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (!initialized) return UNINITIALIZED;
    initialized--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the fake library";
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    Machine machine;
    int code = machine_open(&machine);
    *count = machine.count;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **device) {
    Machine machine;
    int code = machine_open(&machine);
    if (code) return code;
    if (index >= (unsigned int)machine.count) return INVALID_ARGUMENT;
    if (machine.gpu[index].error) return machine.gpu[index].error;
    *device = device_of(machine.gpu[index].uuid);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    Machine machine;
    int code = machine_open(&machine);
    for (int i = 0; !code && i < machine.count; i++) {
        if (!strcmp(machine.gpu[i].uuid, uuid)) {
            *device = device_of(uuid);
            return machine.gpu[i].error;
        }
    }
    return code ? code : NOT_FOUND;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned int length) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_behind(device, &machine, &gpu);
    if (!code) snprintf(uuid, length, "%s", gpu->uuid);
    return code;
}

int nvmlDeviceGetName(Device *device, char *name, unsigned int length) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_behind(device, &machine, &gpu);
    if (!code) snprintf(name, length, "%s", gpu->name);
    return code;
}

int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *memory) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_of(device, &machine, &gpu);
    if (code || !gpu->has_memory) return code ? code : NOT_SUPPORTED;
    memory[0] = gpu->total;
    memory[1] = gpu->total - gpu->used;
    memory[2] = gpu->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned int *rates) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_of(device, &machine, &gpu);
    if (code || !gpu->has_utilization) return code ? code : NOT_SUPPORTED;
    rates[0] = gpu->utilization;
    rates[1] = 0;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned int *count, ProcessInfo *infos) {
    Machine machine;
    Gpu *gpu;
    unsigned int room = infos ? *count : 0;
    int code = gpu_of(device, &machine, &gpu);
    if (code) return code;
    for (int i = 0; i < gpu->processes && (unsigned int)i < room; i++) {
        ProcessInfo info = {gpu->process[i].pid, gpu->process[i].bytes, ~0U, ~0U};
        infos[i] = info;
    }
    *count = gpu->processes;
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device *device, int error_type, int counter_type, unsigned long long *count) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_of(device, &machine, &gpu);
    if (code || !gpu->has_ecc) return code ? code : NOT_SUPPORTED;
    *count = error_type == 1 && counter_type == 0 ? gpu->ecc : 0; /* uncorrectable and volatile */
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(
    Device *device, unsigned int *correctable, unsigned int *uncorrectable, unsigned int *pending, unsigned int *failed
) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_of(device, &machine, &gpu);
    if (code || !gpu->has_rows) return code ? code : NOT_SUPPORTED;
    *correctable = 0;
    *uncorrectable = gpu->rows_pending;
    *pending = gpu->rows_pending;
    *failed = gpu->rows_failed;
    return SUCCESS;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Device *device, unsigned int *pending) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_of(device, &machine, &gpu);
    if (code || !gpu->has_retired) return code ? code : NOT_SUPPORTED;
    *pending = gpu->retired;
    return SUCCESS;
}

static FILE *xids_open(long offset) {
    char path[4096];
    snprintf(path, sizeof path, "%s.xids", getenv("FAKE_NVML_STATE"));
    FILE *file = fopen(path, "r");
    if (file) fseek(file, offset, SEEK_SET);
    return file;
}

int nvmlEventSetCreate(EventSet **set) {
    Machine machine;
    int code = machine_open(&machine);
    if (code) return code;
    *set = calloc(1, sizeof **set);
    FILE *file = xids_open(0);
    if (file) {
        fseek(file, 0, SEEK_END);
        (*set)->offset = ftell(file);
        fclose(file);
    }
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, EventSet *set) {
    Machine machine;
    Gpu *gpu;
    int code = gpu_of(device, &machine, &gpu);
    if (code) return code;
    if (types & XID_EVENT && set->devices < GPUS_MAX) set->device[set->devices++] = device;
    return SUCCESS;
}

/* The next line that has been written whole, of a GPU that was registered; 0: there is none yet. */
static int event_next(EventSet *set, EventData *data) {
    char line[256], uuid[TEXT_MAX];
    unsigned long long xid;
    int found = 0;
    FILE *file = xids_open(set->offset);
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        set->offset = ftell(file);
        if (sscanf(line, "%95s %llu", uuid, &xid) != 2) continue;
        for (int i = 0; i < set->devices && !found; i++) {
            if (!strcmp(set->device[i]->uuid, uuid)) {
                EventData event = {set->device[i], XID_EVENT, xid, ~0U, ~0U};
                *data = event;
                found = 1;
            }
        }
    }
    fclose(file);
    return found;
}

int nvmlEventSetWait_v2(EventSet *set, EventData *data, unsigned int milliseconds) {
    struct timespec pause = {0, 1000000};
    for (unsigned int waited = 0;; waited++) {
        Machine machine;
        int code = machine_open(&machine);
        if (code || machine.events) return code ? code : machine.events;
        if (event_next(set, data)) return SUCCESS;
        if (waited >= milliseconds) return TIMEOUT;
        nanosleep(&pause, NULL);
    }
}

int nvmlEventSetFree(EventSet *set) {
    free(set);
    return SUCCESS;
}
