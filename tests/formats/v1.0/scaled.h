/* scaled: made by tilewright 1.0.0rc1 for 'llvm -mcpu=x86-64' (x86_64-unknown-linux-gnu).
 *
 * Functions return 0, or a status whose meaning their _error function tells. Tensors are row-major and compact; an
 * address is a multiple of the element's size (or of more, where the function says so); outputs overlap nothing else.
 * The _checked functions see to all of that, the plain ones rely on it. Functions may be called from several threads at
 * once. They run on the
 * caller's thread.
 */

#ifndef TILEWRIGHT_SCALED_H
#define TILEWRIGHT_SCALED_H

#include <stdbool.h>
#include <stdint.h>

#ifndef DLPACK_DLPACK_H_   /* the same as in dlpack.h; where a program uses that as well, include it first */
#define DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 } DLDeviceType;
typedef struct { int32_t device_type; int32_t device_id; } DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 } DLDataTypeCode;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;       /* in elements; NULL: compact, row-major */
    uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* scaled
 *   A  in  float32[100]
 *   B  out float32[100]
 */
int32_t scaled(const float *A, float *B);
int32_t scaled_checked(const DLTensor *A, const DLTensor *B);
const char *scaled_error(int32_t status);

#ifdef __cplusplus
}
#endif

#endif  /* TILEWRIGHT_SCALED_H */
