/* A driver without a GPU: it notes what it is asked in the file $FAKE_CUDA_LOG, and fails as $FAKE_CUDA says.

   $FAKE_CUDA: words "capability=90", "fail=FUNCTION:RESULT[:times]", "context" (one is current), parted by spaces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
static int stack = 0, images = 0, failed = 0;

static R told(const char *name, const char *format, long long a, long long b, long long c)
{
    const char *path = getenv("FAKE_CUDA_LOG"), *plan = getenv("FAKE_CUDA"), *at;
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s ", name);
        fprintf(log, format, a, b, c);
        fputc('\n', log);
        fclose(log);
    }
    at = plan ? strstr(plan, "fail=") : NULL;
    if (at && strncmp(at + 5, name, strlen(name)) == 0 && at[5 + strlen(name)] == ':') {
        int result = 0, times = 1 << 30;
        sscanf(at + 6 + strlen(name), "%d:%d", &result, &times);
        if (failed++ < times) return result;
    }
    return 0;
}

static int capability(void)
{
    const char *plan = getenv("FAKE_CUDA"), *at = plan ? strstr(plan, "capability=") : NULL;
    return at ? atoi(at + 11) : 80;
}

R cuInit(unsigned flags) { return told("cuInit", "%lld", flags, 0, 0); }
R cuCtxGetCurrent(void **context)
{
    const char *plan = getenv("FAKE_CUDA");
    *context = stack || (plan && strstr(plan, "context")) ? (void *)16 : NULL;
    return 0;
}
R cuStreamGetCtx(void *stream, void **context) { *context = (void *)48; return told("cuStreamGetCtx", "%lld", (long long)stream, 0, 0); }
R cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)32; return told("cuDevicePrimaryCtxRetain", "%lld", device, 0, 0); }
R cuDevicePrimaryCtxRelease_v2(int device) { return told("cuDevicePrimaryCtxRelease", "%lld", device, 0, 0); }
R cuStreamIsCapturing(void *stream, int *state) { (void)stream; *state = 0; return 0; }
R cuStreamWaitEvent(void *stream, void *event, unsigned flags) { (void)stream, (void)event, (void)flags; return 0; }
R cuEventCreate(void **event, unsigned flags) { (void)flags; *event = (void *)64; return 0; }
R cuEventRecord(void *event, void *stream) { (void)event, (void)stream; return 0; }
R cuEventSynchronize(void *event) { (void)event; return told("cuEventSynchronize", "", 0, 0, 0); }
R cuEventDestroy_v2(void *event) { (void)event; return 0; }
R cuCtxPushCurrent_v2(void *context) { stack++; return told("cuCtxPushCurrent", "%lld", (long long)context, 0, 0); }
R cuCtxPopCurrent_v2(void **context) { stack--; *context = (void *)32; return told("cuCtxPopCurrent", "%lld", stack, 0, 0); }
R cuDeviceGetCount(int *count) { *count = 4; return 0; }
R cuDeviceGet(int *device, int index) { *device = index; return 0; }
R cuCtxSynchronize(void) { return told("cuCtxSynchronize", "", 0, 0, 0); }
R cuCtxGetDevice(int *device) { *device = 3; return 0; }
R cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == 75 ? capability() / 10 : attribute == 76 ? capability() % 10 : attribute == 16 ? 3 : -device;
    return 0;
}
R cuLibraryLoadData(void **library, const char *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    *library = (void *)(1000LL + ++images);
    /* A cubin is ELF, whose header says its architecture in the lowest bytes of its flags, or in the second ones. */
    if (memcmp(image, "\177ELF", 4) == 0)
        return told("cuLibraryLoadData", "cubin %lld", (unsigned char)image[49], 0, 0);
    return told("cuLibraryLoadData", strstr(image, ".target sm_90") ? "ptx 90" : strstr(image, ".target sm_80") ? "ptx 80" : "ptx ?", 0, 0, 0);
}
R cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    *kernel = strdup(name);
    return told("cuLibraryGetKernel", "of %lld", (long long)library, 0, 0);
}
R cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
    (void)kernel;
    return told("cuKernelSetAttribute", "%lld %lld %lld", attribute, value, device);
}
R cuMemAllocAsync(unsigned long long *memory, size_t bytes, void *stream)
{
    R result = told("cuMemAllocAsync", "%lld", (long long)bytes, 0, 0);
    (void)stream;
    if (result == 0) *memory = (unsigned long long)calloc(bytes, 1);
    return result;
}
R cuMemFreeAsync(unsigned long long memory, void *stream) { free((void *)memory); return told("cuMemFreeAsync", "%lld", (long long)stream, 0, 0); }
R cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream)
{
    memcpy((void *)to, from, bytes);
    return told("cuMemcpyHtoDAsync", "%lld %lld", (long long)bytes, (long long)stream, 0);
}
/* The map holds what it was made of: extents, the stride, the box, the swizzle. */
R cuTensorMapEncodeTiled(long long *map, int kind, unsigned rank, void *address, const unsigned long long *extents,
                         const unsigned long long *strides, const unsigned *box, const unsigned *ones, int interleave, int swizzle,
                         int promotion, int outside)
{
    (void)interleave, (void)promotion, (void)outside;
    if ((size_t)map % 64 || (size_t)address % 16 || ones[0] != 1 || ones[rank - 1] != 1) return 1;
    map[0] = (long long)extents[0];
    told("cuTensorMapEncodeTiled", "extents %lld %lld stride %lld", (long long)extents[0], (long long)extents[1], (long long)strides[0]);
    return told("cuTensorMapEncodeTiled", "box %lld %lld kind+swizzle %lld", box[0], box[1], kind * 10 + swizzle);
}
R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, void *kernel, int threads, size_t shared)
{
    *count = shared > 100000 ? 1 : 2;
    (void)kernel;
    return told("cuOccupancyMaxActiveBlocksPerMultiprocessor", "%lld %lld", threads, (long long)shared, 0);
}
R cuOccupancyMaxActiveClusters(int *count, void *kernel, const unsigned *config)
{
    *count = 2;
    (void)kernel;
    return told("cuOccupancyMaxActiveClusters", "grid %lld block %lld shared %lld", config[0], config[3], config[6]);
}
/* Of the arguments, as many as the names of kernels here say: kernels are told apart by how $FAKE_CUDA_ARGUMENTS lists them. */
R cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                 void **arguments, void **extra)
{
    const char *path = getenv("FAKE_CUDA_LOG"), *counts = getenv("FAKE_CUDA_ARGUMENTS"), *at;
    FILE *log = path ? fopen(path, "a") : NULL;
    (void)extra;
    if (log) {
        fprintf(log, "launch %s grid %u %u %u block %u %u %u shared %u stream %lld", (char *)kernel, x, y, z, bx, by, bz, shared, (long long)stream);
        at = counts ? strstr(counts, (char *)kernel) : NULL;     /* NAME=pif,: a pointer, an int of 32 bits, a float */
        for (at = at ? strchr(at, '=') + 1 : NULL; at && *at && *at != ','; at++, arguments++) {
            if (*at == 'f') fprintf(log, " %g", (double)*(float *)*arguments);
            else if (*at == 'i') fprintf(log, " %d", *(int *)*arguments);
            else if (*at == 'c') fprintf(log, " %g", (double)**(float **)*arguments);    /* what a constant holds first */
            else fprintf(log, " %lld", *(long long *)*arguments);
        }
        fputc('\n', log);
        fclose(log);
    }
    return told("cuLaunchKernel", "", 0, 0, 0);
}
