// What CUDA C text needs to be compiled by a C++ compiler for the emulator.
#pragma once
#define TW_EMULATED

// The mathematics functions that kernels call, declared here because reading <cmath> takes longer than all else.
#define TW_UNARY(name)                                                                                                    \
  extern "C" double name(double);                                                                                         \
  extern "C" float name##f(float);                                                                                        \
  static inline float name(float a) { return name##f(a); }
#define TW_BINARY(name)                                                                                                   \
  extern "C" double name(double, double);                                                                                 \
  extern "C" float name##f(float, float);                                                                                 \
  static inline float name(float a, float b) { return name##f(a, b); }
TW_UNARY(exp) TW_UNARY(exp2) TW_UNARY(exp10) TW_UNARY(log) TW_UNARY(log2) TW_UNARY(log10) TW_UNARY(log1p) TW_UNARY(expm1)
TW_UNARY(sqrt) TW_UNARY(sin) TW_UNARY(cos) TW_UNARY(tan) TW_UNARY(sinh) TW_UNARY(cosh) TW_UNARY(tanh) TW_UNARY(asin)
TW_UNARY(acos) TW_UNARY(atan) TW_UNARY(asinh) TW_UNARY(acosh) TW_UNARY(atanh) TW_UNARY(erf) TW_UNARY(floor) TW_UNARY(ceil)
TW_UNARY(trunc) TW_UNARY(round) TW_UNARY(rint) TW_UNARY(fabs)
TW_BINARY(pow) TW_BINARY(atan2) TW_BINARY(hypot) TW_BINARY(copysign) TW_BINARY(fmod)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
extern "C" int printf(const char *format, ...);

#define __global__ __attribute__((noinline))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static __attribute__((section("tw_shared")))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define threadIdx tw_thread_index
#define blockIdx tw_block_index
#define blockDim tw_block_extent
#define gridDim tw_grid_extent
#define TW_UNCHECKED __attribute__((no_sanitize("thread", "undefined")))

struct tw_uint3 { unsigned int x, y, z; };

// Compilers report an access of 16 bytes as an aligned one from 8 on. A GPU's vectors have 16, unless they are compiled without.
#ifdef TW_UNALIGNED
extern "C" const unsigned long tw_widest_alignment = 8;
#else
extern "C" const unsigned long tw_widest_alignment = 16;
#endif

extern "C" {
extern tw_uint3 tw_thread_index, tw_block_index, tw_block_extent, tw_grid_extent;
extern int tw_emulated_rank;
void tw_emulated_cluster_barrier();
void tw_emulated_release_all(void *barrier, int blocks);
void tw_emulated_box_to_all(void *to, const unsigned long long *words, void *barrier, const int *at, int blocks);
void tw_emulated_barrier(int line);
unsigned long long tw_emulated_shuffle(unsigned int mask, unsigned long long value, int below, int amount, int width);
void tw_emulated_warp_product(void *sums, const void *left, const void *right, int terms, int integers);
void tw_emulated_share(void *all, const void *own, int bytes);
void tw_emulated_failure(int message);
void tw_emulated_copy(void *to, const void *from, int bytes);
void tw_emulated_commit();
void tw_emulated_wait(int groups);
void tw_emulated_proxy_fence();
void tw_emulated_product(void *c, const void *a, const void *b, int columns, int kind, int a_turned, int b_turned, int a_panel,
                         int b_panel, int a_row, int b_row);
void tw_emulated_held_product(void *c, const void *a, const void *b, int columns, int kind, int b_turned, int b_panel, int b_row);
void tw_emulated_product_fence();
void tw_emulated_product_commit();
void tw_emulated_product_wait(int groups);
void tw_emulated_init(void *barrier, int arrivals);
void tw_emulated_made();
void tw_emulated_arrive(void *barrier, int bytes);
void tw_emulated_complete(void *barrier, int bytes);
void tw_emulated_release(void *barrier);
void tw_emulated_barrier_of(int threads);
void tw_emulated_parity(void *barrier, unsigned int parity);
void tw_emulated_box(void *to, const unsigned long long *words, void *barrier, const int *at);
void tw_emulated_store_box(const void *from, const unsigned long long *words, const int *at);
void tw_emulated_store_commit();
void tw_emulated_store_wait();
}

// The compiler must not keep shared memory in registers while other threads run. By line, because it may make two calls of
// one barrier.
#define TW_OTHERS_RUN() __asm__ volatile("" ::: "memory")
#define __syncthreads() (({ TW_OTHERS_RUN(); tw_emulated_barrier(__LINE__); TW_OTHERS_RUN(); }))

template <class T>
static TW_UNCHECKED inline __attribute__((always_inline)) T tw_exchange(unsigned int mask, T value, int kind, int amount, int width) {
  union { T value; unsigned long long bits; } both;
  both.bits = 0;
  both.value = value;
  TW_OTHERS_RUN();
  both.bits = tw_emulated_shuffle(mask, both.bits, kind, amount, width);
  TW_OTHERS_RUN();
  return both.value;
}

// What other threads do in the same way is no race. Reading first asks whether the element exists.
template <class T>
static TW_UNCHECKED __attribute__((noinline)) void tw_grow(T *element, T by) { *element = *element + by; }

template <class T>
static inline __attribute__((always_inline)) void atomicAdd(T *element, T by) {
  (void)*(volatile T *)element;
  TW_OTHERS_RUN();
  tw_grow(element, by);
  TW_OTHERS_RUN();
}

template <class T>
static TW_UNCHECKED inline __attribute__((always_inline)) T __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
  return tw_exchange(mask, value, 0, lane, width);
}

template <class T>
static TW_UNCHECKED inline __attribute__((always_inline)) T __shfl_down_sync(unsigned int mask, T value, int delta, int width = 32) {
  return tw_exchange(mask, value, 1, delta, width);
}
