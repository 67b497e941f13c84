/* A driver without a GPU, in the process that asks it: memory is the host's, kernels do nothing.

   It notes every call in a log, and as a fault what a driver would refuse or a process would lose: a call without a context, memory
   that is given back twice or never was, a grid or shared memory beyond what there is, a wait inside of a capture. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
typedef unsigned long long u64;
enum { INVALID = 1, NO_DEVICE = 101, NO_CONTEXT = 201, CAPTURED = 900, ISOLATED = 907, MOST = 4096 };
#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char notes[1 << 18], faults[1 << 14];
static size_t noted, faulted;
static int capability = 90, processors = 3, held = 1, pools = 1, retained[2], sticky, failing_result, failing_times;
static char failing[64];
static __thread void *stack[64];
static __thread int depth;
static struct { u64 at; size_t size; int ordered; } memory[MOST];
static struct stream { u64 handle; int captures, forked; } streams[64];
struct event { int captured; u64 stream; };
struct kernel { char name[128]; int shared; };
static int events, modules;

static void put(char *text, size_t *used, size_t most, const char *format, va_list values)
{
    pthread_mutex_lock(&lock);
    if (*used + 600 < most) {
        *used += vsnprintf(text + *used, 500, format, values);
        text[(*used)++] = '\n', text[*used] = 0;
    }
    pthread_mutex_unlock(&lock);
}
static void note(const char *format, ...) { va_list v; va_start(v, format); put(notes, &noted, sizeof notes, format, v); va_end(v); }
static R fault(R result, const char *format, ...) { va_list v; va_start(v, format); put(faults, &faulted, sizeof faults, format, v); va_end(v); return result; }
static R fails(const char *name)
{
    if (strcmp(failing, name) || !failing_times) return 0;
    failing_times--;
    return failing_result;
}
#define ASKED(name) do { R failed_ = fails(name); if (failed_) return failed_; } while (0)
#define INSIDE(name) do { ASKED(name); if (!depth) return fault(NO_CONTEXT, "%s without a context", name); } while (0)

static struct stream *stream_of(u64 handle)
{
    for (int i = 0; i < 64; i++) if (streams[i].handle == handle || !streams[i].handle) return streams[i].handle = handle, &streams[i];
    abort();
}
static int capturing(void) { for (int i = 0; i < 64; i++) if (streams[i].captures) return 1; return 0; }
static R waits(const char *name) { return capturing() ? fault(CAPTURED, "%s inside of a capture", name) : 0; }
static R queued(const char *name, u64 stream) { return !stream && capturing() ? fault(CAPTURED, "%s on the default stream inside of a capture", name) : 0; }

/* What tests ask and say */
EXPORT const char *fake_log(void) { return notes; }
EXPORT const char *fake_faults(void) { return faults; }
EXPORT int fake_retained(int index) { return retained[index]; }
EXPORT int fake_depth(void) { return depth; }
EXPORT int fake_live(void) { int n = 0; for (int i = 0; i < MOST; i++) n += memory[i].at != 0; return n; }
EXPORT int fake_events(void) { return events; }
EXPORT int fake_modules(void) { return modules; }
EXPORT void fake_forget(void) { noted = faulted = 0; notes[0] = faults[0] = 0; }
EXPORT void fake_say(const char *what, int value)
{
    if (!strcmp(what, "capability")) capability = value;
    if (!strcmp(what, "processors")) processors = value;
    if (!strcmp(what, "held")) held = value;
    if (!strcmp(what, "pools")) pools = value;
    if (!strcmp(what, "sticky")) sticky = value;
}
EXPORT void fake_fail(const char *name, int result, int times) { strncpy(failing, name, 63); failing_result = result; failing_times = times; }
EXPORT void fake_capture(u64 handle, int begins)
{
    if (!begins) for (int i = 0; i < 64; i++) {
        if (streams[i].forked) fault(0, "the capture ends, and stream %llu was not waited for", streams[i].handle);
        streams[i].captures = streams[i].forked = 0;
    }
    stream_of(handle)->captures = begins;
}

EXPORT R cuInit(unsigned flags) { (void)flags; ASKED("cuInit"); return 0; }
EXPORT R cuDriverGetVersion(int *v) { *v = 13000; return 0; }
EXPORT R cuDeviceGetCount(int *n) { *n = 2; return 0; }
EXPORT R cuDeviceGet(int *device, int index) { *device = index; return index < 0 || index > 1 ? NO_DEVICE : 0; }
EXPORT R cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Fake %d", device); return 0; }
EXPORT R cuDeviceComputeCapability(int *a, int *b, int d) { (void)d; *a = capability / 10; *b = capability % 10; return 0; }
EXPORT R cuDeviceGetAttribute(int *value, int number, int device)
{
    (void)device;
    *value = number == 75 ? capability / 10 : number == 76 ? capability % 10 : number == 16 ? processors : number == 10 ? 32 : 1;
    return 0;
}
EXPORT R cuDevicePrimaryCtxRetain(void **context, int device) { ASKED("cuDevicePrimaryCtxRetain"); retained[device]++; *context = (void *)(0x1000L + device); note("retain %d", device); return 0; }
EXPORT R cuDevicePrimaryCtxRelease_v2(int device) { if (--retained[device] < 0) fault(0, "released more than retained"); note("release %d", device); return 0; }
EXPORT R cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
EXPORT R cuCtxPushCurrent_v2(void *context) { ASKED("cuCtxPushCurrent"); stack[depth++] = context; return 0; }
EXPORT R cuCtxPopCurrent_v2(void **context) { if (!depth) return fault(NO_CONTEXT, "a pop without a context"); *context = stack[--depth]; return 0; }
EXPORT R cuCtxGetCurrent(void **context) { *context = depth ? stack[depth - 1] : NULL; return 0; }
EXPORT R cuCtxGetDevice(int *device) { *device = depth ? (int)((long)stack[depth - 1] - 0x1000) : 0; return depth ? 0 : NO_CONTEXT; }
EXPORT R cuCtxGetApiVersion(void *context, unsigned *version) { (void)context; *version = 13000; return 0; }
EXPORT R cuCtxSynchronize(void) { INSIDE("cuCtxSynchronize"); R r = waits("cuCtxSynchronize"); note("synchronize"); return r ? r : sticky; }

static R taken(u64 *place, size_t size, int ordered)
{
    *place = (u64)aligned_alloc(512, (size + 1023) / 512 * 512);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) if (!memory[i].at) { memory[i].at = *place; memory[i].size = size; memory[i].ordered = ordered; break; }
    pthread_mutex_unlock(&lock);
    return 0;
}
static R given(u64 place, int ordered)
{
    for (int i = 0; i < MOST; i++) if (memory[i].at == place && place) {
        if (memory[i].ordered && !ordered) fault(0, "memory of a stream is given back without it");
        memory[i].at = 0;
        free((void *)place);
        return 0;
    }
    return fault(INVALID, "memory is given back that was not taken");
}
static int lies(u64 place, size_t size)
{
    for (int i = 0; i < MOST; i++) if (memory[i].at && memory[i].at <= place && place + size <= memory[i].at + memory[i].size) return 1;
    return 0;
}
EXPORT R cuMemAlloc_v2(u64 *place, size_t size) { INSIDE("cuMemAlloc"); R r = waits("cuMemAlloc"); note("alloc %zu", size); return r ? r : taken(place, size, 0); }
EXPORT R cuMemFree_v2(u64 place) { INSIDE("cuMemFree"); note("free"); return given(place, 0); }
EXPORT R cuMemAllocAsync(u64 *place, size_t size, u64 stream)
{
    INSIDE("cuMemAllocAsync");
    if (!pools) return 801;
    note("alloc %zu on %llu", size, stream);
    R r = queued("cuMemAllocAsync", stream);
    return r ? r : taken(place, size, 1);
}
EXPORT R cuMemFreeAsync(u64 place, u64 stream) { INSIDE("cuMemFreeAsync"); note("free on %llu", stream); return given(place, 1); }
static R copied(const char *name, void *to, const void *from, size_t size, u64 device)
{
    if (!lies(device, size)) return fault(INVALID, "%s of memory that was not taken", name);
    memcpy(to, from, size);
    return 0;
}
EXPORT R cuMemcpyHtoD_v2(u64 to, const void *from, size_t size) { INSIDE("cuMemcpyHtoD"); R r = waits("cuMemcpyHtoD"); return r ? r : copied("cuMemcpyHtoD", (void *)to, from, size, to); }
EXPORT R cuMemcpyDtoH_v2(void *to, u64 from, size_t size) { INSIDE("cuMemcpyDtoH"); R r = waits("cuMemcpyDtoH"); return r ? r : copied("cuMemcpyDtoH", to, (void *)from, size, from); }
EXPORT R cuMemcpyDtoD_v2(u64 to, u64 from, size_t size) { INSIDE("cuMemcpyDtoD"); return copied("cuMemcpyDtoD", (void *)to, (void *)from, size, to); }
EXPORT R cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t size, u64 stream)
{
    INSIDE("cuMemcpyDtoDAsync");
    note("copy %zu on %llu", size, stream);
    R r = queued("cuMemcpyDtoDAsync", stream);
    return r ? r : copied("cuMemcpyDtoDAsync", (void *)to, (void *)from, size, to);
}

EXPORT R cuModuleLoadDataEx(void **module, const char *image, unsigned count, int *options, void **values)
{
    INSIDE("cuModuleLoadData");
    for (unsigned i = 0; i < count; i++) if (options[i] == 3 || options[i] == 5) values[i] = 0;
    note("load %s", memcmp(image, "\177ELF", 4) ? "ptx" : "cubin");
    modules++;
    *module = malloc(8);
    return 0;
}
EXPORT R cuModuleLoadData(void **module, const char *image) { return cuModuleLoadDataEx(module, image, 0, NULL, NULL); }
EXPORT R cuModuleUnload(void *module) { INSIDE("cuModuleUnload"); modules--; free(module); note("unload"); return 0; }
EXPORT R cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    INSIDE("cuModuleGetFunction");
    struct kernel *kernel = calloc(1, sizeof *kernel);
    strncpy(kernel->name, name, 127);
    *function = kernel;
    return 0;
}
EXPORT R cuFuncSetAttribute(struct kernel *kernel, int attribute, int value)
{
    INSIDE("cuFuncSetAttribute");
    note("%s may have %d", kernel->name, value);
    if (attribute == 8) kernel->shared = value;
    return value > 232448 ? INVALID : 0;
}
EXPORT R cuFuncGetAttribute(int *value, int attribute, struct kernel *kernel) { (void)kernel; *value = attribute == 4 ? 40 : 0; return 0; }
EXPORT R cuFuncSetBlockShape(struct kernel *kernel, int x, int y, int z) { (void)kernel; return x * y * z > 1024 ? INVALID : 0; }
EXPORT R cuLibraryLoadData(void **library, const char *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f)
{
    (void)image, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    ASKED("cuLibraryLoadData");
    modules++;
    *library = malloc(8);
    return 0;
}
EXPORT R cuLibraryUnload(void *library) { modules--; free(library); return 0; }
EXPORT R cuLibraryGetKernel(void **kernel, void *library, const char *name) { int was = depth; depth = 1; R r = cuModuleGetFunction(kernel, library, name); depth = was; return r; }
EXPORT R cuKernelSetAttribute(int attribute, int value, struct kernel *kernel, int device) { (void)device; if (attribute == 8) kernel->shared = value; return 0; }
EXPORT R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, struct kernel *kernel, int threads, size_t shared)
{
    INSIDE("cuOccupancy");
    if ((int)shared > 49152 && (int)shared > kernel->shared) return fault(INVALID, "%s is asked about with memory that it may not have", kernel->name);
    *count = threads > 1024 ? 0 : held;
    return 0;
}
EXPORT R cuOccupancyMaxActiveClusters(int *count, struct kernel *kernel, const unsigned *config)
{
    (void)kernel;
    INSIDE("cuOccupancy");
    *count = config[0] && config[3] ? held : 0;
    return 0;
}
EXPORT R cuLaunchKernel(struct kernel *kernel, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        u64 stream, void **arguments, void **extra)
{
    const unsigned char *bytes = NULL;
    char values[2 * 64 + 1] = "";
    size_t size = 0;
    INSIDE("cuLaunchKernel");
    (void)arguments;
    for (int i = 0; extra && extra[i]; i += 2) {
        if (extra[i] == (void *)1) bytes = extra[i + 1];
        if (extra[i] == (void *)2) size = *(size_t *)extra[i + 1];
    }
    for (size_t i = 0; i < size && i < 64; i++) sprintf(values + 2 * i, "%02x", bytes[i]);
    note("launch %s grid %u %u %u block %u %u %u shared %u stream %llu bytes %zu %s", kernel->name, x, y, z, bx, by, bz, shared, stream, size, values);
    if (!x || !y || !z || x > 0x7fffffffu || y > 65535 || z > 65535) return fault(INVALID, "%s: a grid of %u x %u x %u", kernel->name, x, y, z);
    if (!bx || !by || !bz || bx * by * bz > 1024) return fault(INVALID, "%s: a block of %u x %u x %u", kernel->name, bx, by, bz);
    if (shared > 49152 && (int)shared > kernel->shared) return fault(INVALID, "%s: %u bytes of shared memory, and %d allowed", kernel->name, shared, kernel->shared);
    return queued("cuLaunchKernel", stream);
}

EXPORT R cuStreamGetCtx(u64 stream, void **context) { (void)stream; *context = (void *)0x1000L; return 0; }
EXPORT R cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t size, u64 stream) { (void)stream; INSIDE("cuMemcpyHtoDAsync"); return copied("cuMemcpyHtoDAsync", (void *)to, from, size, to); }
EXPORT R cuStreamCreate(u64 *stream, unsigned flags) { static u64 next = 0x9000; INSIDE("cuStreamCreate"); (void)flags; *stream = next++; stream_of(*stream); return 0; }
EXPORT R cuStreamDestroy_v2(u64 stream) { (void)stream; return 0; }
EXPORT R cuStreamSynchronize(u64 stream) { (void)stream; INSIDE("cuStreamSynchronize"); R r = waits("cuStreamSynchronize"); return r ? r : sticky; }
EXPORT R cuStreamIsCapturing(u64 stream, int *state) { *state = stream_of(stream)->captures; return 0; }
EXPORT R cuStreamWaitEvent(u64 stream, struct event *event, unsigned flags)
{
    INSIDE("cuStreamWaitEvent");
    (void)flags;
    note("%llu waits for %llu", stream, event->stream);
    struct stream *waiting = stream_of(stream), *first = stream_of(event->stream);
    if (waiting->captures && !event->captured) return fault(ISOLATED, "a captured stream waits for what is not captured");
    if (event->captured && !waiting->captures) waiting->captures = waiting->forked = 1;
    else if (event->captured) first->forked = 0;
    return 0;
}
EXPORT R cuEventCreate(struct event **event, unsigned flags) { (void)flags; INSIDE("cuEventCreate"); *event = calloc(1, sizeof **event); events++; return 0; }
EXPORT R cuEventRecord(struct event *event, u64 stream)
{
    INSIDE("cuEventRecord");
    R r = queued("cuEventRecord", stream);
    event->stream = stream, event->captured = stream_of(stream)->captures;
    return r;
}
EXPORT R cuEventSynchronize(struct event *event) { (void)event; ASKED("cuEventSynchronize"); R r = waits("cuEventSynchronize"); note("event waited for"); return r ? r : sticky; }
EXPORT R cuEventDestroy_v2(struct event *event) { events--; free(event); return 0; }
EXPORT R cuEventElapsedTime(float *time, struct event *a, struct event *b) { (void)a, (void)b; ASKED("cuEventElapsedTime"); *time = 50; return sticky; }
EXPORT R cuEventElapsedTime_v2(float *time, struct event *a, struct event *b) { return cuEventElapsedTime(time, a, b); }
EXPORT R cuGetErrorName(int result, const char **text) { (void)result; *text = "CUDA_ERROR"; return 0; }
EXPORT R cuGetErrorString(int result, const char **text) { (void)result; *text = "an error of the fake driver"; return 0; }

/* As the manual says of each argument. */
EXPORT R cuTensorMapEncodeTiled(void *map, int type, unsigned rank, u64 address, const u64 *extents, const u64 *strides, const unsigned *box,
                                const unsigned *steps, int interleave, int swizzle, int promotion, int outside)
{
    static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    static const unsigned span[] = {1u << 30, 32, 64, 128};
    const char *why = NULL;
    (void)interleave, (void)promotion, (void)outside;
    ASKED("cuTensorMapEncodeTiled");
    if ((u64)map % 64) why = "the map is not aligned";
    if (address % 16) why = "the address is not aligned";
    if (rank < 1 || rank > 5 || type < 0 || type > 9) return fault(INVALID, "a map of rank %u", rank);
    for (unsigned i = 0; i < rank; i++) {
        if (!extents[i] || extents[i] > 1ull << 32 || !box[i] || box[i] > 256 || steps[i] != 1) why = "an extent or a box";
        if (i + 1 < rank && (strides[i] % 16 || strides[i] >= 1ull << 40)) why = "a stride";
        if (i + 1 < rank && strides[i] < (i ? strides[i - 1] * extents[i] : extents[0] * bytes[type])) why = "a stride within rows";
    }
    if (box[0] * bytes[type] % 16 || box[0] * bytes[type] > span[swizzle]) why = "a row of a box";
    note("map %u of %llu x %llu, boxes %u x %u, swizzle %d", rank, extents[0], rank > 1 ? extents[1] : 0, box[0], rank > 1 ? box[1] : 0, swizzle);
    memset(map, 0xAB, 128);
    return why ? fault(INVALID, "a map: %s", why) : 0;
}

/* By which cuda-bindings finds all others. */
#include <dlfcn.h>
EXPORT R cuGetProcAddress_v2(const char *symbol, void **function, int version, u64 flags, int *status)
{
    static void *self;
    char name[128];
    (void)version, (void)flags;
    if (!self) self = dlopen(getenv("FAKE_LIBCUDA"), RTLD_LAZY);
    snprintf(name, sizeof name, "%s_v2", symbol);
    *function = dlsym(self, name);
    if (!*function) *function = dlsym(self, symbol);
    if (status) *status = *function ? 0 : 1;
    return 0;
}
EXPORT R cuGetProcAddress(const char *symbol, void **function, int version, u64 flags) { return cuGetProcAddress_v2(symbol, function, version, flags, NULL); }
